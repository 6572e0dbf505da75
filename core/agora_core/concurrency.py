"""Several awaits at once, bounded in number, none left behind."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar

A = TypeVar("A")
B = TypeVar("B")

WAITING_THREADS: Final = 64


class Renewable(Protocol):
    """What holds connections or locks that a forked process must not use."""

    def renew(self) -> None:
        """Begin anew, in the child, before anything else runs there."""


_renewed: Final[weakref.WeakSet[Any]] = weakref.WeakSet()


def renew_after_fork(thing: Renewable) -> None:
    """Have `thing.renew()` called in every process that is forked from this one, as long as it is alive."""
    _renewed.add(thing)


def _renew() -> None:
    for thing in list(_renewed):
        thing.renew()


# Locks that are taken over a fork, each with its place in the order of taking. The first guards the second.
_registry = threading.Lock()
_kept: Final[weakref.WeakKeyDictionary[Any, int]] = weakref.WeakKeyDictionary()
_taken: Final[list[Any]] = []
FORK_WAITS: Final = 10.0
"""Seconds that a fork waits for the writes under way, all together."""


def fork_safe_lock(*, after: int = 0) -> threading.Lock:
    """Return a lock that no other thread holds at a fork: the child gets it free, and what it guards whole.

    Args:
        after: whoever takes it may hold locks made with a smaller number, and none with a larger one.
    """
    return kept_over_forks(threading.Lock(), after=after)


def kept_over_forks(lock: A, *, after: int = 0) -> A:
    """Have a lock of another kind taken over a fork; see `fork_safe_lock`."""
    with _registry:
        _kept[lock] = after
    return lock


def _take_locks() -> None:
    _registry.acquire()
    _taken.append(_registry)
    until = time.monotonic() + FORK_WAITS
    for lock, _ in sorted(_kept.items(), key=lambda entry: entry[1]):
        # One that this thread holds itself, or that is held for too long, is left as it is.
        if lock.acquire(timeout=max(0.0, until - time.monotonic())):
            _taken.append(lock)


def _give_locks_back() -> None:
    while _taken:
        _taken.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take_locks, after_in_parent=_give_locks_back, after_in_child=_give_locks_back)
    os.register_at_fork(after_in_child=_renew)

_lock = threading.Lock()
_executor: ThreadPoolExecutor | None = None


async def in_waiting_thread(function: Callable[..., B], *arguments: Any) -> B:
    """Run a function that mostly waits for the network in a thread; like `asyncio.to_thread` with more threads.

    The event loop's own pool has a few threads a core, made for work; requests that wait would fill it and hold up
    all else. This one has up to `WAITING_THREADS`, shared by all event loops.
    """
    call = partial(contextvars.copy_context().run, function, *arguments)
    return await asyncio.get_running_loop().run_in_executor(_waiting_threads(), call)


async def to_its_end(function: Callable[[], B]) -> B:
    """Compute something in a worker thread; a cancellation is raised when the thread has come to its end.

    For work on what the caller goes on using, which nobody else may touch meanwhile.
    """
    work = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([work])
        raise


def _waiting_threads() -> ThreadPoolExecutor:
    global _executor
    with _lock:
        if _executor is None:
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=_forget_threads)
            _executor = ThreadPoolExecutor(WAITING_THREADS, thread_name_prefix="agora-waiting")
        return _executor


def _forget_threads() -> None:
    """Forget the pool in a forked process: its threads did not come along, and its lock may be held for ever."""
    global _executor, _lock
    _executor, _lock = None, threading.Lock()


async def map_bounded(function: Callable[[A], Awaitable[B]], items: Sequence[A], *, limit: int) -> list[B]:
    """Return `[await function(item) for item in items]`, with at most `limit` under way at once.

    The first failure, or a cancellation from outside, starts no further item, cancels those under way, waits for them
    to end and is raised.
    """
    results: dict[int, B] = {}
    remaining = iter(list(enumerate(items)))
    stopped = False

    async def work() -> None:
        nonlocal stopped
        for position, item in remaining:
            if stopped:
                return
            try:
                results[position] = await function(item)
            except BaseException:
                # Set here and not by the one who waits: a sibling could start another item before that one wakes.
                stopped = True
                raise

    workers = [asyncio.ensure_future(work()) for _ in range(min(limit, len(items)))]
    try:
        await asyncio.gather(*workers)
    except BaseException:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        raise
    return [results[position] for position in range(len(items))]

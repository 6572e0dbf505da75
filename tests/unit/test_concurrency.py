"""Bounded concurrency: order kept, the bound held, nothing left behind."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import os
import signal
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from agora_core import KeywordRetriever, MemoryLexicalVectorStore, QdrantStore, VectorRecord
from agora_core.concurrency import in_waiting_thread, map_bounded


async def test_results_keep_the_order_and_the_bound_holds() -> None:
    under_way = 0
    most = 0

    async def double(n: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        # Later items finish earlier.
        for _ in range(20 - n):
            await asyncio.sleep(0)
        under_way -= 1
        return 2 * n

    assert await map_bounded(double, range(20), limit=3) == [2 * n for n in range(20)]
    assert most == 3
    assert await map_bounded(double, [], limit=3) == []


async def test_the_first_failure_starts_nothing_more_and_ends_the_rest() -> None:
    started: list[int] = []
    ended: list[int] = []

    async def work(n: int) -> None:
        started.append(n)
        try:
            if n == 1:
                raise ValueError("one")
            await asyncio.Event().wait()
        finally:
            ended.append(n)

    with pytest.raises(ValueError, match="one"):
        await map_bounded(work, range(10), limit=2)
    assert started == [0, 1]
    assert sorted(ended) == [0, 1]


async def test_with_a_limit_of_one_nothing_follows_a_failure() -> None:
    started: list[int] = []

    async def work(n: int) -> None:
        started.append(n)
        await asyncio.sleep(0)
        raise ValueError(str(n))

    with pytest.raises(ValueError, match="0"):
        await map_bounded(work, range(5), limit=1)
    assert started == [0]


async def test_cancelling_ends_all_of_it() -> None:
    waiting = asyncio.Event()
    ended: list[int] = []

    async def work(n: int) -> None:
        try:
            if n == 1:
                waiting.set()
            await asyncio.Event().wait()
        finally:
            ended.append(n)

    task = asyncio.create_task(map_bounded(work, range(10), limit=2))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(ended) == [0, 1]


async def test_many_may_wait_at_once_each_in_its_own_context() -> None:
    name: contextvars.ContextVar[int] = contextvars.ContextVar("name")
    # More than the event loop's own pool has: all of them must have started for any to end.
    barrier = threading.Barrier(50, timeout=30)

    def wait() -> int:
        barrier.wait()
        return name.get()

    async def one(n: int) -> int:
        name.set(n)
        return await in_waiting_thread(wait)

    assert await asyncio.gather(*(one(n) for n in range(50))) == list(range(50))


async def test_a_failure_in_a_waiting_thread_is_raised() -> None:
    def fail(what: str) -> None:
        raise ValueError(what)

    with pytest.raises(ValueError, match="this"):
        await in_waiting_thread(fail, "this")


def test_waiting_threads_serve_one_event_loop_after_another() -> None:
    for _ in range(3):
        assert asyncio.run(in_waiting_thread(sum, [1, 2])) == 3


def in_a_child(work: Callable[[], object], *, seconds: int = 20) -> int:
    """Run `work` in a forked process; return the code that it ends with: 0, 1 where it raised, or minus a signal."""
    with warnings.catch_warnings():
        # Newer Pythons warn of forking beside threads; that is what is tried here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(seconds)
            work()
            code = 0
        finally:
            # However it went: the test run must not go on in two processes.
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_gets_threads_of_its_own() -> None:
    assert asyncio.run(in_waiting_thread(sum, [1, 2])) == 3

    def work() -> None:
        assert asyncio.run(in_waiting_thread(sum, [3, 4])) == 7

    assert in_a_child(work) == 0


def _qdrant() -> QdrantStore:
    store = QdrantStore(":memory:", collection="forked", dimension=2)
    store.ensure_collection()
    return store


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("make", [lambda: MemoryLexicalVectorStore("cosine", 2), KeywordRetriever, _qdrant])
def test_what_is_kept_in_memory_is_whole_and_free_in_a_forked_process(make: Callable[[], Any]) -> None:
    """Kind: process state inherited by a fork; a lock that a thread held which did not come along is held for ever."""
    kept = make()
    write, done = kept.add if isinstance(kept, KeywordRetriever) else kept.upsert, threading.Event()

    def records(round: int) -> list[VectorRecord]:
        return [VectorRecord(f"d{n}#0", f"heat {round}", [1.0, n], None, {"round": round}) for n in range(40)]

    def churn() -> None:
        for round in itertools.count():
            if done.is_set():
                return
            write(records(round))

    def work() -> None:
        if isinstance(kept, KeywordRetriever):
            found = kept.retrieve("heat", top_k=50)
        else:
            found = kept.search([1.0, 0.0], top_k=50)
        # One write is seen whole, and the next is not waited for for ever.
        assert len({(p.metadata or {})["round"] for p in found}) == 1
        assert len(found) == 40
        write(records(-1))

    write(records(0))
    threads = [threading.Thread(target=churn) for _ in range(2)]
    try:
        for thread in threads:
            thread.start()
        codes = [in_a_child(work) for _ in range(6)]
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert codes == [0] * 6

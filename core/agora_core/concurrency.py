"""Several awaits at once, bounded in number, none left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")


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

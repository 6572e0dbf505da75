"""Bounded concurrency: order kept, the bound held, nothing left behind."""

from __future__ import annotations

import asyncio

import pytest

from agora_core.concurrency import map_bounded


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

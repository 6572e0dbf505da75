"""How a seam is called: sync from async runs in a worker thread, the other way round is refused."""

from __future__ import annotations

import asyncio
import functools
import threading
from typing import Any

import pytest

from agora_core import UnsupportedOperationError
from agora_core.calling import acall, acall_function, call, call_function, given, offers


class Sync:
    def where(self, *values: Any, **options: Any) -> tuple[Any, ...]:
        return (threading.current_thread().name, values, options)


class Async:
    async def awhere(self, *values: Any, **options: Any) -> tuple[Any, ...]:
        await asyncio.sleep(0)
        return (threading.current_thread().name, values, options)


class Both(Sync, Async):
    pass


class AsyncUnderSyncName:
    async def where(self) -> str:
        return threading.current_thread().name


class ReturnsAwaitable:
    def where(self) -> Any:
        return Async().awhere()


def test_sync_calls_the_sync_method_with_what_it_is_given() -> None:
    for target in (Sync(), Both()):
        assert call(target, "where", 1, key=2) == (threading.current_thread().name, (1,), {"key": 2})


@pytest.mark.parametrize(
    ("target", "method"),
    [(Async(), "awhere"), (AsyncUnderSyncName(), "where"), (ReturnsAwaitable(), "where")],
    ids=lambda value: type(value).__name__,
)
def test_an_async_method_is_refused_from_sync_code(target: object, method: str) -> None:
    with pytest.raises(UnsupportedOperationError, match=f"{type(target).__name__}.{method} is async and was used"):
        call(target, "where")


def test_a_missing_method_is_named() -> None:
    with pytest.raises(TypeError, match="object has neither 'where' nor 'awhere'"):
        call(object(), "where")


async def test_async_prefers_the_async_method() -> None:
    thread, *rest = await acall(Both(), "where", 1, key=2)
    assert thread == threading.current_thread().name
    assert rest == [(1,), {"key": 2}]


async def test_async_runs_a_sync_method_in_a_worker_thread() -> None:
    thread, *rest = await acall(Sync(), "where", 1, key=2)
    assert thread != threading.current_thread().name
    assert rest == [(1,), {"key": 2}]


async def test_async_awaits_an_async_method_under_either_name() -> None:
    assert await acall(AsyncUnderSyncName(), "where") == threading.current_thread().name
    assert len(await acall(ReturnsAwaitable(), "where")) == 3
    with pytest.raises(UnsupportedOperationError):
        await acall(object(), "where")


async def test_functions_of_either_colour() -> None:
    assert call_function(len, [1, 2], what="len") == 2
    with pytest.raises(UnsupportedOperationError, match="the hook is async and was used from sync code"):
        call_function(Async().awhere, what="the hook")
    with pytest.raises(UnsupportedOperationError):
        call_function(lambda: Async().awhere(), what="the hook")
    assert await acall_function(len, [1, 2]) == 2
    assert (await acall_function(functools.partial(Async().awhere, 1)))[1] == (1,)
    assert (await acall_function(lambda: Async().awhere(3)))[1] == (3,)


def test_offers_looks_at_both_colours() -> None:
    assert offers(Sync(), "where")
    assert offers(Async(), "where")
    assert not offers(object(), "where")


def test_what_was_not_given_is_not_passed_on() -> None:
    assert given(filter=None, top_k=0, min_score=0.0, flag=False) == {"top_k": 0, "min_score": 0.0, "flag": False}

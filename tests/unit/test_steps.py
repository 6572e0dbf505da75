"""Operations as generators: both drivers mean the same, errors go in, nothing is left open or running."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core.steps import Call, Steps, Together, adrive, arun, ask, drive, run, together

Runner = Callable[[Steps[Any]], Any]


def in_a_loop(steps: Steps[Any]) -> Any:
    return asyncio.run(arun(steps))


both = pytest.mark.parametrize("runner", [run, in_a_loop])


def double(number: int) -> int:
    return 2 * number


async def adouble(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def failing(number: int) -> int:
    raise LookupError(number)


async def afailing(number: int) -> int:
    raise LookupError(number)


def doubled(number: int) -> Steps[int]:
    return (yield from ask(double, adouble, number))


class Watched:
    """Operations that tell whether they were begun and closed."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.closed: list[int] = []

    def operation(self, number: int, *, fails: bool = False) -> Steps[int]:
        self.begun.append(number)
        try:
            return (yield from ask(failing, afailing, number)) if fails else (yield from doubled(number))
        finally:
            self.closed.append(number)


@both
def test_answers_go_in_and_the_result_comes_out(runner: Runner) -> None:
    def operation() -> Steps[list[int]]:
        first = yield from doubled(1)
        second = yield Call(lambda: double(first), lambda: adouble(first))
        return [first, second]

    assert runner(operation()) == [2, 4]


@both
def test_an_error_is_raised_where_the_request_stands_and_another_way_may_follow(runner: Runner) -> None:
    def operation() -> Steps[int]:
        try:
            return (yield from ask(failing, afailing, 3))
        except LookupError as error:
            return (yield from doubled(error.args[0]))

    assert runner(operation()) == 6


@both
def test_an_error_nobody_expects_comes_out_and_the_operation_is_closed(runner: Runner) -> None:
    watched = Watched()
    with pytest.raises(LookupError):
        runner(watched.operation(5, fails=True))
    assert watched.closed == [5]


@both
def test_a_request_that_raises_stop_iteration_does_not_end_the_operation_as_if_it_had_returned(runner: Runner) -> None:
    """Kind: a control-flow exception of Python taken for an answer."""

    def stops() -> int:
        raise StopIteration(99)

    async def astops() -> int:
        return stops()

    def operation() -> Steps[int]:
        return (yield from ask(stops, astops))

    with pytest.raises(RuntimeError):
        runner(operation())


@both
def test_together_answers_in_order_and_may_be_nested(runner: Runner) -> None:
    def operation() -> Steps[list[list[int]]]:
        return (yield from together([together([doubled(1), doubled(2)]), together([doubled(3)]), together([])]))

    assert runner(operation()) == [[2, 4], [6], []]


@both
def test_when_one_of_several_fails_all_are_closed(runner: Runner) -> None:
    watched = Watched()
    parts = [watched.operation(n, fails=n == 1) for n in range(4)]
    with pytest.raises(LookupError):
        runner(together(parts, limit=2))
    assert sorted(watched.closed) == sorted(watched.begun)
    for part in parts:
        with pytest.raises(StopIteration):
            next(part)


def test_async_parts_run_at_the_same_time_and_none_outlives_a_failure() -> None:
    ended: list[str] = []

    async def waits() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append("waits")

    async def fails() -> None:
        await asyncio.sleep(0.01)
        raise LookupError

    def part(awaited: Callable[[], Any]) -> Steps[None]:
        yield Call(lambda: None, awaited)

    async def main() -> None:
        with pytest.raises(LookupError):
            await asyncio.wait_for(arun(together([part(waits), part(fails)])), timeout=5)
        assert ended == ["waits"]

    asyncio.run(main())


def test_a_cancelled_operation_is_closed_and_cannot_swallow_the_cancellation() -> None:
    closed: list[str] = []

    def operation() -> Steps[str]:
        try:
            yield Call(lambda: None, lambda: asyncio.sleep(60))
        except Exception:
            return "swallowed"
        finally:
            closed.append("closed")
        return "answered"

    async def main() -> None:
        task = asyncio.create_task(arun(operation()))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert closed == ["closed"]

    asyncio.run(main())


def test_a_first_request_that_was_taken_already_is_performed_first() -> None:
    def operation() -> Steps[str]:
        return f"{(yield 'a')}{(yield 'b')}"

    async def answer(request: str) -> str:
        return request.upper()

    steps = operation()
    assert drive(steps, str.upper, next(steps)) == "AB"
    steps = operation()
    assert asyncio.run(adrive(steps, answer, next(steps))) == "AB"


def test_together_within_an_operation_of_another_driver_is_performed_as_that_one_is() -> None:
    def one(text: str) -> Steps[str]:
        answer: str = yield text
        return answer

    def operation() -> Steps[list[str]]:
        answer: list[str] = yield Together([one("a"), one("b")])
        return answer

    assert drive(operation(), str.upper) == ["A", "B"]


@given(st.recursive(st.integers(), lambda inner: st.lists(inner, max_size=4), max_leaves=12))
def test_both_drivers_give_the_same(tree: Any) -> None:
    def operation(node: Any) -> Steps[Any]:
        if isinstance(node, list):
            return (yield from together([operation(child) for child in node]))
        return (yield from doubled(node))

    assert run(operation(tree)) == in_a_loop(operation(tree))


async def test_what_is_made_of_a_large_answer_is_made_beside_the_loop() -> None:
    """The kind of fault: work in proportion to an answer, on the event loop. Told by the thread and not by a clock."""

    def operation() -> Steps[list[int]]:
        threads = []
        for size in (1, 5, 1):
            answer = yield size
            assert len(answer) == size
            threads.append(threading.get_ident())
        answer = yield 5
        return [*threads, threading.get_ident()]

    async def perform(size: int) -> list[int]:
        return [0] * size

    def is_large(answer: list[int]) -> bool:
        return len(answer) > 2

    loop = threading.get_ident()
    assert [thread == loop for thread in await adrive(operation(), perform, is_large=is_large)] == [
        True,
        False,
        True,
        False,
    ]


async def test_a_cancellation_waits_for_what_is_computed_beside_the_loop() -> None:
    """An operation that runs in a thread cannot be closed; it is, once it has come to its next request."""
    begun, go_on, closed = threading.Event(), threading.Event(), []

    def operation() -> Steps[None]:
        try:
            yield 1
            begun.set()
            go_on.wait(10)
            yield 2
        finally:
            closed.append(True)

    async def perform(request: int) -> int:
        return request

    task = asyncio.ensure_future(adrive(operation(), perform, is_large=lambda answer: True))
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == [True]

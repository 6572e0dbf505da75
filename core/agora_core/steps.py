"""Operations written once for sync and async code: generators of requests, run by one of two drivers.

An operation is a generator that yields requests, is sent each answer, and returns its result. It does no I/O itself,
so one text serves both: `drive` performs the requests with sync code, `adrive` with async code.

    def count(settings) -> Steps[int]:
        answer = yield CountRequest(settings.table)
        return answer.rows[0][0]

    drive(count(settings), connection.execute)
    await adrive(count(settings), connection.aexecute)

Where a request is a call of somebody's object, `ask` and `together` make requests that perform themselves; `run` and
`arun` need nothing else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar, cast

from agora_core.concurrency import map_bounded, to_its_end

P = ParamSpec("P")
T = TypeVar("T")

Steps = Generator[Any, Any, T]
"""An operation: yields requests, is sent their answers, returns its result."""

_UNSTARTED: Final[Any] = object()


@dataclass(frozen=True, slots=True)
class Call:
    """A request that performs itself: one call with both of its twins. Answered by what the call returns."""

    sync: Callable[[], Any]
    """Calls and returns the answer."""
    awaited: Callable[[], Awaitable[Any]]
    """Calls and returns an awaitable of the answer."""


@dataclass(frozen=True, slots=True)
class Together:
    """Operations that do not wait for each other. Answered by the list of their results, in their order.

    Sync code runs one after another. Async code runs them at the same time; when one fails the others are cancelled,
    and all have ended before the error is raised. Each part is performed as the operation around it is.
    """

    parts: Sequence[Steps[Any]]
    limit: int | None = None
    """How many may be under way at once; None for all."""


def ask(
    sync: Callable[P, T], awaited: Callable[P, Awaitable[T]], /, *arguments: P.args, **options: P.kwargs
) -> Steps[T]:
    """Call a method by whichever twin fits: `answer = yield from ask(store.count, store.acount, filter)`."""
    answer: T = yield Call(lambda: sync(*arguments, **options), lambda: awaited(*arguments, **options))
    return answer


def together(parts: Sequence[Steps[T]], *, limit: int | None = None) -> Steps[list[T]]:
    """Run operations side by side, see `Together`: `results = yield from together(parts)`."""
    results: list[T] = yield Together(parts, limit)
    return results


def drive(steps: Steps[T], perform: Callable[[Any], Any], first: Any = _UNSTARTED) -> T:
    """Run an operation, each request by `perform`, and return its result.

    An exception of `perform` is raised inside the operation, where the request stands: it may know another way. The
    operation is closed whatever happens.

    Args:
        steps: the operation.
        perform: returns the answer to a request; `Together` is taken apart here and never reaches it.
        first: the operation's first request, where the caller has already taken it with `next(steps)`.
    """
    try:
        request = next(steps) if first is _UNSTARTED else first
        while True:
            try:
                answer = _one_by_one(request, perform) if isinstance(request, Together) else perform(request)
            except Exception as error:
                request = steps.throw(error)
            else:
                request = steps.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        steps.close()


async def adrive(
    steps: Steps[T],
    perform: Callable[[Any], Awaitable[Any]],
    first: Any = _UNSTARTED,
    *,
    is_large: Callable[[Any], bool] | None = None,
) -> T:
    """Async twin of `drive`; a cancellation is not raised inside the operation, which is only closed.

    What the operation makes of an answer that `is_large` is computed in a worker thread, beside the event loop.
    """
    try:
        request = next(steps) if first is _UNSTARTED else first
        while True:
            try:
                if isinstance(request, Together):
                    answer = await _at_once(request, perform, is_large)
                else:
                    answer = await perform(request)
            except Exception as error:
                request = steps.throw(error)
            else:
                if is_large is None or not is_large(answer):
                    request = steps.send(answer)
                    continue
                request, ended = await to_its_end(partial(_sent, steps, answer))
                if ended:
                    return cast("T", request)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        steps.close()


def run(steps: Steps[T]) -> T:
    """Run an operation whose requests perform themselves (`ask`, `together`), from sync code."""
    return drive(steps, _perform)


async def arun(steps: Steps[T]) -> T:
    """Async twin of `run`."""
    return await adrive(steps, _aperform)


def _perform(request: Call) -> Any:
    return request.sync()


async def _aperform(request: Call) -> Any:
    return await request.awaited()


def _one_by_one(request: Together, perform: Callable[[Any], Any]) -> list[Any]:
    try:
        return [drive(part, perform) for part in request.parts]
    finally:
        for part in request.parts:
            part.close()


def _sent(steps: Steps[Any], answer: Any) -> tuple[Any, bool]:
    """Return the next request, or the result and that it is one: a thread cannot raise StopIteration to its caller."""
    try:
        return steps.send(answer), False
    except StopIteration as end:
        return end.value, True


async def _at_once(
    request: Together, perform: Callable[[Any], Awaitable[Any]], is_large: Callable[[Any], bool] | None
) -> list[Any]:
    async def one(part: Steps[Any]) -> Any:
        return await adrive(part, perform, is_large=is_large)

    try:
        return await map_bounded(one, request.parts, limit=request.limit or len(request.parts))
    finally:
        # Those that were never begun; the others have ended.
        for part in request.parts:
            part.close()

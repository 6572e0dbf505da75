"""The one place that calls a method of somebody else's object, sync or async.

An object may have `embed`, `aembed` or both. From async code the async method is preferred and a sync one runs in a
worker thread; from sync code the sync method is called, and an object that has only the async one is refused.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import lru_cache, partial
from typing import Any

from agora_core.errors import UnsupportedOperationError
from agora_core.metadata import UNSET
from agora_core.steps import Call, Steps


class Method:
    """One method of somebody's object, both twins of it, resolved where the object was handed in.

    Calling it gives the steps of one call: `found = yield from method(query, top_k=5, filter=None)`. Options that are
    None were not given and are not passed on.
    """

    __slots__ = ("_known", "name", "target")

    def __init__(self, target: object, name: str) -> None:
        """Resolve the method `name` of `target`.

        Raises:
            UnsupportedOperationError: `target` has neither `name` nor `a{name}`.
        """
        found = [method for method in (_method(target, name), _method(target, f"a{name}")) if method is not None]
        if not found:
            raise _missing(target, name)
        self.target, self.name = target, name
        known = [options for options in map(_options_of, found) if options is not None]
        self._known = frozenset.intersection(*known) if known else None

    def knows(self, option: str) -> bool:
        """Say whether both twins take the option of this name."""
        return self._known is None or option in self._known

    def names(self, option: str) -> bool:
        """Say whether both twins name the option; one that takes any may ignore it without a word."""
        return self._known is not None and option in self._known

    def __call__(self, /, *args: Any, **options: Any) -> Steps[Any]:
        """Call it with the options that are not None; the answer is what it returns.

        Raises:
            UnsupportedOperationError: it does not take one of these options; or it is async only and the code is sync.
        """
        passed = given(**options)
        for option in passed:
            if not self.knows(option):
                raise UnsupportedOperationError(
                    f"{type(self.target).__name__}.{self.name} takes no {option!r}, so it cannot be called with one; "
                    "add the argument to it, or leave it out here"
                )
        answer = yield Call(
            partial(call, self.target, self.name, *args, **passed),
            partial(acall, self.target, self.name, *args, **passed),
        )
        return answer


def _options_of(method: Any) -> frozenset[str] | None:
    """Return the names a method can be given; None where it takes any or does not say."""
    function = getattr(method, "__func__", method)
    try:
        return _parameters(function)
    except (TypeError, ValueError):
        return None


@lru_cache(maxsize=512)
def _parameters(function: Any) -> frozenset[str] | None:
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters if parameter.kind is not parameter.POSITIONAL_ONLY)


def offers(target: object, name: str) -> bool:
    """Say whether `target` has the method `name` sync or async: as `name` or as `a{name}`."""
    return _method(target, name) is not None or _method(target, f"a{name}") is not None


def call(target: object, name: str, /, *args: Any, **options: Any) -> Any:
    """Call the sync method `name` of `target` and return its result.

    Raises:
        UnsupportedOperationError: `target` has no such method, or only an async one.
    """
    method = _method(target, name)
    if method is None:
        if _method(target, f"a{name}") is not None:
            raise only_async(target, f"a{name}")
        raise _missing(target, name)
    if is_async_function(method):
        raise only_async(target, name)
    result = method(*args, **options)
    if inspect.isawaitable(result):
        discard(result)
        raise only_async(target, name)
    return result


async def acall(target: object, name: str, /, *args: Any, **options: Any) -> Any:
    """Await the method `a{name}` of `target`, or run its sync method `name` in a worker thread.

    Raises:
        UnsupportedOperationError: `target` has neither.
    """
    method = _method(target, f"a{name}")
    if method is None:
        method = _method(target, name)
        if method is None:
            raise _missing(target, name)
        return await acall_function(method, *args, **options)
    result = method(*args, **options)
    return await result if inspect.isawaitable(result) else result


def call_function(function: Callable[..., Any], /, *args: Any, what: str, **options: Any) -> Any:
    """Call a function the user gave, from sync code; `what` names it in the refusal of an async one.

    Raises:
        UnsupportedOperationError: the function is async, or returned an awaitable.
    """
    if not is_async_function(function):
        result = function(*args, **options)
        if not inspect.isawaitable(result):
            return result
        discard(result)
    raise UnsupportedOperationError(f"{what} is async and was used from sync code; await the async method instead")


async def acall_function(function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    """Await an async function, or run a sync one in a worker thread; what it returns is awaited where it must be."""
    if is_async_function(function):
        result = function(*args, **options)
    else:
        result = await asyncio.to_thread(_ending, function, *args, **options)
    return await result if inspect.isawaitable(result) else result


def _ending(function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    """Call a function; a StopIteration of it, which no future can hold, would leave its awaiter waiting for ever."""
    try:
        return function(*args, **options)
    except StopIteration as error:
        raise RuntimeError(f"{getattr(function, '__qualname__', function)} raised StopIteration") from error


def scope_of(target: Any) -> Steps[Any]:
    """Return what bounds a retriever now: an expression, None where nothing does, `UNSET` where it does not say.

    One with a method `scope_now` gives the steps that find it out: an async function may decide it.

    Raises:
        UnsupportedOperationError: an async function decides it, behind something without that method.
    """
    now = getattr(target, "scope_now", None)
    return (yield from now()) if callable(now) else getattr(target, "scope", UNSET)


def given(**options: Any) -> dict[str, Any]:
    """Return the options that are not None: an argument that was not given is not passed on."""
    return {name: value for name, value in options.items() if value is not None}


def only_async(target: object, name: str) -> UnsupportedOperationError:
    """Return the error for an object with an async method only, used from sync code."""
    return UnsupportedOperationError(
        f"{type(target).__name__}.{name} is async and was used from sync code; "
        f"await the async method instead, or give the object a sync {name.removeprefix('a')!r}"
    )


def discard(awaitable: Awaitable[Any]) -> None:
    """Close a coroutine that will not be awaited, so that Python does not warn of it later."""
    if inspect.iscoroutine(awaitable):
        awaitable.close()
    elif isinstance(awaitable, asyncio.Future):
        awaitable.cancel()


def _method(target: object, name: str) -> Callable[..., Any] | None:
    method = getattr(target, name, None)
    return method if callable(method) else None


def is_async_function(function: Any) -> bool:
    """Say whether calling `function` gives a coroutine; an instance whose `__call__` is async counts."""
    if inspect.iscoroutinefunction(function):
        return True
    return inspect.iscoroutinefunction(getattr(type(function), "__call__", None))  # noqa: B004 # its kind is asked, not whether it is there


def _missing(target: object, name: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"{type(target).__name__} has neither {name!r} nor 'a{name}', which this call needs"
    )

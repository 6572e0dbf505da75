"""The one place that calls a method of somebody else's object, in either colour.

An object may have `embed`, `aembed` or both. From async code the async method is preferred and a sync one runs in a
worker thread; from sync code the sync method is called, and an object that has only the async one is refused.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from agora_core.errors import UnsupportedOperationError


def offers(target: object, name: str) -> bool:
    """Say whether `target` has the method `name` in any colour: as `name` or as `a{name}`."""
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
    if _is_async(method):
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
    if not _is_async(function):
        result = function(*args, **options)
        if not inspect.isawaitable(result):
            return result
        discard(result)
    raise UnsupportedOperationError(f"{what} is async and was used from sync code; await the async method instead")


async def acall_function(function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    """Await an async function, or run a sync one in a worker thread; what it returns is awaited where it must be."""
    if _is_async(function):
        result = function(*args, **options)
    else:
        result = await asyncio.to_thread(function, *args, **options)
    return await result if inspect.isawaitable(result) else result


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


def _is_async(function: Any) -> bool:
    """Say whether calling `function` gives a coroutine; an instance whose `__call__` is async counts."""
    if inspect.iscoroutinefunction(function):
        return True
    return inspect.iscoroutinefunction(getattr(type(function), "__call__", None))  # noqa: B004 # its kind is asked, not whether it is there


def _missing(target: object, name: str) -> UnsupportedOperationError:
    return UnsupportedOperationError(
        f"{type(target).__name__} has neither {name!r} nor 'a{name}', which this call needs"
    )

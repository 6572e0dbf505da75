"""The one place where a seam is called in either colour, whatever colours the object behind it offers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Coroutine
from typing import Any

from agora_core.errors import UnsupportedOperationError


def call(target: Any, method: str, /, *args: Any, **options: Any) -> Any:
    """Call `target.method(...)` from sync code.

    Raises:
        UnsupportedOperationError: there is no such method, or only an async one.
    """
    function = getattr(target, method, None)
    if not callable(function):
        if callable(getattr(target, "a" + method, None)):
            raise UnsupportedOperationError(
                f"{type(target).__name__} has only the async a{method}; use the async twin of this call, "
                f"or give it a sync {method}"
            )
        raise UnsupportedOperationError(f"{type(target).__name__} has no {method}, which this call needs")
    result = function(*args, **options)
    if inspect.isawaitable(result):
        if isinstance(result, Coroutine):
            result.close()
        raise UnsupportedOperationError(
            f"{type(target).__name__}.{method} is async; use the async twin of this call, "
            f"or name that method a{method} and give it a sync twin"
        )
    return result


async def acall(target: Any, method: str, /, *args: Any, **options: Any) -> Any:
    """Call `target.amethod(...)` where there is one, else `target.method(...)` in a worker thread.

    Raises:
        UnsupportedOperationError: there is neither.
    """
    native = getattr(target, "a" + method, None)
    if callable(native):
        result = native(*args, **options)
        return await result if inspect.isawaitable(result) else result
    function = getattr(target, method, None)
    if not callable(function):
        raise UnsupportedOperationError(f"{type(target).__name__} has neither a{method} nor {method}")
    if inspect.iscoroutinefunction(function):
        return await function(*args, **options)
    result = await asyncio.to_thread(function, *args, **options)
    return await result if isinstance(result, Awaitable) else result

"""A view of a store whose scope is decided anew at each call: by whoever asks then, not by whoever made the view."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

from agora_core.calling import call_function
from agora_core.errors import InvalidFilterError
from agora_core.filters import FALSE, Expression, frozen_filter
from agora_core.protocols import AnyFilter
from agora_core.stores.base import OnWrite
from agora_core.stores.scoped import ScopedVectorStore

ScopeSource = Callable[[], Any]
"""Called for each call; returns the filter of who asks, now or as an awaitable."""


def resolve_scope(source: ScopeSource) -> AnyFilter:
    """Return the filter that a source gives now, as data: its values are compared as JSON and never read as operators.

    Raises:
        InvalidFilterError: it returned None, or anything else that is not a filter; a scope is never left out.
        UnsupportedOperationError: it is async.
    """
    return _checked(call_function(source, what="the scope function"))


async def aresolve_scope(source: ScopeSource) -> AnyFilter:
    """Async twin of `resolve_scope`; an async function is awaited, a sync one is called where it stands."""
    result = source()
    return _checked(await result if inspect.isawaitable(result) else result)


def _checked(filter: Any) -> AnyFilter:
    try:
        # Frozen: who answered with a mapping may change it before it is used.
        return frozen_filter(filter)
    except InvalidFilterError as error:
        raise InvalidFilterError(
            f"the scope function returned no usable filter, so the call is refused: {error}; "
            "return a mapping or an expression, and {'key': []} to deny"
        ) from error


class RunScopedStore:
    """A store seen through a scope that is decided at each call; each call asks the source once.

    It has the methods of `ScopedVectorStore`, sync and async, and its `scope` is that of the current call.
    """

    def __init__(self, store: Any, source: ScopeSource, *, on_write: OnWrite = "check") -> None:
        """Bind the source to any object with the methods of a vector store; see `BaseVectorStore.scoped`."""
        self._store, self._source, self._on_write = store, source, on_write
        # A view that denies all, which is asked what methods there are and is never searched.
        self._shape = ScopedVectorStore(store, FALSE, on_write=on_write)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._store!r})"

    @property
    def scope(self) -> Expression:
        """All that bounds the store in the current call, its own scope and those of the views behind."""
        return self.bound().scope

    def bound(self) -> ScopedVectorStore:
        """Return the store under the scope of the current call, decided once for all that is done with it."""
        return ScopedVectorStore(bound_store(self._store), resolve_scope(self._source), on_write=self._on_write)

    async def abound(self) -> ScopedVectorStore:
        """Async twin of `bound`; the source may be async."""
        scope = await aresolve_scope(self._source)
        return ScopedVectorStore(await abound_store(self._store), scope, on_write=self._on_write)

    def scoped(self, filter: AnyFilter, *, on_write: OnWrite = "check") -> ScopedVectorStore:
        """Return a narrower view: both scopes hold."""
        return ScopedVectorStore(self, filter, on_write=on_write)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        method = getattr(self._shape, name)
        if not callable(method):
            return method
        if inspect.isasyncgenfunction(method):

            @functools.wraps(method)
            async def iterate(*args: Any, **options: Any) -> AsyncIterator[Any]:
                async for item in getattr(await self.abound(), name)(*args, **options):
                    yield item

            return iterate
        if name.startswith("a") and hasattr(self._shape, name[1:]):

            @functools.wraps(method)
            async def acalled(*args: Any, **options: Any) -> Any:
                return await getattr(await self.abound(), name)(*args, **options)

            return acalled

        @functools.wraps(method)
        def called(*args: Any, **options: Any) -> Any:
            return getattr(self.bound(), name)(*args, **options)

        return called


def bound_store(store: Any) -> Any:
    """Return `store` with what is decided at each call decided, once for all that is done with what is returned."""
    return store.bound() if callable(getattr(store, "bound", None)) else store


async def abound_store(store: Any) -> Any:
    """Async twin of `bound_store`."""
    return await store.abound() if callable(getattr(store, "abound", None)) else store

"""Views of a store or a retriever whose scope is derived anew for each call, from the run that the call is part of.

They have the shape of the core's own, so that whoever takes the view apart still holds something scoped.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator
from typing import Any

from agora_core.filters import FALSE
from agora_core.protocols import AnyFilter
from agora_core.records import Passage
from agora_core.retrievers.base import BaseRetriever
from agora_core.retrievers.ports import RetrieverPort
from agora_core.retrievers.scoped import ScopedRetriever
from agora_core.steps import Steps, ask
from agora_core.stores.base import OnWrite
from agora_core.stores.scoped import ScopedVectorStore
from langchain_agora.scope import ScopeFunction, aresolve_scope, resolve_scope


class RunScopedStore:
    """A store of the core seen through the scope of the current run; each call asks the scope function once.

    It has the methods of `agora_core.ScopedVectorStore`, in both colours.
    """

    def __init__(self, store: Any, scope: ScopeFunction, *, on_write: OnWrite = "check") -> None:
        """Bind the function to any object with the methods of a vector store; see `AgoraVectorStore.scoped`."""
        self._store, self._scope, self._on_write = store, scope, on_write
        # A view that denies all, which is asked what methods there are and is never searched.
        self._shape = ScopedVectorStore(store, FALSE, on_write=on_write)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._store!r})"

    def bound(self) -> ScopedVectorStore:
        """Return the store under the scope of the current run."""
        return ScopedVectorStore(bound_store(self._store), resolve_scope(self._scope), on_write=self._on_write)

    async def abound(self) -> ScopedVectorStore:
        """Async twin of `bound`; the scope function may be async."""
        scope = await aresolve_scope(self._scope)
        return ScopedVectorStore(await abound_store(self._store), scope, on_write=self._on_write)

    def scoped(self, filter: AnyFilter, *, on_write: OnWrite = "check") -> ScopedVectorStore:
        """Return a narrower view: both scopes hold."""
        return ScopedVectorStore(self, filter, on_write=on_write)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "scope":
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


class RunScopedRetriever(BaseRetriever):
    """A retriever of the core seen through the scope of the current run."""

    def __init__(self, retriever: Any, scope: ScopeFunction) -> None:
        """Bind the function to any object with `retrieve` or `aretrieve`; see `AgoraVectorStore.scoped`."""
        self._retriever, self._scope = retriever, scope

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._retriever!r})"

    def _retrieve(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        scope = yield from ask(resolve_scope, aresolve_scope, self._scope)
        view = RetrieverPort(ScopedRetriever(self._retriever, scope))
        options = {"top_k": top_k, "min_score": min_score, "per_document": per_document}
        return (yield from view.retrieve(query, filter=filter, **options))  # type: ignore[arg-type]


def bound_store(store: Any) -> Any:
    """Return `store` with the scope of the current run resolved, once for all that is done with what is returned."""
    return store.bound() if isinstance(store, RunScopedStore) else store


async def abound_store(store: Any) -> Any:
    """Async twin of `bound_store`."""
    return await store.abound() if isinstance(store, RunScopedStore) else store

"""A view of a retriever whose scope is decided anew at each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agora_core.filters import Expression
from agora_core.protocols import AnyFilter, Retriever
from agora_core.records import Passage
from agora_core.retrievers.base import BaseRetriever, wrapped_inside
from agora_core.retrievers.ports import RetrieverPort
from agora_core.retrievers.scoped import ScopedRetriever
from agora_core.steps import Steps, ask
from agora_core.stores.run_scope import ScopeSource, aresolve_scope, resolve_scope


class RunScopedRetriever(BaseRetriever):
    """A retriever seen through a scope that is decided at each call; each call asks the source once."""

    def __init__(self, retriever: Any, source: ScopeSource) -> None:
        """Bind the source to any object with `retrieve` or `aretrieve`."""
        self._retriever, self._source = retriever, source

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._retriever!r})"

    @property
    def scope(self) -> Expression:
        """All that bounds the retriever in the current call."""
        return ScopedRetriever(self._retriever, resolve_scope(self._source)).scope

    def scope_now(self) -> Steps[Expression]:
        """Tell `scope` where the source may be async; see `ScopedRetriever.scope_now`."""
        scope = yield from ask(resolve_scope, aresolve_scope, self._source)
        return (yield from ScopedRetriever(self._retriever, scope).scope_now())

    def _over(self, wrap: Callable[[Retriever], Retriever]) -> RunScopedRetriever | None:
        inner = wrapped_inside(self._retriever, wrap)
        return None if inner is None else RunScopedRetriever(inner, self._source)

    def _retrieve(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        scope = yield from ask(resolve_scope, aresolve_scope, self._source)
        view = RetrieverPort(ScopedRetriever(self._retriever, scope))
        options = {"top_k": top_k, "min_score": min_score, "per_document": per_document}
        return (yield from view.retrieve(query, filter=filter, **options))  # type: ignore[arg-type]

"""A retriever seen through a bound filter."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from agora_core.calling import scope_of
from agora_core.filters import Expression, bound_by, compile_filter, conjoin, frozen_filter
from agora_core.metadata import UNSET
from agora_core.protocols import AnyFilter, Retriever
from agora_core.records import Passage
from agora_core.retrievers.base import BaseRetriever, wrapped_inside
from agora_core.retrievers.ports import RetrieverPort
from agora_core.steps import Steps
from agora_core.stores.namespaces import SEPARATOR, Namespace, check_namespace, hiding_scope, joined_namespace
from agora_core.stores.ports import StorePort


class ScopedRetriever(BaseRetriever):
    """A retriever seen through a bound filter; a call's own filter only narrows.

    Examples:
        >>> mine = retriever.scoped({"acl": ["staff"]})
        >>> mine.retrieve("days of leave", filter={"acl": ["board"]})
        []
    """

    def __init__(self, retriever: Retriever, filter: AnyFilter, *, namespace: str | None = None) -> None:
        """Bind `filter` to any object with `retrieve` or `aretrieve`; see `BaseRetriever.scoped`.

        Raises:
            InvalidFilterError: the filter could not be built.
            UnsupportedOperationError: the object has neither method.
        """
        self._retriever: Any = retriever
        self._port = RetrieverPort(retriever)
        self._scope = frozen_filter(filter)
        self._namespace = None if namespace is None else Namespace(check_namespace(namespace))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self._retriever).__name__})"

    @property
    def scope(self) -> Expression:
        """The whole conjunction of what bounds this view and the retriever behind it."""
        behind: Expression | None = self._retriever.scope
        return self._within(behind)

    def scope_now(self) -> Steps[Expression]:
        """Tell `scope` where an async function may decide what is behind; what does not say counts for nothing."""
        behind = yield from scope_of(self._retriever)
        return self._within(None if behind is UNSET else behind)

    def _within(self, behind: Expression | None) -> Expression:
        return compile_filter(self._scope if behind is None else conjoin(behind, self._scope))

    @property
    def _explained_as(self) -> Any:
        return self._retriever

    @property
    def namespace(self) -> str | None:
        """The namespace whose ids are shown without it, those of views behind first; None for none."""
        return joined_namespace(getattr(self._retriever, "namespace", None), self._namespace)

    def _over(self, wrap: Callable[[Retriever], Retriever]) -> ScopedRetriever | None:
        inner = wrapped_inside(self._retriever, wrap)
        if inner is None:
            return None
        return ScopedRetriever(inner, self._scope, namespace=None if self._namespace is None else self._namespace.name)

    def _retrieve(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        narrowed = bound_by(self._scope, filter)

        def fetch(count: int) -> Steps[list[Passage]]:
            return self._port.retrieve(query, top_k=count, filter=narrowed, min_score=min_score)

        if self._namespace is None:
            options = {"top_k": top_k, "min_score": min_score, "per_document": per_document}
            return self._port.retrieve(query, filter=narrowed, **options)  # type: ignore[arg-type]
        holds = partial(self._holds_behind, scope=hiding_scope(narrowed, self._scope))
        return self._namespace.ranked(fetch, holds, top_k=top_k, per_document=per_document, ties_by_id=False)

    def _holds_behind(self, ids: list[str], scope: AnyFilter) -> Steps[set[str]]:
        holds = getattr(self._retriever, "_holds", None)
        return set() if holds is None else (yield from holds(ids, scope))

    def _holds(self, ids: list[str], scope: AnyFilter) -> Steps[set[str]]:
        narrowed = conjoin(self._scope, scope)
        if self._namespace is None:
            return (yield from self._holds_behind(ids, narrowed))
        found = yield from self._holds_behind([self._namespace.stored(key) for key in ids], narrowed)
        return {self._namespace.own(key) or key for key in found}


def seen_from(retriever: Retriever, store: object) -> Retriever:
    """Return a retriever beside a store, a keyword index for instance, as the store is seen: in its scope, its ids.

    Raises:
        UnsupportedOperationError: the store does not say what bounds it.
    """
    scope = StorePort(store).scope()
    seen = retriever if scope is None else ScopedRetriever(retriever, scope)
    namespace: str | None = getattr(store, "namespace", None)
    for name in [] if namespace is None else namespace.split(SEPARATOR):
        seen = ScopedRetriever(seen, {}, namespace=name)
    return seen

"""Retrievers of the core for LlamaIndex, and theirs for the core."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import copy
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from agora_core.calling import acall, acall_function, call, call_function, given
from agora_core.filters import Expression, compile_filter, conjoin, frozen_filter, matches_filter
from agora_core.protocols import AnyFilter
from agora_core.records import Passage
from agora_core.retrievers.base import BaseRetriever as CoreRetriever
from agora_core.retrievers.base import at_least
from agora_core.steps import Steps, ask
from agora_core.stores.per_document import cut_per_document
from agora_core.validation import check_min_score, check_top_k
from llamaindex_agora.filters import Filters, to_core_filter
from llamaindex_agora.nodes import node_to_passage, passage_to_node

FilterSource = Filters | Callable[[QueryBundle], Filters | Awaitable[Filters]]
"""A filter, or a function of the query that gives one; it must give one, and a raise fails the retrieval.

An async function serves `aretrieve` only; a sync one runs in a worker thread there.
"""


class AgoraRetriever(BaseRetriever):
    """A retriever of the core where LlamaIndex expects one of its own; its events and spans come by themselves.

    Args:
        retriever: any object with `retrieve` or `aretrieve`.
        similarity_top_k: nodes per query.
        filter: what every query is bounded by: our mapping, an expression, `MetadataFilters`, or a function of the
            `QueryBundle` that returns one of them. None retrieves without a filter.
        min_score: a floor on the retriever's scores; None keeps all.
    """

    def __init__(
        self,
        retriever: Any,
        *,
        similarity_top_k: int = 5,
        filter: FilterSource | None = None,
        min_score: float | None = None,
        **kwargs: Any,
    ) -> None:
        """Check the arguments; nothing is retrieved yet.

        Raises:
            InvalidArgumentError: `similarity_top_k` is below 1, or `min_score` is NaN.
            InvalidFilterError: the filter could not be built.
        """
        super().__init__(**kwargs)
        self._retriever = retriever
        self._top_k = check_top_k(similarity_top_k, argument="similarity_top_k")
        self._min_score = check_min_score(min_score)
        self._filter = filter if filter is None or callable(filter) else to_core_filter(filter)
        self._scopes: tuple[AnyFilter, ...] = ()

    def scoped(self, filter: Filters) -> AgoraRetriever:
        """Return this retriever bounded by one more filter; both hold."""
        bound = to_core_filter(filter)
        view = copy(self)
        view._scopes = (*self._scopes, bound)
        return view

    def _options(self, own: AnyFilter | None) -> dict[str, Any]:
        # A copy: the retriever may do with it as it likes.
        bound = None if own is None else frozen_filter(own)
        for scope in self._scopes:
            bound = conjoin(scope, bound)
        return {"top_k": self._top_k, **given(filter=bound, min_score=self._min_score)}

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        own = self._filter
        if callable(own):
            own = to_core_filter(call_function(own, query_bundle, what="filter"))
        passages = call(self._retriever, "retrieve", query_bundle.query_str, **self._options(own))
        return [passage_to_node(passage) for passage in passages]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        own = self._filter
        if callable(own):
            own = to_core_filter(await acall_function(own, query_bundle))
        passages = await acall(self._retriever, "retrieve", query_bundle.query_str, **self._options(own))
        return [passage_to_node(passage) for passage in passages]


class LlamaIndexRetriever(CoreRetriever):
    """Any LlamaIndex retriever as a retriever of the core, for instance as a leg of `HybridRetriever`.

    Theirs takes its filters when it is made. A filter of a call holds all the same: what comes back is matched against
    the nodes' metadata, by the core's rules, so that fewer may remain than were asked for and never one too many.
    """

    def __init__(self, retriever: BaseRetriever) -> None:
        """Stand on `retriever`; the number of nodes it fetches is its own, and cut to `top_k`."""
        self._retriever = retriever

    def _retrieve(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        """Return their nodes as passages, best first.

        Raises:
            InvalidFilterError: the filter could not be built; nothing is retrieved.
        """
        bound = _compiled(filter)
        nodes = yield from ask(self._retriever.retrieve, self._retriever.aretrieve, query)
        allowed = [n for n in nodes if bound is None or matches_filter(n.node.metadata, bound)]
        return cut_per_document(at_least(map(node_to_passage, allowed), min_score), per_document, top_k)


def _compiled(filter: AnyFilter | None) -> Expression | None:
    return None if filter is None else compile_filter(filter)

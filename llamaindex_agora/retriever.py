"""Retrievers of the core for LlamaIndex, and theirs for the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from agora_core.calling import acall, call
from agora_core.errors import UnsupportedFilterError
from agora_core.filters import conjoin
from agora_core.protocols import AnyFilter
from agora_core.records import Passage
from agora_core.retrievers.base import BaseRetriever as CoreRetriever
from agora_core.validation import check_min_score, check_top_k
from llamaindex_agora.filters import Filters, to_core_filter
from llamaindex_agora.nodes import node_to_passage, passage_to_node

FilterSource = Filters | Callable[[QueryBundle], Filters]
"""A filter, or a function of the query that gives one; it must give one, and a raise fails the retrieval."""


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

    def scoped(self, filter: Filters) -> AgoraRetriever:
        """Return this retriever bounded by one more filter; both hold."""
        bound = to_core_filter(filter)
        own = self._filter

        def both(query: QueryBundle) -> AnyFilter:
            return conjoin(bound, self._bound(own, query))

        return AgoraRetriever(
            self._retriever,
            similarity_top_k=self._top_k,
            filter=both if callable(own) else conjoin(bound, own),
            min_score=self._min_score,
            callback_manager=self.callback_manager,
        )

    def _bound(self, source: Any, query: QueryBundle) -> AnyFilter:
        return to_core_filter(source(query) if callable(source) else source)

    def _options(self, query: QueryBundle) -> dict[str, Any]:
        options: dict[str, Any] = {"top_k": self._top_k}
        if self._filter is not None:
            options["filter"] = self._bound(self._filter, query)
        if self._min_score is not None:
            options["min_score"] = self._min_score
        return options

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        passages = call(self._retriever, "retrieve", query_bundle.query_str, **self._options(query_bundle))
        return [passage_to_node(passage) for passage in passages]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        passages = await acall(self._retriever, "retrieve", query_bundle.query_str, **self._options(query_bundle))
        return [passage_to_node(passage) for passage in passages]


class LlamaIndexRetriever(CoreRetriever):
    """Any LlamaIndex retriever as a retriever of the core, for instance as a leg of `HybridRetriever`.

    It takes no filter: theirs is fixed when it is made, and a filter that is not applied would be a hole.
    """

    def __init__(self, retriever: BaseRetriever) -> None:
        """Stand on `retriever`; the number of nodes it fetches is its own, and cut to `top_k`."""
        self._retriever = retriever

    def retrieve(
        self, query: str, *, top_k: int = 5, filter: AnyFilter | None = None, min_score: float | None = None
    ) -> list[Passage]:
        """Return their nodes as passages, best first.

        Raises:
            UnsupportedFilterError: a filter was given.
        """
        check_top_k(top_k)
        floor = check_min_score(min_score)
        _refuse_filter(filter)
        return _passages(self._retriever.retrieve(query), top_k, floor)

    async def aretrieve(
        self, query: str, *, top_k: int = 5, filter: AnyFilter | None = None, min_score: float | None = None
    ) -> list[Passage]:
        """Async twin of `retrieve`."""
        check_top_k(top_k)
        floor = check_min_score(min_score)
        _refuse_filter(filter)
        return _passages(await self._retriever.aretrieve(query), top_k, floor)


def _refuse_filter(filter: AnyFilter | None) -> None:
    if filter is not None:
        raise UnsupportedFilterError(
            "a LlamaIndex retriever takes its filters when it is made, so this call's filter cannot be applied; "
            "make the retriever with it, or use AgoraVectorStore"
        )


def _passages(nodes: list[NodeWithScore], top_k: int, min_score: float | None) -> list[Passage]:
    passages = [node_to_passage(node) for node in nodes]
    return [p for p in passages if min_score is None or p.score >= min_score][:top_k]

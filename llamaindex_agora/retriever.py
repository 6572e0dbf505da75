"""Retrievers of the core for LlamaIndex, and theirs for the core."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import copy
from functools import partial
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from agora_core.adapting import RetrieverPort, Steps, arun, ask, check_min_score, check_top_k, cut_answer, run
from agora_core.calling import acall_function, call_function
from agora_core.errors import UnsupportedOperationError
from agora_core.filters import Expression, compile_filter, conjoin, frozen_filter
from agora_core.protocols import AnyFilter, AsyncRetriever, SyncRetriever
from agora_core.records import Passage
from agora_core.retrievers.base import BaseRetriever as CoreRetriever
from agora_core.retrievers.base import known_scope, whole_scope
from agora_core.steps import Call
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
        per_document: at most this many nodes of one document; None for no bound.

    Examples:
        >>> nodes = AgoraRetriever(retriever, similarity_top_k=1, filter={"acl": ["board"]}).retrieve("days of leave")
        >>> nodes[0].node.node_id
        'board#0'
    """

    def __init__(
        self,
        retriever: SyncRetriever | AsyncRetriever,
        *,
        similarity_top_k: int = 5,
        filter: FilterSource | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Check the arguments; nothing is retrieved yet.

        Raises:
            InvalidArgumentError: `similarity_top_k` or `per_document` is below 1, or `min_score` is NaN.
            InvalidFilterError: the filter could not be built.
        """
        super().__init__(**kwargs)
        self._port = RetrieverPort(retriever)
        self._retriever = retriever
        self._top_k = check_top_k(similarity_top_k, argument="similarity_top_k")
        self._min_score = check_min_score(min_score)
        self._per_document = None if per_document is None else check_top_k(per_document, argument="per_document")
        self._filters: tuple[FilterSource, ...] = () if filter is None else (_source(filter),)

    @property
    def scope(self) -> Expression | None:
        """All that bounds this retriever, its filters included; None where nothing does.

        Raises:
            UnsupportedOperationError: a function of the query decides it.
        """
        if any(map(callable, self._filters)):
            raise UnsupportedOperationError(
                "what bounds this retriever is decided for each query by a function; bind a filter to ask for its scope"
            )
        return whole_scope(self._retriever, *self._filters)  # type: ignore[arg-type] # none of them is a function

    def scoped(self, filter: FilterSource) -> AgoraRetriever:
        """Return this retriever bounded by one more filter, or function of the query that gives one; all hold."""
        view = copy(self)
        view._filters = (_source(filter), *self._filters)
        return view

    def _nodes(self, query_bundle: QueryBundle) -> Steps[list[NodeWithScore]]:
        bound: AnyFilter | None = None
        for source in reversed(self._filters):
            given = source
            if callable(source):
                sync = partial(call_function, source, query_bundle, what="filter")
                given = yield Call(sync, partial(acall_function, source, query_bundle))
            # A copy: the retriever may do with it as it likes.
            own = frozen_filter(to_core_filter(given))  # type: ignore[arg-type] # a function's answer is judged here
            bound = own if bound is None else conjoin(own, bound)
        options = {"filter": bound, "min_score": self._min_score, "per_document": self._per_document}
        passages = yield from self._port.retrieve(query_bundle.query_str, top_k=self._top_k, **options)  # type: ignore[arg-type]
        return [passage_to_node(passage) for passage in passages]

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return run(self._nodes(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await arun(self._nodes(query_bundle))


def _source(filter: FilterSource) -> FilterSource:
    return filter if callable(filter) else to_core_filter(filter)


class LlamaIndexRetriever(CoreRetriever):
    """Any LlamaIndex retriever as a retriever of the core, for instance as a leg of `HybridRetriever`.

    Theirs takes its filters when it is made. A filter of a call holds all the same: what comes back is matched against
    the nodes' metadata, by the core's rules, so that fewer may remain than were asked for and never one too many.

    Examples:
        >>> theirs = AgoraRetriever(retriever)  # any retriever of LlamaIndex's
        >>> LlamaIndexRetriever(theirs).retrieve("days of leave", filter={"acl": ["board"]})[0].id
        'board#0'
    """

    def __init__(self, retriever: BaseRetriever) -> None:
        """Stand on `retriever`; the number of nodes it fetches is its own, and cut to `top_k`."""
        self._retriever = retriever

    @property
    def scope(self) -> Expression | None:
        """What bounds a retriever of this package; None for any other of theirs."""
        return known_scope(self._retriever)

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
        # Compiled before anything is asked: a filter that cannot be built retrieves nothing.
        bound = None if filter is None else compile_filter(filter)
        nodes = yield from ask(self._retriever.retrieve, self._retriever.aretrieve, query)
        passages = map(node_to_passage, nodes)
        return cut_answer(passages, top_k=top_k, filter=bound, min_score=min_score, per_document=per_document)

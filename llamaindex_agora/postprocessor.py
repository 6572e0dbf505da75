"""Inject mode for query and chat engines: a postprocessor that adds its passages to the engine's nodes."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from agora_core.inject import ContextInjector, Measure, QueryFrom, RetrievalFilter
from agora_core.metadata import UNSET
from agora_core.protocols import AsyncRetriever, SyncRetriever
from llamaindex_agora.arguments import refuse_unknown
from llamaindex_agora.inject import core_filter_hook
from llamaindex_agora.nodes import passage_to_node

ActorSource = Callable[[], Any] | contextvars.ContextVar[Any]
"""Who asks: a function without arguments, or a context variable, read at each query."""


def read_actor(source: ActorSource | None) -> Any:
    """Return who asks now, `UNSET` where nobody was named. A context variable that was never set raises."""
    if source is None:
        return UNSET
    return source.get() if isinstance(source, contextvars.ContextVar) else source()


class InjectContextPostprocessor(BaseNodePostprocessor):
    """Retrieves once for each query and adds what it found to the engine's nodes, each node once.

    Args:
        retriever: any core retriever.
        top_k: passages per query, 1 or more.
        retrieval_filter: called with the actor of the query; what it returns bounds the retrieval, and a raise or
            anything but a filter fails the query. None retrieves without a filter.
        min_score: a floor on the retriever's scores; None keeps all.
        actor: who asks: a function without arguments or a context variable. A hook without one fails the query.
        query_from: called with the query as one user message, returns what is asked of the retriever instead.
        max_chars: the room for the passages that are added; of those beyond it none is added, the last may be whole.
        measure: the unit of `max_chars`: characters, or a model's token counter.

    Examples:
        >>> inject = InjectContextPostprocessor(retriever, top_k=1)
        >>> [hit.node.node_id for hit in inject.postprocess_nodes([], query_str="days of leave")]
        ['leave#0']
    """

    _injector: Any = PrivateAttr()
    _actor: Any = PrivateAttr()

    def __init__(
        self,
        retriever: SyncRetriever | AsyncRetriever,
        *,
        top_k: int = 5,
        retrieval_filter: RetrievalFilter | None = None,
        min_score: float | None = None,
        actor: ActorSource | None = None,
        query_from: QueryFrom | None = None,
        max_chars: int | None = None,
        measure: Measure = len,
        **kwargs: Any,
    ) -> None:
        """Check the arguments; nothing is retrieved yet.

        Raises:
            InvalidArgumentError: `top_k` is below 1, or `min_score` is NaN.
            TypeError: an unknown keyword.
        """
        refuse_unknown(type(self), kwargs)
        super().__init__(**kwargs)
        hook = core_filter_hook(retrieval_filter)
        self._injector = ContextInjector(
            retriever,
            top_k=top_k,
            retrieval_filter=hook,
            min_score=min_score,
            query_from=query_from,
            max_chars=max_chars,
            measure=measure,
        )
        self._actor = actor

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex knows this class."""
        return "InjectContextPostprocessor"

    def _asked(self, query: QueryBundle | None) -> dict[str, Any]:
        text = "" if query is None else query.query_str
        messages = [ChatMessage(role=MessageRole.USER, content=text)]
        return {"query": text, "actor": read_actor(self._actor), "messages": messages}

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        found = self._injector.inject(**self._asked(query_bundle))
        return _added(nodes, [passage_to_node(passage) for passage in found.passages])

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        found = await self._injector.ainject(**self._asked(query_bundle))
        return _added(nodes, [passage_to_node(passage) for passage in found.passages])


def _added(nodes: list[NodeWithScore], found: list[NodeWithScore]) -> list[NodeWithScore]:
    # The first of an id stays: the engine's own nodes keep their scores.
    unique: dict[str, NodeWithScore] = {}
    for node in (*nodes, *found):
        unique.setdefault(node.node.node_id, node)
    return list(unique.values())

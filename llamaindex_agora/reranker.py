"""Rerankers of the core for LlamaIndex, and theirs for the core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import NodeWithScore, QueryBundle

from agora_core.adapting import RerankerPort, Steps, arun, run, trusted_order
from agora_core.errors import RerankingError
from agora_core.records import Passage
from agora_core.validation import check_top_k
from llamaindex_agora.arguments import refuse_unknown
from llamaindex_agora.nodes import node_to_passage, passage_to_node

dispatcher = get_dispatcher(__name__)


class AgoraReranker(BaseNodePostprocessor):
    """A reranker of the core as a node postprocessor; it emits their rerank events, and leaves the scores it was given.

    Args:
        reranker: any object with `rerank` or `arerank`.
        top_n: nodes to keep, 1 or more; None keeps all.

    Examples:
        >>> nodes = AgoraRetriever(retriever).retrieve("days of leave")
        >>> AgoraReranker(EmbeddingReranker(embedder), top_n=1).postprocess_nodes(nodes, query_str="directors")[
        ...     0
        ... ].node.node_id
        'board#0'
    """

    top_n: int | None = Field(default=None, description="Nodes to keep; None keeps all.")
    _reranker: Any = PrivateAttr()

    def __init__(self, reranker: Any, *, top_n: int | None = None, **kwargs: Any) -> None:
        """Check the arguments; nothing is reranked yet.

        Raises:
            InvalidArgumentError: `top_n` is below 1.
            TypeError: an unknown keyword.
        """
        refuse_unknown(type(self), kwargs)
        fields: dict[str, Any] = {"top_n": None if top_n is None else check_top_k(top_n, argument="top_n")}
        super().__init__(**fields, **kwargs)
        self._reranker = reranker

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex knows this class."""
        return "AgoraReranker"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if not nodes:
            return []
        return run(self._ranked(nodes, query_bundle))

    async def _apostprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if not nodes:
            return []
        return await arun(self._ranked(nodes, query_bundle))

    def _ranked(self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None) -> Steps[list[NodeWithScore]]:
        query = self._start(nodes, query_bundle)
        passages = [node_to_passage(node) for node in nodes]
        answer = yield from RerankerPort(self._reranker).rerank(query.query_str, passages, top_k=self.top_n)
        own = {node.node.node_id: node.node for node in nodes}
        chosen = trusted_order(answer, passages, self._reranker)
        ranked = [NodeWithScore(node=own[passage.id], score=passage.score) for passage in chosen]
        dispatcher.event(ReRankEndEvent(nodes=ranked))
        return ranked

    def _start(self, nodes: list[NodeWithScore], query: QueryBundle | None) -> QueryBundle:
        if query is None:
            raise RerankingError("reranking needs the query; call postprocess_nodes(nodes, query_str=...)")
        model = type(self._reranker).__name__
        top_n = len(nodes) if self.top_n is None else self.top_n
        dispatcher.event(ReRankStartEvent(query=query, nodes=nodes, top_n=top_n, model_name=model))
        return query


class LlamaIndexReranker:
    """Any LlamaIndex postprocessor that orders nodes, as a reranker of the core.

    Examples:
        >>> theirs = AgoraReranker(EmbeddingReranker(embedder), top_n=1)  # any postprocessor that orders
        >>> LlamaIndexReranker(theirs).rerank("directors", passages)[0].id
        'board#0'
    """

    def __init__(self, postprocessor: BaseNodePostprocessor) -> None:
        """Stand on `postprocessor`; how many nodes it keeps is its own, and cut to `top_k`."""
        self._postprocessor = postprocessor

    def rerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        """Return the passages in the order it gives them, each with its new score.

        Raises:
            RerankingError: it answered with a node that it was not given.
        """
        limit = None if top_k is None else check_top_k(top_k)
        nodes = self._postprocessor.postprocess_nodes(_nodes(passages), query_str=query)
        return _reordered(passages, nodes, limit)

    async def arerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        """Async twin of `rerank`."""
        limit = None if top_k is None else check_top_k(top_k)
        nodes = await self._postprocessor.apostprocess_nodes(_nodes(passages), query_str=query)
        return _reordered(passages, nodes, limit)


def _nodes(passages: Sequence[Passage]) -> list[NodeWithScore]:
    return [passage_to_node(passage) for passage in passages]


def _reordered(passages: Sequence[Passage], nodes: list[NodeWithScore], top_k: int | None) -> list[Passage]:
    own = {passage.id: passage for passage in passages}
    unknown = [node.node.node_id for node in nodes if node.node.node_id not in own]
    if unknown:
        raise RerankingError(f"the postprocessor answered with the node {unknown[0]!r}, which it was not given")
    ordered = [
        replace(own[n.node.node_id], score=own[n.node.node_id].score if n.score is None else float(n.score))
        for n in nodes
    ]
    return ordered[:top_k]

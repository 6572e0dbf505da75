"""What a `VectorStoreQuery` asks of the core: pure functions of the query, for sync and async code alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode, VectorStoreQueryResult

from agora_core.errors import InvalidArgumentError, UnsupportedOperationError
from agora_core.filters import all_of, field
from agora_core.protocols import AnyFilter
from agora_core.records import Passage, VectorRecord
from agora_core.similarity import maximal_marginal_relevance
from agora_core.validation import check_top_k
from llamaindex_agora.filters import member, to_core_filter
from llamaindex_agora.nodes import NODE_ID_KEY, REF_DOC_KEY, to_node

# Candidates that MMR chooses from, as a multiple of the nodes asked for.
MMR_PREFETCH: Final = 4
# What each leg of HYBRID brings at least: the best of both is seldom first in one. The core's own default.
HYBRID_FETCH: Final = 20
_LEXICAL: Final = (VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.SPARSE)
_SUPPORTED: Final = (VectorStoreQueryMode.DEFAULT, *_LEXICAL, VectorStoreQueryMode.HYBRID, VectorStoreQueryMode.MMR)


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """The legs to run, how deep, and what becomes of their answers. A depth of 0 leaves a leg out.

    Where both run, each brings `fetch_top_k`, or exactly its own depth where the query gives that of the text.
    """

    mode: VectorStoreQueryMode
    embedding: Sequence[float]
    text: str
    filter: AnyFilter | None
    dense_top_k: int
    lexical_top_k: int
    fetch_top_k: int | None
    top_k: int
    alpha: float
    mmr_threshold: float


def plan_query(query: VectorStoreQuery, *, lexical: bool, **kwargs: Any) -> QueryPlan:
    """Read a query.

    Raises:
        UnsupportedOperationError: the mode is not supported, or needs text search and the store has none.
        InvalidArgumentError: an option is out of its range, or what the mode needs is missing.
        TypeError: an unknown keyword.
    """
    threshold = kwargs.pop("mmr_threshold", query.mmr_threshold)
    prefetch = kwargs.pop("mmr_prefetch_factor", MMR_PREFETCH)
    if kwargs:
        raise TypeError(f"query got unexpected keyword arguments: {', '.join(sorted(kwargs))}")
    mode = member(VectorStoreQueryMode, query.mode)
    if mode is None or mode not in _SUPPORTED:
        known = ", ".join(item.name for item in _SUPPORTED)
        raise UnsupportedOperationError(f"the query mode {query.mode!r} is not supported; supported are {known}")
    top_k = check_top_k(query.similarity_top_k, argument="similarity_top_k")
    alpha = _alpha(query.alpha) if mode is VectorStoreQueryMode.HYBRID else float(mode not in _LEXICAL)
    sparse = top_k if query.sparse_top_k is None else check_top_k(query.sparse_top_k, argument="sparse_top_k")
    result = top_k
    if mode is VectorStoreQueryMode.HYBRID and query.hybrid_top_k is not None:
        result = check_top_k(query.hybrid_top_k, argument="hybrid_top_k")
    dense = top_k * check_top_k(prefetch, argument="mmr_prefetch_factor") if mode is VectorStoreQueryMode.MMR else top_k
    plan = QueryPlan(
        mode=mode,
        embedding=[] if query.query_embedding is None else query.query_embedding,
        text=query.query_str or "",
        filter=_restriction(query),
        dense_top_k=dense if alpha > 0 else 0,
        lexical_top_k=sparse if alpha < 1 else 0,
        fetch_top_k=max(HYBRID_FETCH, top_k) if query.sparse_top_k is None else None,
        top_k=sparse if mode in _LEXICAL else result,
        alpha=alpha,
        mmr_threshold=0.5 if threshold is None else float(threshold),
    )
    if plan.dense_top_k and query.query_embedding is None:
        raise InvalidArgumentError(f"the query mode {mode.name} needs query_embedding")
    if plan.lexical_top_k and query.query_str is None:
        raise InvalidArgumentError(f"the query mode {mode.name} needs query_str")
    if plan.lexical_top_k and not lexical:
        raise UnsupportedOperationError(
            f"the query mode {mode.name} searches text, which this store cannot; "
            "use a lexical store, or give keyword=KeywordRetriever()"
        )
    return plan


def _alpha(alpha: float | None) -> float:
    if alpha is None:
        return 0.5
    if not 0 <= alpha <= 1:
        raise InvalidArgumentError(f"alpha must be between 0 (text) and 1 (embedding), got {alpha!r}")
    return float(alpha)


def _restriction(query: VectorStoreQuery) -> AnyFilter | None:
    conditions: list[AnyFilter] = []
    if query.filters is not None:
        conditions.append(to_core_filter(query.filters))
    if query.doc_ids is not None:
        conditions.append(field([REF_DOC_KEY]).in_(query.doc_ids))
    # An empty list of node ids is what `VectorStoreIndex.as_retriever` sends for "no restriction".
    if query.node_ids:
        conditions.append(field([NODE_ID_KEY]).in_(query.node_ids))
    if not conditions:
        return None
    return conditions[0] if len(conditions) == 1 else all_of(*conditions)


def diversify(plan: QueryPlan, candidates: list[Passage], records: list[VectorRecord]) -> list[Passage]:
    """Return the candidates that MMR picks, in its order, each with its own similarity."""
    stored = {record.id: record for record in records}
    present = [passage for passage in candidates if passage.id in stored]
    if not present:
        return []
    embeddings = np.array([stored[passage.id].embedding for passage in present], dtype=np.float32)
    picked = maximal_marginal_relevance(plan.embedding, embeddings, top_k=plan.top_k, lambda_mult=plan.mmr_threshold)
    return [present[place] for place in picked]


class GivenEmbedding:
    """An embedder that answers with the vector which came with the query."""

    def __init__(self, embedding: Sequence[float]) -> None:
        self._embedding = embedding

    def embed(self, texts: Sequence[str]) -> list[Sequence[float]]:
        """Return the vector for each text."""
        return [self._embedding for _ in texts]


def to_result(passages: list[Passage]) -> VectorStoreQueryResult:
    """Return passages as their result, with fresh nodes."""
    return VectorStoreQueryResult(
        nodes=[to_node(p.id, p.text, p.metadata, p.source) for p in passages],
        similarities=[p.score for p in passages],
        ids=[p.id for p in passages],
    )

"""Retrieval in two passes: many candidates from one retriever, put in order by a reranker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from agora_core.errors import InvalidArgumentError
from agora_core.filters import Expression
from agora_core.metadata import with_score
from agora_core.protocols import AnyFilter, Reranker, Retriever
from agora_core.records import Passage
from agora_core.rerankers.ordering import trusted_order
from agora_core.retrievers.base import BaseRetriever, at_least, shared_scope
from agora_core.retrievers.explanation import recording
from agora_core.retrievers.ports import RerankerPort, RetrieverPort
from agora_core.steps import Steps
from agora_core.validation import check_top_k

DEFAULT_FETCH_TOP_K: Final = 20


class RerankingRetriever(BaseRetriever):
    """Takes `fetch_top_k` candidates from `base` and lets `reranker` choose among them. Scores are the reranker's.

    Examples:
        >>> reranking = RerankingRetriever(LexicalRetriever(store), EmbeddingReranker(embedder), fetch_top_k=20)
        >>> reranking.retrieve("days of leave", top_k=1)[0].id
        'leave#0'
    """

    def __init__(
        self, base: Retriever, reranker: Reranker, *, fetch_top_k: int = DEFAULT_FETCH_TOP_K, blend: float = 1.0
    ) -> None:
        """Accept any object with `retrieve` or `aretrieve`, and any with `rerank` or `arerank`.

        Args:
            base: gives the candidates; the filter and `per_document` go to it.
            reranker: orders them. Only its order and its scores count: texts, sources and metadata are the base's.
            fetch_top_k: how many candidates, 1 or more; raised to a call's `top_k` where that is larger.
            blend: 1 is the reranker's order, 0 the base's. Between, the scores of both are scaled to 0..1 over the
                candidates (equal ones count 1, what the reranker dropped 0) and mixed.

        Raises:
            InvalidArgumentError: an argument is out of its range.
            UnsupportedOperationError: one of the objects has no such method.
        """
        if type(blend) not in (int, float) or not 0 <= blend <= 1:
            raise InvalidArgumentError(f"blend must be a number from 0 to 1, got {blend!r}")
        self.base = base
        self.reranker = reranker
        self.fetch_top_k = check_top_k(fetch_top_k, argument="fetch_top_k")
        self.blend = float(blend)
        self._base = RetrieverPort(base)
        self._reranker = RerankerPort(reranker)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r}, {type(self.reranker).__name__})"

    @property
    def scope(self) -> Expression | None:
        """The scope of the base."""
        return shared_scope([self.base])

    def _over(self, wrap: Callable[[Retriever], Retriever]) -> RerankingRetriever:
        """Return this retriever over a wrapped base, so that the reranker sees only what the wrapper lets through."""
        return RerankingRetriever(wrap(self.base), self.reranker, fetch_top_k=self.fetch_top_k, blend=self.blend)

    def _retrieve(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        fetched = max(self.fetch_top_k, top_k)
        candidates = yield from self._base.retrieve(query, top_k=fetched, filter=filter, per_document=per_document)
        asked = top_k if self.blend == 1 else None
        ranked = yield from self._reranker.rerank(query, list(candidates), top_k=asked)
        chosen = trusted_order(ranked, candidates, self.reranker)
        if self.blend < 1:
            chosen = _blended(candidates, chosen, self.blend)
        result = at_least(chosen[:top_k], min_score)
        if (written := recording()) is not None:
            written.candidates, written.ranked = list(candidates), chosen
            written.cut, written.floored = len(chosen[top_k:]), len(chosen[:top_k]) - len(result)
        return result

    def _holds(self, ids: list[str], scope: AnyFilter) -> Steps[set[str]]:
        holds = getattr(self.base, "_holds", None)
        return set() if holds is None else (yield from holds(ids, scope))


def _blended(candidates: Sequence[Passage], ranked: Sequence[Passage], blend: float) -> list[Passage]:
    base = _scaled(candidates)
    theirs = _scaled(ranked)
    scores = {key: blend * theirs.get(key, 0.0) + (1 - blend) * base[key] for key in base}
    mixed = [with_score(candidate, scores[candidate.id]) for candidate in candidates]
    return sorted(mixed, key=lambda passage: -passage.score)


def _scaled(passages: Sequence[Passage]) -> dict[str, float]:
    """Return scores moved and stretched to 0..1; 1 for all where they are equal."""
    scores = [passage.score for passage in passages]
    low, high = min(scores, default=0.0), max(scores, default=0.0)
    return {p.id: 1.0 if high == low else (p.score - low) / (high - low) for p in passages}

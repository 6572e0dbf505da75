"""Retrieval in two passes: many candidates from one retriever, put in order by a reranker."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from agora_core.calling import acall, call, given
from agora_core.embedding import check_query
from agora_core.errors import RerankingError
from agora_core.protocols import AnyFilter, Reranker, Retriever
from agora_core.records import Passage
from agora_core.retrievers.base import BaseRetriever, at_least
from agora_core.validation import check_min_score, check_top_k

DEFAULT_FETCH_TOP_K: Final = 20


class RerankingRetriever(BaseRetriever):
    """Takes `fetch_top_k` candidates from `base` and lets `reranker` choose among them. Scores are the reranker's."""

    def __init__(self, base: Retriever, reranker: Reranker, *, fetch_top_k: int = DEFAULT_FETCH_TOP_K) -> None:
        """Stand on any object with `retrieve` or `aretrieve`, and any with `rerank` or `arerank`.

        Args:
            base: gives the candidates; the filter goes to it.
            reranker: orders them.
            fetch_top_k: how many candidates, 1 or more; raised to a call's `top_k` where that is larger.
        """
        self.base = base
        self.reranker = reranker
        self.fetch_top_k = check_top_k(fetch_top_k, argument="fetch_top_k")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r}, {type(self.reranker).__name__})"

    def retrieve(
        self, query: str, *, top_k: int = 5, filter: AnyFilter | None = None, min_score: float | None = None
    ) -> list[Passage]:
        """Return the `top_k` best candidates by the reranker's score, which `min_score` is a floor on.

        Raises:
            RerankingError: the reranker answers with a passage it was not given.
        """
        top_k, floor, options = self._options(query, top_k, filter, min_score)
        candidates = list(call(self.base, "retrieve", query, **options))
        ranked = call(self.reranker, "rerank", query, candidates, top_k=top_k)
        return at_least(self._chosen(ranked, candidates)[:top_k], floor)

    async def aretrieve(
        self, query: str, *, top_k: int = 5, filter: AnyFilter | None = None, min_score: float | None = None
    ) -> list[Passage]:
        """Async twin of `retrieve`."""
        top_k, floor, options = self._options(query, top_k, filter, min_score)
        candidates = list(await acall(self.base, "retrieve", query, **options))
        ranked = await acall(self.reranker, "rerank", query, candidates, top_k=top_k)
        return at_least(self._chosen(ranked, candidates)[:top_k], floor)

    def _options(
        self, query: str, top_k: int, filter: AnyFilter | None, min_score: float | None
    ) -> tuple[int, float | None, dict[str, Any]]:
        check_query(query)
        top_k = check_top_k(top_k)
        options = {"top_k": max(self.fetch_top_k, top_k), **given(filter=filter)}
        return top_k, check_min_score(min_score), options

    def _chosen(self, ranked: Iterable[Passage], candidates: list[Passage]) -> list[Passage]:
        """Return the reranker's answer. A passage from elsewhere has not passed the filter, so it is refused."""
        chosen = list(ranked)
        allowed = {candidate.id for candidate in candidates}
        for passage in chosen:
            if passage.id not in allowed:
                raise RerankingError(
                    f"{type(self.reranker).__name__} returned the passage {passage.id!r}, "
                    "which is none of its candidates; it must return passages it was given"
                )
        return chosen

"""Retrieval by meaning: embed the query, search the store."""

from __future__ import annotations

from typing import Any

from agora_core.calling import acall, call, given
from agora_core.embedding import aembed_query, check_query, embed_query
from agora_core.protocols import AnyFilter, EmbeddingProvider, VectorStore
from agora_core.records import Passage
from agora_core.retrievers.base import BaseRetriever
from agora_core.validation import check_min_score, check_top_k


class EmbeddingRetriever(BaseRetriever):
    """Searches a store by the embedding of the query. Scores are the store's.

    The embedder's `embed_query` is used where it has one. Filter, floor and top-k are answered by the store.
    """

    def __init__(self, embedder: EmbeddingProvider, store: VectorStore) -> None:
        """Stand on any object with `embed` or `aembed`, and any with `search` or `asearch`."""
        self.embedder = embedder
        self.store = store

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.embedder).__name__}, {type(self.store).__name__})"

    def retrieve(
        self, query: str, *, top_k: int = 5, filter: AnyFilter | None = None, min_score: float | None = None
    ) -> list[Passage]:
        """Return the `top_k` passages whose embedding is most similar to the query's; see `BaseRetriever.retrieve`.

        Raises:
            EmbeddingError: the embedder answers with more than one vector.
        """
        options = _search_options(query, top_k, filter, min_score)
        embedding = embed_query(self.embedder, query)
        return [] if embedding is None else list(call(self.store, "search", embedding, **options))

    async def aretrieve(
        self, query: str, *, top_k: int = 5, filter: AnyFilter | None = None, min_score: float | None = None
    ) -> list[Passage]:
        """Async twin of `retrieve`."""
        options = _search_options(query, top_k, filter, min_score)
        embedding = await aembed_query(self.embedder, query)
        return [] if embedding is None else list(await acall(self.store, "search", embedding, **options))


def _search_options(query: str, top_k: int, filter: AnyFilter | None, min_score: float | None) -> dict[str, Any]:
    check_query(query)
    return {"top_k": check_top_k(top_k), **given(filter=filter, min_score=check_min_score(min_score))}

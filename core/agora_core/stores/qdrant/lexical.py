"""Full-text search on Qdrant by its sparse vectors, and both legs of a hybrid in one request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agora_core.errors import InvalidArgumentError
from agora_core.fusion import reciprocal_rank_fusion
from agora_core.keyword.analysis import AnyTokenizer
from agora_core.keyword.bm25 import DEFAULT_B, DEFAULT_K1, check_bm25_parameters
from agora_core.keyword.registry import resolve_tokenizer
from agora_core.protocols import AnyFilter
from agora_core.records import Embedding, Passage
from agora_core.stores.qdrant import programs, ranking
from agora_core.stores.qdrant.filters import CompiledFilter, compile_for_qdrant
from agora_core.stores.qdrant.programs import Program
from agora_core.stores.qdrant.sparse import SparseEncoder
from agora_core.stores.qdrant.store import QdrantStore
from agora_core.validation import check_top_k, prepare_embedding


class QdrantLexicalVectorStore(QdrantStore):
    """A `QdrantStore` that also searches the text of its records, by BM25 on sparse vectors.

    Qdrant counts the idf over the whole collection (over each shard, on a cluster), whatever the filter. The average
    length is fixed when the collection is made, since a sparse vector cannot follow a moving one.
    """

    def __init__(
        self,
        client: Any = None,
        *,
        tokenizer: AnyTokenizer | str | None = None,
        k1: float = DEFAULT_K1,
        b: float = DEFAULT_B,
        average_length: float = 128.0,
        **options: Any,
    ) -> None:
        """Describe a store; no connection is made.

        Args:
            client: see `QdrantStore`.
            tokenizer: a name for `get_tokenizer`, or a callable from text to terms; `unicode` where it is left out.
            k1, b: of BM25.
            average_length: the usual number of terms of a chunk; 128 suits chunks of 800 characters.
            options: those of `QdrantStore`.

        Raises:
            InvalidArgumentError: an argument breaks its rule.
        """
        super().__init__(client, **options)
        k1, b = check_bm25_parameters(k1, b)
        if isinstance(average_length, bool) or not isinstance(average_length, (int, float)):
            raise InvalidArgumentError(f"average_length must be a number, got {type(average_length).__name__}")
        if not 0 < average_length < math.inf:
            raise InvalidArgumentError(f"average_length must be finite and above 0, got {average_length!r}")
        self._encoder = SparseEncoder(resolve_tokenizer(tokenizer), k1, b, float(average_length))
        self._settings = replace(self._settings, sparse=self._encoder)

    def search_text(self, query: str, *, top_k: int, filter: AnyFilter | None = None) -> list[Passage]:
        """Return the `top_k` matching records whose text answers `query` best, by BM25; a blank query finds nothing.

        A record without any term of the query is never returned. Equal scores are in code-point order of ids.
        """
        return self._run(self._search_text(query, top_k, filter))

    async def asearch_text(self, query: str, *, top_k: int, filter: AnyFilter | None = None) -> list[Passage]:
        """Async twin of `search_text`."""
        return await self._arun(self._search_text(query, top_k, filter))

    def _search_text(self, query: str, top_k: int, filter: AnyFilter | None) -> Program[list[Passage]]:
        text, most, compiled = _check_query(query), check_top_k(top_k), compile_for_qdrant(filter)
        if compiled.denies:
            return []
        return (yield from self._lexical_leg(text, compiled, most))

    def _lexical_leg(self, query: str, compiled: CompiledFilter, top_k: int) -> Program[list[Passage]]:
        terms = self._encoder.query_terms(query)
        if not terms:
            return []
        hits = yield from ranking.ranked(
            self._settings,
            self._encoder.query(terms),
            compiled,
            top_k,
            using=self._encoder.vector_name,
            score=ranking.plain_score,
            accept=self._encoder.holds_any(terms),
        )
        return ranking.passages_of(hits)

    def search_hybrid(
        self,
        query: str,
        embedding: Embedding,
        *,
        top_k: int,
        fetch_top_k: int = 20,
        k: float = 60,
        weights: Sequence[float] | None = (1.0, 1.0),
        filter: AnyFilter | None = None,
    ) -> list[Passage]:
        """Search by embedding and by text in one request, and fuse both lists by `reciprocal_rank_fusion`.

        The ranking is that of a `HybridRetriever` over an `EmbeddingRetriever` and a `LexicalRetriever` of this store.

        Args:
            query: the text.
            embedding: shape (dimension,).
            top_k: 1 or more.
            fetch_top_k: how many each list brings; raised to `top_k`.
            k, weights: of the fusion; the weights are those of the embedding and of the text.
            filter: bounds both lists.
        """
        return self._run(self._search_hybrid(query, embedding, top_k, fetch_top_k, k, weights, filter))

    async def asearch_hybrid(
        self,
        query: str,
        embedding: Embedding,
        *,
        top_k: int,
        fetch_top_k: int = 20,
        k: float = 60,
        weights: Sequence[float] | None = (1.0, 1.0),
        filter: AnyFilter | None = None,
    ) -> list[Passage]:
        """Async twin of `search_hybrid`."""
        return await self._arun(self._search_hybrid(query, embedding, top_k, fetch_top_k, k, weights, filter))

    def _search_hybrid(
        self,
        query: str,
        embedding: Embedding,
        top_k: int,
        fetch_top_k: int,
        k: float,
        weights: Sequence[float] | None,
        filter: AnyFilter | None,
    ) -> Program[list[Passage]]:
        text, vector = _check_query(query), prepare_embedding(embedding, dimension=self.dimension)
        most, compiled = check_top_k(top_k), compile_for_qdrant(filter)
        fetched = max(check_top_k(fetch_top_k, argument="fetch_top_k"), most)
        # Fused once with nothing: a wrong k or weight is refused before anything is asked.
        reciprocal_rank_fusion([[], []], k=k, weights=weights)
        if compiled.denies:
            return []
        dense = ranking.search(self._settings, vector, compiled, fetched, None)
        lexical = self._lexical_leg(text, compiled, fetched)
        # Qdrant's own fusion keeps neither first-seen order among ties nor ties by id within a list.
        lists = yield from programs.together(self._settings, [dense, lexical])
        return reciprocal_rank_fusion(lists, k=k, weights=weights)[:most]


def _check_query(query: Any) -> str:
    if not isinstance(query, str):
        raise InvalidArgumentError(f"query must be a str, got {type(query).__name__}")
    return query

"""Full-text search on Qdrant by its sparse vectors, and both legs of a hybrid in one request."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agora_core.errors import InvalidArgumentError
from agora_core.fusion import Fusion, fuse
from agora_core.keyword.analysis import AnyTokenizer
from agora_core.keyword.bm25 import DEFAULT_B, DEFAULT_K1, check_bm25_parameters
from agora_core.keyword.registry import resolve_tokenizer
from agora_core.protocols import AnyFilter
from agora_core.records import Embedding, Passage
from agora_core.steps import Steps
from agora_core.stores.operations import LexicalOperations, Syntax
from agora_core.stores.per_document import check_per_document, cut_per_document, grow
from agora_core.stores.qdrant import programs, ranking
from agora_core.stores.qdrant.filters import CompiledFilter, compile_for_qdrant
from agora_core.stores.qdrant.journal import View, whole
from agora_core.stores.qdrant.sparse import SparseEncoder
from agora_core.stores.qdrant.store import QdrantStore
from agora_core.validation import check_min_score, check_top_k, prepare_embedding


class QdrantLexicalVectorStore(LexicalOperations, QdrantStore):
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

    def _search_text(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
        syntax: Syntax | None,
    ) -> Steps[list[Passage]]:
        text, most, compiled = _check_query(query), check_top_k(top_k), compile_for_qdrant(filter)
        floor, each = check_min_score(min_score), check_per_document(per_document)
        return self._text(text, compiled, most, floor, each)

    def _text(
        self, text: str, compiled: CompiledFilter, most: int, floor: float | None, each: int | None
    ) -> Steps[list[Passage]]:
        if compiled.denies:
            return []
        leg = yield from grow(lambda n: self._lexical_leg(text, compiled, n), top_k=most, per_document=each)
        return leg if floor is None else [passage for passage in leg if passage.score >= floor]

    def _lexical_leg(self, query: str, compiled: CompiledFilter, top_k: int) -> Steps[list[Passage]]:
        terms = self._encoder.query_weights(query)
        if not terms:
            return []

        def read(view: View) -> Steps[list[Passage]]:
            hits = yield from ranking.ranked(
                self._settings,
                self._encoder.query(terms),
                compiled,
                top_k,
                view,
                using=self._encoder.vector_name,
                score=ranking.plain_score,
                accept=self._encoder.holds_any(terms),
            )
            return ranking.passages_of(hits)

        return (yield from whole(self._settings, read))

    def _search_hybrid(
        self,
        query: str,
        embedding: Embedding,
        top_k: int,
        fetch_top_k: int,
        k: float,
        weights: Sequence[float] | None,
        fusion: Fusion,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
        syntax: Syntax | None,
    ) -> Steps[list[Passage]]:
        text, vector = _check_query(query), prepare_embedding(embedding, dimension=self.dimension)
        most, compiled = check_top_k(top_k), compile_for_qdrant(filter)
        floor, each = check_min_score(min_score), check_per_document(per_document)
        fetched = max(check_top_k(fetch_top_k, argument="fetch_top_k"), most)
        # Fused once with nothing: a wrong k, weight or fusion is refused before anything is asked.
        fuse([[], []], fusion=fusion, k=k, weights=weights)
        return self._hybrid(text, vector, compiled, most, fetched, k, weights, fusion, floor, each)

    def _hybrid(
        self,
        text: str,
        vector: Any,
        compiled: CompiledFilter,
        most: int,
        fetched: int,
        k: float,
        weights: Sequence[float] | None,
        fusion: Fusion,
        floor: float | None,
        each: int | None,
    ) -> Steps[list[Passage]]:
        if compiled.denies:
            return []
        while True:
            dense = ranking.search(self._settings, vector, compiled, fetched, None)
            lexical = self._lexical_leg(text, compiled, fetched)
            # Qdrant's own fusion keeps neither first-seen order among ties nor ties by id within a list.
            lists = yield from programs.in_one_request(self._settings, [dense, lexical])
            fused = fuse(lists, fusion=fusion, k=k, weights=weights)
            kept = [p for p in cut_per_document(fused, each) if floor is None or p.score >= floor][:most]
            if each is None or len(kept) >= most or all(len(found) < fetched for found in lists):
                return kept
            fetched *= 4


def _check_query(query: Any) -> str:
    if not isinstance(query, str):
        raise InvalidArgumentError(f"query must be a str, got {type(query).__name__}")
    return query

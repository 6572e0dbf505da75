"""Text as sparse vectors whose inner product is BM25, the idf being Qdrant's part.

A term's index is a 32-bit digest, so any corpus, any number of writers and any language share one space without a
vocabulary to keep. Two terms of a large vocabulary can share an index (of 100,000 terms about one pair does, of a
million about a hundred): a hit is therefore read again and kept only where a term of the query is truly in it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from agora_core.keyword.analysis import AnyTokenizer, passage_terms, query_weights
from agora_core.keyword.bm25 import bm25_term_score
from agora_core.records import indexed_text
from agora_core.stores.qdrant.filters import qdrant_models
from agora_core.stores.qdrant.payload import context_of

VECTOR_NAME: Final = "text"


@lru_cache(maxsize=200_000)
def term_index(term: str) -> int:
    """Return the place of a term in every sparse vector: the first 32 bits of its BLAKE2b digest."""
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8"), digest_size=4).digest(), "little")


@dataclass(frozen=True, slots=True)
class SparseEncoder:
    """Turns texts into sparse vectors: a passage by BM25 without its idf, a query by the weights of its terms."""

    tokenizer: AnyTokenizer
    k1: float
    b: float
    average_length: float
    vector_name: str = VECTOR_NAME

    def weights(self, text: str) -> dict[int, float]:
        """Return what a passage holds: for each term's index tf (k1 + 1) / (tf + k1 (1 - b + b length / average))."""
        terms, length = passage_terms(self.tokenizer, text)
        weights: dict[int, float] = {}
        for term, frequency in Counter(terms).items():
            weight = bm25_term_score(frequency, length, self.average_length, k1=self.k1, b=self.b)
            index = term_index(term)
            weights[index] = weights.get(index, 0.0) + weight
        return weights

    def documents(self, texts: Sequence[str]) -> list[Any]:
        """Return the sparse vector of each passage, None for one without a term.

        An empty vector would count as a passage in the idf of local mode and not in that of the engine.
        """
        sparse = qdrant_models().SparseVector
        found = map(self.weights, texts)
        return [sparse(indices=list(w), values=list(w.values())) if w else None for w in found]

    def query(self, terms: Mapping[str, float]) -> Any:
        """Return the sparse vector of a query with at least one term; `terms` come with their weights."""
        weights: dict[int, float] = {}
        for term, weight in terms.items():
            weights.setdefault(term_index(term), weight)
        return qdrant_models().SparseVector(indices=list(weights), values=list(weights.values()))

    def query_weights(self, text: str) -> dict[str, float]:
        """Return the distinct terms of a query with their weights."""
        return query_weights(self.tokenizer, text)

    def holds_any(self, terms: Iterable[str]) -> Callable[[Mapping[str, Any]], bool]:
        """Return the test whether what is indexed of a payload truly holds one of these terms."""
        wanted = frozenset(terms)

        def holds(payload: Mapping[str, Any]) -> bool:
            indexed = indexed_text(payload["text"], context_of(payload))
            return not wanted.isdisjoint(passage_terms(self.tokenizer, indexed)[0])

        return holds

    def fingerprint(self) -> dict[str, Any]:
        """Return, as JSON, what decides about the vectors: an index made with another one does not fit."""
        return {
            "tokenizer": str(getattr(self.tokenizer, "name", type(self.tokenizer).__name__)),
            "config": dict(getattr(self.tokenizer, "config", {})),
            "k1": self.k1,
            "b": self.b,
            "average_length": self.average_length,
        }

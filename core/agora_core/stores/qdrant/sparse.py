"""Text as sparse vectors that hold how often each term stands in a passage, and exact BM25 from them.

A term's index is a 32-bit digest, so any corpus, any number of writers and any language share one space without a
vocabulary to keep. Two terms of a large vocabulary can share an index (of 100,000 terms about one pair does, of a
million about a hundred): a hit is therefore read again and kept only where a term of the query is truly in it.

Nothing that depends on other records is stored. A search asks for the postings of each term of its query and for how
many passages have each length, `agora.l`; from these it counts as `KeywordRetriever` does. Points without a length,
of another writer or under way, are read and counted here.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from agora_core.keyword.analysis import AnyTokenizer, passage_terms
from agora_core.keyword.bm25 import bm25_idf, bm25_term_score
from agora_core.records import document_id_of, indexed_text
from agora_core.steps import Steps
from agora_core.stores.qdrant import requests
from agora_core.stores.qdrant.filters import CompiledFilter, conjunction, qdrant_models, without_tokens
from agora_core.stores.qdrant.journal import View
from agora_core.stores.qdrant.payload import LENGTH_KEY, context_of, metadata_of
from agora_core.stores.qdrant.programs import batched, scrolled
from agora_core.stores.qdrant.requests import PASSAGE_FIELDS
from agora_core.stores.qdrant.settings import VECTOR_NAME, QdrantSettings

_MOST_LENGTHS: Final = 1_000_000


@lru_cache(maxsize=200_000)
def term_index(term: str) -> int:
    """Return the place of a term in every sparse vector: the first 32 bits of its BLAKE2b digest."""
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8"), digest_size=4).digest(), "little")


@dataclass(frozen=True, slots=True)
class SparseEncoder:
    """Turns texts into sparse vectors of term counts; `k1` and `b` only come in when a query is scored."""

    tokenizer: AnyTokenizer
    k1: float
    b: float
    vector_name: str = VECTOR_NAME

    def counted(self, text: str) -> tuple[dict[int, float], int]:
        """Return how often each place of a term occurs in a text, and the text's length."""
        terms, length = passage_terms(self.tokenizer, text)
        counts: Counter[int] = Counter(map(term_index, terms))
        return {index: float(count) for index, count in counts.items()}, length

    def documents(self, texts: Sequence[str]) -> list[tuple[Any, int]]:
        """Return the sparse vector of each passage, None for one without a term, and its length."""
        sparse = qdrant_models().SparseVector
        found = map(self.counted, texts)
        return [(sparse(indices=list(c), values=list(c.values())) if c else None, length) for c, length in found]

    def holds_any(self, terms: Iterable[str]) -> Callable[[str], bool]:
        """Return the test whether a text truly holds one of these terms."""
        wanted = frozenset(terms)
        return lambda text: not wanted.isdisjoint(passage_terms(self.tokenizer, text)[0])

    def fingerprint(self) -> dict[str, Any]:
        """Return, as JSON, what decides about the vectors: an index made with another one does not fit."""
        return {
            "tokenizer": str(getattr(self.tokenizer, "name", type(self.tokenizer).__name__)),
            "config": dict(getattr(self.tokenizer, "config", {})),
            "values": "counts",
        }


def text_of(payload: Mapping[str, Any]) -> str:
    """Return what of a record is indexed."""
    return indexed_text(payload["text"], context_of(payload))


@dataclass(slots=True)
class _Counts:
    """The passages of a scope that hold a term of a query, and the statistics of that scope."""

    passages: int = 0
    length: int = 0
    frequency: Counter[str] = field(default_factory=Counter)
    rows: dict[str, tuple[str, int, dict[str, float]]] = field(default_factory=dict)

    def add(self, point_id: str, record_id: str, length: int, term: str, count: float) -> None:
        self.frequency[term] += 1
        self.rows.setdefault(point_id, (record_id, length, {}))[2][term] = count

    def ranked(self, weights: Mapping[str, float], k1: float, b: float) -> list[tuple[float, str, str]]:
        """Return score, record id and point id, best first."""
        average = self.length / self.passages if self.passages and self.length else 1.0
        shares = {
            term: weight * bm25_idf(self.passages, self.frequency[term])
            for term, weight in weights.items()
            if self.frequency[term]
        }
        scored = [
            (
                sum(shares[t] * bm25_term_score(count, length, average, k1=k1, b=b) for t, count in counts.items()),
                record_id,
                point_id,
            )
            for point_id, (record_id, length, counts) in self.rows.items()
        ]
        return sorted(scored, key=lambda hit: (-hit[0], hit[1]))


def ranking(
    settings: QdrantSettings,
    encoder: SparseEncoder,
    weights: Mapping[str, float],
    scope: CompiledFilter,
    compiled: CompiledFilter,
    view: View,
) -> Steps[list[tuple[float, str, str]]]:
    """Return every record that may match and holds a term, best first, by the statistics of the scope."""
    counts = _Counts()
    terms = list(weights)
    models = qdrant_models()
    unindexed = models.IsEmptyCondition(is_empty=models.PayloadField(key=LENGTH_KEY))
    rest: Any = scope.candidates
    if scope.exact:
        rest = requests.narrowed(rest, models.Filter(should=[without_tokens(), unindexed]))
        selection = conjunction([scope.own], must_not=[unindexed])
        facet = yield requests.facet(settings, LENGTH_KEY, selection, limit=_MOST_LENGTHS)
        for hit in facet.hits:
            counts.passages += int(hit.count)
            counts.length += int(hit.count) * int(hit.value)
        if counts.passages:
            answers = yield _postings(settings, encoder, terms, selection, counts.passages, ("id", LENGTH_KEY))
            for term, answer in zip(terms, answers, strict=True):
                for point in answer.points:
                    payload = point.payload
                    counts.add(str(point.id), payload["id"], payload["agora"]["l"], term, round(point.score))
    within: set[str] | None = None
    if compiled is not scope and counts.rows:
        narrow = conjunction([] if compiled.candidates is None else [compiled.candidates])
        answers = yield _postings(settings, encoder, terms, narrow, len(counts.rows), ("id",))
        within = {str(point.id) for answer in answers for point in answer.points}

    def take(point_id: str, payload: Mapping[str, Any]) -> None:
        if not scope.matches(metadata_of(payload) or {}):
            return
        found, length = passage_terms(encoder.tokenizer, text_of(payload))
        counts.passages += 1
        counts.length += length
        occurring = Counter(found)
        for term in terms:
            if occurring[term]:
                counts.add(point_id, payload["id"], length, term, occurring[term])
                if within is not None:
                    within.add(point_id)

    yield from scrolled(settings, rest, take, view=view, fields=PASSAGE_FIELDS)
    hits = counts.ranked(weights, encoder.k1, encoder.b)
    return hits if within is None else [hit for hit in hits if hit[2] in within]


def _postings(
    settings: QdrantSettings, encoder: SparseEncoder, terms: Sequence[str], condition: Any, limit: int, fields: Any
) -> Any:
    sparse = qdrant_models().SparseVector
    return requests.query_batch(
        settings,
        [
            requests.query(
                settings,
                sparse(indices=[term_index(term)], values=[1.0]),
                condition,
                limit=limit,
                fields=fields,
                using=encoder.vector_name,
            )
            for term in terms
        ],
    )


def read(
    settings: QdrantSettings,
    hits: Sequence[tuple[float, str, str]],
    compiled: CompiledFilter,
    view: View,
    accept: Callable[[str], bool],
    wanted: int,
    per_document: int | None,
) -> Steps[list[tuple[float, Mapping[str, Any]]]]:
    """Read the best hits that match and are accepted by their text, until there are as many as wanted."""
    kept: list[tuple[float, Mapping[str, Any]]] = []
    of_document: Counter[str] = Counter()
    for part in _growing(hits, wanted):
        payloads = {}
        for ids in batched([point_id for _, _, point_id in part], 256):
            for point in (yield requests.retrieve(settings, ids, PASSAGE_FIELDS, vectors=False)):
                payloads[str(point.id)] = view.look(point.payload)
        for score, record_id, point_id in part:
            payload = payloads.get(point_id)
            document = document_id_of(record_id)
            if payload is None or (per_document is not None and of_document[document] >= per_document):
                continue
            if not compiled.matches(metadata_of(payload) or {}) or not accept(text_of(payload)):
                continue
            of_document[document] += 1
            kept.append((score, payload))
            if len(kept) == wanted:
                return kept
    return kept


def _growing(hits: Sequence[tuple[float, str, str]], first: int) -> Iterator[Sequence[tuple[float, str, str]]]:
    start, size = 0, max(first, 1)
    while start < len(hits):
        yield hits[start : start + size]
        start, size = start + size, min(size * 4, 4096)

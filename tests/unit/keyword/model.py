"""A plain model of the keyword index: a dict, and the formula worked out from scratch for every answer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from agora_core import ChunkRecord, document_id_of, matches_filter
from agora_core.keyword import bm25_idf, bm25_term_score
from agora_core.metadata import apply_metadata_patch
from agora_core.records import Passage

Tokenize = Callable[[str], list[str]]


class PlainModel:
    """What a `KeywordRetriever` must answer, as slowly and as plainly as can be."""

    def __init__(self, tokenize: Tokenize, *, k1: float = 1.5, b: float = 0.75) -> None:
        self.tokenize = tokenize
        self.k1, self.b = k1, b
        self.records: dict[str, ChunkRecord] = {}

    def add(self, records: list[ChunkRecord]) -> None:
        self.records.update({record.id: record for record in records})

    def remove(self, ids: list[str]) -> int:
        return sum(self.records.pop(record_id, None) is not None for record_id in ids)

    def remove_document(self, document_id: str) -> int:
        return self.remove([key for key in self.records if document_id_of(key) == document_id])

    def update_metadata(self, document_id: str, patch: dict[str, Any]) -> int:
        owned = [record for key, record in self.records.items() if document_id_of(key) == document_id]
        for record in owned:
            merged = apply_metadata_patch(record.metadata, patch)
            self.records[record.id] = ChunkRecord(record.id, record.text, record.source, merged)
        return len(owned) if patch else 0

    def retrieve(self, query: str, *, filter: Any = None) -> list[Passage]:
        """Return every passage that holds a term of the query and matches, best first."""
        texts = {key: self.tokenize(record.text) for key, record in self.records.items()}
        average = sum(map(len, texts.values())) / len(texts) if texts else 0.0
        found = []
        asked: Tokenize = getattr(self.tokenize, "query", self.tokenize)
        terms = Counter(asked(query))
        frequency = {term: sum(term in text for text in texts.values()) for term in terms}
        for key, record in self.records.items():
            score = 0.0
            for term, repeats in terms.items():
                count = texts[key].count(term)
                if count:
                    share = bm25_term_score(count, len(texts[key]), average, k1=self.k1, b=self.b)
                    score += math.sqrt(repeats) * bm25_idf(len(texts), frequency[term]) * share
            if score > 0 and (filter is None or matches_filter(record.metadata, filter)):
                metadata = None if record.metadata is None else dict(record.metadata)
                found.append(Passage(key, record.text, score, record.source, metadata))
        return sorted(found, key=lambda passage: (-passage.score, passage.id))


def assert_same_ranking(
    answer: list[Passage], everything: list[Passage], top_k: int, *, relative: float = 1e-9
) -> None:
    """Compare an answer with the whole ranking of the model; what only rounding orders may change places."""
    expected = everything[:top_k]
    assert len(answer) == len(expected)
    scores = {passage.id: passage.score for passage in everything}
    for mine, theirs in zip(answer, expected, strict=True):
        assert abs(mine.score - theirs.score) <= relative * theirs.score
        assert abs(mine.score - scores[mine.id]) <= relative * mine.score
    assert len({passage.id for passage in answer}) == len(answer)
    plain = {passage.id: passage for passage in everything}
    for mine in answer:
        theirs = plain[mine.id]
        assert (mine.text, mine.source, mine.metadata or {}) == (theirs.text, theirs.source, theirs.metadata or {})
    # Bit-equal scores go by id.
    for one, other in pairwise(answer):
        assert (-one.score, one.id) < (-other.score, other.id)

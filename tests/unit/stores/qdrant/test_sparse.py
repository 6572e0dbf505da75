"""Sparse vectors: stable places for terms, BM25 weights, and what is done about terms that share a place."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agora_core.keyword.analysis import passage_terms
from agora_core.keyword.registry import get_tokenizer
from agora_core.stores.qdrant.sparse import SparseEncoder, term_index

ENCODER = SparseEncoder(get_tokenizer("unicode"), 1.5, 0.75)


def colliding_terms() -> tuple[str, str]:
    """Find two terms that share an index: among 200,000 there are about five such pairs."""
    seen: dict[int, str] = {}
    for n in itertools.count():
        term = f"t{n}"
        other = seen.setdefault(term_index(term), term)
        if other != term:
            return other, term
    raise AssertionError


def test_places_never_change() -> None:
    # A stored index depends on these; another digest would make it unreadable.
    assert [term_index(term) for term in ("a", "retrieval", "日本")] == [1431053258, 1544454503, 3135195086]


@given(st.text(max_size=40))
def test_values_are_counts(text: str) -> None:
    terms = get_tokenizer("ascii")(text)
    counts, length = SparseEncoder(get_tokenizer("ascii"), 1.2, 0.5).counted(text)
    assert counts == {term_index(term): terms.count(term) for term in set(terms)}
    assert length == len(terms)


def test_a_text_without_terms_has_no_vector() -> None:
    assert ENCODER.documents(["", "...", "word"])[:2] == [(None, 0), (None, 0)]


def test_terms_that_share_a_place_are_told_apart_on_the_text() -> None:
    one, other = colliding_terms()
    counts, _ = ENCODER.counted(f"{one} {other}")
    assert term_index(one) in counts
    assert len(counts) < len(set(passage_terms(ENCODER.tokenizer, f"{one} {other}")[0]))
    accept = ENCODER.holds_any([one])
    assert accept(f"about {one}")
    assert not accept(f"about {other}")


def test_the_fingerprint_is_json_that_tells_encoders_apart() -> None:
    other: Any = SparseEncoder(get_tokenizer("ascii"), 1.5, 0.75)
    assert ENCODER.fingerprint() == {"tokenizer": "unicode", "config": {}, "values": "counts"}
    assert ENCODER.fingerprint() != other.fingerprint()

"""Sparse vectors: stable places for terms, BM25 weights, and what is done about terms that share a place."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core.keyword.analysis import passage_terms
from agora_core.keyword.bm25 import bm25_term_score
from agora_core.keyword.registry import get_tokenizer
from agora_core.stores.qdrant.sparse import SparseEncoder, term_index

ENCODER = SparseEncoder(get_tokenizer("unicode"), 1.5, 0.75, 128.0)


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
def test_weights_are_bm25_without_idf(text: str) -> None:
    terms = get_tokenizer("ascii")(text)
    weights = SparseEncoder(get_tokenizer("ascii"), 1.2, 0.5, 10.0).weights(text)
    for term in set(terms):
        expected = bm25_term_score(terms.count(term), len(terms), 10.0, k1=1.2, b=0.5)
        assert weights[term_index(term)] == pytest.approx(expected)
    assert len(weights) == len(set(terms))


def test_a_text_without_terms_has_no_vector() -> None:
    assert ENCODER.documents(["", "...", "word"])[:2] == [None, None]


def test_terms_that_share_a_place_are_told_apart_on_the_text() -> None:
    one, other = colliding_terms()
    assert ENCODER.query({one: 1.0, other: 2.0}).values == [1.0]
    weights = ENCODER.weights(f"{one} {other}")
    assert term_index(one) in weights
    assert len(weights) < len(set(passage_terms(ENCODER.tokenizer, f"{one} {other}")[0]))
    accept = ENCODER.holds_any([one])
    assert accept({"text": f"about {one}"})
    assert not accept({"text": f"about {other}"})


def test_the_fingerprint_is_json_that_tells_encoders_apart() -> None:
    other: Any = SparseEncoder(get_tokenizer("ascii"), 1.5, 0.75, 128.0)
    assert ENCODER.fingerprint() == {
        "tokenizer": "unicode", "config": {}, "k1": 1.5, "b": 0.75, "average_length": 128.0,
    }  # fmt: skip
    assert ENCODER.fingerprint() != other.fingerprint()

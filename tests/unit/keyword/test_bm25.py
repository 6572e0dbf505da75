"""The BM25 formula, against itself written out and against rank-bm25 with its idf replaced."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from agora_core import ChunkRecord
from agora_core.errors import InvalidArgumentError
from agora_core.keyword import bm25_idf, bm25_score, bm25_term_score
from agora_core.retrievers import KeywordRetriever

words = st.sampled_from(["a", "b", "c", "d", "e", "f"])
corpora = st.lists(st.lists(words, min_size=1, max_size=9), min_size=1, max_size=12)


def test_the_formula_by_hand() -> None:
    assert bm25_idf(3, 1) == math.log(1 + 2.5 / 1.5)
    assert bm25_idf(3, 3) > 0
    assert bm25_term_score(2, 10, 20, k1=1.5, b=0.75) == 2 * 2.5 / (2 + 1.5 * (0.25 + 0.75 * 0.5))
    corpus = [["x", "y"], ["x"], []]
    expected = math.log(1 + 1.5 / 2.5) * 2.5 / (1 + 1.5 * (0.25 + 0.75 * 1 / 1))
    assert bm25_score(["x", "x"], ["x"], corpus) == pytest.approx(expected, rel=1e-15)


@given(corpora, st.lists(words, min_size=1, max_size=4, unique=True))
def test_equals_rank_bm25_with_its_idf_replaced(corpus: list[list[str]], query: list[str]) -> None:
    okapi = BM25Okapi(corpus, k1=1.5, b=0.75)
    okapi.idf = {word: bm25_idf(len(corpus), sum(word in text for text in corpus)) for word in okapi.idf}
    expected = okapi.get_scores(query)
    retriever = KeywordRetriever(tokenizer=str.split)
    retriever.add([ChunkRecord(str(n), " ".join(text)) for n, text in enumerate(corpus)])
    scores = {passage.id: passage.score for passage in retriever.retrieve(" ".join(query), top_k=100)}
    for number, score in enumerate(expected):
        assert scores.get(str(number), 0.0) == pytest.approx(score, rel=1e-9)
        assert bm25_score(query, corpus[number], corpus) == pytest.approx(score, rel=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k1": -0.1}, "k1 must be 0 or more, got -0.1; 1.2 to 2.0 suit most texts"),
        ({"k1": math.nan}, "k1 must be a finite number, got nan"),
        ({"k1": "1"}, "k1 must be a finite number, got '1'"),
        ({"b": 1.5}, "b must lie between 0 and 1, got 1.5; 0.75 suits most texts"),
        ({"b": True}, "b must be a finite number, got True"),
    ],
)
def test_refuses_parameters_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        KeywordRetriever(**options)
    assert str(caught.value) == message

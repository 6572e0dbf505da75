"""The metric table: scores to the last bit, relevance, cosine similarity, and MMR against LangChain's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import (
    DimensionMismatchError,
    InvalidArgumentError,
    InvalidEmbeddingError,
    cosine_similarity,
    maximal_marginal_relevance,
    relevance_score,
)
from agora_core.similarity import METRICS, check_metric, score_of_relevance
from tests.unit.exact_scores import exact_scores

numbers = st.floats(-1e6, 1e6, width=32)
metrics = st.sampled_from(list(METRICS))
any_score = st.floats(allow_nan=False)


@st.composite
def pairs(draw: Any) -> tuple[list[float], list[float]]:
    size = draw(st.integers(1, 40))
    return tuple(draw(st.lists(numbers, min_size=size, max_size=size)) for _ in range(2))


def by_hand(metric: str, x: list[float], q: list[float]) -> tuple[float, float]:
    """The score, summed without rounding, and the scale that float64 rounding goes by."""
    dot, scale = math.fsum(a * b for a, b in zip(x, q, strict=True)), math.hypot(*x) * math.hypot(*q)
    if metric == "inner":
        return dot, scale
    if metric == "l2":
        return -math.dist(x, q), math.dist(x, q)
    return (dot / scale, 1.0) if scale else (0.0, 1.0)


@given(metric=metrics, pair=pairs())
def test_scores_are_those_of_the_definition(metric: str, pair: tuple[list[float], list[float]]) -> None:
    x, q = pair
    (score,) = exact_scores(metric, np.array([x], dtype=np.float32), np.array(q, dtype=np.float32))
    expected, scale = by_hand(metric, x, q)
    assert score == pytest.approx(expected, rel=1e-12, abs=max(scale * 2e-13, 1e-300))


@given(metric=metrics, data=st.data(), rows=st.integers(1, 70), dimension=st.integers(1, 70))
def test_equal_vectors_score_bit_equal_wherever_they_stand(metric: str, data: Any, rows: int, dimension: int) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    query = rng.standard_normal(dimension).astype(np.float32)
    vector = rng.standard_normal(dimension).astype(np.float32)
    matrix = rng.standard_normal((rows, dimension)).astype(np.float32)
    places = rng.random(rows) < 0.5
    matrix[places] = vector
    scores = exact_scores(metric, matrix, query)[places]
    (alone,) = exact_scores(metric, vector[None], query)
    assert (scores == alone).all()


@given(st.lists(numbers, min_size=1, max_size=400))
def test_a_vector_is_as_similar_to_itself_as_can_be(values: list[float]) -> None:
    vector = np.array(values, dtype=np.float32)
    zero = not vector.any()
    assert exact_scores("cosine", vector[None], vector).tolist() == [0.0 if zero else 1.0]
    assert exact_scores("l2", vector[None], vector).tolist() == [0.0]
    assert not np.signbit(exact_scores("l2", vector[None], vector) + 0.0).any()


def test_scores_that_float32_holds_are_exact() -> None:
    vectors = np.array([[1, 1, 1, 1], [3, 0, 0, 0], [1, -1, 0, 0], [0, 0, 0, 0]], dtype=np.float32)
    query = np.array([7, 0, 0, 0], dtype=np.float32)
    assert exact_scores("cosine", vectors, query).tolist() == [0.5, 1.0, pytest.approx(math.sqrt(0.5)), 0.0]
    tenths = np.array([[0.1, 0.2, 0.3]], dtype=np.float32)
    across = np.array([0.3, 0.0, -0.1], dtype=np.float32)
    assert exact_scores("cosine", tenths, across).tolist() == [0.0]


@given(metric=metrics, scores=st.lists(any_score, min_size=2, max_size=2))
def test_relevance_never_falls_where_the_score_rises(metric: str, scores: list[float]) -> None:
    low, high = sorted(scores)
    assert 0.0 <= relevance_score(metric, low) <= relevance_score(metric, high) <= 1.0


@given(metric=metrics, score=st.floats(-1e6, 1e6), floor=st.floats(0.001, 1))
def test_a_relevance_floor_is_a_score_floor(metric: str, score: float, floor: float) -> None:
    reached = relevance_score(metric, score)
    if abs(reached - floor) > 1e-9:
        assert (score >= score_of_relevance(metric, floor)) is (reached >= floor)


def test_relevance_of_known_pairs() -> None:
    # Identical, orthogonal and opposite unit vectors.
    assert [relevance_score("cosine", score) for score in (1.0, 0.3, 0.0, -1.0)] == [1.0, 0.3, 0.0, 0.0]
    assert [relevance_score("inner", score) for score in (1.0, 0.3, 0.0, -1.0)] == [1.0, 0.3, 0.0, 0.0]
    assert [relevance_score("l2", score) for score in (0.0, -1.0, -3.0, -math.inf)] == [1.0, 0.5, 0.25, 0.0]
    assert relevance_score("cosine", 1.0000000000000002) == 1.0
    assert score_of_relevance("l2", 0.25) == -3.0
    assert [score_of_relevance(metric, 0.0) for metric in METRICS] == [-math.inf] * 3
    assert [score_of_relevance(metric, 1.5) for metric in METRICS] == [math.inf] * 3


def test_refusals_of_the_table() -> None:
    for call in (lambda: check_metric("dot"), lambda: relevance_score("dot", 1.0), lambda: check_metric(None)):
        with pytest.raises(InvalidArgumentError, match="metric must be one of 'cosine', 'l2', 'inner', got"):
            call()
    with pytest.raises(InvalidArgumentError, match="score is NaN"):
        relevance_score("l2", math.nan)
    with pytest.raises(InvalidArgumentError, match="relevance is NaN"):
        score_of_relevance("l2", math.nan)


@given(pairs())
def test_cosine_similarity(pair: tuple[list[float], list[float]]) -> None:
    a, b = pair
    expected, _ = by_hand("cosine", a, b)
    assert cosine_similarity(a, b) == pytest.approx(expected, abs=1e-12)
    assert cosine_similarity(a, b) == cosine_similarity(np.array(b), tuple(a))


def test_cosine_similarity_refuses_what_has_no_angle() -> None:
    with pytest.raises(DimensionMismatchError, match="a has 2 numbers and b has 3"):
        cosine_similarity([1, 0], [1, 0, 5])
    wrong: list[Any] = ["ab", [[1.0]], 3.0, [None], [[1], [1, 2]]]
    for value in wrong:
        with pytest.raises(InvalidEmbeddingError, match="b must be a flat sequence"):
            cosine_similarity([1.0], value)
    assert cosine_similarity([], []) == 0.0


@given(
    seed=st.integers(0, 2**32),
    count=st.integers(1, 40),
    top_k=st.integers(1, 50),
    lambda_mult=st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.0]),
)
def test_mmr_picks_what_langchain_picks(seed: int, count: int, top_k: int, lambda_mult: float) -> None:
    theirs = pytest.importorskip("langchain_core.vectorstores.utils").maximal_marginal_relevance
    rng = np.random.default_rng(seed)
    query, embeddings = rng.standard_normal(8), rng.standard_normal((count, 8))
    picked = maximal_marginal_relevance(query, embeddings, top_k=top_k, lambda_mult=lambda_mult)
    expected = theirs(query, embeddings.tolist(), lambda_mult=lambda_mult, k=top_k)
    # A second pick at lambda 1 or 0 may tie only by chance; with random vectors it does not.
    assert picked == [int(n) for n in expected]
    assert picked == maximal_marginal_relevance(
        query.tolist(), embeddings.tolist(), top_k=top_k, lambda_mult=lambda_mult
    )


def test_mmr_avoids_a_repeat() -> None:
    embeddings = [[1.0, 0.0], [1.0, 0.01], [0.6, 0.8]]
    assert maximal_marginal_relevance([1.0, 0.0], embeddings, top_k=2, lambda_mult=1.0) == [0, 1]
    assert maximal_marginal_relevance([1.0, 0.0], embeddings, top_k=2, lambda_mult=0.3) == [0, 2]


def test_mmr_takes_what_there_is() -> None:
    assert maximal_marginal_relevance([1.0], [], top_k=3) == []
    assert maximal_marginal_relevance([1.0], np.empty((0, 1)), top_k=3) == []
    assert maximal_marginal_relevance([1.0, 0.0], [[0.0, 0.0]] * 3, top_k=9) == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"top_k": 0}, InvalidArgumentError, "top_k must be 1 or more"),
        ({"lambda_mult": 1.5}, InvalidArgumentError, "lambda_mult must be a number from 0 to 1, got 1.5"),
        ({"lambda_mult": math.nan}, InvalidArgumentError, "lambda_mult must be"),
        ({"lambda_mult": True}, InvalidArgumentError, "lambda_mult must be"),
        ({"embeddings": [[1.0]]}, DimensionMismatchError, "embeddings have 1 numbers each where the query has 2"),
        ({"embeddings": [[1.0], [1.0, 2.0]]}, DimensionMismatchError, "must have 2 numbers each"),
        ({"embeddings": [["a", "b"]]}, InvalidEmbeddingError, "vectors of 2 numbers"),
        ({"query_embedding": "ab"}, InvalidEmbeddingError, "query_embedding must be a flat sequence"),
    ],
)
def test_mmr_refusals(options: dict[str, Any], error: type[Exception], message: str) -> None:
    arguments: dict[str, Any] = {"query_embedding": [1.0, 0.0], "embeddings": [[1.0, 0.0]], **options}
    with pytest.raises(error, match=message):
        maximal_marginal_relevance(arguments.pop("query_embedding"), arguments.pop("embeddings"), **arguments)

"""Fusion: laws of reciprocal rank fusion and of relative scores, against plain models."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import InvalidArgumentError, Passage, reciprocal_rank_fusion, relative_score_fusion
from agora_core.fusion import adaptive_fusion, adaptive_weights, fuse

scores = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 3))
passages = st.builds(
    Passage,
    id=st.sampled_from("abcdefgh"),
    text=st.sampled_from(["one", "two"]),
    score=scores,
    source=st.sampled_from([None, "s", "t"]),
    metadata=st.sampled_from([None, {}, {"k": 1}]),
)
rankings = st.lists(st.lists(passages, max_size=8), max_size=4)
weight_values = st.floats(0, 10).map(lambda value: round(value, 3))


def ranking(*ids: str, first: float = 1.0) -> list[Passage]:
    return [Passage(key, f"text {key}", first - place / 10, "list") for place, key in enumerate(ids)]


def model(lists: list[list[Passage]], k: float, weights: list[float]) -> list[tuple[str, float]]:
    """The formula as it is written, with each id's best rank in each list."""
    order: dict[str, float] = {}
    for weight, one in zip(weights, lists, strict=True):
        seen: set[str] = set()
        for rank, passage in enumerate(one, start=1):
            if passage.id not in seen:
                seen.add(passage.id)
                order[passage.id] = order.get(passage.id, 0.0) + weight / (k + rank)
    return sorted(order.items(), key=lambda item: -item[1])


@given(rankings, st.data(), st.one_of(st.integers(0, 100), st.floats(0.5, 100)))
def test_equals_the_formula(lists: list[list[Passage]], data: st.DataObject, k: float) -> None:
    if k == 0:
        k = 1
    weights = data.draw(st.lists(weight_values, min_size=len(lists), max_size=len(lists)))
    fused = reciprocal_rank_fusion(lists, k=k, weights=weights)
    assert [(passage.id, passage.score) for passage in fused] == model(lists, k, weights)


@given(rankings)
def test_takes_the_fields_of_the_first_list_and_writes_to_nothing(lists: list[list[Passage]]) -> None:
    before = [[(one.id, one.text, one.score, one.source, one.metadata) for one in row] for row in lists]
    fused = reciprocal_rank_fusion(lists)
    first: dict[str, Passage] = {}
    for passage in (one for row in lists for one in row):
        first.setdefault(passage.id, passage)
    for passage in fused:
        original = first[passage.id]
        assert type(passage) is Passage
        assert passage is not original
        assert (passage.text, passage.source, passage.metadata) == (original.text, original.source, original.metadata)
    assert [[(one.id, one.text, one.score, one.source, one.metadata) for one in row] for row in lists] == before


@given(rankings)
def test_each_id_comes_once_by_falling_score(lists: list[list[Passage]]) -> None:
    for fused in (reciprocal_rank_fusion(lists), relative_score_fusion(lists), adaptive_fusion(lists)):
        ids = [passage.id for passage in fused]
        assert len(set(ids)) == len(ids)
        assert set(ids) == {passage.id for row in lists for passage in row}
        assert [p.score for p in fused] == sorted((p.score for p in fused), reverse=True)


@given(st.lists(passages, max_size=8, unique_by=lambda passage: passage.id))
def test_one_list_keeps_its_order(one: list[Passage]) -> None:
    assert [passage.id for passage in reciprocal_rank_fusion([one])] == [passage.id for passage in one]


@given(rankings, st.floats(0.1, 10))
def test_scaling_all_weights_changes_no_order(lists: list[list[Passage]], factor: float) -> None:
    plain = reciprocal_rank_fusion(lists)
    scaled = reciprocal_rank_fusion(lists, weights=[factor] * len(lists))
    # Sums that differ by rounding only may swap.
    for one, other in zip(plain, scaled, strict=True):
        assert math.isclose(one.score * factor, other.score, rel_tol=1e-9)


def test_a_repeated_id_is_one_vote_at_its_better_rank() -> None:
    fused = reciprocal_rank_fusion([ranking("a", "b", "a"), ranking("c")])
    assert [(passage.id, passage.score) for passage in fused] == [("a", 1 / 61), ("c", 1 / 61), ("b", 1 / 62)]


def test_equal_scores_keep_first_seen_order() -> None:
    fused = reciprocal_rank_fusion([ranking("x"), ranking("y"), ranking("z")])
    assert [passage.id for passage in fused] == ["x", "y", "z"]


def test_a_weight_of_zero_keeps_the_passage() -> None:
    fused = reciprocal_rank_fusion([ranking("a"), ranking("b")], weights=[0, 1])
    assert [(passage.id, passage.score) for passage in fused] == [("b", 1 / 61), ("a", 0.0)]


def test_nothing_to_fuse() -> None:
    for way in (reciprocal_rank_fusion, relative_score_fusion, adaptive_fusion):
        assert way([]) == []
        assert way([[], []]) == []


def test_lists_may_come_from_iterators() -> None:
    fused = reciprocal_rank_fusion(iter([iter(ranking("a")), tuple(ranking("a", "b"))]))  # type: ignore[arg-type]
    assert [passage.id for passage in fused] == ["a", "b"]


@pytest.mark.parametrize("weights", [[1], [1, 1, 1], []])
def test_refuses_the_wrong_number_of_weights(weights: list[float]) -> None:
    for way in (reciprocal_rank_fusion, relative_score_fusion):
        with pytest.raises(InvalidArgumentError, match=r"weights must hold one number per list \(2\), got"):
            way([ranking("a"), ranking("b")], weights=weights)


@pytest.mark.parametrize("weight", [-1, -0.1, math.nan, math.inf, "1", True, None])
def test_refuses_a_weight_that_is_no_number_of_0_or_more(weight: Any) -> None:
    for way in (reciprocal_rank_fusion, relative_score_fusion):
        with pytest.raises(ValueError, match=r"weights\[1\] must be a finite number of 0 or more, got"):
            way([ranking("a"), ranking("b")], weights=[1, weight])


@pytest.mark.parametrize("k", [-1, math.nan, math.inf, "60", True, None])
def test_refuses_a_k_that_is_no_number_of_0_or_more(k: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="k must be a finite number of 0 or more, got"):
        reciprocal_rank_fusion([ranking("a")], k=k)


def test_refuses_passages_where_lists_belong() -> None:
    with pytest.raises(InvalidArgumentError, match=r"rankings\[0\] must be a list of passages, got Passage"):
        reciprocal_rank_fusion(ranking("a"))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        reciprocal_rank_fusion([], top_k=3)  # type: ignore[call-arg]


def test_relative_scores_are_scaled_per_list() -> None:
    dense = [Passage("a", "", 0.9), Passage("b", "", 0.8), Passage("c", "", 0.5)]
    keyword = [Passage("b", "", 12.0), Passage("d", "", 2.0)]
    fused = relative_score_fusion([dense, keyword], weights=[0.3, 0.7])
    expected = {"b": 0.3 * 0.75 + 0.7, "a": 0.3, "c": 0.0, "d": 0.0}
    assert [passage.id for passage in fused] == ["b", "a", "c", "d"]
    assert all(math.isclose(passage.score, expected[passage.id]) for passage in fused)


def test_relative_weights_are_divided_by_their_sum() -> None:
    lists = [ranking("a", "b"), ranking("b", "c")]
    assert relative_score_fusion(lists, weights=[3, 7]) == relative_score_fusion(lists, weights=[0.3, 0.7])
    assert max(passage.score for passage in relative_score_fusion([ranking("a", "b")] * 3)) <= 1.0


def test_a_list_of_equal_scores_counts_one_for_each() -> None:
    fused = relative_score_fusion([[Passage("a", "", 0.0), Passage("b", "", 0.0)], [Passage("c", "", 5.0)]])
    assert [(passage.id, passage.score) for passage in fused] == [("a", 0.5), ("b", 0.5), ("c", 0.5)]


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_relative_scores_must_be_finite(score: float) -> None:
    with pytest.raises(InvalidArgumentError, match=r"rankings\[1\] holds a score that is not finite"):
        relative_score_fusion([ranking("a"), [Passage("b", "", 1.0), Passage("c", "", score)]])
    assert len(reciprocal_rank_fusion([ranking("a"), [Passage("c", "", score)]])) == 2


@given(rankings)
def test_adaptive_weights_are_shares(lists: list[list[Passage]]) -> None:
    weights = adaptive_weights(lists)
    assert len(weights) == len(lists)
    assert all(weight >= 0 and math.isfinite(weight) for weight in weights)
    if lists:
        assert math.isclose(sum(weights), 1.0)


def test_adaptive_weights_are_squares_of_the_fall_at_the_tenth() -> None:
    """A list that is flat to its tenth passage says little, however its tail falls; a short one counts half."""
    steep = [Passage(f"s{place}", "", score) for place, score in enumerate([10.0, *[2.0] * 9, 0.0])]
    flat = [Passage(f"f{place}", "", score) for place, score in enumerate([10.0, *[8.0] * 9, 0.0])]
    short = steep[:5]
    trusts = [0.85**2, 0.25**2, 1.05**2 / 2, 0.0]
    assert adaptive_weights([steep, flat, short, []]) == pytest.approx([trust / sum(trusts) for trust in trusts])


def test_fuse_names_the_ways() -> None:
    lists = [ranking("a", "b"), ranking("b", "c")]
    assert fuse(lists) == reciprocal_rank_fusion(lists)
    assert fuse(lists, k=5, weights=[1, 2]) == reciprocal_rank_fusion(lists, k=5, weights=[1, 2])
    assert fuse(lists, fusion="relative_score", weights=[1, 2]) == relative_score_fusion(lists, weights=[1, 2])
    assert fuse(lists, fusion="adaptive") == adaptive_fusion(lists)

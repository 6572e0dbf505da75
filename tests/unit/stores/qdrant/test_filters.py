"""The compiler from expressions to Qdrant's filters, judged by the client's own evaluation of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import models
from qdrant_client.local.payload_filters import check_filter

from agora_core.errors import InvalidFilterError, UnsupportedFilterError
from agora_core.filters import Expression, all_of, any_of, field, matches_filter, not_
from agora_core.filters.expressions import And, Not, Or, condition
from agora_core.filters.operators import OPERATORS
from agora_core.stores.qdrant.filters import NO_FILTER, CompiledFilter, compile_for_qdrant
from agora_core.stores.qdrant.numbers import number_parts
from agora_core.stores.qdrant.payload import point_payload, slot_of
from tests.contract.truth_table import TOPICS, Topic, filter_of, value_of
from tests.golden_cases import GoldenCase, golden_params
from tests.unit import generated
from tests.unit.stores.qdrant.test_numbers import numbers

TOKENS = f"agora.{slot_of('k')}.t"


def selects(compiled: CompiledFilter, metadata: Any) -> bool:
    if compiled.tokens is None:
        return True
    payload = point_payload("r#0", "text", None, metadata)
    chosen = check_filter(compiled.tokens, payload, "r", {})
    assert check_filter(compiled.candidates, payload, "r", {}) is chosen
    assert check_filter(compiled.own, payload, "r", {}) is chosen
    return chosen


@given(generated.metadata, generated.filters)
def test_native_filter_says_the_same_or_selects_more(metadata: Any, filter: Any) -> None:
    compiled = compile_for_qdrant(filter)
    expected = matches_filter(metadata, filter)
    assert compiled.matches(metadata or {}) is expected
    if compiled.exact:
        assert selects(compiled, metadata) is expected
    elif expected:
        assert selects(compiled, metadata)


@given(generated.metadata, generated.filters)
def test_local_mode_judges_by_our_own_matching(metadata: Any, filter: Any) -> None:
    """Local mode loops over the values of a list for every point: 8.5 s for 1,000 values on 3,000 points."""
    compiled = compile_for_qdrant(filter, local=True)
    expected = matches_filter(metadata, filter)
    assert compiled.exact
    payload = point_payload("r#0", "text", None, metadata)
    assert selects(compiled, metadata) is expected
    assert check_filter(compiled.own, payload, "r", {}) is expected
    # Written by somebody else, or marked while it is being changed: judged by whoever reads it.
    unmarked = {key: value for key, value in payload.items() if key != "agora"}
    assert compiled.tokens is None or check_filter(compiled.candidates, unmarked, "r", {})


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.title)
def test_the_truth_table_holds_natively(topic: Topic) -> None:
    for record, filter in topic.pairs():
        metadata, condition = value_of(record), filter_of(filter)
        compiled = compile_for_qdrant(condition)
        expected = matches_filter(metadata, condition)
        if compiled.exact:
            assert selects(compiled, metadata) is expected, (record, filter)
        elif expected:
            assert selects(compiled, metadata), (record, filter)


def test_every_member_of_contains_all_is_asked_for() -> None:
    compiled = compile_for_qdrant(field("k").contains_all(["a", "b"]))
    assert selects(compiled, {"k": ["b", "c", "a"]})
    for partial in (["a"], ["b"], [], "a", [["a", "b"]]):
        assert not selects(compiled, {"k": partial})


@given(generated.filters)
def test_a_point_without_tokens_is_a_candidate_and_never_taken_unjudged(filter: Any) -> None:
    compiled = compile_for_qdrant(filter)
    stranger = {"id": "r#0", "metadata": {"k": 1}}
    assert not check_filter(compiled.own, stranger, "r", {})
    if compiled.tokens is not None:
        assert check_filter(compiled.candidates, stranger, "r", {})


def test_no_filter_and_an_empty_one_ask_for_everything() -> None:
    assert compile_for_qdrant(None) is NO_FILTER
    assert compile_for_qdrant({}) is NO_FILTER
    assert compile_for_qdrant(all_of()) is NO_FILTER


@pytest.mark.parametrize("deny", [{"k": []}, {"k": [], "t": 1}, any_of(), field("k").in_([])])
def test_a_deny_asks_nothing(deny: Any) -> None:
    assert compile_for_qdrant(deny).denies


@pytest.mark.parametrize(
    "deny",
    [{"k": []}, any_of(), not_(all_of()), And((Or(()), field("k") == 1)), Not(And(())), Or((Or(()), Not(And(()))))],
)
def test_nothing_is_said_by_a_filter_of_its_own(deny: Any) -> None:
    """Where "nothing" was told by None, as "everything" is, a deny-all scope let a replace delete every chunk."""
    compiled = compile_for_qdrant(deny)
    assert compiled.exact
    records: tuple[Any, ...] = ({}, {"k": 1}, {"k": []})
    for metadata in records:
        assert not selects(compiled, metadata)


def test_equality_is_one_token() -> None:
    assert compile_for_qdrant({"k": "a"}).tokens == models.Filter(
        must=[models.FieldCondition(key=TOKENS, match=models.MatchValue(value='="a"'))]
    )


def test_match_any_takes_the_whole_value_or_a_member() -> None:
    assert compile_for_qdrant({"k": ["a", 1]}).tokens == models.Filter(
        must=[models.FieldCondition(key=TOKENS, match=models.MatchAny(any=['="a"', "=1", '~"a"', "~1"]))]
    )


def test_a_number_range_reads_both_parts_of_the_mirror() -> None:
    compiled = compile_for_qdrant(field("k") >= 3)
    assert compiled.exact
    high, low = number_parts(3)
    place = f"agora.{slot_of('k')}.n"
    beyond = models.FieldCondition(key=f"{place}.h", range=models.Range(gt=float(high)))
    at = models.FieldCondition(key=f"{place}.h", match=models.MatchValue(value=high))
    rest = models.FieldCondition(key=f"{place}.l", range=models.Range(gte=float(low)))
    assert compiled.tokens == models.Filter(should=[beyond, models.Filter(must=[at, rest])])


@given(numbers, numbers, st.sampled_from(["<", "<=", ">", ">="]))
def test_number_ranges_are_exact_to_the_last_bit(value: float, bound: float, operator: Any) -> None:
    compared = condition(("k",), OPERATORS[operator], bound)
    compiled = compile_for_qdrant(compared)
    assert compiled.exact
    assert selects(compiled, {"k": value}) is matches_filter({"k": value}, compared)


@pytest.mark.parametrize("leaf", [field("k") < "m", field("k").matches_text("a")])
def test_what_qdrant_cannot_say_is_widened_both_ways_round(leaf: Expression) -> None:
    assert not compile_for_qdrant(leaf).exact
    assert selects(compile_for_qdrant(leaf), {"k": "zzz"})
    negated = compile_for_qdrant(not_(leaf))
    assert not negated.exact
    assert selects(negated, {})
    assert selects(negated, {"k": "a"})


def test_a_widened_branch_widens_a_disjunction() -> None:
    compiled = compile_for_qdrant(any_of({"k": 1}, not_(field("k").matches_text("a"))))
    assert selects(compiled, {"k": "b"})


def test_what_is_nested_too_deeply_for_a_server_is_judged_here() -> None:
    deep: Expression = field("k") == 1
    for n in range(30):
        deep = any_of({f"o{n}": 1}, all_of({f"a{n}": 1}, deep))
    compiled = compile_for_qdrant(deep)
    assert not compiled.exact
    assert compiled.matches({"k": 1, **{f"a{n}": 1 for n in range(30)}})
    assert not compiled.matches({"k": 2, **{f"a{n}": 1 for n in range(30)}})
    assert selects(compiled, {"k": 1, **{f"a{n}": 1 for n in range(30)}})
    assert not selects(compiled, {})
    assert compile_for_qdrant(all_of({"k": 1}, not_(any_of({"a": 1}, {"b": 2})))).exact


def test_a_condition_that_is_not_of_the_language_is_refused() -> None:
    class Odd(Expression):
        pass

    for odd in (Odd(), Not(Odd())):
        with pytest.raises(UnsupportedFilterError, match="Odd"):
            compile_for_qdrant(odd)
    with pytest.raises(InvalidFilterError):
        compile_for_qdrant({"k": object()})


# The original addresses `metadata.<key>` and lets Qdrant compare. We ask tokens instead, since its way is fail-open:
# a scalar matches a list that holds it, a dot in a key is a path, and nulls, floats and objects are refused. So the
# shape of every filter but the absent one differs, and what is compared is the meaning: which key asks for which value.
@pytest.mark.parametrize("case", golden_params("qdrant_filter"))
def test_golden_filters_mean_what_the_original_meant(case: GoldenCase) -> None:
    filter = case.input["filter"]
    if not isinstance(filter, dict):
        assert compile_for_qdrant(None).tokens is None
        return
    compiled = compile_for_qdrant(filter)
    if not filter:
        assert compiled.tokens is None
        return
    assert compiled.denies is any(value == [] for value in filter.values())
    if compiled.denies:
        return
    assert compiled.tokens is not None
    conditions = compiled.tokens.must
    assert isinstance(conditions, list)
    keys = [condition["key"].removeprefix("metadata.") for condition in case.expected["must"]]
    assert [condition.key for condition in conditions] == [f"agora.{slot_of(key)}.t" for key in keys]  # type: ignore[union-attr]
    assert selects(compiled, filter | {key: value[0] for key, value in filter.items() if isinstance(value, list)})
    for key in filter:
        assert not selects(compiled, {**filter, key: "something else"})

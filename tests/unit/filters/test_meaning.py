"""The two forms of a filter against a plain model of their own, and the traps of JSON typing one by one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from agora_core import (
    Expression,
    UnsafeRemovalError,
    all_of,
    any_of,
    assert_removal_filter,
    compile_filter,
    field,
    filter_denies_all,
    filter_to_json,
    matches_filter,
    not_,
)
from agora_core.filters.literals import canonical_json, json_equal
from tests.unit import generated as some
from tests.unit.filters.plain_model import equal, holds, mapping_holds


@given(metadata=some.metadata, filter=some.mapping_filters)
def test_the_mapping_form_means_what_the_design_says(metadata: Any, filter: dict[str, Any]) -> None:
    assert matches_filter(metadata, filter) is mapping_holds(metadata, filter)


@given(metadata=some.metadata, expression=some.expressions)
def test_expressions_mean_what_the_design_says(metadata: Any, expression: Expression) -> None:
    assert matches_filter(metadata, expression) is holds(metadata, filter_to_json(expression))


@given(metadata=some.metadata, filter=some.mapping_filters)
def test_both_forms_compile_to_one(metadata: Any, filter: dict[str, Any]) -> None:
    assert matches_filter(metadata, compile_filter(filter)) is matches_filter(metadata, filter)


@given(left=some.values, right=some.values)
def test_canonical_texts_agree_exactly_where_values_are_equal(left: Any, right: Any) -> None:
    assert json_equal(left, right) is equal(left, right)
    assert (canonical_json(left) == canonical_json(right)) is equal(left, right)


@pytest.mark.parametrize(
    ("stored", "asked", "same"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (1, "1", False),
        (True, "true", False),
        (None, "null", False),
        (None, None, True),
        (-0.0, 0, True),
        (2**53 + 1, 2.0**53, False),
        (2**63 - 1, 2.0**63, False),
        (1e300, 10**18, False),
        ("é", "e\u0301", False),
        ({"a": 1, "b": [True]}, {"b": [True], "a": 1.0}, True),
        ({"a": 1, "b": [True]}, {"b": [1], "a": 1}, False),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ({}, {}, True),
    ],
)
def test_equality_is_that_of_json(stored: Any, asked: Any, same: bool) -> None:
    assert matches_filter({"k": stored}, {"k": asked}) is same
    assert matches_filter({"k": stored}, {"k": [asked]}) is same
    assert matches_filter({"k": [stored]}, {"k": [asked]}) is same
    assert matches_filter({"k": stored}, field("k") == asked) is same
    assert matches_filter({"k": stored}, field("k").in_([asked])) is same
    assert matches_filter({"k": [stored]}, field("k").contains_any([asked])) is same
    assert matches_filter({"k": [stored]}, field("k").contains_all([asked])) is same
    assert matches_filter({"k": stored}, field("k") != asked) is not same


def test_a_list_in_the_mapping_form_is_match_any() -> None:
    assert matches_filter({"k": ["a"]}, {"k": ["a", "b"]})
    assert matches_filter({"k": ["a"]}, {"k": [["a"]]})
    assert matches_filter({"k": [["a"]]}, {"k": [["a"]]})
    assert not matches_filter({"k": ["a"]}, {"k": "a"})
    assert not matches_filter({"k": []}, {"k": []})
    assert matches_filter({"k": []}, {"k": [[]]})


def test_a_null_is_a_value_and_a_missing_key_is_none() -> None:
    assert matches_filter({"k": None}, {"k": None})
    assert not matches_filter({}, {"k": None})
    assert not matches_filter(None, {"k": None})
    assert matches_filter({"k": None}, field("k").exists() & field("k").is_null())
    assert not matches_filter({}, field("k").is_null())


@given(metadata=some.metadata)
def test_an_absent_key_satisfies_only_negations(metadata: Any) -> None:
    gone = field("not there at all")
    assert not matches_filter(metadata, gone.exists() | (gone == None) | (gone < 1) | gone.in_([None]))  # noqa: E711
    assert matches_filter(metadata, (gone != 1) & gone.not_in([1]) & not_(gone >= "a") & not_(gone.exists()))


def test_bools_and_other_types_never_compare() -> None:
    no_numbers: list[Any] = [True, None, "1", [1], {"a": 1}]
    for value in no_numbers:
        assert not matches_filter({"k": value}, (field("k") >= 0) | (field("k") < 0))
    no_strings: list[Any] = [True, None, 1, ["a"], {"a": "a"}]
    for value in no_strings:
        assert not matches_filter({"k": value}, (field("k") >= "") | (field("k") < ""))


def test_numbers_compare_exactly() -> None:
    assert matches_filter({"k": 2**53 + 1}, field("k") > 2.0**53)
    assert not matches_filter({"k": 2**53}, field("k") > 2.0**53)


def test_strings_compare_by_code_point() -> None:
    assert matches_filter({"k": "Z"}, field("k") < "a")
    # By UTF-16 units the astral character would come first.
    assert matches_filter({"k": "\uffff"}, field("k") < "\U00010000")


def test_paths_walk_objects_only() -> None:
    assert matches_filter({"a": {"b": 1}}, field("a.b") == 1)
    assert not matches_filter({"a": [{"b": 1}]}, field("a.b").exists())
    assert not matches_filter({"a.b": 1}, field("a.b").exists())
    for place in (field(r"a\.b"), field("a.b", literal=True), field(["a.b"])):
        assert matches_filter({"a.b": 1}, place == 1)
    # A key of the mapping form is no path.
    assert matches_filter({"a.b": 1}, {"a.b": 1})
    assert not matches_filter({"a": {"b": 1}}, {"a.b": 1})


def test_text_is_matched_as_it_stands() -> None:
    assert matches_filter({"k": "100%_sure"}, field("k").matches_text("%_"))
    assert not matches_filter({"k": "100 sure"}, field("k").matches_text("0.s"))
    assert matches_filter({"k": "ÉCOLE"}, field("k").matches_text("école", case_sensitive=False))
    assert not matches_filter({"k": "ÉCOLE"}, field("k").matches_text("école"))
    assert matches_filter({"k": ""}, field("k").matches_text(""))
    assert not matches_filter({"k": ["a"]}, field("k").matches_text("a"))
    # A character whose lower case is longer than one stands for itself: lengths never change.
    assert matches_filter({"k": "İ"}, field("k").matches_text("İ", case_sensitive=False))
    assert not matches_filter({"k": "İ"}, field("k").matches_text("i", case_sensitive=False))


@given(metadata=some.metadata, filter=some.filters)
def test_what_denies_all_matches_nothing(metadata: Any, filter: Any) -> None:
    if filter_denies_all(filter):
        assert not matches_filter(metadata, filter)


@given(filter=some.mapping_filters)
def test_a_mapping_denies_all_exactly_where_a_list_is_empty(filter: dict[str, Any]) -> None:
    assert filter_denies_all(filter) is any(value == [] for value in filter.values())


@given(filter=some.filters)
def test_a_removal_filter_excludes_a_record_without_metadata(filter: Any) -> None:
    if not matches_filter(None, filter):
        assert_removal_filter(filter)
        return
    with pytest.raises(UnsafeRemovalError) as raised:
        assert_removal_filter(filter)
    assert raised.value.reason == ("empty-filter" if filter == {} else "unbounded-filter")


@pytest.mark.parametrize("filter", [all_of(), not_({"k": []}), not_({"k": 1}), any_of({"k": 1}, {}), field("k") != 1])
def test_what_bounds_nothing_is_refused(filter: Any) -> None:
    with pytest.raises(UnsafeRemovalError, match="bounds nothing") as raised:
        assert_removal_filter(filter)
    assert raised.value.reason == "unbounded-filter"


def test_the_empty_forms() -> None:
    assert matches_filter(None, {})
    assert matches_filter(None, all_of())
    assert not matches_filter(None, any_of())
    assert filter_denies_all(any_of())
    assert filter_denies_all(all_of({"k": 1}, any_of()))
    assert not filter_denies_all(all_of())

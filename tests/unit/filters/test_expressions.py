"""The expression language as a thing of its own: values that combine, compare, print, travel, and refuse."""

from __future__ import annotations

import copy
import datetime as dt
import json
import pickle
from typing import Any

import pytest
from hypothesis import given

from agora_core import (
    UNSET,
    Expression,
    InvalidFilterError,
    all_of,
    any_of,
    compile_filter,
    conjoin,
    field,
    filter_from_json,
    filter_to_json,
    matches_filter,
    not_,
)
from agora_core.filters import FALSE, TRUE
from tests.unit import generated as some


def wrong(value: Any) -> Any:
    """Hide from the type checker what it would refuse too."""
    return value


@given(expression=some.expressions)
def test_they_travel_as_json(expression: Expression) -> None:
    text = json.dumps(filter_to_json(expression))
    back = filter_from_json(json.loads(text))
    assert back == expression
    assert hash(back) == hash(expression)
    assert Expression.from_json(expression.to_json()) == expression


@given(filter=some.mapping_filters)
def test_mappings_travel_as_json_too(filter: dict[str, Any]) -> None:
    assert filter_from_json(filter_to_json(filter)) == compile_filter(filter)


@given(expression=some.expressions)
def test_they_print_as_the_python_that_builds_them(expression: Expression) -> None:
    names = {"field": field, "all_of": all_of, "any_of": any_of, "not_": not_}
    assert eval(repr(expression), {"__builtins__": {}}, {**names, "True": True, "False": False}) == expression


@given(expression=some.expressions)
def test_they_survive_copy_and_pickle(expression: Expression) -> None:
    assert copy.deepcopy(expression) == expression
    assert pickle.loads(pickle.dumps(expression)) == expression


@given(left=some.expressions, right=some.expressions, metadata=some.metadata)
def test_the_laws_of_logic(left: Expression, right: Expression, metadata: Any) -> None:
    def truth(filter: Any) -> bool:
        return matches_filter(metadata, filter)

    assert truth(left & right) is (truth(left) and truth(right))
    assert truth(left | right) is (truth(left) or truth(right))
    assert truth(~left) is not truth(left)
    assert truth(not_(all_of(left, right))) is truth(any_of(not_(left), not_(right)))
    assert truth(not_(any_of(left, right))) is truth(all_of(not_(left), not_(right)))
    assert not_(not_(left)) == left
    assert all_of(left, left) == left
    assert any_of(left, left) == left
    assert all_of(left, any_of()) == FALSE
    assert any_of(left, all_of()) == TRUE
    assert all_of(left, TRUE) == left
    assert any_of(left, FALSE) == left


@given(scope=some.filters, filter=some.filters, metadata=some.metadata)
def test_a_conjunction_never_widens(scope: Any, filter: Any, metadata: Any) -> None:
    both = conjoin(scope, filter)
    assert matches_filter(metadata, both) is (matches_filter(metadata, scope) and matches_filter(metadata, filter))
    assert compile_filter(conjoin(scope, None)) == compile_filter(scope)


def test_equal_by_value_and_by_json() -> None:
    assert (field("k") == 1) == (field("k") == 1.0)
    assert hash(field("k") == 1) == hash(field("k") == 1.0)
    assert (field("k") == 1) != (field("k") == True)  # noqa: E712
    assert compile_filter({"k": 1}) == (field("k", literal=True) == 1)
    assert compile_filter({"a.b": 1}) != (field("a.b") == 1)
    assert len({field("k") == {"a": 1, "b": 2}, field("k") == {"b": 2, "a": 1}}) == 1


def test_they_are_immutable_and_copy_what_they_are_given() -> None:
    allowed = ["a"]
    expression = field("k").in_(allowed)
    mapping = {"k": {"x": [1]}}
    compiled = compile_filter(mapping)
    allowed.append("b")
    mapping["k"]["x"].append(2)
    assert not matches_filter({"k": "b"}, expression)
    assert matches_filter({"k": {"x": [1]}}, compiled)
    for target, name in ((expression, "path"), (field("k"), "path"), (TRUE, "children")):
        with pytest.raises((AttributeError, TypeError)):
            setattr(target, name, ())


def test_they_have_no_truth_value() -> None:
    # `a and b` would silently drop a condition.
    for value in (field("k") == 1, field("k"), all_of()):
        with pytest.raises(TypeError, match="truth value"):
            bool(value)


def test_dates_become_iso_strings_in_utc() -> None:
    east = dt.timezone(dt.timedelta(hours=5, minutes=30))
    moment = dt.datetime(2024, 5, 1, 15, 30, tzinfo=east)
    assert (field("at") >= moment) == (field("at") >= "2024-05-01T10:00:00+00:00")
    assert (field("on") == dt.date(2024, 5, 1)) == (field("on") == "2024-05-01")
    assert matches_filter({"at": "2024-05-01T10:00:01+00:00"}, field("at") > moment)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: field("at") >= dt.datetime(2024, 5, 1), "no time zone"),  # noqa: DTZ001
        (lambda: field("k") == UNSET, "not JSON"),
        (lambda: field("k") == float("nan"), "only finite floats"),
        (lambda: field("k") == {1: 2}, "keys must be str"),
        (lambda: field("k") == {1, 2}, "is a set"),
        (lambda: field("k") == "a\x00", r"U\+0000"),
        (lambda: field("k") == "\ud800", "lone surrogate"),
        (lambda: field("k") == 2**63, "signed 64 bits"),
        (lambda: field("k") == (field("k") == 1), "compared with a value"),
        (lambda: field("k") > True, "compares numbers and strings"),
        (lambda: field("k") > None, "compares numbers and strings"),
        (lambda: field("k") <= [1], "compares numbers and strings"),
        (lambda: field("k").in_("abc"), "list of values"),
        (lambda: field("k").in_({"a": 1}), "list of values"),
        (lambda: field("k").contains_any(wrong(3)), "list of values"),
        (lambda: field("k").matches_text(wrong(3)), "takes a str"),
        (lambda: field("k").matches_text("a", case_sensitive=wrong(1)), "must be a bool"),
        (lambda: field("a\\"), "lone backslash"),
        (lambda: field([]), "non-empty list"),
        (lambda: field(wrong(3)), "takes a str"),
        (lambda: field(["a"] * 65), "at most 64"),
        (lambda: all_of(wrong(field("k"))), "no condition"),
        (lambda: all_of(wrong(None)), "must be a mapping or an expression"),
        (lambda: not_(wrong("k")), "must be a mapping or an expression"),
        (lambda: compile_filter(wrong([("k", 1)])), "must be a mapping or an expression"),
        (lambda: compile_filter(wrong({1: 2})), "keys must be str"),
        (lambda: compile_filter({"k": UNSET}), "not JSON"),
        (lambda: compile_filter({"k": [UNSET]}), "not JSON"),
        (lambda: compile_filter({"k": field("k") == 1}), "combine it with all_of"),
        (lambda: compile_filter({"k\x00": 1}), r"U\+0000"),
        (lambda: filter_from_json({"field": ["k"], "op": "~", "value": 1}), "unknown operator"),
        (lambda: filter_from_json({"field": ["k"], "op": "=="}), "needs a value"),
        (lambda: filter_from_json({"all_of": {}}), "holds a list"),
        (lambda: filter_from_json({"all_of": [], "any_of": []}), "has the keys"),
        (lambda: filter_from_json([]), "is an object"),
        (lambda: filter_from_json({"field": ["k"], "op": "==", "value": 1, "case_sensitive": True}), "case_sensitive"),
    ],
)
def test_refusals(build: Any, message: str) -> None:
    with pytest.raises(InvalidFilterError, match=message):
        build()


def test_depth_is_bounded() -> None:
    expression: Any = field("k") == 1
    for n in range(31):
        expression = any_of(all_of(expression, field("k") == n), field("j") == n)
    deeper = all_of(expression, field("k") == 99)
    with pytest.raises(InvalidFilterError, match="64 levels"):
        any_of(deeper, field("j") == 99)


def test_no_values_is_the_deny() -> None:
    assert field("k").in_([]) == FALSE
    assert field("k").contains_any([]) == FALSE
    assert compile_filter({"k": []}) == FALSE
    assert field("k").not_in([]) == TRUE
    assert matches_filter({"k": []}, field("k").contains_all([]))
    assert not matches_filter({"k": "a"}, field("k").contains_all([]))


def test_between_includes_both_ends() -> None:
    for value, inside in ((1, True), (3, True), (0, False), (4, False), ("2", False)):
        assert matches_filter({"k": value}, field("k").between(1, 3)) is inside


@pytest.mark.parametrize("compound", [[1, "a"], {"x": [None, 2.0]}])
def test_either_of_many_equalities_holds(compound: Any) -> None:
    values: list[Any] = [1, "a", None, True, compound]
    either = any_of(*(field("k") == value for value in values), field("o") == 7, field("l").contains_any(["x"]))
    for value in [*values, 1.0]:
        assert matches_filter({"k": value}, either), value
    assert matches_filter({"o": 7}, either)
    assert matches_filter({"l": ["x"]}, either)
    for other in ({}, {"k": 2}, {"k": "1"}, {"k": False}, {"k": 7}, {"k": [1]}, {"o": 1}, {"o": None}, {"l": ["y"]}):
        assert not matches_filter(other, either), other

"""The operator dict means what its table says, and nothing in a filter is ever skipped."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import UNSET, InvalidFilterError, all_of, any_of, compile_filter, field, matches_filter, not_
from langchain_agora import to_core_filter

YEAR, ACL = field("year"), field("acl")

TABLE: list[tuple[Any, Any]] = [
    ({"year": {"$eq": 2020}}, YEAR == 2020),
    ({"year": {"$ne": 2020}}, YEAR != 2020),
    ({"year": {"$lt": 2020}}, YEAR < 2020),
    ({"year": {"$lte": 2020}}, YEAR <= 2020),
    ({"year": {"$gt": 2020}}, YEAR > 2020),
    ({"year": {"$gte": 2020}}, YEAR >= 2020),
    ({"year": {"$in": [2019, 2020]}}, YEAR.in_([2019, 2020])),
    ({"year": {"$in": (2019, 2020)}}, YEAR.in_([2019, 2020])),
    ({"year": {"$nin": [2019, 2020]}}, YEAR.not_in([2019, 2020])),
    ({"year": {"$between": [2019, 2020]}}, YEAR.between(2019, 2020)),
    ({"year": {"$exists": True}}, YEAR.exists()),
    ({"year": {"$exists": False}}, not_(YEAR.exists())),
    ({"year": {"$not": {"$gt": 2020}}}, not_(YEAR > 2020)),
    ({"year": {"$gte": 2019, "$lt": 2021}}, all_of(YEAR >= 2019, YEAR < 2021)),
    ({"acl": {"$eq": ["a", "b"]}}, ACL == ["a", "b"]),
    ({"acl": {"$eq": None}}, ACL.is_null()),
    ({"year": {"$eq": 2020}, "acl": ["a", "b"]}, all_of(YEAR == 2020, ACL.matches_any(["a", "b"]))),
    ({"$and": [{"year": 2020}, {"acl": {"$in": ["a"]}}]}, all_of(YEAR == 2020, ACL.in_(["a"]))),
    ({"$or": [{"year": {"$lt": 1}}, {"acl": ["a"]}]}, any_of(YEAR < 1, ACL.matches_any(["a"]))),
    ({"$or": [YEAR < 1, {"year": {"$gt": 2}}]}, any_of(YEAR < 1, YEAR > 2)),
    ({"$not": {"year": 2020}}, not_({"year": 2020})),
    ({"$not": [{"year": 1}, {"year": 2}]}, all_of(YEAR != 1, YEAR != 2)),
    ({"$not": {"year": 1, "acl": "a"}}, not_(all_of(YEAR == 1, ACL == "a"))),
    ({"$and": [{"$or": [{"year": 1}, {"year": 2}]}], "acl": "a"}, all_of(any_of(YEAR == 1, YEAR == 2), ACL == "a")),
    ({"a.b": {"$eq": 1}}, field("a.b", literal=True) == 1),
    ({"author": {"$eq": {"name": "x"}}}, field("author") == {"name": "x"}),
    ({"acl": {"$in": []}}, any_of()),
    ({"acl": {"$nin": []}}, all_of()),
]


@pytest.mark.parametrize(("written", "meant"), TABLE, ids=[str(written) for written, _ in TABLE])
def test_the_operator_dict_is_the_expression(written: Any, meant: Any) -> None:
    assert to_core_filter(written) == meant


@pytest.mark.parametrize("filter", [{}, {"a": 1}, {"a": ["x"]}, {"a": {}}, {"a": {"b": {"c": 1}}}, {"a": None}])
def test_the_mapping_of_the_core_passes_as_a_copy(filter: Any) -> None:
    passed = to_core_filter(filter)
    assert passed == filter
    assert type(passed) is dict
    assert passed is not filter


def test_an_expression_passes_as_it_is() -> None:
    expression = YEAR > 2020
    assert to_core_filter(expression) is expression


REFUSED: list[tuple[Any, str]] = [
    ({"year": {"$gte2": 1}}, r"unknown operator '\$gte2'.*\$eq, \$ne, \$lt, \$lte, \$gt, \$gte, \$in, \$nin"),
    ({"$nor": [{"a": 1}]}, r"unknown operator '\$nor'.*around filters \$and, \$or, \$not"),
    ({"a": {"$like": "x%"}}, r"unknown operator '\$like'.*matches_text"),
    ({"a": {"$ilike": "x%"}}, r"matches_text\(text, case_sensitive=False\)"),
    ({"$eq": 1}, r"\$eq stands on a field"),
    ({"a": {"$eq": 1, "plain": 2}}, r"filter\['a'\] mixes operators with the plain key 'plain'"),
    ({"a": {"b": {"$eq": 1}}}, r"holds the operator '\$eq' inside an object"),
    ({"a": [{"$gt": 1}]}, r"holds the operator '\$gt' inside an object"),
    ({"a": {"$in": "abc"}}, r"\$in takes a list of values, got str"),
    ({"a": {"$nin": 1}}, r"\$nin takes a list of values, got int"),
    ({"a": {"$between": [1]}}, r"\$between takes a list of two values"),
    ({"a": {"$between": 1}}, r"\$between takes a list of two values, low and high, got int"),
    ({"a": {"$exists": 1}}, r"\$exists takes True or False, got int"),
    ({"a": {"$gt": None}}, "compares numbers and strings"),
    ({"a": {"$gt": True}}, "compares numbers and strings"),
    ({"a": {"$not": 1}}, r"\$not on a field takes operators"),
    ({"$and": []}, r"\$and takes a non-empty list of filters, got an empty list"),
    ({"$or": []}, r"\$or takes a non-empty list"),
    ({"$and": {"a": 1}}, r"\$and takes a non-empty list of filters, got dict"),
    ({"$or": [{"a": 1}, None]}, "filter must be a mapping or an expression, got NoneType"),
    ({"$not": None}, "filter must be a mapping or an expression"),
    ({"a": {"$eq": UNSET}}, "Unset, which is not JSON"),
    ({"a": {"$in": [object()]}}, "object"),
    ({"a": UNSET, "b": {"$eq": 1}}, "Unset"),
    ({"a": UNSET}, r"filter\['a'\]"),
    ({1: "a"}, "filter keys must be str"),
    (lambda document: True, "filter must be a mapping or an expression, got function"),
    ([{"a": 1}], "filter must be a mapping or an expression, got list"),
    ("tenant = 'a'", "filter must be a mapping or an expression, got str"),
]


@pytest.mark.parametrize(("filter", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_translated_is_refused(filter: Any, message: str) -> None:
    with pytest.raises(InvalidFilterError, match=message):
        to_core_filter(filter)


def test_a_metadata_key_that_looks_like_an_operator_is_reached_literally() -> None:
    with pytest.raises(InvalidFilterError, match=r"write field\('\$ref', literal=True\)"):
        to_core_filter({"$ref": 1})
    assert matches_filter({"$ref": 1}, field("$ref", literal=True) == 1)


VALUES = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["a", "b"]) | st.just(["a"])
METADATA = st.dictionaries(st.sampled_from(["x", "y"]), VALUES)
ATOMS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["a", "b"])
FIELD_OPERATORS = (
    st.tuples(st.sampled_from(["$eq", "$ne"]), VALUES)
    | st.tuples(st.sampled_from(["$lt", "$lte", "$gt", "$gte"]), st.integers(-2, 2) | st.sampled_from(["a", "b"]))
    | st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(ATOMS, max_size=2))
    | st.tuples(st.just("$exists"), st.booleans())
)
LEAVES = st.tuples(st.sampled_from(["x", "y"]), FIELD_OPERATORS).map(lambda leaf: {leaf[0]: dict([leaf[1]])})
FILTERS = st.recursive(
    LEAVES,
    lambda inner: (
        st.tuples(st.sampled_from(["$and", "$or"]), st.lists(inner, min_size=1, max_size=3)).map(
            lambda pair: dict([pair])
        )
        | inner.map(lambda condition: {"$not": condition})
    ),
    max_leaves=6,
)


def json_equal(left: Any, right: Any) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def plainly(metadata: dict[str, Any], filter: dict[str, Any]) -> bool:
    """Answer an operator dict in the most direct way there is."""
    ((key, value),) = filter.items()
    if key == "$and":
        return all(plainly(metadata, each) for each in value)
    if key == "$or":
        return any(plainly(metadata, each) for each in value)
    if key == "$not":
        return not plainly(metadata, value)
    operator: str
    bound: Any
    ((operator, bound),) = value.items()
    there = key in metadata
    stored: Any = metadata.get(key)
    if operator == "$exists":
        return there is bound
    if operator in ("$ne", "$nin"):
        return not plainly(metadata, {key: {"$eq" if operator == "$ne" else "$in": bound}})
    if operator == "$eq":
        return there and json_equal(stored, bound)
    if operator == "$in":
        return there and any(json_equal(stored, each) for each in bound)
    if not there or isinstance(stored, bool) or type(stored) is not type(bound):
        return False
    order: int = (stored > bound) - (stored < bound)
    return {"$lt": order < 0, "$lte": order <= 0, "$gt": order > 0, "$gte": order >= 0}[operator]


@given(METADATA, FILTERS)
def test_it_answers_as_a_plain_reading_does(metadata: dict[str, Any], filter: dict[str, Any]) -> None:
    assert matches_filter(metadata, to_core_filter(filter)) == plainly(metadata, filter)


@given(METADATA, st.dictionaries(st.sampled_from(["x", "y"]), VALUES))
def test_the_mapping_means_what_it_means_in_the_core(metadata: dict[str, Any], filter: dict[str, Any]) -> None:
    assert compile_filter(to_core_filter(filter)) == compile_filter(filter)

"""What a filter means: the reference that every backend is held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agora_core.errors import UnsafeRemovalError, UnsupportedFilterError
from agora_core.filters.build import compile_filter
from agora_core.filters.expressions import (
    FALSE,
    TRUE,
    And,
    Compare,
    ContainsAll,
    ContainsAny,
    Equals,
    Exists,
    Expression,
    IsOneOf,
    Leaf,
    MatchesAny,
    MatchesText,
    Not,
    Or,
    Path,
)
from agora_core.filters.literals import LiteralSet, json_equal, json_type
from agora_core.filters.text import fold_case
from agora_core.protocols import AnyFilter
from agora_core.records import JSON, Metadata

Predicate = Callable[[Mapping[str, JSON]], bool]


class _Missing:
    """The type of `MISSING`."""


MISSING = _Missing()
"""What `value_at` gives where the path leads nowhere."""


def value_at(metadata: Mapping[str, JSON], path: Path) -> Any:
    """Return the value at `path`, walking objects only, or `MISSING`."""
    value: Any = metadata
    for segment in path:
        if not isinstance(value, Mapping) or segment not in value:
            return MISSING
        value = value[segment]
    return value


def value_predicate(leaf: Leaf) -> Callable[[Any], bool]:
    """Return the test of a leaf as a function of the value at its path, which is not missing."""
    if isinstance(leaf, Equals):
        expected = leaf.literal.value
        return lambda value: json_equal(value, expected)
    if isinstance(leaf, Exists):
        return lambda value: True
    if isinstance(leaf, IsOneOf):
        return LiteralSet(leaf.literals).__contains__
    if isinstance(leaf, MatchesAny):
        among = LiteralSet(leaf.literals)
        return lambda value: value in among or (isinstance(value, (list, tuple)) and any(v in among for v in value))
    if isinstance(leaf, ContainsAny):
        listed = LiteralSet(leaf.literals)
        return lambda value: isinstance(value, (list, tuple)) and any(v in listed for v in value)
    if isinstance(leaf, ContainsAll):
        wanted = [literal.value for literal in leaf.literals]
        return lambda value: (
            isinstance(value, (list, tuple)) and all(any(json_equal(v, want) for v in value) for want in wanted)
        )
    if isinstance(leaf, Compare):
        return _comparison(leaf)
    if isinstance(leaf, MatchesText):
        text = leaf.text
        if leaf.case_sensitive:
            return lambda value: isinstance(value, str) and text in value
        return lambda value: isinstance(value, str) and text in fold_case(value)
    raise UnsupportedFilterError(f"{type(leaf).__name__} is no condition of the filter language")


def _comparison(leaf: Compare) -> Callable[[Any], bool]:
    kind, bound, operator = leaf.literal.type, leaf.literal.value, leaf.operator
    if operator == "<":
        return lambda value: json_type(value) == kind and value < bound
    if operator == "<=":
        return lambda value: json_type(value) == kind and value <= bound
    if operator == ">":
        return lambda value: json_type(value) == kind and value > bound
    return lambda value: json_type(value) == kind and value >= bound


def predicate(expression: Expression) -> Predicate:
    """Return `expression` as a function of metadata, for use over many records."""
    if isinstance(expression, And):
        every = [predicate(child) for child in expression.children]
        return lambda metadata: all(test(metadata) for test in every)
    if isinstance(expression, Or):
        some = [predicate(child) for child in expression.children]
        return lambda metadata: any(test(metadata) for test in some)
    if isinstance(expression, Not):
        inner = predicate(expression.child)
        return lambda metadata: not inner(metadata)
    if not isinstance(expression, Leaf):
        raise UnsupportedFilterError(f"{type(expression).__name__} is no condition of the filter language")
    test, path = value_predicate(expression), expression.path

    def holds(metadata: Mapping[str, JSON]) -> bool:
        value = value_at(metadata, path)
        return value is not MISSING and test(value)

    return holds


def matches_filter(metadata: Metadata | None, filter: AnyFilter) -> bool:
    """Say whether a record with `metadata` (None is `{}`) matches `filter`, a mapping or an expression.

    Raises:
        InvalidFilterError: the filter is neither, or holds a value that is not JSON.
    """
    return predicate(compile_filter(filter))(metadata or {})


def filter_denies_all(filter: AnyFilter) -> bool:
    """Say whether `filter` matches nothing whatever the record: an empty list value, `any_of()`, and what holds them.

    Raises:
        InvalidFilterError: the filter is neither a mapping nor an expression, or holds a value that is not JSON.
    """
    return compile_filter(filter) == FALSE


def assert_removal_filter(filter: AnyFilter) -> None:
    """Refuse a filter that does not bound a removal.

    Raises:
        UnsafeRemovalError: `reason="empty-filter"` for a mapping without keys, `reason="unbounded-filter"` for an
            expression that a record without metadata satisfies.
        InvalidFilterError: the filter is neither a mapping nor an expression, or holds a value that is not JSON.
    """
    removal_filter(filter)


def removal_filter(filter: AnyFilter) -> Expression:
    """Return the internal form of a filter that bounds a removal; it is read once, so what was judged is what removes.

    Raises:
        UnsafeRemovalError, InvalidFilterError: as `assert_removal_filter`.
    """
    expression = compile_filter(filter)
    if expression == TRUE or predicate(expression)({}):
        # Of mappings only one without keys gets here.
        raise UnsafeRemovalError(reason="empty-filter" if isinstance(filter, Mapping) else "unbounded-filter")
    return expression

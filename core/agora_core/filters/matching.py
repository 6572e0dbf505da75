"""What a filter means: the reference that every backend is held against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from agora_core.errors import UnsafeRemovalError, UnsupportedFilterError
from agora_core.filters.expressions import FALSE, TRUE, And, AnyFilter, Expression, Leaf, Not, Or, compile_filter
from agora_core.filters.literals import Literals
from agora_core.filters.operators import EQUALS, IN
from agora_core.filters.paths import MISSING, Path, value_at
from agora_core.records import JSON, Metadata

Predicate = Callable[[Mapping[str, JSON]], bool]


def predicate(expression: Expression) -> Predicate:
    """Return `expression` as a function of metadata, for use over many records."""
    if isinstance(expression, And):
        every = [predicate(child) for child in expression.children]
        return lambda metadata: all(test(metadata) for test in every)
    if isinstance(expression, Or):
        some = [predicate(child) for child in _equalities_as_lists(expression.children)]
        return lambda metadata: any(test(metadata) for test in some)
    if isinstance(expression, Not):
        inner = predicate(expression.child)
        return lambda metadata: not inner(metadata)
    if not isinstance(expression, Leaf):
        raise UnsupportedFilterError(f"{type(expression).__name__} is not a condition of the filter language")
    test, path = expression.operator.holds(expression.operand), expression.path

    def holds(metadata: Mapping[str, JSON]) -> bool:
        value = value_at(metadata, path)
        return value is not MISSING and test(value)

    return holds


def _equalities_as_lists(children: Iterable[Expression]) -> list[Expression]:
    # A value is looked up among many once, instead of being compared with each.
    values: dict[Path, list[JSON]] = {}
    rest: list[Expression] = []
    for child in children:
        if isinstance(child, Leaf) and child.operator is EQUALS:
            values.setdefault(child.path, []).append(child.operand.value)
        else:
            rest.append(child)
    return [Leaf(path, IN, Literals(found)) for path, found in values.items()] + rest


def matches_filter(metadata: Metadata | None, filter: AnyFilter) -> bool:
    """Say whether a record with `metadata` (None is `{}`) matches `filter`, a mapping or an expression.

    Raises:
        InvalidFilterError: the filter is neither, or holds a value that is not JSON.

    Examples:
        >>> matches_filter({"n": 1}, {"n": 1.0}), matches_filter({"n": 1}, {"n": True})
        (True, False)
    """
    return predicate(compile_filter(filter))(metadata or {})


def filter_denies_all(filter: AnyFilter) -> bool:
    """Say whether `filter` matches nothing whatever the record: an empty list value, `any_of()`, and what holds them.

    Raises:
        InvalidFilterError: the filter is neither a mapping nor an expression, or holds a value that is not JSON.

    Examples:
        >>> filter_denies_all({"acl": []}), filter_denies_all({})
        (True, False)
    """
    return compile_filter(filter) == FALSE


def assert_removal_filter(filter: AnyFilter) -> None:
    """Refuse a filter that does not bound a removal.

    Raises:
        UnsafeRemovalError: `reason="empty-filter"` for a mapping without keys, `reason="unbounded-filter"` for an
            expression that a record without metadata satisfies.
        InvalidFilterError: the filter is neither a mapping nor an expression, or holds a value that is not JSON.

    Examples:
        >>> assert_removal_filter({"acl": ["board"]})
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

"""Their `MetadataFilters` as filters of the core. An adapter translates: every meaning is that of the core.

The answers are those of their own reference function, with these exceptions, each where the reference crashes or takes
a string for a list:

* ANY, ALL and CONTAINS look into lists only; the reference finds substrings in a string, and crashes on a number.
* GT, GTE, LT and LTE between a number and a string are false; the reference crashes.
* TEXT_MATCH on a value that is no string is false; the reference crashes.
* TEXT_MATCH_INSENSITIVE folds each character on its own; the reference lower-cases whole texts.
* A bool is no number: EQ 1 does not match True; in Python it does.
* A stored null is missing to the reference; here NE None and NIN [None] do not match it, and EQ None does.
* Groups may be nested; the reference refuses them.
* OR over no filters matches nothing; to the reference it restricts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, TypeVar

from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

from agora_core.errors import InvalidFilterError, UnsafeRemovalError
from agora_core.filters import Expression, Field, all_of, any_of, field, frozen_filter, not_
from agora_core.protocols import AnyFilter

EnumT = TypeVar("EnumT", bound=Enum)

Filters = MetadataFilters | AnyFilter
"""What a `filters` argument takes: theirs, our mapping, or an expression."""


def _is_empty(place: Field, value: Any) -> Expression:
    return any_of(not_(place.exists()), place.in_([None, "", []]))


_OPERATORS: Final[dict[FilterOperator, Callable[[Field, Any], Expression]]] = {
    FilterOperator.EQ: lambda place, value: place == value,
    FilterOperator.NE: lambda place, value: place != value,
    FilterOperator.GT: lambda place, value: place > value,
    FilterOperator.GTE: lambda place, value: place >= value,
    FilterOperator.LT: lambda place, value: place < value,
    FilterOperator.LTE: lambda place, value: place <= value,
    FilterOperator.IN: lambda place, value: place.in_(value),
    FilterOperator.NIN: lambda place, value: place.not_in(value),
    FilterOperator.ANY: lambda place, value: place.contains_any(value),
    FilterOperator.ALL: lambda place, value: place.contains_all(value),
    FilterOperator.CONTAINS: lambda place, value: place.contains_any([value]),
    FilterOperator.TEXT_MATCH: lambda place, value: place.matches_text(value),
    FilterOperator.TEXT_MATCH_INSENSITIVE: lambda place, value: place.matches_text(value, case_sensitive=False),
    FilterOperator.IS_EMPTY: _is_empty,
}


def member(kind: type[EnumT], value: Any) -> EnumT | None:
    """Return the member of an enum that has this value, None where none has.

    Their models let plain strings through, which are equal to the members and are not found beside them.
    """
    try:
        return kind(value)
    except ValueError:
        return None


def _none_of(*conditions: AnyFilter) -> Expression:
    return not_(any_of(*conditions))


_CONDITIONS: Final[dict[FilterCondition, Callable[..., Expression]]] = {
    FilterCondition.AND: all_of,
    FilterCondition.OR: any_of,
    FilterCondition.NOT: _none_of,
}


def to_core_filter(filters: Filters) -> AnyFilter:
    """Translate filters; ours pass as they are, copied, so that their giver can no longer change them.

    A key is literal, dots included. A group without filters means what its condition says of nothing: OR matches
    nothing (who has no right sees nothing), AND and NOT restrict nothing.

    Raises:
        InvalidFilterError: an operator or condition is unknown, or a value does not suit its operator.

    Examples:
        >>> theirs = MetadataFilters(filters=[MetadataFilter(key="year", value=2020, operator=FilterOperator.GTE)])
        >>> to_core_filter(theirs) == (field("year") >= 2020)
        True
    """
    if isinstance(filters, (Mapping, Expression)):
        return frozen_filter(filters)
    if isinstance(filters, MetadataFilters):
        return _group(filters)
    raise InvalidFilterError(
        f"filters must be MetadataFilters, a mapping or an expression, got {type(filters).__name__}"
    )


def to_removal_filter(filters: Filters) -> AnyFilter:
    """Translate filters of a removal.

    Raises:
        UnsafeRemovalError: there is nothing in them.
        InvalidFilterError: as `to_core_filter`.
    """
    if isinstance(filters, MetadataFilters) and not filters.filters:
        raise UnsafeRemovalError(reason="empty-filter")
    return to_core_filter(filters)


def _group(group: MetadataFilters) -> Expression:
    condition = FilterCondition.AND if group.condition is None else member(FilterCondition, group.condition)
    if condition not in _CONDITIONS:
        known = ", ".join(item.name for item in _CONDITIONS)
        raise InvalidFilterError(f"the condition {group.condition!r} is not supported; supported are {known}")
    return _CONDITIONS[condition](*map(_translate, group.filters))


def _translate(item: MetadataFilter | MetadataFilters) -> Expression:
    if isinstance(item, MetadataFilters):
        if not item.filters:
            # Taken for "everything" it would cancel the conditions beside it in an OR.
            raise InvalidFilterError("a group inside another has no filters; leave it out, or give it some")
        return _group(item)
    operation = member(FilterOperator, item.operator)
    if operation not in _OPERATORS:
        known = ", ".join(operator.name for operator in _OPERATORS)
        raise InvalidFilterError(f"the operator {item.operator!r} is not supported; supported are {known}")
    return _OPERATORS[operation](field([item.key]), item.value)

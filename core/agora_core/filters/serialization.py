"""Filters as plain JSON, so that they can travel, be stored and be logged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from agora_core.errors import InvalidFilterError
from agora_core.filters.build import Field, all_of, any_of, compile_filter, field, not_
from agora_core.filters.expressions import (
    MAX_DEPTH,
    And,
    Compare,
    ContainsAll,
    ContainsAny,
    Equals,
    Exists,
    Expression,
    IsOneOf,
    MatchesAny,
    MatchesText,
    Not,
    Or,
)
from agora_core.protocols import AnyFilter

_LISTS: Final = {
    MatchesAny: "matches_any",
    IsOneOf: "in",
    ContainsAny: "contains_any",
    ContainsAll: "contains_all",
}


def filter_to_json(filter: AnyFilter) -> dict[str, Any]:
    """Return any filter as plain JSON; `filter_from_json` gives an equal expression back."""
    node = compile_filter(filter)
    if isinstance(node, And):
        return {"all_of": [filter_to_json(child) for child in node.children]}
    if isinstance(node, Or):
        return {"any_of": [filter_to_json(child) for child in node.children]}
    if isinstance(node, Not):
        return {"not": filter_to_json(node.child)}
    if isinstance(node, Equals):
        return {"field": list(node.path), "op": "==", "value": node.literal.value}
    if isinstance(node, Compare):
        return {"field": list(node.path), "op": node.operator, "value": node.literal.value}
    if isinstance(node, Exists):
        return {"field": list(node.path), "op": "exists"}
    if isinstance(node, MatchesText):
        data = {"field": list(node.path), "op": "matches_text", "value": node.text}
        return data if node.case_sensitive else {**data, "case_sensitive": False}
    if isinstance(node, (MatchesAny, IsOneOf, ContainsAny, ContainsAll)):
        values = [literal.value for literal in node.literals]
        return {"field": list(node.path), "op": _LISTS[type(node)], "value": values}
    raise InvalidFilterError(f"{type(node).__name__} is no condition of the filter language")


def filter_from_json(data: Any) -> Expression:
    """Return the expression that `filter_to_json` wrote.

    Raises:
        InvalidFilterError: the data is not the JSON of a filter; nothing unknown is skipped.
    """
    return _read(data, MAX_DEPTH)


def _read(data: Any, levels: int) -> Expression:
    if levels < 1:
        raise InvalidFilterError(f"the JSON of a filter is nested at most {MAX_DEPTH} levels deep; flatten it")
    if not isinstance(data, Mapping):
        raise InvalidFilterError(f"the JSON of a filter is an object, got {type(data).__name__}")
    keys = set(data)
    if keys == {"all_of"} or keys == {"any_of"}:
        (name,) = keys
        if not isinstance(data[name], (list, tuple)):
            raise InvalidFilterError(f"{name} holds a list, got {type(data[name]).__name__}")
        combine = all_of if name == "all_of" else any_of
        return combine(*(_read(child, levels - 1) for child in data[name]))
    if keys == {"not"}:
        return not_(_read(data["not"], levels - 1))
    if not {"field", "op"} <= keys <= {"field", "op", "value", "case_sensitive"}:
        raise InvalidFilterError(
            f"the JSON of a filter has the keys {sorted(map(str, keys))}; "
            "expected all_of, any_of, not, or field with op and value"
        )
    return _leaf(data)


def _leaf(data: Mapping[str, Any]) -> Expression:
    place: Field = field(data["field"])
    op = data["op"]
    if "case_sensitive" in data and op != "matches_text":
        raise InvalidFilterError(f"the operator {op!r} takes no case_sensitive")
    if op == "exists" and "value" not in data:
        return place.exists()
    if "value" not in data:
        raise InvalidFilterError(f"the operator {op!r} needs a value")
    value = data["value"]
    if op == "matches_text":
        return place.matches_text(value, case_sensitive=data.get("case_sensitive", True))
    operators: dict[str, Callable[[Any], Expression]] = {
        "==": place.__eq__,
        "<": place.__lt__,
        "<=": place.__le__,
        ">": place.__gt__,
        ">=": place.__ge__,
        "in": place.in_,
        "matches_any": place.matches_any,
        "contains_any": place.contains_any,
        "contains_all": place.contains_all,
    }
    if not isinstance(op, str) or op not in operators:
        raise InvalidFilterError(f"unknown operator {op!r}; known are exists, matches_text, {', '.join(operators)}")
    return operators[op](value)

"""The operators of other systems' filters, which a mapping filter refuses: what it holds is data, never syntax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from agora_core.errors import InvalidFilterError
from agora_core.metadata import MAX_DEPTH, plain_text

_COMBINING: Final = frozenset(("$and", "$or", "$not", "$nor"))
# The operators of LangChain's filters, and what says the same here.
_INSTEAD: Final = {
    "$eq": "field(key) == value",
    "$ne": "field(key) != value",
    "$lt": "field(key) < value",
    "$lte": "field(key) <= value",
    "$gt": "field(key) > value",
    "$gte": "field(key) >= value",
    "$in": "field(key).in_([...])",
    "$nin": "field(key).not_in([...])",
    "$between": "field(key).between(low, high)",
    "$exists": "field(key).exists()",
    "$like": "field(key).matches_text(text)",
    "$ilike": "field(key).matches_text(text, case_sensitive=False)",
    "$regex": "field(key).matches_text(text)",
    "$contains": "field(key).contains_any([...])",
    "$not_contains": "not_(field(key).contains_any([...]))",
    "$all": "field(key).contains_all([...])",
    "$and": "all_of(...)",
    "$or": "any_of(...)",
    "$not": "not_(...)",
    "$nor": "not_(any_of(...))",
}


def refuse_operators(key: str, value: Any, where: str) -> None:
    """Refuse operators in a value, at any depth: compared as data they match nothing, and everything where negated.

    Raises:
        InvalidFilterError: the value holds an object that is not empty and whose keys are all such operators.
    """
    if type(value) is str or (isinstance(value, (list, tuple)) and all(type(item) is str for item in value)):
        return
    # Down to a depth, for a value may hold itself; what is deeper is refused as a value.
    pending: list[tuple[Any, int]] = [({key: value} if key in _COMBINING else value, 0)]
    while pending:
        inner, depth = pending.pop()
        if depth > MAX_DEPTH:
            continue
        if isinstance(inner, Mapping):
            names = list(inner)
            if names and all(isinstance(name, str) and plain_text(name) in _INSTEAD for name in names):
                raise InvalidFilterError(
                    f"{where} holds the operator {names[0]!r} inside an object, and a mapping filter has none: "
                    f"write {_INSTEAD[plain_text(names[0])]}; field({key!r}, literal=True) == {{...}} compares with "
                    "such an object"
                )
            pending += [(item, depth + 1) for item in inner.values()]
        elif isinstance(inner, (list, tuple)):
            pending += [(item, depth + 1) for item in inner if isinstance(item, (Mapping, list, tuple))]

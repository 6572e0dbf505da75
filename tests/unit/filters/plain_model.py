"""What filters mean, written a second time and from the words of the design alone: slow, plain, and on mappings only.

Works on the JSON that `filter_to_json` writes, so that it shares no class with the implementation.
"""

from __future__ import annotations

import json
from typing import Any

ABSENT = object()


def kind(value: Any) -> str:
    """The JSON type of a value."""
    text = json.dumps(value)
    if text in ("true", "false"):
        return "boolean"
    return {"n": "null", '"': "string", "[": "array", "{": "object"}.get(text[0], "number")


def equal(left: Any, right: Any) -> bool:
    """Equality as JSON."""
    if kind(left) != kind(right):
        return False
    if kind(left) == "array":
        return len(left) == len(right) and all(equal(a, b) for a, b in zip(left, right, strict=True))
    if kind(left) == "object":
        return set(left) == set(right) and all(equal(left[key], right[key]) for key in left)
    return bool(left == right)


def among(value: Any, some: list[Any]) -> bool:
    return any(equal(value, one) for one in some)


def walk(metadata: Any, path: list[str]) -> Any:
    for key in path:
        if not isinstance(metadata, dict) or key not in metadata:
            return ABSENT
        metadata = metadata[key]
    return metadata


def fold(text: str) -> str:
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


def holds(metadata: dict[str, Any] | None, tree: dict[str, Any]) -> bool:
    """Say whether metadata matches the JSON of an expression."""
    metadata = metadata or {}
    if "all_of" in tree:
        return all(holds(metadata, child) for child in tree["all_of"])
    if "any_of" in tree:
        return any(holds(metadata, child) for child in tree["any_of"])
    if "not" in tree:
        return not holds(metadata, tree["not"])
    value = walk(metadata, tree["field"])
    if value is ABSENT:
        return False
    operator: str = tree["op"]
    given: Any = tree.get("value")
    if operator == "exists":
        return True
    if operator == "==":
        return equal(value, given)
    if operator in ("<", "<=", ">", ">="):
        if kind(value) != kind(given) or kind(value) not in ("number", "string"):
            return False
        below, same = value < given, value == given
        answers = {"<": below, "<=": below or same, ">": not below and not same, ">=": not below}
        return bool(answers[operator])
    if operator == "matches_text":
        if kind(value) != "string":
            return False
        return given in (value if tree.get("case_sensitive", True) else fold(value))
    if operator == "starts_with":
        whole = value if kind(value) != "string" or tree.get("case_sensitive", True) else fold(value)
        return kind(value) == "string" and bool(whole[: len(given)] == given)
    if operator == "in":
        return among(value, given)
    if operator == "matches_any":
        return among(value, given) or (kind(value) == "array" and any(among(item, given) for item in value))
    if operator == "contains_any":
        return kind(value) == "array" and any(among(item, given) for item in value)
    if operator == "contains_all":
        return kind(value) == "array" and all(among(one, value) for one in given)
    raise AssertionError(operator)


def mapping_holds(metadata: dict[str, Any] | None, mapping: dict[str, Any]) -> bool:
    """Say whether metadata matches a filter in the mapping form."""
    metadata = metadata or {}
    for key, wanted in mapping.items():
        if key not in metadata:
            return False
        value = metadata[key]
        if kind(wanted) == "array":
            members = value if kind(value) == "array" else []
            if not any(among(item, wanted) for item in [value, *members]):
                return False
        elif not equal(value, wanted):
            return False
    return True

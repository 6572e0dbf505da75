"""The golden cases: what the original system answered, as tests for this one.

`golden/<family>.json` holds a list of `{"name", "input", "expected"}`; `golden/manifest.json` describes the
shapes. Inside values three markers stand for what JSON cannot write: `{"$undefined": true}` (here
`UNDEFINED`), `{"$number": "NaN"}` and its like (here the float) and `{"$error": {"name": ...}}` (here a
`GoldenError`: the call raised). Cases marked `js_specific` are left out: they pin what only JavaScript does.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

GOLDEN_FOLDER = Path(__file__).parent / "golden"
RELATIVE_TOLERANCE = 1e-9


class _Undefined:
    def __repr__(self) -> str:
        return "UNDEFINED"


UNDEFINED: Final = _Undefined()
"""JavaScript's undefined: an argument that was not given, or the value of a key without one."""


@dataclass(frozen=True, slots=True)
class GoldenError:
    """The call raised; `name` is the name of the class, `details` is what else was recorded of it."""

    name: str
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class GoldenCase:
    """One case of a family, with its markers decoded."""

    family: str
    name: str
    input: Any
    expected: Any


def golden_cases(family: str, *, without: Iterable[str] = ()) -> list[GoldenCase]:
    """Return the portable cases of `family`.

    `without` names cases in which this system differs on purpose; the caller says why. A name that is not in
    the family is an error, so that the list cannot outlive its reason.
    """
    cases = [_case(family, raw) for raw in _load(family) if not raw.get("js_specific")]
    left_out = set(without)
    unknown = left_out - {case.name for case in cases}
    if unknown:
        raise ValueError(f"no such cases in the golden family {family!r}: {sorted(unknown)}")
    return [case for case in cases if case.name not in left_out]


def golden_params(family: str, *, without: Iterable[str] = ()) -> list[Any]:
    """Return the cases of `family` as pytest parameters, each named after its case."""
    return [pytest.param(case, id=case.name) for case in golden_cases(family, without=without)]


def decode_markers(value: Any) -> Any:
    """Return `value` with its markers replaced by what they stand for."""
    if isinstance(value, list):
        return [decode_markers(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (key, content) = next(iter(value.items()))
        if key == "$undefined":
            return UNDEFINED
        if key == "$number":
            return float({"Infinity": "inf", "-Infinity": "-inf", "NaN": "nan", "-0": "-0.0"}[content])
        if key == "$error":
            details = {name: decode_markers(item) for name, item in content.items() if name != "name"}
            return GoldenError(content["name"], details)
    return {key: decode_markers(item) for key, item in value.items()}


def drop_undefined(value: Any) -> Any:
    """Return `value` without the keys whose value is undefined, at every depth."""
    if isinstance(value, list):
        return [drop_undefined(item) for item in value]
    if isinstance(value, dict):
        return {key: drop_undefined(item) for key, item in value.items() if item is not UNDEFINED}
    return value


def same(actual: Any, expected: Any) -> bool:
    """Say whether two values are equal as JSON.

    Numbers are equal within 1e-9 relative, an int and a float too; a bool never equals a number; NaN equals
    NaN; a tuple or an array equals a list; the order of an object's keys does not matter.
    """
    actual, expected = _plain(actual), _plain(expected)
    if isinstance(actual, bool) or isinstance(expected, bool):
        return actual is expected
    if isinstance(actual, (int, float)) and isinstance(expected, (int, float)):
        if math.isnan(actual) or math.isnan(expected):
            return math.isnan(actual) and math.isnan(expected)
        return math.isclose(actual, expected, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-12)
    if isinstance(actual, list) and isinstance(expected, list):
        return len(actual) == len(expected) and all(map(same, actual, expected))
    if isinstance(actual, dict) and isinstance(expected, dict):
        return actual.keys() == expected.keys() and all(same(actual[key], expected[key]) for key in actual)
    return type(actual) is type(expected) and bool(actual == expected)


def assert_same(actual: Any, expected: Any) -> None:
    """Fail with both values where they are not `same`."""
    assert same(actual, expected), f"\nactual:   {actual!r}\nexpected: {expected!r}"


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    return list(value) if isinstance(value, tuple) else value


def _load(family: str) -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = json.loads((GOLDEN_FOLDER / f"{family}.json").read_text(encoding="utf-8"))
    return cases


def _case(family: str, raw: Mapping[str, Any]) -> GoldenCase:
    return GoldenCase(family, raw["name"], decode_markers(raw["input"]), decode_markers(raw["expected"]))

"""The golden loader itself: its comparison must be strict, or every golden test is worth nothing."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from tests.golden_cases import (
    GOLDEN_FOLDER,
    UNDEFINED,
    GoldenError,
    decode_markers,
    drop_undefined,
    golden_cases,
    same,
)

FAMILIES: dict[str, dict[str, Any]] = json.loads((GOLDEN_FOLDER / "manifest.json").read_text(encoding="utf-8"))[
    "families"
]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_here_in_full(family: str) -> None:
    described = FAMILIES[family]
    assert len(golden_cases(family)) == described["cases"] - described["js_specific"]


def test_markers() -> None:
    value = decode_markers(
        {
            "a": {"$undefined": True},
            "b": [{"$number": "-Infinity"}],
            "c": {"$error": {"name": "E", "reason": "r"}},
        }
    )
    assert value == {"a": UNDEFINED, "b": [-math.inf], "c": GoldenError("E", {"reason": "r"})}
    assert math.isnan(decode_markers({"$number": "NaN"}))
    assert math.copysign(1.0, decode_markers({"$number": "-0"})) == -1.0
    assert drop_undefined({"a": UNDEFINED, "b": [{"c": UNDEFINED, "d": 1}]}) == {"b": [{"d": 1}]}


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        ("1", 1, False),
        (None, UNDEFINED, False),
        (None, False, False),
        ([1, 2], (1, 2), True),
        ([1, 2], np.array([1.0, 2.0]), True),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": 1, "b": None}, False),
        (math.nan, math.nan, True),
        (1.0, 1.0 + 1e-12, True),
        (1.0, 1.0 + 1e-6, False),
        ({}, [], False),
    ],
)
def test_comparison(left: Any, right: Any, equal: bool) -> None:
    assert same(left, right) is equal
    assert same(right, left) is equal


def test_a_case_left_out_must_exist() -> None:
    with pytest.raises(ValueError, match="no such cases"):
        golden_cases("document_id_of", without=["never/recorded"])

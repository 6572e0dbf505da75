"""Tokens as Python computes them; that the database computes the same is tested on the server."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core.filters.literals import canonical_json
from agora_core.stores.postgres.tokens import (
    member_token,
    metadata_tokens,
    number_text,
    object_token,
    value_token,
)
from tests.unit import generated


@given(generated.keys, generated.scalars, generated.keys, generated.scalars)
def test_tokens_of_scalars_are_equal_exactly_where_key_and_value_are(
    key: str, value: Any, other_key: str, other: Any
) -> None:
    same = key == other_key and canonical_json(value) == canonical_json(other)
    assert (value_token(key, value) == value_token(other_key, other)) is same
    assert (member_token(key, value) == member_token(other_key, other)) is same
    assert value_token(key, value) != member_token(other_key, other)


def test_a_key_cannot_run_into_its_value() -> None:
    assert value_token("a", "sb") != value_token("as", "b")
    assert value_token("1:a", "b") != value_token("1", ":asb")
    assert value_token("a", True) != value_token("at", None)


def test_of_lists_and_objects_only_the_type_is_kept() -> None:
    assert value_token("k", [1]) == value_token("k", []) == value_token("k", ["x", "y"])
    assert value_token("k", {"a": 1}) == object_token("k") != value_token("k", [])
    assert member_token("k", {"a": 1}) == member_token("k", {})


def test_tokens_of_a_record() -> None:
    assert metadata_tokens({"a": ["x", 1, None], "b": {"c": 1}, "d": 1.50, "e": False}) == [
        "=1:aa",
        "[1:asx",
        "[1:an1",
        "[1:az",
        "=1:bo",
        "=1:dn1.5",
        "=1:ef",
    ]
    assert metadata_tokens(None) == []


@pytest.mark.parametrize("length", [250, 251, 252, 10_000])
def test_long_tokens_become_digests_that_an_index_takes(length: int) -> None:
    token = value_token("k", "x" * length)
    assert token.startswith("#") is (length + len("=1:ks") > 255)
    assert len(token) <= 255
    assert value_token("k" * length, 1) != value_token("k" * length, 2)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (1.0, "1"),
        (-0.0, "0"),
        (1.5, "1.5"),
        (1e21, "1000000000000000000000"),
        (2.0**60, "1152921504606846976"),
        (1e-7, "0.0000001"),
        (-(2**63), "-9223372036854775808"),
    ],
)
def test_numbers_have_one_text(value: float, text: str) -> None:
    assert number_text(value) == text


@given(st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_number_is_the_number(value: float) -> None:
    assert float(number_text(value)) == float(value)

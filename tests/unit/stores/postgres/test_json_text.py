"""Metadata as the text of a jsonb value and back."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agora_core.stores.postgres.rows import from_json_text, to_json_text

numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
documents = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(documents)
def test_what_is_written_is_read(value: Any) -> None:
    assert from_json_text(to_json_text(value)) == value


@given(numbers)
def test_a_number_is_written_with_its_exact_value_or_shortest_decimal(value: float) -> None:
    written = Decimal(to_json_text(value))
    assert written == (Decimal(value) if value == int(value) else Decimal(repr(value)))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_stays_a_float(value: float) -> None:
    assert type(from_json_text(to_json_text(value))) is float


def test_numbers_beyond_64_bits_are_floats() -> None:
    assert from_json_text("1000000000000000000000") == 1e21
    assert type(from_json_text("9223372036854775808")) is float
    assert type(from_json_text("9223372036854775807")) is int
    assert from_json_text("1" + "0" * 308) == 1e308
    assert from_json_text(None) is None


def test_a_string_that_looks_like_an_exponent_is_left_alone() -> None:
    assert json.loads(to_json_text({"k": "1e+16", "n": 1e16})) == {"k": "1e+16", "n": 1e16}

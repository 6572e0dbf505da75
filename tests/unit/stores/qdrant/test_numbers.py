"""Numbers keep their order and their last bit, whatever the engine's parser does to a float."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core.metadata import INT64_MAX, INT64_MIN
from agora_core.stores.qdrant.numbers import exact_text, is_kept_exactly, number_parts, restored
from agora_core.stores.qdrant.payload import filter_object, metadata_of, patched_texts, point_payload, slot_of

_edges = [
    0,
    1,
    -1,
    2**53,
    2**53 + 1,
    -(2**53) - 1,
    2**62,
    2**62 + 1,
    INT64_MAX,
    INT64_MAX - 1,
    INT64_MIN,
    INT64_MIN + 1,
]
_floats = st.floats(allow_nan=False, allow_infinity=False)
numbers: st.SearchStrategy[float] = st.one_of(
    st.integers(INT64_MIN, INT64_MAX),
    st.sampled_from(_edges),
    st.sampled_from(_edges).map(float),
    _floats,
    st.integers(-50, 50),
)


@given(numbers, numbers)
def test_parts_compare_as_the_numbers_do(left: float, right: float) -> None:
    assert (number_parts(left) < number_parts(right)) is (left < right)
    assert (number_parts(left) == number_parts(right)) is (left == right)


@given(numbers)
def test_parts_are_held_by_a_float64(value: float) -> None:
    high, low = number_parts(value)
    assert abs(high) <= 2**52
    assert 0 <= low < 2**21


def test_neighbours_differ() -> None:
    for value in (1.0, -1.0, 5e-324, 1e300, 0.1):
        assert number_parts(value) < number_parts(math.nextafter(value, math.inf))
    assert number_parts(-0.0) == number_parts(0)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (0.0, True),
        (0.1, True),
        (-1.5, True),
        (123456789.012345, True),
        (1e22, True),
        (0.1 + 0.2, False),
        (0.09144338512092887, False),
        (1e-300, False),
        (1.5777777777770001, False),
    ],
)
def test_which_floats_are_surely_kept(value: float, kept: bool) -> None:
    assert is_kept_exactly(value) is kept
    assert (exact_text({"a": [value]}) is None) is kept


def moved(value: Any) -> Any:
    """Do to every float what the engine may do to some."""
    if isinstance(value, float):
        return math.nextafter(value, 0.0)
    if isinstance(value, dict):
        return {key: moved(item) for key, item in value.items()}
    return [moved(item) for item in value] if isinstance(value, list) else value


_nested = st.recursive(_floats | st.integers(0, 3) | st.booleans(), st.lists, max_leaves=4)


@given(st.dictionaries(st.text(max_size=3), _nested, max_size=3))
def test_metadata_comes_back_as_it_was_written(metadata: dict[str, Any]) -> None:
    payload = point_payload("r", "t", None, metadata)
    texts = payload["agora"].get("x", {})
    read = {key: moved(value) if slot_of(key) in texts else value for key, value in metadata.items()}
    assert metadata_of({"metadata": read, "agora": {"x": texts}}) == metadata


def test_a_text_that_somebody_outdated_is_not_believed() -> None:
    text = exact_text(0.1 + 0.2)
    assert restored(0.30000000000000007, text) == 0.1 + 0.2
    others: list[Any] = [0.31, 1, "0.3", True, None, [0.1 + 0.2], {}]
    for other in others:
        assert restored(other, text) == other
    assert restored({"a": 1}, exact_text({"b": 0.1 + 0.2})) == {"a": 1}
    assert restored(1.5, None) == 1.5
    assert restored(1.5, "no json") == 1.5


def test_only_values_that_need_it_are_kept_as_text() -> None:
    assert "x" not in filter_object({"a": 0.1, "b": 2**60})
    assert filter_object({"a": 0.1 + 0.2})["x"] == {slot_of("a"): "0.30000000000000004"}
    assert patched_texts({"a": 0.1 + 0.2, "b": 1, "c": None}) == {
        slot_of("a"): "0.30000000000000004",
        slot_of("b"): None,
        slot_of("c"): None,
    }

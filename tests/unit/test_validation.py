"""The door of every store: what is refused, in which words, and what goes through unchanged."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import (
    DimensionMismatchError,
    InvalidArgumentError,
    InvalidEmbeddingError,
    InvalidMetadataError,
    VectorRecord,
)
from agora_core.validation import check_ids, check_min_score, check_top_k, prepare_embedding, prepare_records
from tests.unit import generated as some


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1", None, math.nan, np.float32(3)])
def test_top_k_is_an_int_of_one_or_more(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^top_k must be (an int|1 or more), got"):
        check_top_k(value)


def test_a_numpy_int_is_an_int() -> None:
    assert check_top_k(np.int64(3)) == 3
    assert type(check_top_k(np.int64(3))) is int


@pytest.mark.parametrize("value", ["0.5", True, [0.5], 1j])
def test_a_floor_is_a_number(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="min_score must be a number or None"):
        check_min_score(value)


def test_a_floor_may_be_infinite_but_not_nan() -> None:
    assert check_min_score(-math.inf) == -math.inf
    assert check_min_score(None) is None
    assert check_min_score(np.float32(0.5)) == 0.5
    with pytest.raises(InvalidArgumentError, match="min_score is NaN"):
        check_min_score(math.nan)


def test_ids_come_back_once_each_in_order() -> None:
    assert check_ids(iter(["b", "a", "b"])) == ["b", "a"]
    with pytest.raises(InvalidArgumentError, match="ids must be a list of str, got str"):
        check_ids("abc")
    with pytest.raises(ValueError, match="must be a str, got int"):
        check_ids(["a", 1])
    with pytest.raises(ValueError, match=r"U\+0000"):
        check_ids(["a\x00"])


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_embeddings_become_float32_of_their_own(values: list[float]) -> None:
    given_ = np.array(values, dtype=np.float32)
    for form in (values, tuple(values), given_, given_.astype(np.float64)):
        made = prepare_embedding(form, dimension=len(values))
        assert made.dtype == np.float32
        assert made.tolist() == values
        assert not np.shares_memory(made, given_)


@pytest.mark.parametrize("value", [[1, 2], np.array([1, 2]), np.array([1.5, 2.5], dtype=np.float16)])
def test_other_numbers_are_taken_too(value: Any) -> None:
    assert prepare_embedding(value, dimension=2).tolist() == [float(x) for x in value]


@pytest.mark.parametrize(
    "value", ["ab", ["1", "2"], [[1.0, 2.0]], [True, False], [None, 1.0], [[1.0], [1.0, 2.0]], 3.0, {"a": 1}, [1j, 1]]
)
def test_an_embedding_is_a_flat_sequence_of_numbers(value: Any) -> None:
    with pytest.raises(InvalidEmbeddingError, match="embedding must be a flat sequence of numbers"):
        prepare_embedding(value, dimension=2)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 1e39])
@pytest.mark.parametrize("form", [list, lambda v: np.array(v), lambda v: np.array(v).astype(np.float32)])
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_an_embedding_is_finite_in_float32(bad: float, form: Any) -> None:
    with pytest.raises(InvalidEmbeddingError, match="NaN, infinity or a number beyond float32"):
        prepare_embedding(form([1.0, bad]), dimension=2)


def test_large_finite_numbers_pass() -> None:
    # The sum of their squares is beyond float32, they are not.
    large = np.array([3e38, -3e38], dtype=np.float32)
    assert prepare_embedding(large, dimension=2).tolist() == large.tolist()


@pytest.mark.parametrize("value", [[], [1.0], [1.0, 2.0, 3.0], np.zeros(3, dtype=np.float32)])
def test_an_embedding_has_the_stores_length(value: Any) -> None:
    with pytest.raises(DimensionMismatchError, match=f"has {len(value)} numbers where the store takes 2 numbers"):
        prepare_embedding(value, dimension=2)


def test_an_empty_embedding_fits_no_store() -> None:
    with pytest.raises(DimensionMismatchError, match="at least 1 number"):
        prepare_embedding([], dimension=None)


def record(id: Any = "a#0", text: Any = "t", embedding: Any = (1.0, 0.0), **rest: Any) -> VectorRecord:
    return VectorRecord(id, text, embedding, **rest)


@given(st.lists(some.records(2), max_size=8))
def test_records_of_one_id_count_once_and_the_last_wins(records: list[VectorRecord]) -> None:
    batch = prepare_records(iter(records), dimension=2)
    latest = {one.id: one for one in records}
    assert batch.ids == list(latest)
    assert batch.texts == [one.text for one in latest.values()]
    assert batch.sources == [one.source for one in latest.values()]
    assert batch.metadata == [one.metadata for one in latest.values()]
    assert batch.vectors.dtype == np.float32
    assert batch.vectors.tolist() == [one.embedding for one in latest.values()]


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (record(id=""), InvalidMetadataError, r"records\[1\]: id must not be empty"),
        (record(id=7), InvalidMetadataError, r"records\[1\]: id must be a str, got int"),
        (record(id="a\x00"), InvalidMetadataError, r"records\[1\]: id contains U\+0000"),
        (record(id="\ud800"), InvalidMetadataError, "lone surrogate"),
        (record(text=None), InvalidMetadataError, "record 'a#0': text must be a str, got NoneType"),
        (record(text="\x00"), InvalidMetadataError, r"record 'a#0': text contains U\+0000"),
        (record(source=3), InvalidMetadataError, "record 'a#0': source must be a str, got int"),
        (record(source="\x00"), InvalidMetadataError, r"record 'a#0': source contains U\+0000"),
        (record(metadata={"k": {1}}), InvalidMetadataError, r"record 'a#0': metadata\['k'\] is a set"),
        (record(metadata="text"), InvalidMetadataError, "record 'a#0': metadata must be a mapping or None"),
        (record(embedding=[1.0]), DimensionMismatchError, "record 'a#0': embedding has 1 numbers"),
        (record(embedding=[1.0, math.nan]), InvalidEmbeddingError, "record 'a#0': embedding holds NaN"),
        (record(embedding="12"), InvalidEmbeddingError, "record 'a#0': embedding must be a flat sequence"),
        ("a#0", InvalidArgumentError, r"records\[1\] must be a VectorRecord, got str"),
        ({"id": "a#0"}, InvalidArgumentError, r"records\[1\] must be a VectorRecord, got dict"),
    ],
)
@pytest.mark.parametrize("dimension", [2, None])
def test_a_bad_record_is_named(bad: Any, error: type[Exception], message: str, dimension: int | None) -> None:
    with pytest.raises(error, match=message):
        prepare_records([record(id="first"), bad], dimension=dimension)


def test_a_bad_record_is_refused_even_where_a_later_one_replaces_it() -> None:
    with pytest.raises(InvalidMetadataError, match="not JSON"):
        prepare_records([record(metadata={"k": {1}}), record()], dimension=2)


@pytest.mark.parametrize("records", ["abc", record(), 3, None])
def test_records_are_a_list(records: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="records must be a list of VectorRecord"):
        prepare_records(records, dimension=2)


def test_long_ids_are_cut_in_messages() -> None:
    with pytest.raises(InvalidMetadataError) as raised:
        prepare_records([record(id="x" * 500, text="\x00")], dimension=2)
    assert len(str(raised.value)) < 300

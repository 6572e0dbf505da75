"""Ids: which document a chunk belongs to, the order of its chunks, and the point it is in Qdrant."""

from __future__ import annotations

import dataclasses
import re
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import (
    ChunkRecord,
    IndexedDocument,
    IngestDocument,
    Passage,
    VectorRecord,
    chunk_id_to_point_id,
    document_id_of,
)
from agora_core.records import chunk_order_key

ids = st.text(alphabet="a#0٣9 \n1", max_size=8)


@given(ids)
def test_the_document_of_a_chunk(record_id: str) -> None:
    assert document_id_of(record_id) == re.sub(r"#[0-9]+\Z", "", record_id)


@given(document_id=st.text(max_size=8), number=st.integers(0, 10**30))
def test_a_numbered_chunk_belongs_to_its_document(document_id: str, number: int) -> None:
    assert document_id_of(f"{document_id}#{number}") == document_id


@pytest.mark.parametrize("record_id", ["a#", "a#b", "a#1 ", "a#1\n", "a#-1", "a#٣", "1", ""])
def test_ids_without_a_chunk_number(record_id: str) -> None:
    assert document_id_of(record_id) == record_id


@given(st.lists(st.integers(0, 10**6) | st.none(), unique=True, max_size=8))
def test_chunks_are_ordered_by_number(numbers: list[int | None]) -> None:
    chunks = ["d" if number is None else f"d#{number}" for number in numbers]
    ordered = sorted(numbers, key=lambda number: -1 if number is None else number)
    assert sorted(chunks, key=chunk_order_key) == ["d" if n is None else f"d#{n}" for n in ordered]


def test_numbers_longer_than_an_int_may_be_read_from() -> None:
    huge = "d#" + "9" * 6000
    assert sorted([huge, "d#01", "d#1", "d#0"], key=chunk_order_key) == ["d#0", "d#01", "d#1", huge]


@given(st.text(max_size=20))
def test_point_ids_are_uuids_of_version_5(chunk_id: str) -> None:
    point = uuid.UUID(chunk_id_to_point_id(chunk_id))
    assert point.version == 5
    assert chunk_id_to_point_id(chunk_id) == str(point)


@pytest.mark.parametrize(
    "value",
    [
        Passage("i", "t", 1.0),
        IngestDocument("i", "t"),
        ChunkRecord("i#0", "t"),
        VectorRecord("i#0", "t", [1.0]),
        IndexedDocument("i"),
    ],
)
def test_records_are_frozen_and_slotted(value: Any) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.id = "other"
    assert not hasattr(value, "__dict__")
    assert value == dataclasses.replace(value)

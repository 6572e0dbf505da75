"""Records as the bytes that PostgreSQL reads, and back."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from agora_core import VectorRecord
from agora_core.errors import InvalidArgumentError, InvalidEmbeddingError
from agora_core.stores.postgres.layout import Storage
from agora_core.stores.postgres.rows import (
    LONGEST_ID,
    check_storable,
    copy_rows,
    passage,
    read_vector,
    vector_bytes,
    vector_record,
)
from agora_core.validation import prepare_records

STORAGES: list[Storage] = ["vector", "halfvec"]
PARTS = ["id", "text", "source", "metadata", "embedding", "context"]


def test_an_embedding_is_its_length_and_its_numbers_in_network_order() -> None:
    vectors = np.array([[1.0, -2.5], [0.0, 3.0]], dtype=np.float32)
    assert vector_bytes(vectors, "vector")[0] == struct.pack("!HHff", 2, 0, 1.0, -2.5)
    assert vector_bytes(vectors, "halfvec")[1] == struct.pack("!HHee", 2, 0, 0.0, 3.0)
    assert vector_bytes(vectors[:0], "vector") == []
    for storage in STORAGES:
        assert read_vector(vector_bytes(vectors, storage)[0], storage) == [1.0, -2.5]


def test_copied_rows_are_in_the_order_of_ids_with_nulls_marked() -> None:
    batch = prepare_records(
        [VectorRecord("b", "é", [1.0]), VectorRecord("a", "", [2.0], "s", {"k": 1}, "Title")], dimension=1
    )
    data = b"".join(copy_rows(batch, "vector", PARTS))

    def column(value: bytes | None) -> bytes:
        return struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value

    vector = [struct.pack("!HHf", 1, 0, number) for number in (2.0, 1.0)]
    first = [b"a", b"", b"s", b'\x01{"k":1}', vector[0], b"Title"]
    second = [b"b", "é".encode(), None, None, vector[1], None]
    assert data == b"".join(struct.pack("!h", 6) + b"".join(map(column, row)) for row in (first, second))
    narrow = b"".join(copy_rows(batch, "vector", ["id", "text", "metadata", "embedding"]))
    assert narrow.startswith(struct.pack("!h", 4))


def test_rows_travel_in_pieces() -> None:
    batch = prepare_records([VectorRecord(f"{n:05}", "x" * 1_000, [1.0]) for n in range(1_000)], dimension=1)
    pieces = list(copy_rows(batch, "vector", PARTS))
    assert len(pieces) > 2
    assert max(map(len, pieces)) < 400_000


def test_an_id_that_no_index_takes_is_refused_by_name() -> None:
    fits = prepare_records([VectorRecord("é" * (LONGEST_ID // 2), "", [1.0])], dimension=1)
    check_storable(fits, half=False)
    long = prepare_records([VectorRecord("é" * (LONGEST_ID // 2) + "x", "", [1.0])], dimension=1)
    with pytest.raises(InvalidArgumentError, match=r"record 'é{60}\.\.\.': id is longer than the 2600 bytes"):
        check_storable(long, half=False)


def test_a_number_beyond_half_precision_is_refused_where_halves_are_kept() -> None:
    batch = prepare_records([VectorRecord("a", "", [1.0]), VectorRecord("b", "", [7e4])], dimension=1)
    check_storable(batch, half=False)
    with pytest.raises(InvalidEmbeddingError, match=r"record 'b': embedding holds a number beyond 65504"):
        check_storable(batch, half=True)


def test_rows_become_passages_and_records() -> None:
    found = passage(("id", "text", None, '{"k":[1]}', 0.5))
    assert (found.id, found.text, found.source, found.metadata, found.score) == ("id", "text", None, {"k": [1]}, 0.5)
    vector = vector_bytes(np.ones((1, 2), dtype=np.float32), "vector")[0]
    assert vector_record(("id", "text", "s", None, vector, "Title"), "vector") == VectorRecord(
        "id", "text", [1.0, 1.0], "s", context="Title"
    )

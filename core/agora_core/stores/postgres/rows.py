"""Records to what PostgreSQL reads, and rows to records. Pure functions; embeddings travel in binary."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from agora_core.errors import InvalidArgumentError, InvalidEmbeddingError
from agora_core.metadata import INT64_MAX, INT64_MIN
from agora_core.records import JSON, Passage, VectorRecord
from agora_core.stores.postgres.layout import Storage
from agora_core.validation import Float32Array, RecordBatch

LONGEST_ID: Final = 2_600
"""Bytes of UTF-8. A B-tree refuses keys above 2,704."""

_LARGEST_HALF: Final = 65_504.0

COPY_HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_TRAILER: Final = b"\xff\xff"

_LENGTH = struct.Struct("!i").pack
_NULL = _LENGTH(-1)
_BYTES_PER_CHUNK = 1 << 18


class Vector(bytes):
    """An embedding in pgvector's binary form, as psycopg sends it (see `connections`)."""

    __slots__ = ()


def vector_bytes(vectors: Float32Array, storage: Storage) -> list[bytes]:
    """Return each row of a matrix in the binary form of `vector` or `halfvec`: dimension, 0, big-endian numbers."""
    head = struct.pack("!HH", vectors.shape[1], 0)
    # A contiguous block of big-endian bytes, sliced: one conversion for all rows.
    block = memoryview(vectors.astype(">f2" if storage == "halfvec" else ">f4").tobytes())
    width = vectors.shape[1] * (2 if storage == "halfvec" else 4)
    return [head + block[start : start + width] for start in range(0, len(block), width)]


def one_vector(vector: Float32Array, storage: Storage) -> Vector:
    """Return one embedding as a parameter."""
    return Vector(vector_bytes(vector[None, :], storage)[0])


def read_vector(data: bytes, storage: Storage) -> list[float]:
    """Return the numbers of an embedding from the binary form, as Python floats."""
    kind = ">f2" if storage == "halfvec" else ">f4"
    numbers: list[float] = np.frombuffer(data, dtype=kind, offset=4).astype(np.float32).tolist()
    return numbers


def check_storable(batch: RecordBatch, *, half: bool) -> None:
    """Refuse what an index of this store cannot hold.

    Raises:
        InvalidArgumentError: an id is longer than a B-tree takes.
        InvalidEmbeddingError: a number is beyond half precision, where the store or its index uses that.
    """
    for record_id in batch.ids:
        # A character is at most four bytes, so short ids need no encoding to be measured.
        if len(record_id) * 4 > LONGEST_ID and len(record_id.encode()) > LONGEST_ID:
            raise InvalidArgumentError(
                f"record {record_id[:60] + '...'!r}: id is longer than the {LONGEST_ID} bytes that a B-tree index "
                "takes; use a shorter id, e.g. a digest"
            )
    if half and len(batch) and np.abs(batch.vectors).max() > _LARGEST_HALF:
        position = int(np.abs(batch.vectors).max(axis=1).argmax())
        raise InvalidEmbeddingError(
            f"record {batch.ids[position]!r}: embedding holds a number beyond {_LARGEST_HALF:.0f}, the largest of half "
            "precision; scale the embeddings, or use fewer dimensions and storage='vector'"
        )


def order_by_id(batch: RecordBatch) -> list[int]:
    """Return positions in the order of ids: writers that lock rows in one order do not wait in a ring."""
    return sorted(range(len(batch)), key=batch.ids.__getitem__)


def row_values(batch: RecordBatch, storage: Storage, parts: Iterable[str]) -> Iterator[tuple[str | bytes | None, ...]]:
    """Yield of each record the `parts` (see `written_columns`) in the order of ids: metadata as JSON text, embeddings
    in binary."""
    columns: dict[str, Sequence[str | bytes | None]] = {
        "id": batch.ids,
        "text": batch.texts,
        "source": batch.sources,
        "metadata": [None if metadata is None else to_json_text(metadata) for metadata in batch.metadata],
        "embedding": vector_bytes(batch.vectors, storage),
        "context": batch.contexts,
        "key_order": [_order_text(metadata) for metadata in batch.metadata],
    }
    chosen = [columns[part] for part in parts]
    for n in order_by_id(batch):
        yield tuple(column[n] for column in chosen)


def copy_rows(batch: RecordBatch, storage: Storage, parts: Sequence[str]) -> Iterator[bytes]:
    """Yield the rows of a binary COPY in the order of ids, about 256 kB a piece, without header and trailer."""
    fields = struct.pack("!h", len(parts))
    jsonb = [place for place, part in enumerate(parts) if part in ("metadata", "key_order")]
    pieces: list[bytes] = []
    size = 0
    for row in row_values(batch, storage, parts):
        pieces.append(fields)
        for place, value in enumerate(row):
            if value is None:
                pieces.append(_NULL)
                continue
            data = value if isinstance(value, bytes) else value.encode()
            if place in jsonb:
                # The binary form of jsonb is a version byte and its text.
                data = b"\x01" + data
            pieces += (_LENGTH(len(data)), data)
            size += len(data)
        if size >= _BYTES_PER_CHUNK:
            yield b"".join(pieces)
            pieces, size = [], 0
    if pieces:
        yield b"".join(pieces)


def passage(row: Sequence[Any]) -> Passage:
    """Return a passage from (id, text, source, metadata as JSON text, score)."""
    return Passage(row[0], row[1], row[4], row[2], from_json_text(row[3]))


def vector_record(row: Sequence[Any], storage: Storage) -> VectorRecord:
    """Return a record from (id, text, source, metadata as JSON text, embedding in binary, context)."""
    return VectorRecord(row[0], row[1], read_vector(row[4], storage), row[2], from_json_text(row[3]), row[5])


# Metadata to and from the text of a jsonb value, losing nothing that JSON can say.

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def to_json_text(value: JSON) -> str:
    """Return valid JSON as text whose numbers have the exact value of Python's.

    Python writes the float 2.0**60 as `1.152921504606847e+18`, which as a decimal number is another one. Such floats
    are written out, with a `.0` that jsonb keeps and that makes them floats again when they are read.
    """
    text = _encode(value)
    return text if "e+" not in text else _exact(value)


def from_json_text(text: str | None) -> Any:
    """Return what the text of a jsonb value holds; a number beyond 64 bits is a float.

    The text may begin with the order of its keys, see `key_order`, and a new line, which no jsonb text holds.
    """
    if text is None:
        return None
    order, newline, rest = text.partition("\n") if text[:1] == "[" else ("", "", text)
    return in_order(_decode(rest), json.loads(order)) if newline else _decode(text)


# jsonb orders the keys of an object by itself, by length and then by bytes. The order in which they were written is
# kept beside it, where it is another: a list of keys, each alone or with the order inside its value; for a list the
# orders inside its members by position.


def key_order(value: Any) -> Any:
    """Return the order of the keys in a value, at every depth; None where it is that of jsonb."""
    if isinstance(value, Mapping):
        inside = {key: key_order(item) for key, item in value.items()}
        if not any(inside.values()) and list(inside) == sorted(inside, key=_jsonb_place):
            return None
        return [key if order is None else [key, order] for key, order in inside.items()]
    if isinstance(value, (list, tuple)):
        orders = {str(place): order for place, item in enumerate(value) if (order := key_order(item)) is not None}
        return orders or None
    return None


def in_order(value: Any, order: Any) -> Any:
    """Return a value with its keys in an order of `key_order`; keys that it does not name come last."""
    if isinstance(order, list) and isinstance(value, dict):
        named: dict[str, Any] = {}
        for item in order:
            key, inside = (item, None) if isinstance(item, str) else item
            if key in value:
                named[key] = in_order(value[key], inside)
        return {**named, **{key: item for key, item in value.items() if key not in named}}
    if isinstance(order, dict) and isinstance(value, list):
        return [in_order(item, order.get(str(place))) for place, item in enumerate(value)]
    return value


def _jsonb_place(key: str) -> tuple[int, bytes]:
    encoded = key.encode()
    return len(encoded), encoded


def _order_text(metadata: Any) -> str | None:
    order = None if metadata is None else key_order(metadata)
    return None if order is None else _encode(order)


def _exact(value: JSON) -> str:
    if isinstance(value, float) and value.is_integer():
        return f"{int(value)}.0"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_encode(key)}:{_exact(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_exact, value)) + "]"
    return _encode(value)


def _number(digits: str) -> int | float:
    # No int64 has more than 20 characters, and int() refuses very long digit strings.
    if len(digits) > 20:
        return float(digits)
    number = int(digits)
    return number if INT64_MIN <= number <= INT64_MAX else float(digits)


_decode = json.JSONDecoder(parse_int=_number).decode

"""The door of every store and retriever: arguments and records are checked here, before anything is read or written."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agora_core.errors import (
    DimensionMismatchError,
    InvalidArgumentError,
    InvalidEmbeddingError,
    InvalidMetadataError,
)
from agora_core.metadata import check_optional_text, check_text, copy_metadata, copy_plain, is_storable
from agora_core.records import JSON, VectorRecord, indexed_text

_MOST: Final = 2**31 - 1

Float32Array = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """Validated records, column by column and without repeated ids; `vectors` has shape (n, dimension)."""

    ids: list[str]
    texts: list[str]
    sources: list[str | None]
    metadata: list[dict[str, JSON] | None]
    contexts: list[str | None]
    vectors: Float32Array

    def __len__(self) -> int:
        return len(self.ids)

    def indexed_texts(self) -> list[str]:
        """Return what of each record is embedded and indexed; see `indexed_text`."""
        return list(map(indexed_text, self.texts, self.contexts))


def check_top_k(value: Any, *, argument: str = "top_k") -> int:
    """Return `value` as an int of 1 or more; one above 2**31 - 1, which stands for all there are, as that.

    Raises:
        InvalidArgumentError: it is no int (a bool is none), or below 1.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InvalidArgumentError(f"{argument} must be an int, got {value!r} of type {type(value).__name__}")
    if value < 1:
        raise InvalidArgumentError(f"{argument} must be 1 or more, got {value}")
    # Databases take 64 bits, and ask for some more than this or several times as many.
    return min(int(value), _MOST)


def check_min_score(value: Any, *, argument: str = "min_score") -> float | None:
    """Return a score floor as a float, None staying None. An infinite floor is allowed, NaN is refused.

    Raises:
        InvalidArgumentError: it is NaN or no number (a bool is none).
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidArgumentError(f"{argument} must be a number or None, got {type(value).__name__}")
    try:
        floor = float(value)
    except OverflowError:
        raise InvalidArgumentError(
            f"{argument} is an int beyond every float; pass a number of the scores' scale"
        ) from None
    if math.isnan(floor):
        raise InvalidArgumentError(f"{argument} is NaN, which no score reaches or misses; pass a number or None")
    return floor


def check_dimension(value: Any, *, argument: str = "dimension") -> int:
    """Return the length of embeddings as an int of 1 or more."""
    return check_top_k(value, argument=argument)


def check_id(value: Any, *, argument: str = "id") -> str:
    """Return a record or document id that was given as an argument.

    Raises:
        InvalidArgumentError: it is not a str, or holds what no database stores.
    """
    return check_text(value, where=argument, what="the id")


def check_ids(values: Any, *, argument: str = "ids") -> list[str]:
    """Return ids as a list without repeats, in the order given. A lone str is refused, for it iterates as letters."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidArgumentError(f"{argument} must be a list of str, got {type(values).__name__}")
    return list(dict.fromkeys(check_id(value, argument=argument) for value in values))


def prepare_embedding(value: Any, *, dimension: int | None, where: str = "embedding") -> Float32Array:
    """Return one embedding as a fresh float32 array of shape (dimension,).

    Raises:
        DimensionMismatchError: its length is not `dimension`; None takes any length of 1 or more.
        InvalidEmbeddingError: it is no sequence of numbers, or holds NaN, infinity, or what float32 cannot hold.
    """
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        # Not flat, whatever it is.
        array = np.empty((0, 0))
    if array.ndim != 1 or (array.dtype.kind not in "fiu" and array.size):
        raise InvalidEmbeddingError(f"{where} must be a flat sequence of numbers, got {type(value).__name__}")
    if (dimension is not None and len(array) != dimension) or not len(array):
        expected = "at least 1 number" if dimension is None else f"{dimension} numbers"
        raise DimensionMismatchError(
            f"{where} has {len(array)} numbers where the store takes {expected}; "
            "use the embedder that the store was filled with, or a store of that dimension"
        )
    if array.dtype == np.float32:
        vector: Float32Array = array.copy()
    else:
        with np.errstate(over="ignore"):
            vector = array.astype(np.float32)
    if not np.isfinite(vector).all():
        raise InvalidEmbeddingError(f"{where} holds NaN, infinity or a number beyond float32; embed the text again")
    return vector


def prepare_records(records: Iterable[VectorRecord], *, dimension: int | None) -> RecordBatch:
    """Validate and copy records; of those with one id the last wins.

    Raises:
        InvalidArgumentError: something given is not a record, or an id is empty.
        InvalidMetadataError: an id, text, source or metadata is not storable; the message names record, key and type.
        DimensionMismatchError, InvalidEmbeddingError: an embedding is not as `prepare_embedding` takes it; where
            `dimension` is None, the first record's length counts for all.
    """
    rows: dict[str, VectorRecord] = {}
    copies: dict[str, dict[str, JSON] | None] = {}
    for position, record in enumerate(iterate_records(records)):
        if type(record) is not VectorRecord or not _is_plain(record):
            record = checked_record(record, position)
        metadata = record.metadata
        if metadata is not None:
            metadata = copy_plain(metadata) or copy_metadata(metadata, where=named_record(record.id))
        rows[record.id] = record
        copies[record.id] = metadata
    latest = list(rows.values())
    return RecordBatch(
        ids=list(rows),
        texts=[record.text for record in latest],
        sources=[record.source for record in latest],
        metadata=list(copies.values()),
        contexts=[record.context or None for record in latest],
        vectors=_prepare_vectors(latest, dimension),
    )


def _is_plain(record: VectorRecord) -> bool:
    """Say whether id, text, source and context are surely storable; where not, `checked_record` finds out and tells."""
    key, text, source, context = record.id, record.text, record.source, record.context
    return (
        type(key) is str
        and type(text) is str
        and key != ""
        and ((key.isascii() and "\x00" not in key) or is_storable(key))
        and ((text.isascii() and "\x00" not in text) or is_storable(text))
        and (source is None or (type(source) is str and is_storable(source)))
        and (context is None or (type(context) is str and is_storable(context)))
    )


def iterate_records(records: Any) -> Iterable[Any]:
    """Return `records` where they can be iterated as records.

    Raises:
        InvalidArgumentError: they are one record or one text, or cannot be iterated.
    """
    if isinstance(records, (str, bytes, VectorRecord)) or not isinstance(records, Iterable):
        raise InvalidArgumentError(f"records must be a list of VectorRecord, got {type(records).__name__}")
    return records


def checked_record(record: Any, position: int) -> VectorRecord:
    """Return a record of plain, storable strings, each attribute read once; metadata and embedding as they are.

    Raises:
        InvalidArgumentError: it is not a record.
        InvalidMetadataError: its id is empty, or id, text, source or context is not storable.
    """
    if not hasattr(record, "embedding") or not hasattr(record, "text"):
        raise InvalidArgumentError(f"records[{position}] must be a VectorRecord, got {type(record).__name__}")
    key = check_text(getattr(record, "id", None), where=f"records[{position}]", what="id")
    if not key:
        raise InvalidMetadataError(f"records[{position}]: id must not be empty; give every record an id of its own")
    where = named_record(key)
    text = check_text(record.text, where=where, what="text")
    source = check_optional_text(getattr(record, "source", None), where=where, what="source")
    context = check_optional_text(getattr(record, "context", None), where=where, what="context")
    return VectorRecord(key, text, record.embedding, source, getattr(record, "metadata", None), context)


def named_record(key: str) -> str:
    """Return how messages name the record of this id."""
    return f"record {key if len(key) <= 120 else key[:117] + '...'!r}"


def _prepare_vectors(rows: Sequence[VectorRecord], dimension: int | None) -> Float32Array:
    """Convert all embeddings at once; where that fails, one by one, to name the record at fault."""
    if not rows:
        return np.empty((0, dimension or 0), dtype=np.float32)
    try:
        matrix = np.array([row.embedding for row in rows])
    except (ValueError, TypeError):
        matrix = np.empty(0)
    if matrix.ndim == 2 and matrix.dtype.kind in "fiu" and matrix.shape[1] and dimension in (None, matrix.shape[1]):
        with np.errstate(over="ignore"):
            vectors: Float32Array = matrix.astype(np.float32, copy=False)
        if np.isfinite(vectors).all():
            return vectors
    expected = dimension
    checked = []
    for row in rows:
        vector = prepare_embedding(row.embedding, dimension=expected, where=f"record {row.id!r}: embedding")
        expected = len(vector)
        checked.append(vector)
    return np.stack(checked)

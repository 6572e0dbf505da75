"""A memory store as one file: a zip archive of JSON, arrays and columns of UTF-8. Nothing in it is executed.

All of it is read at once, and its checksums are compared; what is left for later is the decoding of texts and metadata.
It is read, not mapped: that costs a fifth of a second for a million rows of 384 numbers beside the norms, which have to
be computed anyway; a file that is cut, replaced or lost with its disk is then an error at `load`, and none later on.
"""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

import numpy as np

from agora_core.archives import check_version, reading_archive, writing_file
from agora_core.errors import InvalidArgumentError
from agora_core.keyword.persistence import SavedText, read_columns, write_columns
from agora_core.records import JSON, VectorRecord
from agora_core.similarity import check_metric
from agora_core.stores.memory.columns import (
    Column,
    decode_metadata,
    decode_text,
    encode_items,
    encode_metadata,
    encode_text,
    saved_column,
)
from agora_core.stores.memory.rows import RowColumns, TableView
from agora_core.validation import Float32Array, prepare_records

_FORMAT: Final = "agora-memory-store"
_VERSION: Final = 2
_HEAD, _IDS, _VECTORS, _TEXT = "head.json", "ids.json", "vectors.npy", "text/"
# What the first version kept the records in.
_RECORDS: Final = "records.jsonl"
_COLUMNS: Final[dict[str, tuple[Callable[[Any], bytes], Callable[[bytes], Any]]]] = {
    "texts": (encode_text, decode_text),
    "sources": (encode_text, decode_text),
    "contexts": (encode_text, decode_text),
    "metadata": (encode_metadata, decode_metadata),
}
# Rows that are encoded, and vectors that are gathered, at once.
_BLOCK: Final = 4096


@dataclass(frozen=True, slots=True)
class SavedStore:
    """What a file holds; `text` is None where the store searched no texts."""

    metric: str
    dimension: int | None
    model: str | None
    rows: RowColumns
    text: SavedText | None = None


def write_store(
    path: str | os.PathLike[str],
    view: TableView,
    before: Mapping[int, dict[str, JSON] | None],
    *,
    dimension: int | None,
    model: str | None,
    text: SavedText | None = None,
) -> None:
    """Write the rows of a view to `path`; see `writing_file`.

    Args:
        path: the file.
        view: the rows, which writers beside this may add to.
        before: metadata that were replaced since the view was taken.
        dimension: that of the store.
        model: the embedding model that filled it.
        text: its text index, of the same rows.

    Raises:
        InvalidArgumentError: the settings of its tokenizer are not JSON.
    """
    rows: list[int] = view.live_rows().tolist()
    head: dict[str, Any] = {"format": _FORMAT, "version": _VERSION, "metric": view.metric}
    head |= {"dimension": dimension, "records": len(rows), "model": model}
    if text is not None:
        head["text"] = text.head()
    encoded = json.dumps(head, allow_nan=False)
    with writing_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        archive.writestr(_HEAD, encoded)
        archive.writestr(_IDS, json.dumps([view.ids[row] for row in rows], ensure_ascii=False))
        for name, (encode, _) in _COLUMNS.items():
            _write_column(archive, name, getattr(view, name), rows, encode, before if name == "metadata" else {})
        with archive.open(_VECTORS, "w", force_zip64=True) as member:
            form = {"descr": "<f4", "fortran_order": False, "shape": (len(rows), view.matrix.shape[1])}
            np.lib.format.write_array_header_1_0(member, form)
            for first in range(0, len(rows), _BLOCK):
                some = rows[first : first + _BLOCK]
                whole = some[-1] - some[0] + 1 == len(some)
                block = view.matrix[some[0] : some[-1] + 1] if whole else view.matrix[some]
                member.write(np.ascontiguousarray(block).data.cast("B"))
        if text is not None:
            write_columns(archive, text.columns, prefix=_TEXT)


def _write_column(
    archive: zipfile.ZipFile,
    name: str,
    column: Column[Any],
    rows: Sequence[int],
    encode: Callable[[Any], bytes],
    before: Mapping[int, Any],
) -> None:
    lengths = np.empty(len(rows), dtype=np.int64)
    with archive.open(name, "w", force_zip64=True) as member:
        for first in range(0, len(rows), _BLOCK):
            some = rows[first : first + _BLOCK]
            items = encode_items(column, some, encode)
            # Looked at after the column was read: a new value is only ever seen once the old one is kept.
            if before:
                for place, row in enumerate(some):
                    if row in before:
                        items[place] = None if (old := before[row]) is None else encode(old)
            lengths[first : first + len(some)] = [-1 if item is None else len(item) for item in items]
            member.write(b"".join(filter(None, items)))
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, lengths, allow_pickle=False)


def read_store(path: str | os.PathLike[str]) -> SavedStore:
    """Return what a file holds: whole, and unchanged since it was saved.

    Raises:
        InvalidArgumentError: the file is not a saved store, is damaged, or is of a newer release.
        FileNotFoundError: there is no such file.
    """
    with reading_archive(path, "memory store"), zipfile.ZipFile(path) as archive:
        head = json.loads(archive.read(_HEAD))
        check_version(head, form=_FORMAT, known=_VERSION, what="memory store")
        check_metric(head["metric"])
        rows = _read_first_version(archive, head) if head["version"] == 1 else _read_rows(archive, head)
        text = None
        if head.get("text") is not None:
            columns = read_columns(archive, prefix=_TEXT)
            columns.check(len(rows.ids))
            text = SavedText.from_head(head["text"], columns)
        model = head.get("model")
        return SavedStore(head["metric"], head["dimension"], model if isinstance(model, str) else None, rows, text)


def _read_rows(archive: zipfile.ZipFile, head: dict[str, Any]) -> RowColumns:
    ids = json.loads(archive.read(_IDS))
    count = head["records"]
    if type(ids) is not list or type(count) is not int or len(ids) != count:
        raise InvalidArgumentError("vectors and records do not fit together")
    if set(map(type, ids)) - {str} or "" in ids or "\x00" in "".join(ids) or len(set(ids)) != count:
        raise InvalidArgumentError("an id is none, or occurs twice")
    # Refuses lone surrogates, which JSON can spell.
    "".join(ids).encode()
    columns: dict[str, Any] = {}
    for name, (_, decode) in _COLUMNS.items():
        with archive.open(f"{name}.npy") as member:
            lengths = np.lib.format.read_array(member, allow_pickle=False)
        columns[name] = saved_column(archive.read(name), lengths, count, decode)
        if name in ("sources", "contexts") and bool((lengths == -1).all()):
            columns[name] = [None] * count
        if name == "texts" and bool((lengths == -1).any()):
            raise InvalidArgumentError("a text is missing")
    vectors = _read_vectors(archive)
    dimension = head["dimension"]
    if len(vectors) != count or (vectors.shape[1] != dimension if count else False):
        raise InvalidArgumentError("vectors and records do not fit together")
    return RowColumns(ids, vectors=vectors, **columns)


def _read_vectors(archive: zipfile.ZipFile) -> Float32Array:
    """Read the array straight to where it stays; the checksum is compared at its end."""
    with archive.open(_VECTORS) as member:
        if np.lib.format.read_magic(member) != (1, 0):
            raise InvalidArgumentError("the vectors are in another form")
        shape, by_columns, kind = np.lib.format.read_array_header_1_0(member)
        size = archive.getinfo(_VECTORS).file_size
        if len(shape) != 2 or by_columns or kind != np.float32 or size - member.tell() != 4 * shape[0] * shape[1]:
            raise InvalidArgumentError("the vectors are in another form")
        vectors = np.empty(shape, dtype=np.float32)
        if vectors.size:
            _read_into(member, vectors.data.cast("B"))
    return vectors


def _read_into(member: IO[bytes], target: memoryview) -> None:
    place = 0
    while place < len(target):
        some = member.read(min(len(target) - place, 1 << 20))
        if not some:
            raise EOFError("the vectors end early")
        if not np.isfinite(np.frombuffer(some, dtype=np.float32)).all():
            raise InvalidArgumentError("a vector holds NaN or infinity")
        target[place : place + len(some)] = some
        place += len(some)


def _read_first_version(archive: zipfile.ZipFile, head: dict[str, Any]) -> RowColumns:
    """Return the rows of a file whose records are lines of JSON; each is validated as if it came from a caller."""
    with archive.open(_VECTORS) as member:
        vectors = np.lib.format.read_array(member, allow_pickle=False)
    with archive.open(_RECORDS) as member:
        rows = [json.loads(line) for line in member]
    if vectors.ndim != 2 or vectors.dtype != np.float32 or not len(rows) == len(vectors) == head["records"]:
        raise InvalidArgumentError("vectors and records do not fit together")
    records = (
        # A file of an older release has no contexts.
        VectorRecord(record_id, text, vector, source, metadata, *context)
        for (record_id, text, source, metadata, *context), vector in zip(rows, vectors, strict=True)
    )
    batch = prepare_records(records, dimension=head["dimension"])
    if len(batch) != len(rows):
        raise InvalidArgumentError("an id occurs twice")
    return RowColumns.of(batch)

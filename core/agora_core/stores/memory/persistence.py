"""A memory store as one file: a zip archive of a JSON head, JSON lines and one array. Nothing in it is executed."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from agora_core.archives import check_version, reading_archive, writing_file
from agora_core.errors import InvalidArgumentError
from agora_core.keyword.persistence import SavedText, read_columns, write_columns
from agora_core.records import VectorRecord
from agora_core.similarity import check_metric
from agora_core.validation import Float32Array, RecordBatch, prepare_records

_FORMAT: Final = "agora-memory-store"
_VERSION: Final = 1
_HEAD, _RECORDS, _VECTORS = "head.json", "records.jsonl", "vectors.npy"
_TEXT: Final = "text/"


@dataclass(frozen=True, slots=True)
class SavedStore:
    """What a file holds; `text` is None where the store searched no texts."""

    metric: str
    dimension: int | None
    model: str | None
    batch: RecordBatch
    text: SavedText | None = None


def write_store(path: str | os.PathLike[str], store: SavedStore) -> None:
    """Write a store to `path`; see `writing_file`.

    Raises:
        InvalidArgumentError: the settings of its tokenizer are not JSON.
    """
    batch, text = store.batch, store.text
    head: dict[str, Any] = {"format": _FORMAT, "version": _VERSION, "metric": store.metric}
    head |= {"dimension": store.dimension, "records": len(batch), "model": store.model}
    if text is not None:
        head["text"] = text.head()
    encoded = json.dumps(head, allow_nan=False)
    with writing_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        archive.writestr(_HEAD, encoded)
        with archive.open(_RECORDS, "w", force_zip64=True) as member:
            columns = (batch.ids, batch.texts, batch.sources, batch.metadata, batch.contexts)
            for row in zip(*columns, strict=True):
                member.write(json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n")
        with archive.open(_VECTORS, "w", force_zip64=True) as member:
            np.lib.format.write_array(member, np.ascontiguousarray(batch.vectors), allow_pickle=False)
        if text is not None:
            write_columns(archive, text.columns, prefix=_TEXT)


def read_store(path: str | os.PathLike[str]) -> SavedStore:
    """Return what a file holds, validated as if it came from a caller.

    Raises:
        InvalidArgumentError: the file is no saved store, is damaged, or is of a newer release.
        FileNotFoundError: there is no such file.
    """
    with reading_archive(path, "memory store"):
        with zipfile.ZipFile(path) as archive:
            head = json.loads(archive.read(_HEAD))
            check_version(head, form=_FORMAT, known=_VERSION, what="memory store")
            check_metric(head["metric"])
            with archive.open(_VECTORS) as member:
                vectors = np.lib.format.read_array(member, allow_pickle=False)
            with archive.open(_RECORDS) as member:
                rows = [json.loads(line) for line in member]
            batch = _batch(head, rows, vectors)
            text = None
            if head.get("text") is not None:
                columns = read_columns(archive, prefix=_TEXT)
                columns.check(len(batch))
                text = SavedText.from_head(head["text"], columns)
        model = head.get("model")
        return SavedStore(head["metric"], head["dimension"], model if isinstance(model, str) else None, batch, text)


def _batch(head: dict[str, Any], rows: list[Any], vectors: Float32Array) -> RecordBatch:
    dimension = head["dimension"]
    if vectors.ndim != 2 or vectors.dtype != np.float32 or not len(rows) == len(vectors) == head["records"]:
        raise InvalidArgumentError("vectors and records do not fit together")
    records = (
        # A file of an older release has no contexts.
        VectorRecord(record_id, text, vector, source, metadata, *context)
        for (record_id, text, source, metadata, *context), vector in zip(rows, vectors, strict=True)
    )
    batch = prepare_records(records, dimension=dimension)
    if len(batch) != len(rows):
        raise InvalidArgumentError("an id occurs twice")
    return batch

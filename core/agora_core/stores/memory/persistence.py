"""A memory store as one file: a zip archive of a JSON head, JSON lines and one array. Nothing in it is executed."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any, Final

import numpy as np

from agora_core.archives import reading_archive
from agora_core.errors import InvalidArgumentError
from agora_core.records import VectorRecord
from agora_core.similarity import check_metric
from agora_core.validation import Float32Array, RecordBatch, prepare_records

_FORMAT: Final = "agora-memory-store"
_VERSION: Final = 1
_HEAD, _RECORDS, _VECTORS = "head.json", "records.jsonl", "vectors.npy"


def write_store(
    path: str | os.PathLike[str], *, metric: str, dimension: int | None, batch: RecordBatch, model: str | None = None
) -> None:
    """Write a store to `path`, through a file beside it that takes its place when all is written."""
    target = Path(path)
    head: dict[str, Any] = {"format": _FORMAT, "version": _VERSION, "metric": metric, "dimension": dimension}
    head |= {"records": len(batch), "model": model}
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".partial")
    try:
        with os.fdopen(descriptor, "wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
                archive.writestr(_HEAD, json.dumps(head))
                with archive.open(_RECORDS, "w", force_zip64=True) as member:
                    columns = (batch.ids, batch.texts, batch.sources, batch.metadata, batch.contexts)
                    for row in zip(*columns, strict=True):
                        member.write(json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n")
                with archive.open(_VECTORS, "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.ascontiguousarray(batch.vectors), allow_pickle=False)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def read_store(path: str | os.PathLike[str]) -> tuple[str, int | None, RecordBatch, str | None]:
    """Return metric, dimension, records and embedding model of a saved store, validated as if a caller gave them.

    Raises:
        InvalidArgumentError: the file is no saved store, or is damaged.
        FileNotFoundError: there is no such file.
    """
    with reading_archive(path, "memory store"):
        with zipfile.ZipFile(path) as archive:
            head = json.loads(archive.read(_HEAD))
            _check_head(head)
            with archive.open(_VECTORS) as member:
                vectors = np.lib.format.read_array(member, allow_pickle=False)
            with archive.open(_RECORDS) as member:
                rows = [json.loads(line) for line in member]
        model = head.get("model")
        return head["metric"], head["dimension"], _batch(head, rows, vectors), model if isinstance(model, str) else None


def _check_head(head: Any) -> None:
    if not isinstance(head, dict) or head.get("format") != _FORMAT:
        raise InvalidArgumentError("the head does not name the format")
    if head.get("version") != _VERSION:
        raise InvalidArgumentError(f"version {head.get('version')!r} is not {_VERSION}, the one this release reads")
    check_metric(head["metric"])


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

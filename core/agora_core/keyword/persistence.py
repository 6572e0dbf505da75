"""A keyword index as one file: a zip archive of JSON and plain arrays. Nothing in it is executed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

from agora_core.archives import reading_archive
from agora_core.errors import InvalidArgumentError
from agora_core.keyword.analysis import AnyTokenizer, passage_terms, query_terms
from agora_core.keyword.index import IndexColumns
from agora_core.keyword.passages import TextBatch, prepare_texts
from agora_core.records import JSON, ChunkRecord

_FORMAT: Final = "agora-keyword-index"
_VERSION: Final = 1
_HEAD, _RECORDS, _WORDS = "head.json", "records.jsonl", "words.json"
_ARRAYS: Final = ("starts", "rows", "frequencies", "lengths")
# Scripts, folding, marks, stop words and stems: what tokenizers, and their releases, treat differently.
_PROBE: Final = (
    "The runners weren't running: naïve CAFÉ ﬁnance №12, straße, İstanbul, co\u00adoperate, 3.14 and E_mc2",
    "東京都でiPhone用の猫カフェ、ภาษาไทยเขียนติดกัน, हिन्दी में विभक्तियाँ, быстрые лисицы, ταχύτατες αλεπούδες, العربية",
)
_SAMPLED: Final = 16


@dataclass(frozen=True, slots=True)
class SavedIndex:
    """What a file holds. `fingerprint` tells whether a tokenizer gives the terms that the columns were made of."""

    k1: float
    b: float
    tokenizer: str | None
    config: dict[str, JSON]
    fingerprint: str
    batch: TextBatch
    columns: IndexColumns


def tokenizer_identity(tokenizer: AnyTokenizer) -> tuple[str | None, dict[str, JSON]]:
    """Return the name and the settings a tokenizer is saved by; the name is None where it has none."""
    name: Any = getattr(tokenizer, "name", None)
    config: Any = getattr(tokenizer, "config", None)
    return name if isinstance(name, str) else None, dict(config) if config else {}


def fingerprint(tokenizer: AnyTokenizer, texts: Sequence[str]) -> str:
    """Return a digest of what a tokenizer makes of a probe and of the first of `texts`."""
    seen = [(passage_terms(tokenizer, text), query_terms(tokenizer, text)) for text in (*_PROBE, *texts[:_SAMPLED])]
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()


def write_index(path: str | os.PathLike[str], saved: SavedIndex) -> None:
    """Write an index to `path`, through a file beside it that takes its place when all is written.

    Raises:
        InvalidArgumentError: the tokenizer's config is not JSON.
    """
    target = Path(path)
    head = {
        "format": _FORMAT,
        "version": _VERSION,
        "k1": saved.k1,
        "b": saved.b,
        "tokenizer": saved.tokenizer,
        "config": saved.config,
        "fingerprint": saved.fingerprint,
        "records": len(saved.batch),
    }
    try:
        encoded = json.dumps(head, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(f"tokenizer.config must be JSON to be saved: {error}") from error
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.", suffix=".partial")
    try:
        with os.fdopen(descriptor, "wb") as file:
            _write_archive(file, encoded, saved)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def _write_archive(file: IO[bytes], head: str, saved: SavedIndex) -> None:
    batch = saved.batch
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        archive.writestr(_HEAD, head)
        archive.writestr(_WORDS, json.dumps(saved.columns.words, ensure_ascii=False).encode("utf-8", "surrogatepass"))
        with archive.open(_RECORDS, "w", force_zip64=True) as member:
            for row in zip(batch.ids, batch.texts, batch.sources, batch.metadata, batch.contexts, strict=True):
                member.write(json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n")
        for column in _ARRAYS:
            with archive.open(f"{column}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, getattr(saved.columns, column), allow_pickle=False)


def read_index(path: str | os.PathLike[str]) -> SavedIndex:
    """Return what a file holds, validated as if it came from a caller.

    Raises:
        InvalidArgumentError: the file is no saved keyword index, or is damaged.
        FileNotFoundError: there is no such file.
    """
    with reading_archive(path, "keyword index"):
        with zipfile.ZipFile(path) as archive:
            head = _checked_head(json.loads(archive.read(_HEAD)))
            words = json.loads(archive.read(_WORDS).decode("utf-8", "surrogatepass"))
            with archive.open(_RECORDS) as member:
                rows = [json.loads(line) for line in member]
            arrays = {column: _read_array(archive, column) for column in _ARRAYS}
        batch = prepare_texts(ChunkRecord(*row) for row in rows)
        if not len(batch) == len(rows) == head["records"]:
            raise InvalidArgumentError("an id occurs twice, or a record is missing")
        columns = IndexColumns(words, **arrays)
        columns.check(len(batch))
        return SavedIndex(head["k1"], head["b"], head["tokenizer"], head["config"], head["fingerprint"], batch, columns)


def _read_array(archive: zipfile.ZipFile, column: str) -> npt.NDArray[Any]:
    with archive.open(f"{column}.npy") as member:
        array: npt.NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
    return array


def _checked_head(head: Any) -> dict[str, Any]:
    if not isinstance(head, dict) or head.get("format") != _FORMAT:
        raise InvalidArgumentError("the head does not name the format")
    if head.get("version") != _VERSION:
        raise InvalidArgumentError(f"version {head.get('version')!r} is not {_VERSION}, the one this release reads")
    if not isinstance(head["tokenizer"], (str, type(None))) or not isinstance(head["config"], dict):
        raise InvalidArgumentError("the head does not name a tokenizer")
    return head

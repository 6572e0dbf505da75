"""A keyword index as one file: a zip archive of JSON and plain arrays. Nothing in it is executed."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agora_core.archives import check_version, reading_archive, writing_file
from agora_core.errors import InvalidArgumentError
from agora_core.keyword.analysis import AnyTokenizer, passage_terms, query_terms
from agora_core.keyword.index import IndexColumns
from agora_core.keyword.passages import TextBatch, prepare_texts
from agora_core.keyword.registry import resolve_tokenizer
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
class SavedText:
    """A text index in a file. `fingerprint` tells whether a tokenizer gives the terms the columns were made of."""

    k1: float
    b: float
    tokenizer: str | None
    config: dict[str, JSON]
    fingerprint: str
    columns: IndexColumns
    syntax: str = "plain"

    def head(self) -> dict[str, JSON]:
        """Return all but the columns, as JSON.

        Raises:
            InvalidArgumentError: the tokenizer's config is not JSON.
        """
        head = {name: getattr(self, name) for name in _HEAD_FIELDS}
        try:
            json.dumps(head, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(f"tokenizer.config must be JSON to be saved: {error}") from error
        return head

    @classmethod
    def from_head(cls, head: Any, columns: IndexColumns) -> SavedText:
        """Return what `head` gave, checked.

        Raises:
            InvalidArgumentError: the tokenizer is not named.
        """
        if not isinstance(head["tokenizer"], (str, type(None))) or not isinstance(head["config"], dict):
            raise InvalidArgumentError("the head does not name a tokenizer")
        return cls(columns=columns, **{name: head[name] for name in _HEAD_FIELDS if name in head})


_HEAD_FIELDS: Final = ("k1", "b", "tokenizer", "config", "fingerprint", "syntax")


def saved_text(
    tokenizer: AnyTokenizer, k1: float, b: float, texts: Sequence[str], columns: IndexColumns, *, syntax: str
) -> SavedText:
    """Return a text index as it is saved; `texts` are what was indexed, of which the first are looked at."""
    name, config = tokenizer_identity(tokenizer)
    return SavedText(k1, b, name, config, fingerprint(tokenizer, texts), columns, syntax)


def resolve_saved_tokenizer(
    saved: SavedText, tokenizer: AnyTokenizer | str | None, texts: Sequence[str]
) -> tuple[AnyTokenizer, bool]:
    """Return the tokenizer to open a saved index with, and whether it gives the terms that are saved.

    Where it does not, a newer stemmer or Unicode table stands behind the same name: the texts must be counted again.

    Raises:
        InvalidArgumentError: the tokenizer is not the saved one, or has no name and was not given.
    """
    if tokenizer is None and saved.tokenizer is None:
        raise InvalidArgumentError(
            "tokenizer must be given: the index was saved with one that has no name; pass the same one"
        )
    given = resolve_tokenizer(saved.tokenizer if tokenizer is None else tokenizer)
    if tokenizer_identity(given) != (saved.tokenizer, saved.config):
        raise InvalidArgumentError(
            f"tokenizer must be the one the index was saved with, {saved.tokenizer!r} {saved.config!r}, "
            f"got {tokenizer_identity(given)!r}; pass that one, or build the index anew"
        )
    same = fingerprint(given, texts) == saved.fingerprint
    if not same and saved.tokenizer is None:
        raise InvalidArgumentError("tokenizer gives other terms than the one the index was saved with; pass that one")
    return given, same


def tokenizer_identity(tokenizer: AnyTokenizer) -> tuple[str | None, dict[str, JSON]]:
    """Return the name and the settings a tokenizer is saved by; the name is None where it has none."""
    name: Any = getattr(tokenizer, "name", None)
    config: Any = getattr(tokenizer, "config", None)
    return name if isinstance(name, str) else None, dict(config) if config else {}


def tokenizer_label(tokenizer: AnyTokenizer) -> str:
    """Return what a `repr` calls a tokenizer by: its name, or the object where it has none."""
    return tokenizer_identity(tokenizer)[0] or repr(tokenizer)


def fingerprint(tokenizer: AnyTokenizer, texts: Sequence[str]) -> str:
    """Return a digest of what a tokenizer makes of a probe and of the first of `texts`."""
    seen = [(passage_terms(tokenizer, text), query_terms(tokenizer, text)) for text in (*_PROBE, *texts[:_SAMPLED])]
    return hashlib.sha256(json.dumps(seen).encode()).hexdigest()


def write_columns(archive: zipfile.ZipFile, columns: IndexColumns, *, prefix: str = "") -> None:
    """Write the columns of an index into an archive."""
    words = json.dumps(columns.words, ensure_ascii=False).encode("utf-8", "surrogatepass")
    archive.writestr(prefix + _WORDS, words)
    for column in _ARRAYS:
        with archive.open(f"{prefix}{column}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, getattr(columns, column), allow_pickle=False)


def read_columns(archive: zipfile.ZipFile, *, prefix: str = "") -> IndexColumns:
    """Read the columns of an index, unchecked."""
    words = json.loads(archive.read(prefix + _WORDS).decode("utf-8", "surrogatepass"))
    arrays: dict[str, npt.NDArray[Any]] = {}
    for column in _ARRAYS:
        with archive.open(f"{prefix}{column}.npy") as member:
            arrays[column] = np.lib.format.read_array(member, allow_pickle=False)
    return IndexColumns(words, **arrays)


def write_index(path: str | os.PathLike[str], text: SavedText, batch: TextBatch) -> None:
    """Write an index to `path`; see `writing_file`.

    Raises:
        InvalidArgumentError: the tokenizer's config is not JSON.
    """
    head = json.dumps({"format": _FORMAT, "version": _VERSION, **text.head(), "records": len(batch)})
    with writing_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        archive.writestr(_HEAD, head)
        with archive.open(_RECORDS, "w", force_zip64=True) as member:
            for row in zip(batch.ids, batch.texts, batch.sources, batch.metadata, batch.contexts, strict=True):
                member.write(json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n")
        write_columns(archive, text.columns)


def read_index(path: str | os.PathLike[str]) -> tuple[SavedText, TextBatch]:
    """Return what a file holds, validated as if it came from a caller.

    Raises:
        InvalidArgumentError: the file is not a saved keyword index, is damaged, or is of a newer release.
        FileNotFoundError: there is no such file.
    """
    with reading_archive(path, "keyword index"):
        with zipfile.ZipFile(path) as archive:
            head = json.loads(archive.read(_HEAD))
            check_version(head, form=_FORMAT, known=_VERSION, what="keyword index")
            columns = read_columns(archive)
            with archive.open(_RECORDS) as member:
                rows = [json.loads(line) for line in member]
        text = SavedText.from_head(head, columns)
        batch = prepare_texts(ChunkRecord(*row) for row in rows)
        if not len(batch) == len(rows) == head["records"]:
            raise InvalidArgumentError("an id occurs twice, or a record is missing")
        columns.check(len(batch))
        return text, batch

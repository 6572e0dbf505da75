"""What the keyword index gives back: ids, texts, sources and metadata by row, and which rows a filter selects."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agora_core.errors import InvalidArgumentError, InvalidMetadataError
from agora_core.filters.expressions import Expression
from agora_core.filters.literals import json_equal
from agora_core.keyword.ordering import BoolArray
from agora_core.metadata import check_optional_text, check_text, copy_metadata
from agora_core.metadata_index.index import MetadataIndex
from agora_core.records import JSON, document_id_of, indexed_text


@dataclass(frozen=True, slots=True)
class TextBatch:
    """Validated passages, column by column and without repeated ids; the metadata is a copy."""

    ids: list[str]
    texts: list[str]
    sources: list[str | None]
    metadata: list[dict[str, JSON] | None]
    contexts: list[str | None]

    def __len__(self) -> int:
        return len(self.ids)

    def indexed_texts(self) -> list[str]:
        """Return what of each passage is analysed; see `indexed_text`."""
        return list(map(indexed_text, self.texts, self.contexts))


def prepare_texts(records: Iterable[Any]) -> TextBatch:
    """Validate and copy anything with an id and a text, a source and metadata optional; of one id the last wins.

    Raises:
        InvalidArgumentError: something given is not a record, or an id is empty.
        InvalidMetadataError: an id, text, source or metadata is not storable; the message names record, key and type.
    """
    if isinstance(records, (str, bytes)) or not isinstance(records, Iterable):
        raise InvalidArgumentError(f"records must be a list of records, got {type(records).__name__}")
    latest: dict[str, tuple[str, str | None, dict[str, JSON] | None, str | None]] = {}
    for position, record in enumerate(records):
        try:
            key, text = record.id, record.text
        except AttributeError:
            raise InvalidArgumentError(
                f"records[{position}] must have an id and a text as a ChunkRecord has, got {type(record).__name__}"
            ) from None
        key = check_text(key, where=f"records[{position}]", what="id")
        if not key:
            raise InvalidMetadataError(f"records[{position}]: id must not be empty; give every record an id of its own")
        where = f"record {key if len(key) <= 120 else key[:117] + '...'!r}"
        text = check_text(text, where=where, what="text")
        source = check_optional_text(getattr(record, "source", None), where=where, what="source")
        context = check_optional_text(getattr(record, "context", None), where=where, what="context")
        latest[key] = (text, source, copy_metadata(getattr(record, "metadata", None), where=where), context or None)
    texts, sources, metadata, contexts = map(list, zip(*latest.values(), strict=True)) if latest else ([], [], [], [])
    return TextBatch(list(latest), texts, sources, metadata, contexts)


class PassageTable:
    """Columns by row; a row that holds nothing has the id "". Not safe under threads: its owner's lock guards it.

    A metadata dict in here is never changed, only replaced, so what a reader took under the lock stays as it was.
    """

    def __init__(self) -> None:
        self.ids: list[str] = []
        self.texts: list[str] = []
        self.sources: list[str | None] = []
        self.metadata: list[dict[str, JSON] | None] = []
        self.contexts: list[str | None] = []
        self.row_of: dict[str, int] = {}
        # One row, which most documents of one chunk have, is kept as the bare int.
        self._documents: dict[str, int | list[int]] = {}
        self._index = MetadataIndex(self.metadata)

    def batch(self) -> TextBatch:
        """Return the passages there are, in the order of their rows."""
        held = self.ids
        return TextBatch(
            list(filter(None, held)),
            list(itertools.compress(self.texts, held)),
            list(itertools.compress(self.sources, held)),
            list(itertools.compress(self.metadata, held)),
            list(itertools.compress(self.contexts, held)),
        )

    def indexed_text(self, row: int) -> str:
        """Return what of a row is analysed."""
        return indexed_text(self.texts[row], self.contexts[row])

    def put(self, rows: Sequence[int], batch: TextBatch) -> None:
        """Write a batch to its rows: those of the same ids, free ones, or new ones in ascending order at the end."""
        first = len(self.ids)
        for place, row in enumerate(rows):
            if row >= first:
                self.ids.append(batch.ids[place])
                self.texts.append(batch.texts[place])
                self.sources.append(batch.sources[place])
                self.metadata.append(batch.metadata[place])
                self.contexts.append(batch.contexts[place])
                self._own(batch.ids[place], row)
                continue
            if not self.ids[row]:
                self.ids[row] = batch.ids[place]
                self._own(batch.ids[place], row)
            self.texts[row], self.sources[row] = batch.texts[place], batch.sources[place]
            self.contexts[row] = batch.contexts[place]
            self.set_metadata(row, batch.metadata[place])
        self._index.append(first)

    def drop(self, rows: Iterable[int]) -> None:
        """Empty rows that hold something."""
        for row in rows:
            record_id = self.ids[row]
            self.set_metadata(row, None)
            self.ids[row], self.texts[row], self.sources[row], self.contexts[row] = "", "", None, None
            del self.row_of[record_id]
            document = document_id_of(record_id)
            owned = self._documents[document]
            if isinstance(owned, int) or len(owned) == 1:
                del self._documents[document]
            else:
                owned.remove(row)

    def set_metadata(self, row: int, metadata: dict[str, JSON] | None) -> None:
        """Replace the metadata of a row."""
        before, after = self.metadata[row] or {}, metadata or {}
        changed = {key for key in (*before, *after) if not _same(before, after, key)}
        # The index reads the column when a filter asks for a new path, so both change together.
        self.metadata[row] = metadata
        if changed:
            self._index.update(row, before, after, changed)

    def document_ids(self) -> list[str]:
        """Return the ids of all documents, in no order."""
        return list(self._documents)

    def documents_in(self, rows: Iterable[int]) -> list[str]:
        """Return the ids of the documents that own one of the rows, in code-point order."""
        return sorted({document_id_of(self.ids[row]) for row in rows})

    def rows_of(self, document_id: str) -> list[int]:
        """Return the rows of a document."""
        owned = self._documents.get(document_id)
        return [] if owned is None else [owned] if isinstance(owned, int) else list(owned)

    def select(self, expression: Expression, taken: BoolArray) -> BoolArray:
        """Return the rows that match as a mask of the length of `taken`, which marks those that hold something."""
        found = self._index.select(expression)
        mask = np.zeros(len(taken), np.bool_)
        if found.dtype == np.bool_:
            mask[: len(found)] = found
        else:
            mask[found] = True
        mask &= taken
        return mask

    def _own(self, record_id: str, row: int) -> None:
        self.row_of[record_id] = row
        document = document_id_of(record_id)
        owned = self._documents.get(document)
        if owned is None:
            self._documents[document] = row
        elif isinstance(owned, int):
            self._documents[document] = [owned, row]
        else:
            owned.append(row)


def _same(before: dict[str, JSON], after: dict[str, JSON], key: str) -> bool:
    return key in before and key in after and json_equal(before[key], after[key])

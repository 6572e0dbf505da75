"""The rows of the memory store: one float32 matrix, and lists for the rest. Rows are appended and never changed.

That is what lets a search run without the lock: it keeps the arrays and the number of rows it started with. A row that
is replaced or deleted is only marked; `compact` moves the others into arrays without the marked ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from agora_core.metadata_index.index import MetadataIndex, RowSet
from agora_core.records import JSON, document_id_of, indexed_text
from agora_core.similarity import Float64Array, exact_norms
from agora_core.stores.memory.codes import CodesView, encode
from agora_core.stores.memory.columns import Column, kept
from agora_core.validation import Float32Array, RecordBatch

IntArray = npt.NDArray[np.intp]

_SMALLEST = 64
# Of 384 dimensions, they stay in the second-level cache with their float64 copies.
_BLOCK = 256
# Up to so many bytes the vectors get room for four times as many.
_QUADRUPLED = 64 * 2**20
# Changes of metadata that are remembered row by row.
_PATCHED = 4096
# Outside these norms a float32 product may overflow, or lose what float64 keeps.
SMALL_NORM, LARGE_NORM = 1e-18, 1e18


@dataclass(frozen=True, slots=True)
class TableView:
    """The rows as they were at one moment. Rows below `count` never change; `dead` are those to leave out."""

    metric: str
    matrix: Float32Array
    """Shape (capacity, dimension); the rows as they were given."""
    norms: Float64Array
    """Shape (capacity,): the Euclidean norms."""
    factors: Float32Array
    """Shape (capacity,): cosine: 1 / norm, 0 for a zero vector; l2: half the squared norm; inner: unused."""
    count: int
    dead: npt.NDArray[np.int32]
    largest_norm: float
    extreme: bool
    """Whether some norm lies outside what float32 products can take."""
    ids: list[str]
    texts: Column[str]
    sources: Column[str | None]
    metadata: Column[dict[str, JSON] | None]
    """The one column in which a row may change; see `MemoryVectorStore.update_metadata`."""
    contexts: Column[str | None]
    codes: CodesView | None
    """None where the store keeps no codes."""
    origin: IntArray | None = None
    """Shape (count,): the rows of the table that the first three arrays hold; None where they hold all, in place."""

    def live_rows(self) -> IntArray:
        """Return the rows that are not dead, ascending."""
        alive = np.ones(self.count, dtype=bool)
        alive[self.dead] = False
        return np.flatnonzero(alive)


@dataclass(frozen=True, slots=True)
class RowColumns:
    """Validated rows on their way into an empty table or out of one; no id occurs twice."""

    ids: list[str]
    texts: Column[str]
    sources: Column[str | None]
    metadata: Column[dict[str, JSON] | None]
    contexts: Column[str | None]
    vectors: Float32Array
    """Shape (n, dimension)."""

    def indexed_texts(self, most: int | None = None) -> list[str]:
        """Return what of each of the first `most` records is embedded and indexed; see `indexed_text`."""
        return list(map(indexed_text, itertools.islice(self.texts, most), itertools.islice(self.contexts, most)))

    @classmethod
    def of(cls, batch: RecordBatch) -> RowColumns:
        """Return the columns of a batch."""
        return cls(batch.ids, batch.texts, batch.sources, batch.metadata, batch.contexts, batch.vectors)


class RowTable:
    """Columns of equal length, an index over the metadata, and the way from ids and documents to rows."""

    def __init__(self, metric: str, dimension: int, *, coded: bool = False) -> None:
        """Make an empty table; `coded` keeps an int8 copy of the vectors too."""
        self.metric = metric
        self.ids: list[str] = []
        self.texts: Column[str] = []
        self.sources: Column[str | None] = []
        self.metadata: Column[dict[str, JSON] | None] = []
        self.contexts: Column[str | None] = []
        self.row_of: dict[str, int] = {}
        # None until it is asked for; many stores are only ever filled and searched.
        self._documents: dict[str, int | list[int]] | None = None
        self.index = MetadataIndex(self.metadata)
        self._matrix = np.empty((_SMALLEST, dimension), dtype=np.float32)
        self._norms = np.empty(_SMALLEST, dtype=np.float64)
        self._factors = np.empty(_SMALLEST, dtype=np.float32)
        self._alive = np.empty(_SMALLEST, dtype=bool)
        self._codes: CodesView | None = None
        if coded:
            self._codes = CodesView(
                np.empty((_SMALLEST, dimension), dtype=np.int8),
                np.empty(_SMALLEST, dtype=np.float32),
                np.empty(_SMALLEST, dtype=np.float32),
                0.0,
            )
        self._dead = np.empty(_SMALLEST, dtype=np.int32)
        self._dead_count = 0
        # The rows whose metadata were changed, in that order; for whoever keeps what a filter selects.
        self.patched: list[int] = []
        self._largest_norm = 0.0
        self._extreme = False
        self._view: TableView | None = None

    def __len__(self) -> int:
        """Return the number of live rows."""
        return len(self.row_of)

    @property
    def dead_count(self) -> int:
        """The number of rows that are marked as gone."""
        return self._dead_count

    def view(self) -> TableView:
        """Return the rows as they are now."""
        if self._view is None:
            self._view = TableView(
                self.metric,
                self._matrix,
                self._norms,
                self._factors,
                len(self.ids),
                self._dead[: self._dead_count],
                self._largest_norm,
                self._extreme,
                self.ids,
                self.texts,
                self.sources,
                self.metadata,
                self.contexts,
                self._codes,
            )
        return self._view

    def gathered(self, rows: IntArray) -> TableView:
        """Return a view with the vectors of some live rows side by side, which are read several times faster so."""
        return replace(
            self.view(),
            matrix=self._matrix.take(rows, axis=0),
            norms=self._norms.take(rows),
            factors=self._factors.take(rows),
            count=len(rows),
            dead=self._dead[:0],
            codes=None,
            origin=rows,
        )

    def vector(self, row: int) -> Float32Array:
        """Return the embedding of a row; a view, which must not be changed."""
        vector: Float32Array = self._matrix[row]
        return vector

    def columns(self) -> RowColumns:
        """Return the live rows, in their order, as columns of their own. The metadata are the store's own."""
        alive = self._alive[: len(self.ids)]
        return RowColumns(
            list(itertools.compress(self.ids, alive.tolist())),
            kept(self.texts, alive),
            kept(self.sources, alive),
            kept(self.metadata, alive),
            kept(self.contexts, alive),
            self._matrix[: len(alive)][alive],
        )

    @property
    def documents(self) -> dict[str, int | list[int]]:
        """The live rows of each document, ascending; one row, which most documents of one chunk have, as the int."""
        if self._documents is None:
            documents: dict[str, int | list[int]] = {}
            _add_documents(documents, self.row_of.keys(), self.row_of.values())
            # At once, for whoever holds one of the store's locks may ask, and another may hold the other.
            self._documents = documents
        return self._documents

    def live_rows(self) -> IntArray:
        """Return all live rows, ascending."""
        return np.flatnonzero(self._alive[: len(self.ids)])

    def live(self, rows: RowSet) -> IntArray:
        """Return the live ones of a set of rows, ascending."""
        if rows.dtype == bool:
            return np.flatnonzero(rows & self._alive[: len(self.ids)] if self._dead_count else rows)
        if self._dead_count:
            rows = rows[self._alive[rows]]
        return rows.astype(np.intp)

    def rows_of_document(self, document_id: str) -> list[int]:
        """Return the live rows of a document, ascending; empty where it is unknown."""
        rows = self.documents.get(document_id)
        if rows is None:
            return []
        return [rows] if isinstance(rows, int) else list(rows)

    def append(self, batch: RecordBatch) -> None:
        """Add records whose ids have no live row."""
        first, count = len(self.ids), len(batch)
        if first + count > len(self._matrix):
            # Room costs no memory before it is written to: the system gives pages when they are touched.
            times = 4 if self._matrix.nbytes < _QUADRUPLED else 2
            self._move_to(max(first + count, times * len(self._matrix)))
        end = first + count
        self._matrix[first:end] = batch.vectors
        self._alive[first:end] = True
        for start in range(0, count, _BLOCK):
            # In blocks, for float64 copies of them are made.
            self._measure(first + start, batch.vectors[start : start + _BLOCK])
        self.ids += batch.ids
        self.texts.extend(batch.texts)
        self.sources.extend(batch.sources)
        self.metadata.extend(batch.metadata)
        self.contexts.extend(batch.contexts)
        # One int object a row, for both.
        rows_of_batch = list(range(first, end))
        self.row_of.update(zip(batch.ids, rows_of_batch, strict=True))
        if self._documents is not None:
            _add_documents(self._documents, batch.ids, rows_of_batch)
        self.index.append(first)
        self._view = None

    def adopt(self, columns: RowColumns) -> None:
        """Take over the columns as the rows of this table, which is empty. The columns are the table's from then on."""
        count = len(columns.ids)
        self.ids, self.texts, self.sources = columns.ids, columns.texts, columns.sources
        self.metadata, self.contexts = columns.metadata, columns.contexts
        self.row_of = dict(zip(self.ids, range(count), strict=True))
        self.index = MetadataIndex(self.metadata, waiting=True)
        self._move_to(max(_SMALLEST, count), np.empty(0, dtype=np.intp))
        if count >= _SMALLEST:
            self._matrix = columns.vectors
        else:
            self._matrix[:count] = columns.vectors
        self._alive[:count] = True
        for start in range(0, count, _BLOCK):
            self._measure(start, columns.vectors[start : start + _BLOCK])
        self._view = None

    def kill(self, rows: list[int]) -> None:
        """Mark live rows as gone."""
        ids, row_of, documents = self.ids, self.row_of, self._documents
        for row in rows:
            record_id = ids[row]
            del row_of[record_id]
            if documents is None:
                continue
            document_id = document_id_of(record_id)
            held = documents[document_id]
            if isinstance(held, int) or len(held) == 1:
                del documents[document_id]
            else:
                held.remove(row)
        self._alive[rows] = False
        needed = self._dead_count + len(rows)
        if needed > len(self._dead):
            # A new array: a search may still read the old one.
            dead = np.empty(max(needed, 2 * len(self._dead)), dtype=np.int32)
            dead[: self._dead_count] = self._dead[: self._dead_count]
            self._dead = dead
        self._dead[self._dead_count : needed] = rows
        self._dead_count = needed
        self._view = None

    def set_metadata(self, row: int, metadata: dict[str, JSON], keys: list[str]) -> None:
        """Give a row new metadata, which differs from the old in some of the top-level `keys`."""
        self.index.update(row, self.metadata[row] or {}, metadata, keys)
        self.metadata[row] = metadata
        if len(self.patched) >= _PATCHED:
            # Another list, so that whoever knew the old one asks anew.
            self.patched = []
        self.patched.append(row)

    def compact(self, room: int) -> npt.NDArray[np.int32]:
        """Move the live rows together, into new arrays and lists with `room` for more rows.

        New ones, for a search may still read the old. Returns the new number of each old row, -1 for those that went.
        """
        alive = self._alive[: len(self.ids)].copy()
        chosen = alive.tolist()
        moved = np.cumsum(alive, dtype=np.int32) - 1
        moved[~alive] = -1
        self.ids = list(itertools.compress(self.ids, chosen))
        self.texts, self.sources = kept(self.texts, alive), kept(self.sources, alive)
        self.metadata, self.contexts = kept(self.metadata, alive), kept(self.contexts, alive)
        place = moved.tolist()
        self.row_of = dict(zip(self.ids, itertools.compress(place, chosen), strict=True))
        if self._documents is not None:
            self._documents = {
                key: place[rows] if isinstance(rows, int) else [place[row] for row in rows]
                for key, rows in self._documents.items()
            }
        self.index.compact(self.metadata, moved)
        self._move_to(max(_SMALLEST, len(self.ids) + room), np.flatnonzero(alive))
        self._dead = np.empty(_SMALLEST, dtype=np.int32)
        self._dead_count = 0
        norms = self._norms[: len(self.ids)]
        self._largest_norm = float(norms.max(initial=0.0))
        if self._extreme and not _any_extreme(norms):
            self._extreme = False
            for start in range(0, len(self.ids), _BLOCK):
                # Codes were not kept meanwhile.
                self._measure(start, self._matrix[start : min(start + _BLOCK, len(self.ids))])
        self._view = None
        return moved

    def _move_to(self, capacity: int, kept: IntArray | None = None) -> None:
        """Copy the rows, or the `kept` ones, into arrays of `capacity` rows: a search may still read the old ones."""

        def moved(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            larger = np.empty((capacity, *array.shape[1:]), dtype=array.dtype)
            if kept is None:
                larger[: len(array)] = array
            else:
                # `take` copies row by row; `compress` takes five times as long. The mode spares it a buffer.
                np.take(array, kept, axis=0, out=larger[: len(kept)], mode="clip")
            return larger

        self._matrix, self._norms = moved(self._matrix), moved(self._norms)
        self._factors, self._alive = moved(self._factors), moved(self._alive)
        if self._codes is not None:
            held = self._codes
            self._codes = CodesView(moved(held.codes), moved(held.scales), moved(held.errors), held.largest_error)

    def _measure(self, first: int, vectors: Float32Array) -> None:
        """Fill in the norms and factors of new rows."""
        norms = exact_norms(vectors)
        self._norms[first : first + len(norms)] = norms
        self._largest_norm = max(self._largest_norm, float(norms.max()))
        self._extreme = self._extreme or _any_extreme(norms)
        if self.metric == "cosine":
            factors = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms >= SMALL_NORM)
        else:
            factors = np.minimum(norms * norms / 2, LARGE_NORM * LARGE_NORM)
        self._factors[first : first + len(norms)] = factors
        # Once a norm is extreme, searches do without codes, until a compaction.
        if self._codes is not None and not self._extreme:
            codes, scales, errors = encode(vectors)
            if self.metric == "cosine":
                narrow = factors.astype(np.float32)
                scales, errors = scales * narrow, errors * narrow
            held, last = self._codes, first + len(vectors)
            held.codes[first:last], held.scales[first:last], held.errors[first:last] = codes, scales, errors
            largest = max(held.largest_error, float(errors.max()))
            self._codes = CodesView(held.codes, held.scales, held.errors, largest)


def _add_documents(documents: dict[str, int | list[int]], ids: Iterable[str], places: Iterable[int]) -> None:
    for row, record_id in zip(places, ids, strict=True):
        document_id = document_id_of(record_id)
        rows = documents.get(document_id)
        if rows is None:
            documents[document_id] = row
        elif isinstance(rows, int):
            documents[document_id] = [rows, row]
        else:
            rows.append(row)


def _any_extreme(norms: Float64Array) -> bool:
    return bool(((norms > LARGE_NORM) | ((norms < SMALL_NORM) & (norms > 0))).any())

"""The rows of the memory store: one float32 matrix, and lists for the rest. Rows are appended and never changed.

That is what lets a search run without the lock: it keeps the arrays and the number of rows it started with. A row that
is replaced or deleted is only marked; `compacted` builds a table without the marked ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from agora_core.records import JSON, document_id_of
from agora_core.stores.memory_index import MetadataIndex, RowSet
from agora_core.validation import Float32Array, RecordBatch

IntArray = npt.NDArray[np.intp]

_SMALLEST = 64
# Outside these norms a float32 product may overflow, or lose what float64 keeps.
SMALL_NORM, LARGE_NORM = 1e-18, 1e18


@dataclass(frozen=True, slots=True)
class VectorView:
    """The vectors as they were at one moment. Rows below `count` never change; `dead` are those to leave out."""

    metric: str
    matrix: Float32Array
    """Shape (capacity, dimension); the rows as they were given."""
    factors: Float32Array
    """Shape (capacity,): cosine: 1 / norm, 0 for a zero vector; l2: half the squared norm; inner: unused."""
    count: int
    dead: npt.NDArray[np.int32]
    largest_norm: float
    extreme: bool
    """Whether some norm lies outside what float32 products can take."""


class RowTable:
    """Columns of equal length, an index over the metadata, and the way from ids and documents to rows."""

    def __init__(self, metric: str, dimension: int, capacity: int = 0) -> None:
        """Make an empty table; `capacity` rows fit before the matrix grows."""
        self.metric = metric
        self.ids: list[str] = []
        self.texts: list[str] = []
        self.sources: list[str | None] = []
        self.metadata: list[dict[str, JSON] | None] = []
        self.row_of: dict[str, int] = {}
        # One row, which most documents of one chunk have, is kept as the bare int.
        self.documents: dict[str, int | list[int]] = {}
        self.index = MetadataIndex(self.metadata)
        self._matrix = np.empty((max(capacity, _SMALLEST), dimension), dtype=np.float32)
        self._factors = np.empty(len(self._matrix), dtype=np.float32)
        self._alive = np.empty(len(self._matrix), dtype=bool)
        self._dead = np.empty(_SMALLEST, dtype=np.int32)
        self._dead_count = 0
        self._largest_norm = 0.0
        self._extreme = False

    def __len__(self) -> int:
        """Return the number of live rows."""
        return len(self.row_of)

    @property
    def dead_count(self) -> int:
        """The number of rows that are marked as gone."""
        return self._dead_count

    def view(self) -> VectorView:
        """Return the vectors as they are now."""
        return VectorView(
            self.metric,
            self._matrix,
            self._factors,
            len(self.ids),
            self._dead[: self._dead_count],
            self._largest_norm,
            self._extreme,
        )

    def vector(self, row: int) -> Float32Array:
        """Return the embedding of a row; a view, which must not be changed."""
        vector: Float32Array = self._matrix[row]
        return vector

    def vectors(self, rows: IntArray) -> Float32Array:
        """Return the embeddings of some rows; a copy."""
        vectors: Float32Array = self._matrix[rows]
        return vectors

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
        self._grow(first + count)
        self._matrix[first : first + count] = batch.vectors
        self._factors[first : first + count] = self._factors_of(batch.vectors)
        self._alive[first : first + count] = True
        self.ids += batch.ids
        self.texts += batch.texts
        self.sources += batch.sources
        self.metadata += batch.metadata
        self.row_of.update(zip(batch.ids, range(first, first + count), strict=False))
        documents = self.documents
        for row, record_id in enumerate(batch.ids, first):
            document_id = document_id_of(record_id)
            rows = documents.get(document_id)
            if rows is None:
                documents[document_id] = row
            elif isinstance(rows, int):
                documents[document_id] = [rows, row]
            else:
                rows.append(row)
        self.index.append(first)

    def kill(self, rows: list[int]) -> None:
        """Mark live rows as gone."""
        if not rows:
            return
        for row in rows:
            record_id = self.ids[row]
            if self.row_of[record_id] == row:
                del self.row_of[record_id]
            document_id = document_id_of(record_id)
            held = self.documents[document_id]
            if isinstance(held, int) or len(held) == 1:
                del self.documents[document_id]
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

    def set_metadata(self, row: int, metadata: dict[str, JSON], keys: list[str]) -> None:
        """Give a row new metadata, which differs from the old in some of the top-level `keys`."""
        self.index.update(row, self.metadata[row] or {}, metadata, keys)
        self.metadata[row] = metadata

    def compacted(self) -> RowTable:
        """Return a table of the live rows, in their order."""
        rows = self.live_rows()
        table = RowTable(self.metric, self._matrix.shape[1], len(rows) + len(rows) // 3)
        chosen = rows.tolist()
        table.append(
            RecordBatch(
                ids=[self.ids[row] for row in chosen],
                texts=[self.texts[row] for row in chosen],
                sources=[self.sources[row] for row in chosen],
                metadata=[self.metadata[row] for row in chosen],
                vectors=self._matrix[rows],
            )
        )
        return table

    def _grow(self, needed: int) -> None:
        capacity = len(self._matrix)
        if needed <= capacity:
            return
        count = len(self.ids)
        capacity = max(needed, capacity + capacity // 2)

        def grown(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
            # New arrays: a search may still read the old ones.
            larger = np.empty((capacity, *array.shape[1:]), dtype=array.dtype)
            larger[:count] = array[:count]
            return larger

        self._matrix, self._factors, self._alive = grown(self._matrix), grown(self._factors), grown(self._alive)

    def _factors_of(self, vectors: Float32Array) -> Float32Array:
        squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)
        norms = np.sqrt(squares)
        if len(norms):
            self._largest_norm = max(self._largest_norm, float(norms.max()))
            self._extreme |= bool(((norms != 0) & ((norms < SMALL_NORM) | (norms > LARGE_NORM))).any())
        if self.metric == "cosine":
            factors = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms >= SMALL_NORM)
        else:
            factors = squares / 2
        with np.errstate(over="ignore"):
            narrow: Float32Array = factors.astype(np.float32)
        return narrow

"""The store in memory: exact search over one float32 matrix, filters from an index, safe under threads."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from agora_core.concurrency import fork_safe_lock
from agora_core.errors import (
    DimensionMismatchError,
    EmbeddingModelError,
    InvalidArgumentError,
    ScopeViolationError,
    out_of_scope,
)
from agora_core.filters import Expression, compile_filter, removal_filter
from agora_core.filters.expressions import FALSE, TRUE
from agora_core.filters.matching import Predicate, predicate
from agora_core.metadata import MetadataPatch, clone_metadata, merge_effective, validate_patch
from agora_core.protocols import AnyFilter
from agora_core.records import JSON, Embedding, IndexedDocument, Passage, VectorRecord, chunk_order_key, document_id_of
from agora_core.similarity import check_metric
from agora_core.stores.base import BaseVectorStore, Health
from agora_core.stores.facets import check_facets, most_frequent_values
from agora_core.stores.fingerprints import Fingerprint, Patched, fingerprint_of, is_effective
from agora_core.stores.memory.codes import wants_codes
from agora_core.stores.memory.persistence import read_store, write_store
from agora_core.stores.memory.reading import Reading, Selections, cheap_key, compiled_key
from agora_core.stores.memory.rows import IntArray, RowColumns, RowTable
from agora_core.stores.memory.search import Query, nearest, nearest_many
from agora_core.stores.per_document import check_per_document, places_per_document
from agora_core.validation import (
    RecordBatch,
    check_dimension,
    check_id,
    check_ids,
    check_min_score,
    check_top_k,
    prepare_embedding,
    prepare_records,
)

_REMEMBERED_FILTERS: Final = 256
_SCAN_BATCH: Final = 256
# Marked rows are swept once there are this many, and more than a sixth of the live ones.
_SWEPT_FROM: Final = 64
_SWEPT_SHARE: Final = 6
# A ranking that is cut by document is read to so many times its length at first, and each time that was too short.
GROUPED: Final = 16

StoreT = TypeVar("StoreT", bound="MemoryVectorStore")


class MemoryVectorStore(BaseVectorStore):
    """A vector store in the memory of this process; every search is exact.

    Scores are summed in float64 over the float32 values that are stored: equal vectors get bit-equal scores, and
    equal scores are ordered by id. A search takes a snapshot under a lock and computes without it, so searches run side
    by side, and each sees the store before a write or after it. Copying and pickling a store copy its records.

    Args:
        metric: `cosine` (score `1 - distance`), `l2` (score `-distance`) or `inner` (the inner product).
        dimension: the length of embeddings; None lets the first record that is written fix it for good.
        quantization: `int8` keeps an int8 copy of the vectors (a quarter more memory) that excludes most rows by proved
            bounds: the same answers several times faster. It needs the extra `simd`. `none` does without, and `auto`
            is `int8` where the extra is installed.

    Raises:
        InvalidArgumentError: the metric or the quantization is unknown, or the dimension below 1.
        MissingExtraError: `quantization` is `int8` and the extra `simd` is not installed.

    Examples:
        >>> vectors = MemoryVectorStore()
        >>> vectors.upsert([VectorRecord("faq#0", "Returns are free.", [1.0, 0.0], metadata={"acl": ["staff"]})])
        1
        >>> vectors.search([1.0, 0.0], top_k=1, filter={"acl": ["staff"]})[0].score
        1.0
    """

    def __init__(
        self,
        metric: Literal["cosine", "l2", "inner"] = "cosine",
        dimension: int | None = None,
        *,
        quantization: Literal["auto", "none", "int8"] = "auto",
    ) -> None:
        self.metric = check_metric(metric)
        self._coded = wants_codes(quantization)
        self._table = RowTable(self.metric, 1)
        self._dimension: int | None = None
        if dimension is not None:
            self._fix_dimension(check_dimension(dimension))
        self._quantization: Literal["auto", "none", "int8"] = quantization
        # Writers queue up at the first lock, which keeps the rows from changing between a write's checks and its end.
        # The second guards what searches read and change: the table, its index, `_readings`, `_compiled`,
        # `_selections`, and in subclasses the text index. Taken in this order.
        self._writing = fork_safe_lock()
        self._lock = fork_safe_lock(after=1)
        self._readings: list[Reading] = []
        # The embedding model that filled the store, where its embedder has a name.
        self._model: str | None = None
        # Per filter: its compiled form, which stays true, and its rows, which hold until the next write.
        self._compiled: dict[Any, Expression] = {}
        self._selections = Selections()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(metric={self.metric!r}, dimension={self._dimension}, records={len(self)})"

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._table)

    def __bool__(self) -> bool:
        # A store is there, be it empty.
        return True

    @property
    def dimension(self) -> int | None:  # type: ignore[override]
        """The length of embeddings; None until the first record tells it. It stays when the store is emptied."""
        return self._dimension

    def _fix_dimension(self, dimension: int) -> None:
        self._dimension = dimension
        self._table = RowTable(self.metric, dimension, coded=self._coded)

    # Searching ------------------------------------------------------------------------------------------------------

    def search(
        self,
        embedding: Embedding,
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> list[Passage]:
        """Return the `top_k` matching records of highest score, best first; see `BaseVectorStore.search`.

        `per_document` keeps at most so many passages of one document: what the whole ranking would give, cut that way.

        Raises:
            DimensionMismatchError, InvalidEmbeddingError, InvalidFilterError, InvalidArgumentError: an argument is
                not as described.
        """
        top_k, floor, most = check_top_k(top_k), check_min_score(min_score), check_per_document(per_document)
        query = Query(prepare_embedding(embedding, dimension=self._dimension))
        with self._reading(filter) as reading:
            return self._nearest(reading, query, top_k, floor, most)

    def _nearest(
        self, reading: Reading, query: Query, top_k: int, floor: float | None, per_document: int | None
    ) -> list[Passage]:
        if not reading.view.count:
            return []
        # Where the first record was written since, and is of another length, this refuses.
        prepare_embedding(query.narrow, dimension=reading.view.matrix.shape[1])
        asked = top_k if per_document is None else top_k * GROUPED
        while True:
            found = nearest(reading.searched, query, asked, reading.rows)
            if per_document is None:
                return reading.passages(found, floor)
            ids = reading.view.ids
            kept = [found[n] for n in places_per_document((ids[row] for _, row in found), per_document, top_k)]
            if len(kept) == top_k or len(found) < asked or (floor is not None and found[-1][0] < floor):
                return reading.passages(kept, floor)
            asked *= GROUPED

    def search_many(
        self,
        embeddings: Sequence[Embedding] | npt.NDArray[Any],
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
    ) -> list[list[Passage]]:
        """Return what `search` returns for each of `embeddings`, in their order; several times faster than one by one.

        All are answered from one state of the store.

        Raises:
            DimensionMismatchError, InvalidEmbeddingError, InvalidFilterError, InvalidArgumentError: an argument is
                not as described.
        """
        top_k, floor = check_top_k(top_k), check_min_score(min_score)
        if isinstance(embeddings, (str, bytes, Mapping)) or not isinstance(embeddings, Iterable):
            raise InvalidArgumentError(f"embeddings must be a list of vectors, got {type(embeddings).__name__}")
        queries = [
            Query(prepare_embedding(value, dimension=self._dimension, where=f"embeddings[{n}]"))
            for n, value in enumerate(embeddings)
        ]
        with self._reading(filter) as reading:
            if not queries or not reading.view.count:
                return [[] for _ in queries]
            for query in queries:
                prepare_embedding(query.narrow, dimension=reading.view.matrix.shape[1])
            found = nearest_many(reading.searched, queries, top_k, reading.rows)
            return [reading.passages(one, floor) for one in found]

    async def asearch_many(
        self,
        embeddings: Sequence[Embedding] | npt.NDArray[Any],
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
    ) -> list[list[Passage]]:
        """Async twin of `search_many`."""
        return await asyncio.to_thread(self.search_many, embeddings, top_k=top_k, filter=filter, min_score=min_score)

    async def asearch(
        self,
        embedding: Embedding,
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> list[Passage]:
        """Async twin of `search`."""
        options: dict[str, Any] = {"top_k": top_k, "filter": filter, "min_score": min_score}
        return await asyncio.to_thread(self.search, embedding, per_document=per_document, **options)

    @contextlib.contextmanager
    def _reading(self, filter: AnyFilter | None) -> Iterator[Reading]:
        """Take a snapshot, which patches keep as it is until it is given back."""
        with self._lock:
            reading = self._begin(filter)
        try:
            yield reading
        finally:
            with self._lock:
                self._readings.remove(reading)

    def _begin(self, filter: AnyFilter | None) -> Reading:
        """Add a snapshot to `_readings`, whence it is to be removed. The lock is held."""
        rows = self._select(filter)
        reading = Reading(self._table.view(), rows, self._selections.block(self._table, rows))
        self._readings.append(reading)
        return reading

    def _select(self, filter: AnyFilter | None) -> IntArray | None:
        """Return the live rows that match, ascending, or None for all of them. The lock is held."""
        if filter is None:
            return None
        key = cheap_key(filter)
        rows = None if key is None else self._selections.get(key, self._table)
        if rows is not None:
            return rows
        expression = None if key is None else self._compiled.get(key)
        if expression is None:
            # By the key, so that nobody's later change to a mapping is remembered under what it was before.
            key = compile_filter(filter) if key is None else key
            expression = compiled_key(key)
            if len(self._compiled) >= _REMEMBERED_FILTERS:
                self._compiled.clear()
            self._compiled[key] = expression
        if expression == TRUE:
            return None
        table = self._table
        rows = np.empty(0, dtype=np.intp) if expression == FALSE else table.live(table.index.select(expression))
        rows.flags.writeable = False
        self._selections.put(key, rows, expression, table)
        return rows

    def _matching_rows(self, filter: AnyFilter | None) -> list[int]:
        rows = self._select(filter)
        chosen: list[int] = (self._table.live_rows() if rows is None else rows).tolist()
        return chosen

    # Reading --------------------------------------------------------------------------------------------------------

    def get(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> list[VectorRecord]:
        """Return the records with these ids; see `BaseVectorStore.get`. Embeddings are lists of the float32 values."""
        wanted = check_ids(ids)
        matches = _predicate(within)
        with self._lock:
            return self._records(wanted, matches)

    def _records(self, ids: Iterable[str], matches: Predicate | None) -> list[VectorRecord]:
        table, records = self._table, []
        for record_id in ids:
            row = table.row_of.get(record_id)
            if row is None or (matches is not None and not matches(table.metadata[row] or {})):
                continue
            records.append(
                VectorRecord(
                    record_id,
                    table.texts[row],
                    table.vector(row).tolist(),
                    table.sources[row],
                    clone_metadata(table.metadata[row]),
                    table.contexts[row],
                )
            )
        return records

    def count(self, filter: AnyFilter | None = None) -> int:
        """Return how many records match, exactly."""
        with self._lock:
            rows = self._select(filter)
            return len(self._table) if rows is None else len(rows)

    def scan(self, filter: AnyFilter | None = None) -> Iterator[VectorRecord]:
        """Iterate over the matching records in code-point order of ids; see `BaseVectorStore.scan`.

        The ids are those of the moment of the call. A record that was deleted since, or no longer matches, is left
        out; one that was replaced is given as it is when its turn comes.
        """
        expression = None if filter is None else compile_filter(filter)
        with self._lock:
            ids = self._table.ids
            chosen = sorted([ids[row] for row in self._matching_rows(expression)])
        return self._scan(chosen, _predicate(expression))

    def _scan(self, ids: list[str], matches: Predicate | None) -> Iterator[VectorRecord]:
        for first in range(0, len(ids), _SCAN_BATCH):
            with self._lock:
                records = self._records(ids[first : first + _SCAN_BATCH], matches)
            yield from records

    def list_documents(self, filter: AnyFilter | None = None) -> list[IndexedDocument]:
        """Return the documents with a matching chunk; see `BaseVectorStore.list_documents`."""
        with self._lock:
            table = self._table
            first: dict[str, tuple[tuple[int, str, str], int]] = {}
            for row in self._matching_rows(filter):
                record_id = table.ids[row]
                document_id, place = document_id_of(record_id), (chunk_order_key(record_id), row)
                if document_id not in first or place < first[document_id]:
                    first[document_id] = place
            return [IndexedDocument(key, clone_metadata(table.metadata[first[key][1]])) for key in sorted(first)]

    def list_document_ids(self, filter: AnyFilter | None = None) -> list[str]:
        """Return the ids of the documents with a matching chunk, in code-point order."""
        with self._lock:
            if filter is None:
                return sorted(self._table.documents)
            ids = self._table.ids
            return sorted({document_id_of(ids[row]) for row in self._matching_rows(filter)})

    def fingerprints(
        self, document_ids: Sequence[str], *, digests: bool = True, within: AnyFilter | None = None
    ) -> list[Fingerprint]:
        """Return one small row for each chunk of these documents; see `OperationStore.fingerprints`."""
        documents = check_ids(document_ids, argument="document_ids")
        matches = _predicate(within)
        with self._lock:
            table = self._table
            rows = [row for document_id in documents for row in self._rows_within(document_id, matches)]
            return [
                fingerprint_of(
                    table.ids[row],
                    table.texts[row],
                    table.contexts[row],
                    table.sources[row],
                    clone_metadata(table.metadata[row]),
                    digests=digests,
                )
                for row in rows
            ]

    async def afingerprints(
        self, document_ids: Sequence[str], *, digests: bool = True, within: AnyFilter | None = None
    ) -> list[Fingerprint]:
        """Async twin of `fingerprints`."""
        return await asyncio.to_thread(self.fingerprints, document_ids, digests=digests, within=within)

    def facets(
        self, key: str | Sequence[str], *, filter: AnyFilter | None = None, limit: int = 20
    ) -> list[tuple[JSON, int]]:
        """Return the values of a key with their counts, from the filters' own index; see `BaseVectorStore.facets`."""
        path, most = check_facets(key, limit)
        with self._lock:
            rows, table = self._select(filter), self._table
            kept = None
            if rows is not None or table.dead_count:
                kept = np.zeros(len(table.ids), dtype=bool)
                kept[table.live_rows() if rows is None else rows] = True
            return most_frequent_values(table.index.values(path, kept), most)

    # Writing --------------------------------------------------------------------------------------------------------

    def upsert(self, records: Iterable[VectorRecord], *, within: AnyFilter | None = None) -> int:
        """Insert the records, replacing those with the same id; see `BaseVectorStore.upsert`."""
        matches = _predicate(within)
        batch = self._prepared(records, matches)
        with self._writing:
            self._write(batch, [], matches)
        return len(batch)

    def replace_documents(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], *, within: AnyFilter | None = None
    ) -> int:
        """Put `records` in the place of every chunk of `document_ids`; see `BaseVectorStore.replace_documents`."""
        documents = check_ids(document_ids, argument="document_ids")
        matches = _predicate(within)
        batch = self._prepared(records, matches)
        with self._writing:
            stale = [row for document_id in documents for row in self._rows_within(document_id, matches)]
            self._write(batch, stale, matches)
        return len(batch)

    def _prepared(self, records: Iterable[VectorRecord], matches: Predicate | None) -> RecordBatch:
        batch = prepare_records(records, dimension=self._dimension)
        if matches is not None:
            for record_id, metadata in zip(batch.ids, batch.metadata, strict=False):
                if not matches(metadata or {}):
                    raise out_of_scope(record_id)
        return batch

    def _write(self, batch: RecordBatch, stale: list[int], matches: Predicate | None) -> None:
        """Append `batch` in place of the rows `stale` and of those with its ids. `_writing` is held."""
        table = self._table
        if len(batch):
            dimension = batch.vectors.shape[1]
            if self._dimension is not None and dimension != self._dimension:
                # Only where two first writes of different lengths raced to here.
                raise DimensionMismatchError(
                    f"the embeddings have {dimension} numbers where the store takes {self._dimension}"
                )
            replaced = [row for record_id in batch.ids if (row := table.row_of.get(record_id)) is not None]
            if matches is not None:
                for row in replaced:
                    if not matches(table.metadata[row] or {}):
                        raise out_of_scope(table.ids[row])
            stale = list(dict.fromkeys(stale + replaced)) if stale else replaced
        if stale or len(batch):
            self._change(batch, stale)

    def _change(self, batch: RecordBatch | None, stale: list[int]) -> None:
        """Mark rows as gone and append others. `_writing` is held, and all was checked."""
        with self._lock:
            if batch and self._dimension is None:
                self._fix_dimension(batch.vectors.shape[1])
            table = self._table
            table.kill(stale)
            if batch:
                table.append(batch)
            self._written()
            most = max(_SWEPT_FROM, len(table) // _SWEPT_SHARE)
            if table.dead_count > most:
                # There will be room for as many new rows beside the next marked ones.
                self._compacted(table.compact(most + (len(batch) if batch else 0)))

    def _written(self) -> None:
        """Follow a write in what a subclass keeps beside the rows. The lock is held."""

    def _compacted(self, moved: npt.NDArray[np.int32]) -> None:
        """Follow the rows to their new numbers."""

    def _kill(self, rows: list[int]) -> int:
        if rows:
            self._change(None, rows)
        return len(rows)

    def _rows_within(self, document_id: str, matches: Predicate | None) -> list[int]:
        table = self._table
        rows = table.rows_of_document(document_id)
        return rows if matches is None else [row for row in rows if matches(table.metadata[row] or {})]

    def delete(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> int:
        """Delete the records with these ids. Return how many there were."""
        wanted = check_ids(ids)
        matches = _predicate(within)
        with self._writing:
            table = self._table
            rows = [row for record_id in wanted if (row := table.row_of.get(record_id)) is not None]
            return self._kill([row for row in rows if matches is None or matches(table.metadata[row] or {})])

    def remove(self, document_id: str, *, within: AnyFilter | None = None) -> int:
        """Remove every chunk whose `document_id_of` is `document_id`. Return how many there were."""
        document_id = check_id(document_id, argument="document_id")
        matches = _predicate(within)
        with self._writing:
            return self._kill(self._rows_within(document_id, matches))

    def remove_where(self, filter: AnyFilter) -> int:
        """Remove every record that matches; see `BaseVectorStore.remove_where`."""
        expression = removal_filter(filter)
        if expression == FALSE:
            return 0
        with self._writing:
            with self._lock:
                rows = self._matching_rows(expression)
            return self._kill(rows)

    def update_metadata(self, document_id: str, patch: MetadataPatch, *, within: AnyFilter | None = None) -> int:
        """Patch the metadata of every chunk of a document; see `BaseVectorStore.update_metadata`."""
        document_id = check_id(document_id, argument="document_id")
        effective = validate_patch(patch)
        matches = _predicate(within)
        if not effective:
            return 0
        with self._writing, self._lock:
            rows = self._rows_within(document_id, matches)
            self._patch(rows, effective, matches)
            if rows:
                self._relabelled()
            return len(rows)

    def patch_documents(
        self, patches: Mapping[str, MetadataPatch], *, within: AnyFilter | None = None
    ) -> dict[str, Patched | Exception]:
        """Patch many documents; what became of each that there is. One that is refused is left as it is."""
        effective = {check_id(key, argument="document_id"): validate_patch(patch) for key, patch in patches.items()}
        matches = _predicate(within)
        done: dict[str, Patched | Exception] = {}
        with self._writing, self._lock:
            metadata = self._table.metadata
            for key, patch in effective.items():
                if rows := self._rows_within(key, matches):
                    changing = [row for row in rows if is_effective(patch, metadata[row])]
                    try:
                        self._patch(changing, patch, matches)
                    except ScopeViolationError:
                        done[key] = Patched(len(rows), 0, True)
                    else:
                        done[key] = Patched(len(rows), len(changing))
            if any(isinstance(one, Patched) and one.changed for one in done.values()):
                self._relabelled()
        return done

    async def apatch_documents(
        self, patches: Mapping[str, MetadataPatch], *, within: AnyFilter | None = None
    ) -> dict[str, Patched | Exception]:
        """Async twin of `patch_documents`."""
        return await asyncio.to_thread(self.patch_documents, patches, within=within)

    def _patch(self, rows: list[int], effective: dict[str, JSON], matches: Predicate | None) -> None:
        """Patch rows, all or none. The lock is held."""
        table, keys = self._table, list(effective)
        merged = [merge_effective(table.metadata[row], effective) for row in rows]
        if matches is not None:
            for row, metadata in zip(rows, merged, strict=True):
                if not matches(metadata):
                    raise out_of_scope(table.ids[row])
        for row, metadata in zip(rows, merged, strict=True):
            for reading in self._readings:
                # A reading from before a compaction has lists of its own.
                if reading.view.metadata is table.metadata:
                    reading.before.setdefault(row, table.metadata[row])
            table.set_metadata(row, metadata, keys)

    def _relabelled(self) -> None:
        """Follow changed metadata in what a subclass keeps beside the rows. The lock is held."""

    def check_model(self, model: str, *, fills: bool = False) -> None:
        """Refuse an embedding model that is not the one that filled this store; see `BaseVectorStore.check_model`."""
        with self._lock:
            if self._model is None and fills:
                self._model = model
            if self._model not in (None, model):
                raise EmbeddingModelError(filled_by=str(self._model), given=model)

    async def acheck_model(self, model: str, *, fills: bool = False) -> None:
        """Async twin of `check_model`, which waits for nothing."""
        self.check_model(model, fills=fills)

    # Copying, checking ----------------------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {"options": self._options(), "rows": self._table.columns(), "model": self._model}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["options"])  # type: ignore[misc]
        self._model = state["model"]
        self._adopt(state["rows"])

    def _adopt(self, rows: RowColumns) -> None:
        """Take over the rows of a file or of another store; this one is empty."""
        if len(rows.ids):
            with self._writing, self._lock:
                if self._dimension is None:
                    self._fix_dimension(rows.vectors.shape[1])
                self._table.adopt(rows)

    def _options(self) -> dict[str, Any]:
        """Return what an empty store like this one is made with. The lock is held."""
        return {"metric": self.metric, "dimension": self._dimension, "quantization": self._quantization}

    def check(self) -> Health:
        """Say how many records there are; a store in memory is always well."""
        with self._lock:
            counts = {"records": len(self._table), "documents": len(self._table.documents)}
        return Health(ok=True, detail="The store in memory answers.", counts=counts)

    async def acheck(self) -> Health:
        """Async twin of `check`."""
        return self.check()

    # Keeping --------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the store to one file, in place of what stood there; a failure leaves the old file as it was.

        Searches and writes go on meanwhile; the file holds the records of the moment of the call. It is a zip archive
        of JSON, texts and arrays; it holds no code.
        """
        with self._reading(None) as reading:
            write_store(path, reading.view, reading.before, dimension=self._dimension, model=self._model)

    async def asave(self, path: str | os.PathLike[str]) -> None:
        """Async twin of `save`."""
        await asyncio.to_thread(self.save, path)

    @classmethod
    def load(
        cls: type[StoreT],
        path: str | os.PathLike[str],
        *,
        quantization: Literal["auto", "none", "int8"] = "auto",
    ) -> StoreT:
        """Return the store that `save` wrote to `path`; for `quantization` see the class.

        The file is read whole and its checksums compared; texts and metadata are decoded only when they are read. From
        then on it may be replaced or removed.

        Raises:
            InvalidArgumentError: the file is not a saved store, or is damaged.
            FileNotFoundError: there is no such file.
        """
        saved = read_store(path)
        metric: Any = saved.metric
        store = cls(metric=metric, dimension=saved.dimension, quantization=quantization)
        store._model = saved.model
        store._adopt(saved.rows)
        return store

    @classmethod
    async def aload(
        cls: type[StoreT],
        path: str | os.PathLike[str],
        *,
        quantization: Literal["auto", "none", "int8"] = "auto",
    ) -> StoreT:
        """Async twin of `load`."""
        return await asyncio.to_thread(cls.load, path, quantization=quantization)


def _predicate(within: AnyFilter | None) -> Predicate | None:
    return None if within is None else predicate(compile_filter(within))

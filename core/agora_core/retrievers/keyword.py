"""Keyword search in memory: exact BM25 over passages that come, change and go at any time."""

from __future__ import annotations

import asyncio
import heapq
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np

from agora_core.concurrency import fork_safe_lock
from agora_core.errors import out_of_scope
from agora_core.filters import FALSE, TRUE, Expression, compile_filter, scope_of
from agora_core.filters.literals import json_equal
from agora_core.filters.matching import Predicate, predicate
from agora_core.keyword.analysis import AnyTokenizer
from agora_core.keyword.bm25 import DEFAULT_B, DEFAULT_K1
from agora_core.keyword.counting import NOTHING
from agora_core.keyword.passages import PassageTable, TextBatch, prepare_texts
from agora_core.keyword.persistence import (
    read_index,
    resolve_saved_tokenizer,
    saved_text,
    tokenizer_label,
    write_index,
)
from agora_core.keyword.querying import Syntax, TextQuery, check_syntax, parse_query
from agora_core.keyword.registry import resolve_tokenizer
from agora_core.keyword.search import Selection
from agora_core.keyword.text_index import TextIndex
from agora_core.metadata import MetadataPatch, clone_metadata, merge_effective, validate_patch
from agora_core.protocols import AnyFilter
from agora_core.records import JSON, Passage
from agora_core.retrievers.backing import backed_passages, check_backing, stored_chunks
from agora_core.retrievers.base import BaseRetriever
from agora_core.steps import Steps, arun, ask, run
from agora_core.stores.per_document import grow
from agora_core.stores.ports import StorePort
from agora_core.validation import check_id, check_ids

_REMEMBERED_FILTERS: Final = 256
# Each remembered filter keeps a byte for every row.
_REMEMBERED_ROWS: Final = 1 << 25

# Setting the slots of a fresh Passage one by one takes a third of the time of its frozen __init__, which counts where
# a whole query takes 30 microseconds.
_SLOTS: Final[tuple[Callable[[Passage, Any], None], ...]] = tuple(
    Passage.__dict__[name].__set__ for name in ("score", "id", "text", "source", "metadata")
)

_PlainKey = tuple[tuple[str, str | tuple[str, ...]], ...]

RetrieverT = TypeVar("RetrieverT", bound="KeywordRetriever")


class KeywordRetriever(BaseRetriever):
    """Ranks passages by BM25, exact after any history of writes; a write costs what it changes.

    A passage scores the sum, over the distinct terms of the query, of sqrt(n) idf tf (k1 + 1) / (tf + k1 (1 - b +
    b length / average length)), with n how often the query holds the term (once under `ascii`), and
    idf = ln(1 + (N - df + 0.5) / (df + 0.5)). N, df and the average count every passage, also those that a filter
    hides; through a scope (`scoped`) those in it alone, so that no score tells of others. Only passages that hold a
    term of the query come back.

    Safe under threads: a search during a write sees the index as it was before or after it. Copying and pickling an
    index copy its passages.

    Args:
        k1: how soon repeats of a term stop counting, 0 or more.
        b: how much long passages are held back, 0 to 1.
        tokenizer: a name for `get_tokenizer` (`unicode` where it is left out, `ascii`, `english`, `german`, ...), or
            any callable from a text to its terms. It serves passages and queries, and is saved with the index.
        syntax: how queries are read: `plain`, or `web` with `"a phrase"` and `-word`.
        backed_by: the store that has the last word on every hit. Each is looked up there, within the call's filter:
            what the store lacks or hides, or whose text holds no term of the query any more, is left out, and the
            others come back with the store's text and metadata. Ingestion sets it where nothing bounds the store.

    Raises:
        InvalidArgumentError: a parameter is outside its range, or the tokenizer is not known, or `backed_by` is a view
            of a namespace: an index keeps whole ids.
        UnsupportedOperationError: `backed_by` does not say what bounds it (`scope`).

    Examples:
        >>> keyword = KeywordRetriever()
        >>> keyword.add(chunk_documents(documents))
        2
        >>> [passage.id for passage in keyword.retrieve("directors")]
        ['board#0']
    """

    def __init__(
        self,
        *,
        k1: float = DEFAULT_K1,
        b: float = DEFAULT_B,
        tokenizer: AnyTokenizer | str | None = None,
        syntax: Syntax = "plain",
        backed_by: Any = None,
    ) -> None:
        self.syntax = check_syntax(syntax)
        self.backed_by = backed_by
        # Writers queue up at the first lock, which keeps table and index from changing between a write's checks and
        # its end. The second guards what searches read and change: table, index, searcher and `_selections`. Taken
        # in this order. `_expressions` holds what stays true, and is only ever replaced or added to.
        self._writing = fork_safe_lock()
        self._lock = fork_safe_lock(after=1)
        self._table = PassageTable()
        self._text = TextIndex(resolve_tokenizer(tokenizer), k1, b)
        self._selections: dict[Expression, Selection] = {}
        self._expressions: dict[_PlainKey, Expression] = {}

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self._table.row_of)

    def __repr__(self) -> str:
        name = tokenizer_label(self.tokenizer)
        return f"{type(self).__name__}({len(self)} passages, k1={self.k1}, b={self.b}, tokenizer={name})"

    @property
    def backed_by(self) -> Any:
        """The store that has the last word on every hit; None for none."""
        return self._backed_by

    @backed_by.setter
    def backed_by(self, store: Any) -> None:
        if store is not None:
            check_backing(store)
        self._backed_by = store

    @property
    def scope(self) -> Expression | None:
        """What bounds this index: nothing, or what bounds the store that backs it."""
        return None if self.backed_by is None else StorePort(self.backed_by).scope()

    @property
    def tokenizer(self) -> AnyTokenizer:
        """The tokenizer of passages and queries; `rebuild` changes it."""
        return self._text.tokenizer

    @property
    def k1(self) -> float:
        """How soon repeats of a term stop counting."""
        return self._text.k1

    @property
    def b(self) -> float:
        """How much long passages are held back."""
        return self._text.b

    # ------------------------------------------------------------------------------------------------- searching
    def _retrieve(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        """Rank the passages that hold a term of `query`; equal scores go by the code points of ids.

        What the tokenizer makes of the query counts. The filter is applied before ranking. BM25 scores are above 0 and
        have no upper bound.
        """

        parsed = parse_query(query, self.tokenizer, syntax=self.syntax)

        def fetch(count: int) -> Steps[list[Passage]]:
            if self.backed_by is None:
                search = partial(self._ranked, parsed, count, filter, min_score)
                return ask(search, partial(asyncio.to_thread, search))
            ids = partial(self._ranked_ids, parsed, min_score)
            return backed_passages(self.backed_by, ids, parsed, self.tokenizer, count, filter)

        return grow(fetch, top_k=top_k, per_document=per_document)

    def _ranked(self, query: TextQuery, count: int, filter: AnyFilter | None, floor: float | None) -> list[Passage]:
        expression = None if filter is None else self._compiled(filter)
        if expression == FALSE or query.is_blank:
            return []
        with self._lock:
            table = self._table
            bound = None if expression is None else scope_of(expression)
            scope = None if bound is None else self._selection(compile_filter(bound))
            selection = None if expression is None or expression == TRUE else self._selection(expression)
            # Only the id decides between equal scores, so nothing after it is ever compared.
            found = [
                (-score, table.ids[row], table.texts[row], table.sources[row], table.metadata[row])
                for row, score in self._text.search(query, count, floor, selection, scope, table.indexed_text)
            ]
        ranked = sorted(found) if len(found) <= count else heapq.nsmallest(count, found)
        return [_passage(*columns) for columns in ranked]

    def _ranked_ids(
        self, query: TextQuery, floor: float | None, count: int, visible: set[str] | None
    ) -> list[tuple[float, str]]:
        """Return scores and ids of the best passages, as if there were only those with an id in `visible`."""
        with self._lock:
            table, scope = self._table, None
            if visible is not None:
                mask = np.zeros(len(self._text.index.taken), np.bool_)
                mask[[row for key in visible if (row := table.row_of.get(key)) is not None]] = True
                scope = Selection(mask)
            found = self._text.search(query, count, floor, scope, scope, table.indexed_text)
            if scope is not None:
                self._text.searcher.forget_selection(scope)
            best = heapq.nsmallest(count, [(-score, table.ids[row]) for row, score in found])
        return [(-low, key) for low, key in best]

    def _holds(self, ids: list[str], scope: AnyFilter) -> Steps[set[str]]:
        if self.backed_by is not None:
            return {record.id for record in (yield from StorePort(self.backed_by).get(ids, within=scope))}
        matches = predicate(compile_filter(scope))
        with self._lock:
            rows = {key: row for key in ids if (row := self._table.row_of.get(key)) is not None}
            return {key for key, row in rows.items() if matches(self._table.metadata[row] or {})}

    def _compiled(self, filter: AnyFilter) -> Expression:
        """Compile a filter; one of strings only, which most are, is remembered."""
        key = _plain_key(filter)
        if key is None:
            return compile_filter(filter)
        expression = self._expressions.get(key)
        if expression is None:
            # By the key, so that nobody's later change to a mapping is remembered under what it was before.
            expression = compile_filter({name: list(v) if isinstance(v, tuple) else v for name, v in key})
            if len(self._expressions) >= _REMEMBERED_FILTERS:
                self._expressions = {}
            self._expressions[key] = expression
        return expression

    def _selection(self, expression: Expression) -> Selection:
        selection = self._selections.get(expression)
        if selection is None:
            if len(self._selections) >= min(_REMEMBERED_FILTERS, _REMEMBERED_ROWS // (self._text.index.rows + 1) + 4):
                self._forget_selections()
            selection = Selection(self._table.select(expression, self._text.index.taken))
            self._selections[expression] = selection
        return selection

    # --------------------------------------------------------------------------------------------------- writing
    def add(self, records: Iterable[Any], *, within: AnyFilter | None = None) -> int:
        """Add passages, replacing those with the same id; all or nothing. Return how many were written.

        Args:
            records: `ChunkRecord`, `VectorRecord`, or anything with an id and a text; source and metadata are optional.
                Of records with one id the last wins.
            within: bounds what may be touched, here and in the other writes, as it does in a store: passages outside
                are left alone by removals, and make a write fail that would replace, create or leave one there.

        Raises:
            InvalidArgumentError: something given is not a record.
            InvalidMetadataError: a record is not storable; the message names it, the key and the type.
            ScopeViolationError: a passage, or the one it would replace, does not match `within`.
        """
        matches = _predicate(within)
        return self._write(prepare_texts(records), (), matches)

    def replace_documents(
        self, document_ids: Iterable[str], records: Iterable[Any], *, within: AnyFilter | None = None
    ) -> int:
        """Put `records` in the place of all passages of the documents, in one step. Return how many were written.

        Raises:
            InvalidArgumentError, InvalidMetadataError: an id or a record is not storable; nothing was written.
            ScopeViolationError: a passage, or the one it would replace, does not match `within`.
        """
        matches = _predicate(within)
        return self._write(prepare_texts(records), check_ids(document_ids, argument="document_ids"), matches)

    def remove(self, ids: str | Iterable[str], *, within: AnyFilter | None = None) -> int:
        """Do what `delete` does: ids are those of passages. `remove_document` is what a store calls `remove`."""
        return self.delete(ids, within=within)

    def delete(self, ids: str | Iterable[str], *, within: AnyFilter | None = None) -> int:
        """Delete passages by id, one or several. Return how many there were."""
        wanted = [check_id(ids)] if isinstance(ids, str) else check_ids(ids)
        matches = _predicate(within)
        with self._writing:
            rows = self._inside([row for row in map(self._table.row_of.get, wanted) if row is not None], matches)
            self._drop(rows)
        return len(rows)

    def remove_document(self, document_id: str, *, within: AnyFilter | None = None) -> int:
        """Remove every passage of a document. Return how many there were."""
        wanted = check_id(document_id, argument="document_id")
        matches = _predicate(within)
        with self._writing:
            rows = self._inside(self._table.rows_of(wanted), matches)
            self._drop(rows)
        return len(rows)

    def update_metadata(self, document_id: str, patch: MetadataPatch, *, within: AnyFilter | None = None) -> int:
        """Patch the metadata of every passage of a document; see `apply_metadata_patch`. Return how many were written.

        0 for an unknown document, and for a patch without effective keys.

        Raises:
            InvalidMetadataError: the patch is not storable; nothing was written.
            ScopeViolationError: the patch would move a passage out of `within`.
        """
        wanted = check_id(document_id, argument="document_id")
        effective, matches = validate_patch(patch), _predicate(within)
        if not effective:
            return 0
        with self._writing:
            table = self._table
            rows = self._inside(table.rows_of(wanted), matches)
            merged = [merge_effective(table.metadata[row], effective) for row in rows]
            _assert_inside([table.ids[row] for row in rows], merged, matches)
            with self._lock:
                for row, metadata in zip(rows, merged, strict=True):
                    table.set_metadata(row, metadata)
                self._forget_selections()
        return len(rows)

    def _inside(self, rows: list[int], matches: Predicate | None) -> list[int]:
        return rows if matches is None else [row for row in rows if matches(self._table.metadata[row] or {})]

    def _write(self, batch: TextBatch, document_ids: Sequence[str], matches: Predicate | None = None) -> int:
        _assert_inside(batch.ids, batch.metadata, matches)
        with self._writing:
            index, table = self._text.index, self._table
            kept = set(batch.ids) if document_ids else set()
            stale = [row for name in document_ids for row in table.rows_of(name) if table.ids[row] not in kept]
            stale = self._inside(stale, matches)
            if matches is not None:
                replaced = [record_id for record_id in batch.ids if record_id in table.row_of]
                _assert_inside(replaced, [table.metadata[table.row_of[record_id]] for record_id in replaced], matches)
            if not len(batch):
                self._drop(stale)
                return 0
            counted = index.count(batch.indexed_texts())
            known = [table.row_of.get(record_id) for record_id in batch.ids]
            fresh = iter(index.allocate(known.count(None)))
            rows = [next(fresh) if row is None else row for row in known]
            blocks = index.prepare(rows, counted, stale)
            with self._lock:
                index.change(rows, counted, stale, blocks)
                table.put(rows, batch)
                table.drop(stale)
                self._forget()
            self._tidy()
        return len(batch)

    def _drop(self, rows: Sequence[int]) -> None:
        if not rows:
            return
        blocks = self._text.index.prepare((), NOTHING, rows)
        with self._lock:
            self._text.index.change((), NOTHING, rows, blocks)
            self._table.drop(rows)
            self._forget()
        self._tidy()

    def _forget(self) -> None:
        self._text.searcher.forget()
        self._selections.clear()

    def _forget_selections(self) -> None:
        self._text.searcher.forget_selections()
        self._selections.clear()

    def _tidy(self) -> None:
        # Folding is worked out beside the searches; they wait only while it is put in place.
        while (fold := self._text.index.plan_fold()) is not None:
            with self._lock:
                self._text.index.install(fold)

    async def aadd(self, records: Iterable[Any], *, within: AnyFilter | None = None) -> int:
        """Async twin of `add`, in a worker thread."""
        return await asyncio.to_thread(self.add, records, within=within)

    async def areplace_documents(
        self, document_ids: Iterable[str], records: Iterable[Any], *, within: AnyFilter | None = None
    ) -> int:
        """Async twin of `replace_documents`, in a worker thread."""
        return await asyncio.to_thread(self.replace_documents, document_ids, records, within=within)

    async def aremove(self, ids: str | Iterable[str], *, within: AnyFilter | None = None) -> int:
        """Async twin of `remove`, in a worker thread."""
        return await asyncio.to_thread(self.remove, ids, within=within)

    async def adelete(self, ids: str | Iterable[str], *, within: AnyFilter | None = None) -> int:
        """Async twin of `delete`, in a worker thread."""
        return await asyncio.to_thread(self.delete, ids, within=within)

    async def aremove_document(self, document_id: str, *, within: AnyFilter | None = None) -> int:
        """Async twin of `remove_document`, in a worker thread."""
        return await asyncio.to_thread(self.remove_document, document_id, within=within)

    async def aupdate_metadata(self, document_id: str, patch: MetadataPatch, *, within: AnyFilter | None = None) -> int:
        """Async twin of `update_metadata`, in a worker thread."""
        return await asyncio.to_thread(self.update_metadata, document_id, patch, within=within)

    def rebuild(self, store: object, *, tokenizer: AnyTokenizer | str | None = None) -> int:
        """Put everything that a store holds in the place of what is indexed, in one step. Return how many passages.

        Searches answer from the old index until then. What others write to this index meanwhile is lost.

        Args:
            store: any object with `scan` or `ascan`; of a view, what is in its scope.
            tokenizer: the new tokenizer; None keeps the one there is.

        Raises:
            InvalidArgumentError: the tokenizer is not known.
        """
        return run(self._rebuild(store, tokenizer))

    async def arebuild(self, store: object, *, tokenizer: AnyTokenizer | str | None = None) -> int:
        """Async twin of `rebuild`; the texts are counted in a worker thread."""
        return await arun(self._rebuild(store, tokenizer))

    def _rebuild(self, store: object, tokenizer: AnyTokenizer | str | None) -> Steps[int]:
        chosen = self.tokenizer if tokenizer is None else resolve_tokenizer(tokenizer)
        new = KeywordRetriever(k1=self.k1, b=self.b, tokenizer=chosen)
        add = partial(new.add, (yield from stored_chunks(store)))
        count: int = yield from ask(add, partial(asyncio.to_thread, add))
        with self._writing, self._lock:
            self._table, self._text = new._table, new._text
            self._selections.clear()
        return count

    # ---------------------------------------------------------------------------------------------------- listing
    def list_document_ids(self, filter: AnyFilter | None = None) -> list[str]:
        """Return the ids of the documents with a passage, or a matching one, in code-point order."""
        expression = None if filter is None else compile_filter(filter)
        with self._lock:
            if expression is None or expression == TRUE:
                return sorted(self._table.document_ids())
            return self._table.documents_in(self._selection(expression).rows.tolist())

    def stale_documents(self, documents: Mapping[str, Sequence[Any]], *, within: AnyFilter | None = None) -> list[str]:
        """Return the ids of those documents whose passages here are not exactly these records, in their order."""
        matches = _predicate(within)
        with self._lock:
            return [key for key, records in documents.items() if not self._is_exactly(key, records, matches)]

    def _is_exactly(self, document_id: str, records: Sequence[Any], matches: Predicate | None) -> bool:
        table = self._table
        rows = self._inside(table.rows_of(document_id), matches)
        if len(rows) != len(records):
            return False
        wanted = {record.id: record for record in records}
        for row in rows:
            record = wanted.get(table.ids[row])
            if (
                record is None
                or (table.texts[row], table.sources[row], table.contexts[row])
                != (record.text, record.source, record.context or None)
                or not json_equal(table.metadata[row] or {}, record.metadata or {})
            ):
                return False
        return True

    async def alist_document_ids(self, filter: AnyFilter | None = None) -> list[str]:
        """Async twin of `list_document_ids`, in a worker thread."""
        return await asyncio.to_thread(self.list_document_ids, filter)

    # ---------------------------------------------------------------------------------------------------- keeping
    def __getstate__(self) -> dict[str, Any]:
        # The locks stay with this one; a copy counts its texts anew.
        with self._writing:
            options = {"k1": self.k1, "b": self.b, "tokenizer": self.tokenizer, "syntax": self.syntax}
            return {"options": {**options, "backed_by": self.backed_by}, "batch": self._table.batch()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state["options"])  # type: ignore[misc]
        self._write(state["batch"], ())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to one file, in place of what stood there; a failure leaves the old file as it was.

        The file is a zip archive of JSON and arrays and holds no code. The tokenizer is kept by its name and settings.

        Raises:
            InvalidArgumentError: the tokenizer's settings are not JSON.
        """
        with self._writing:
            batch, columns, text = self._table.batch(), self._text.index.columns(), self._text
        kept = saved_text(text.tokenizer, text.k1, text.b, batch.indexed_texts(), columns, syntax=self.syntax)
        write_index(path, kept, batch)

    @classmethod
    def load(
        cls: type[RetrieverT], path: str | os.PathLike[str], *, tokenizer: AnyTokenizer | str | None = None
    ) -> RetrieverT:
        """Return the index that `save` wrote to `path`.

        Args:
            path: the file.
            tokenizer: needed where the saved one is not known by name here; otherwise it must be the same.

        Raises:
            InvalidArgumentError: the file is not a saved index or is damaged, or the tokenizer is not the saved one.
            FileNotFoundError: there is no such file.
        """
        saved, batch = read_index(path)
        given, same = resolve_saved_tokenizer(saved, tokenizer, batch.indexed_texts())
        loaded = cls(k1=saved.k1, b=saved.b, tokenizer=given, syntax=check_syntax(saved.syntax))
        if not same:
            # Index and queries must agree, so the texts are counted again.
            loaded._write(batch, ())
            return loaded
        loaded._text.index.fill(saved.columns)
        loaded._table.put(range(len(batch)), batch)
        return loaded

    async def asave(self, path: str | os.PathLike[str]) -> None:
        """Async twin of `save`, in a worker thread."""
        await asyncio.to_thread(self.save, path)

    @classmethod
    async def aload(
        cls: type[RetrieverT], path: str | os.PathLike[str], *, tokenizer: AnyTokenizer | str | None = None
    ) -> RetrieverT:
        """Async twin of `load`, in a worker thread."""
        return await asyncio.to_thread(cls.load, path, tokenizer=tokenizer)


def _passage(low: float, key: str, text: str, source: str | None, metadata: dict[str, JSON] | None) -> Passage:
    passage: Passage = object.__new__(Passage)
    set_score, set_id, set_text, set_source, set_metadata = _SLOTS
    set_score(passage, -low)
    set_id(passage, key)
    set_text(passage, text)
    set_source(passage, source)
    set_metadata(passage, clone_metadata(metadata))
    return passage


def _predicate(within: AnyFilter | None) -> Predicate | None:
    return None if within is None else predicate(compile_filter(within))


def _assert_inside(ids: Sequence[str], metadata: Sequence[dict[str, JSON] | None], matches: Predicate | None) -> None:
    if matches is not None:
        for record_id, values in zip(ids, metadata, strict=True):
            if not matches(values or {}):
                raise out_of_scope(record_id)


def _plain_key(filter: Any) -> _PlainKey | None:
    """Return what tells apart mapping filters that hold only strings and lists of strings, None for any other.

    Only strings, because Python takes 1, 1.0 and True for equal, and a filter does not.
    """
    if type(filter) is not dict:
        return None
    parts: list[tuple[str, str | tuple[str, ...]]] = []
    for key, value in filter.items():
        if type(value) is list:
            value = tuple(value)
            if any(type(item) is not str for item in value):
                return None
        elif type(value) is not str:
            return None
        if type(key) is not str:
            return None
        parts.append((key, value))
    return tuple(parts)

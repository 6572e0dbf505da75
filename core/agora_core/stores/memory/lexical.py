"""The store in memory that searches texts as well: one set of rows, one lock, one truth for both legs."""

from __future__ import annotations

import asyncio
import heapq
import os
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from agora_core.filters import FALSE, Expression, compile_filter, scope_of
from agora_core.fusion import Fusion
from agora_core.keyword.analysis import AnyTokenizer
from agora_core.keyword.bm25 import DEFAULT_B, DEFAULT_K1
from agora_core.keyword.counting import NOTHING
from agora_core.keyword.persistence import SavedText, resolve_saved_tokenizer, saved_text, tokenizer_label
from agora_core.keyword.querying import TextQuery, check_syntax, parse_query
from agora_core.keyword.registry import resolve_tokenizer
from agora_core.keyword.search import Selection
from agora_core.keyword.text_index import TextIndex
from agora_core.metadata import clone_metadata
from agora_core.protocols import AnyFilter
from agora_core.records import Embedding, Passage, indexed_text
from agora_core.steps import run
from agora_core.stores.memory.persistence import read_store, write_store
from agora_core.stores.memory.rows import RowColumns
from agora_core.stores.memory.search import Query
from agora_core.stores.memory.store import GROUPED, MemoryVectorStore
from agora_core.stores.operations import LexicalOperations, Syntax
from agora_core.stores.per_document import check_per_document, places_per_document, prepare_hybrid
from agora_core.validation import RecordBatch, check_min_score, check_top_k, prepare_embedding

_FIRST_GROUPED = 3
_REMEMBERED = 64
# Texts that show, beside a probe, whether a tokenizer gives the terms that are saved; no fewer than are looked at.
_PROBED = 64

LexicalT = TypeVar("LexicalT", bound="MemoryLexicalVectorStore")


class MemoryLexicalVectorStore(LexicalOperations, MemoryVectorStore):
    """A `MemoryVectorStore` that answers `search_text` by BM25, and `search_hybrid`, over the same rows.

    What is written, patched or removed is so for both at once; a search in between sees neither or both. Scores are
    those of a `KeywordRetriever` over the same records. N, document frequencies and lengths count every record, and
    through a scope (`scoped`) those in it alone.

    Args:
        metric: see `MemoryVectorStore`.
        dimension: see `MemoryVectorStore`.
        tokenizer: a name for `get_tokenizer`, or a callable from a text to its terms; kept with the store.
        k1: how soon repeats of a term stop counting, 0 or more.
        b: how much long texts are held back, 0 to 1.
        syntax: how queries are read where a call does not say: `plain`, or `web` with phrases and exclusions.
        quantization: see `MemoryVectorStore`.

    Raises:
        InvalidArgumentError: an argument is not as described.
        MissingExtraError: the tokenizer, or the quantization, needs an extra that is not installed.

    Examples:
        >>> [passage.id for passage in store.search_text("directors", top_k=5)]
        ['board#0']
    """

    def __init__(
        self,
        metric: Literal["cosine", "l2", "inner"] = "cosine",
        dimension: int | None = None,
        *,
        tokenizer: AnyTokenizer | str | None = None,
        k1: float = DEFAULT_K1,
        b: float = DEFAULT_B,
        syntax: Syntax = "plain",
        quantization: Literal["auto", "none", "int8"] = "auto",
    ) -> None:
        super().__init__(metric, dimension, quantization=quantization)
        self.syntax = check_syntax(syntax)
        # Row r of the index is row r of the table. Guarded as the table is: `_lock`, and `_writing` for its writers.
        self._text = TextIndex(resolve_tokenizer(tokenizer), k1, b)
        self._text_selections: dict[Expression, Selection] = {}

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, tokenizer={tokenizer_label(self.tokenizer)})"

    @property
    def tokenizer(self) -> AnyTokenizer:
        """The tokenizer of texts and queries; `index_texts` changes it."""
        return self._text.tokenizer

    @property
    def k1(self) -> float:
        """How soon repeats of a term stop counting."""
        return self._text.k1

    @property
    def b(self) -> float:
        """How much long texts are held back."""
        return self._text.b

    # Searching ------------------------------------------------------------------------------------------------------

    def _run(self, operation: Callable[[], list[Passage]]) -> list[Passage]:
        return operation()

    async def _arun(self, operation: Callable[[], list[Passage]]) -> list[Passage]:
        return await asyncio.to_thread(operation)

    def _search_text(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
        syntax: Syntax | None,
    ) -> Callable[[], list[Passage]]:
        parsed = self._parsed(query, syntax)
        wanted, floor, most = check_top_k(top_k), check_min_score(min_score), check_per_document(per_document)
        expression = None if filter is None else compile_filter(filter)

        def search() -> list[Passage]:
            with self._lock:
                return self._by_text(parsed, wanted, expression, floor, most)

        return search

    def _search_hybrid(
        self,
        query: str,
        embedding: Embedding,
        top_k: int,
        fetch_top_k: int,
        k: float,
        weights: Sequence[float] | None,
        fusion: Fusion,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
        syntax: Syntax | None,
    ) -> Callable[[], list[Passage]]:
        parsed = self._parsed(query, syntax)
        vector = Query(prepare_embedding(embedding, dimension=self.dimension))
        answer = prepare_hybrid(
            top_k=top_k,
            fetch_top_k=fetch_top_k,
            k=k,
            weights=weights,
            fusion=fusion,
            min_score=min_score,
            per_document=per_document,
        )
        expression = None if filter is None else compile_filter(filter)

        def fetch(count: int) -> Generator[Any, Any, list[list[Passage]]]:
            yield from ()
            # Both lists are of one state of the rows.
            with self._lock:
                by_text = self._by_text(parsed, count, expression, None, None)
                reading = self._begin(expression)
            try:
                return [self._nearest(reading, vector, count, None, None), by_text]
            finally:
                with self._lock:
                    self._readings.remove(reading)

        return lambda: run(answer(fetch))

    def _parsed(self, query: Any, syntax: Syntax | None) -> TextQuery:
        return parse_query(query, self.tokenizer, syntax=self.syntax if syntax is None else syntax)

    def _by_text(
        self, query: TextQuery, top_k: int, filter: Expression | None, floor: float | None, most: int | None
    ) -> list[Passage]:
        """Return the best rows for a query. The lock is held."""
        if filter == FALSE or query.is_blank:
            return []
        table = self._table
        bound = None if filter is None else scope_of(filter)
        scope = None if bound is None else self._selected(compile_filter(bound))
        selection = None if filter is None else self._selected(filter)
        # A short list first: past the best few, texts can no longer be passed over unread.
        asked = top_k if most is None else top_k * _FIRST_GROUPED
        while True:
            found = self._text.search(query, asked, floor, selection, scope, self._indexed_text)
            # Only the id decides between equal scores, so the row is never compared.
            best = heapq.nsmallest(asked, [(-score, table.ids[row], row) for row, score in found])
            if most is not None:
                kept = places_per_document((key for _, key, _ in best), most, top_k)
                if len(kept) < top_k and len(found) >= asked:
                    asked *= GROUPED
                    continue
                best = [best[n] for n in kept]
            return [
                Passage(key, table.texts[row], -low, table.sources[row], clone_metadata(table.metadata[row]))
                for low, key, row in best
            ]

    def _indexed_text(self, row: int) -> str:
        return indexed_text(self._table.texts[row], self._table.contexts[row])

    def _selected(self, filter: Expression) -> Selection | None:
        """Return the rows that match, until the next write; None for all. The lock is held."""
        rows = self._select(filter)
        if rows is None:
            return None
        selection = self._text_selections.get(filter)
        if selection is None:
            if len(self._text_selections) >= _REMEMBERED:
                self._forget_selections()
            mask = np.zeros(len(self._text.index.taken), np.bool_)
            mask[rows] = True
            selection = self._text_selections[filter] = Selection(mask)
        return selection

    def _forget_selections(self) -> None:
        self._text.searcher.forget_selections()
        self._text_selections.clear()

    # Writing --------------------------------------------------------------------------------------------------------

    def _change(self, batch: RecordBatch | None, stale: list[int]) -> None:
        index = self._text.index
        # Analysed beside the searches, which wait only while the result is put in place.
        counted = index.count(batch.indexed_texts()) if batch else NOTHING
        first = len(self._table.ids)
        rows = range(first, first + (len(batch) if batch else 0))
        blocks = index.prepare(rows, counted, stale)
        self._followed = partial(index.change, rows, counted, stale, blocks)
        super()._change(batch, stale)
        while (fold := index.plan_fold()) is not None:
            with self._lock:
                index.install(fold)

    def _written(self) -> None:
        self._followed()
        self._text.searcher.forget()
        self._text_selections.clear()

    def _compacted(self, moved: npt.NDArray[np.int32]) -> None:
        self._text.index.renumber(moved)

    def _relabelled(self) -> None:
        super()._relabelled()
        self._forget_selections()

    def index_texts(
        self, *, tokenizer: AnyTokenizer | str | None = None, k1: float | None = None, b: float | None = None
    ) -> int:
        """Index all texts anew, with another tokenizer or other parameters; what is left out stays.

        Returns how many texts there are. Searches answer from the old index until the new one is there.

        Raises:
            InvalidArgumentError: a parameter is outside its range, or the tokenizer is not known.
        """
        with self._writing:
            old, table = self._text, self._table
            chosen = old.tokenizer if tokenizer is None else resolve_tokenizer(tokenizer)
            new = TextIndex(chosen, old.k1 if k1 is None else k1, old.b if b is None else b)
            rows = table.live_rows().tolist()
            counted = new.index.count([self._indexed_text(row) for row in rows])
            new.index.change(rows, counted, (), new.index.prepare(rows, counted, ()))
            with self._lock:
                self._text = new
                self._text_selections.clear()
            return len(rows)

    async def aindex_texts(
        self, *, tokenizer: AnyTokenizer | str | None = None, k1: float | None = None, b: float | None = None
    ) -> int:
        """Async twin of `index_texts`, in a worker thread."""
        return await asyncio.to_thread(self.index_texts, tokenizer=tokenizer, k1=k1, b=b)

    # Keeping --------------------------------------------------------------------------------------------------------

    def _options(self) -> dict[str, Any]:
        text = {"tokenizer": self.tokenizer, "k1": self.k1, "b": self.b, "syntax": self.syntax}
        return {**super()._options(), **text}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the store with its text index to one file; see `MemoryVectorStore.save`.

        Raises:
            InvalidArgumentError: the tokenizer's settings are not JSON.
        """
        with self._writing:
            text, columns = self._text, self._text.index.columns()
            with self._lock:
                reading = self._begin(None)
        try:
            view = reading.view
            first = view.live_rows()[:_PROBED].tolist()
            texts = [indexed_text(view.texts[row], view.contexts[row]) for row in first]
            kept = saved_text(text.tokenizer, text.k1, text.b, texts, columns, syntax=self.syntax)
            write_store(path, view, reading.before, dimension=self._dimension, model=self._model, text=kept)
        finally:
            with self._lock:
                self._readings.remove(reading)

    @classmethod
    def load(
        cls: type[LexicalT],
        path: str | os.PathLike[str],
        *,
        tokenizer: AnyTokenizer | str | None = None,
        quantization: Literal["auto", "none", "int8"] = "auto",
    ) -> LexicalT:
        """Return the store that `save` wrote to `path`. A file of a `MemoryVectorStore` is indexed as it is read.

        Args:
            path: the file.
            tokenizer: needed where the saved one is not known by name here; otherwise it must be the same.
            quantization: see the class.

        Raises:
            InvalidArgumentError: the file is not a saved store or is damaged, or the tokenizer is not the saved one.
            FileNotFoundError: there is no such file.
        """
        saved = read_store(path)
        text, options = saved.text, {"metric": saved.metric, "dimension": saved.dimension}
        if text is None:
            store = cls(**options, tokenizer=tokenizer, quantization=quantization)  # type: ignore[arg-type]
            same = False
        else:
            given, same = resolve_saved_tokenizer(text, tokenizer, saved.rows.indexed_texts(_PROBED))
            asked: dict[str, Any] = {"k1": text.k1, "b": text.b, "syntax": text.syntax}
            store = cls(**options, tokenizer=given, quantization=quantization, **asked)  # type: ignore[arg-type]
        store._model = saved.model
        store._adopt(saved.rows, text if same else None)
        return store

    @classmethod
    async def aload(
        cls: type[LexicalT],
        path: str | os.PathLike[str],
        *,
        tokenizer: AnyTokenizer | str | None = None,
        quantization: Literal["auto", "none", "int8"] = "auto",
    ) -> LexicalT:
        """Async twin of `load`."""
        return await asyncio.to_thread(cls.load, path, tokenizer=tokenizer, quantization=quantization)

    def _adopt(self, rows: RowColumns, text: SavedText | None = None) -> None:
        """Take over rows; without the columns of their texts these are analysed."""
        super()._adopt(rows)
        if text is None:
            self.index_texts()
        elif len(rows.ids):
            self._text.index.fill(text.columns)

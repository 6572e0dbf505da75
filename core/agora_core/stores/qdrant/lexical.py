"""Full-text search on Qdrant: exact BM25 from its sparse vectors, and the fusion with the search by embedding."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agora_core.filters import scope_of
from agora_core.fusion import Fusion
from agora_core.keyword.analysis import AnyTokenizer
from agora_core.keyword.bm25 import DEFAULT_B, DEFAULT_K1, check_bm25_parameters
from agora_core.keyword.persistence import tokenizer_label
from agora_core.keyword.querying import TextQuery, check_syntax, parse_query
from agora_core.keyword.registry import resolve_tokenizer, tokenizer_names
from agora_core.protocols import AnyFilter
from agora_core.records import Embedding, Passage
from agora_core.steps import Steps, together
from agora_core.stores.operations import LexicalOperations, Syntax
from agora_core.stores.per_document import check_per_document, prepare_hybrid
from agora_core.stores.qdrant import collection as collections
from agora_core.stores.qdrant import ranking, sparse
from agora_core.stores.qdrant.filters import NO_FILTER, CompiledFilter, compile_for_qdrant
from agora_core.stores.qdrant.journal import View, whole
from agora_core.stores.qdrant.payload import metadata_of
from agora_core.stores.qdrant.sparse import SparseEncoder
from agora_core.stores.qdrant.store import QdrantStore
from agora_core.validation import RecordBatch, check_min_score, check_top_k, prepare_embedding


class QdrantLexicalVectorStore(LexicalOperations, QdrantStore):
    """A `QdrantStore` that also searches the text of its records, by BM25: the scores of `KeywordRetriever`.

    The statistics are those of all records at the time of the query, and through `scoped` those of the scope alone. A
    query brings the postings of its terms: a word that stands in most records of a large collection is dear.

    Examples:
        >>> with QdrantLexicalVectorStore(":memory:", collection="faq", dimension=2) as texts:
        ...     texts.ensure_collection()
        ...     texts.upsert([VectorRecord("faq#0", "Returns are free.", [1.0, 0.0])])
        ...     texts.search_text("free returns", top_k=1)[0].id
        1
        'faq#0'
    """

    def __init__(
        self,
        client: Any = None,
        *,
        tokenizer: AnyTokenizer | str | None = None,
        k1: float = DEFAULT_K1,
        b: float = DEFAULT_B,
        syntax: Syntax = "plain",
        average_length: float | None = None,
        **options: Any,
    ) -> None:
        """Describe a store; no connection is made.

        Args:
            client: see `QdrantStore`.
            tokenizer: a name for `get_tokenizer`, or a callable from text to terms; `unicode` where it is left out. It
                is kept with the collection, and only `index_texts` changes it.
            k1, b: of BM25.
            syntax: how queries are read where a call does not say; see `search_text`.
            average_length: has no effect any more; the true average counts.
            options: those of `QdrantStore`.

        Raises:
            InvalidArgumentError: an argument breaks its rule.
        """
        super().__init__(client, **options)
        if average_length is not None:
            warnings.warn("average_length has no effect: the true average counts", DeprecationWarning, stacklevel=2)
        k1, b = check_bm25_parameters(k1, b)
        self._syntax = check_syntax(syntax)
        self._encoder = SparseEncoder(resolve_tokenizer(tokenizer), k1, b)
        self._settings = replace(self._settings, sparse=self._encoder)
        self._text_checked = False

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, tokenizer={tokenizer_label(self.tokenizer)})"

    @property
    def tokenizer(self) -> AnyTokenizer:
        """The analyser."""
        return self._encoder.tokenizer

    def adopt_tokenizer(self) -> str | None:
        """Analyse texts as the collection that is there does; return its tokenizer's name, None where there is none.

        A tokenizer that is not known by name here is left alone: the first use of the collection says so.
        """
        return self._adopted(self._run(collections.kept_tokenizer(self._settings)))

    async def aadopt_tokenizer(self) -> str | None:
        """Async twin of `adopt_tokenizer`."""
        return self._adopted(await self._arun(collections.kept_tokenizer(self._settings)))

    def _adopted(self, name: str | None) -> str | None:
        if name in tokenizer_names():
            self._analyse_by(name)
        return name

    def _analyse_by(self, tokenizer: AnyTokenizer | str | None) -> None:
        if tokenizer is not None:
            self._encoder = replace(self._encoder, tokenizer=resolve_tokenizer(tokenizer))
            self._settings = replace(self._settings, sparse=self._encoder)
            self._text_checked = False

    def index_texts(self, *, tokenizer: AnyTokenizer | str | None = None) -> int:
        """Index the text of every record anew with this store's tokenizer. Return how many there are.

        Until it has ended no store opens the collection; when it was interrupted it is called again. `tokenizer` is
        another one for this store from now on; None keeps its own.
        """
        self._analyse_by(tokenizer)
        return self._run(self._index_texts())

    async def aindex_texts(self, *, tokenizer: AnyTokenizer | str | None = None) -> int:
        """Async twin of `index_texts`."""
        self._analyse_by(tokenizer)
        return await self._arun(self._index_texts())

    def _index_texts(self) -> Steps[int]:
        indexed = yield from collections.index_texts(self._settings)
        self._text_checked = True
        return indexed

    def _ready(self) -> Steps[None]:
        """Make sure, once, that the collection's text was indexed with this tokenizer."""
        if not self._text_checked:
            yield from collections.check_text(self._settings)
            self._text_checked = True

    def _write(self, batch: RecordBatch, bound: CompiledFilter | None) -> Steps[int]:
        if len(batch):
            yield from self._ready()
        return (yield from super()._write(batch, bound))

    def _replace(self, documents: list[str], batch: RecordBatch, bound: CompiledFilter | None) -> Steps[int]:
        yield from self._ready()
        return (yield from super()._replace(documents, batch, bound))

    def _search_text(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
        syntax: Syntax | None,
    ) -> Steps[list[Passage]]:
        return self._text(
            self._asked(query, syntax),
            _scope(filter, self._settings.local),
            compile_for_qdrant(filter, local=self._settings.local),
            check_top_k(top_k),
            check_min_score(min_score),
            check_per_document(per_document),
        )

    def _asked(self, query: str, syntax: Syntax | None) -> TextQuery:
        return parse_query(query, self._encoder.tokenizer, syntax=self._syntax if syntax is None else syntax)

    def _text(
        self,
        asked: TextQuery,
        scope: CompiledFilter,
        compiled: CompiledFilter,
        wanted: int,
        floor: float | None,
        each: int | None,
    ) -> Steps[list[Passage]]:
        if compiled.denies or scope.denies or asked.is_blank:
            return []
        yield from self._ready()
        holds_any = self._encoder.holds_any(asked.weights)

        def accept(text: str) -> bool:
            return holds_any(text) and (asked.is_plain or asked.admits(self._encoder.tokenizer, text))

        def read(view: View) -> Steps[list[Passage]]:
            hits = yield from sparse.ranking(self._settings, self._encoder, asked.weights, scope, compiled, view)
            if floor is not None:
                hits = [hit for hit in hits if hit[0] >= floor]
            best = yield from sparse.read(self._settings, hits, compiled, view, accept, wanted, each)
            return [
                Passage(payload["id"], payload["text"], score, payload.get("source"), metadata_of(payload))
                for score, payload in best
            ]

        return (yield from whole(self._settings, read))

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
    ) -> Steps[list[Passage]]:
        asked, vector = self._asked(query, syntax), prepare_embedding(embedding, dimension=self.dimension)
        answer = prepare_hybrid(
            top_k=top_k,
            fetch_top_k=fetch_top_k,
            k=k,
            weights=weights,
            fusion=fusion,
            min_score=min_score,
            per_document=per_document,
        )
        scope = _scope(filter, self._settings.local)
        compiled = compile_for_qdrant(filter, local=self._settings.local)

        def fetch(count: int) -> Steps[list[list[Passage]]]:
            dense = ranking.search(self._settings, vector, compiled, count, None)
            return (yield from together([dense, self._text(asked, scope, compiled, count, None, None)]))

        def hybrid() -> Steps[list[Passage]]:
            return [] if compiled.denies else (yield from answer(fetch))

        return hybrid()


def _scope(filter: AnyFilter | None, local: bool) -> CompiledFilter:
    """Return the part of a filter whose statistics count: that of the views it came through, all records without."""
    scope = None if filter is None else scope_of(filter)
    return NO_FILTER if scope is None else compile_for_qdrant(scope, local=local)

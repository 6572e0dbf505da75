"""`PgLexicalVectorStore`: the records of a `PgVectorStore`, searched by their texts as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from agora_core.errors import InvalidArgumentError, UnsupportedOperationError
from agora_core.filters import FALSE, Expression
from agora_core.fusion import Fusion
from agora_core.keyword.analysis import AnyTokenizer
from agora_core.keyword.bm25 import DEFAULT_B, DEFAULT_K1, check_bm25_parameters
from agora_core.keyword.persistence import tokenizer_label
from agora_core.keyword.querying import check_syntax, parse_query
from agora_core.keyword.registry import resolve_tokenizer, tokenizer_names
from agora_core.protocols import AnyFilter
from agora_core.records import Embedding, Passage
from agora_core.steps import Steps
from agora_core.stores.operations import LexicalOperations, Syntax
from agora_core.stores.per_document import check_per_document, grow, prepare_hybrid
from agora_core.stores.postgres import text_search
from agora_core.stores.postgres.connections import Operation, Source
from agora_core.stores.postgres.layout import check_identifier
from agora_core.stores.postgres.operations import expression_of, passages
from agora_core.stores.postgres.session import Statement
from agora_core.stores.postgres.statements import Target
from agora_core.stores.postgres.store import PgVectorStore
from agora_core.stores.postgres.text.index import TextIndex
from agora_core.stores.postgres.text.schema import create as create_text_index
from agora_core.stores.postgres.text_search import RANKINGS, Ranking, TextQuery, parse_text_query
from agora_core.validation import check_min_score, check_top_k, prepare_embedding


class PgLexicalVectorStore(LexicalOperations, PgVectorStore):
    """A `PgVectorStore` that also searches the texts of its records, by the analysers of `KeywordRetriever`.

    The same query over the same records finds the same passages with the same BM25 scores as there. The index stands in
    tables beside the records and is changed with them, in the same transaction; see docs/postgres.md.

    Examples:
        >>> with PgLexicalVectorStore(conninfo, table="faq", dimension=2) as texts:
        ...     texts.ensure_schema()
        ...     texts.upsert([VectorRecord("faq#0", "Returns are free.", [1.0, 0.0])])
        ...     texts.search_text("free returns", top_k=1)[0].id
        1
        'faq#0'
    """

    def __init__(
        self,
        conninfo: Source,
        *,
        tokenizer: AnyTokenizer | str | None = None,
        k1: float = DEFAULT_K1,
        b: float = DEFAULT_B,
        syntax: Syntax | None = None,
        text_search: str | None = None,
        ranking: Ranking = "bm25",
        stop_words: bool = True,
        **options: Any,
    ) -> None:
        """Describe the store; nothing is connected. Everything else is as in `PgVectorStore`.

        Args:
            tokenizer: the analyser: a name (`unicode`, `english`, ...) or a function of a text to its terms that has a
                `name`; None is `unicode`. It is kept with the index.
            k1: BM25's saturation of frequent terms, 0 or more.
            b: BM25's share of length normalisation, 0 to 1.
            syntax: how queries are read: `plain` (None means it too) or `web`; a call may say otherwise.
            text_search: a text search configuration of PostgreSQL (`simple`, `english`, ...) in the tokenizer's place:
                another analyser, whose statistics are those of the rows that match query and filter.
            ranking: with `text_search`: `bm25`, or `ts_rank_cd` for PostgreSQL's cover density.
            stop_words: with `simple`, leave function words out of queries; where nothing else is found they count.

        Raises:
            InvalidArgumentError: an option is out of its range, or both analysers are named.
        """
        if ranking not in RANKINGS:
            raise InvalidArgumentError(f"ranking must be one of {', '.join(RANKINGS)}, got {ranking!r}")
        if text_search is not None and tokenizer is not None:
            raise InvalidArgumentError("tokenizer and text_search are two analysers; give one of them")
        self._syntax = check_syntax(syntax)
        if text_search is None:
            if ranking != "bm25":
                raise InvalidArgumentError(
                    f"ranking={ranking!r} is PostgreSQL's own; name its configuration, too: text_search='english'"
                )
            self._texts = TextIndex(resolve_tokenizer(tokenizer or "unicode"), k1, b)
        check_bm25_parameters(k1, b)
        self._configuration = None if text_search is None else check_identifier(text_search, argument="text_search")
        self._drop_stop_words = bool(stop_words) and self._configuration == "simple"
        self._ranking: Ranking = ranking
        self._k1, self._b = float(k1), float(b)
        super().__init__(conninfo, **options)

    def _text_search(self) -> str | None:
        return self._configuration

    def schema_statements(self) -> list[str]:
        """Return the statements that make the schema of a new table; see `PgVectorStore.schema_statements`.

        Those of the text index name the schema `public` where the store was given none.
        """
        made = super().schema_statements()
        if self._texts is not None:
            layout = self._layout
            texts = create_text_index(layout, layout.columns.context, self._texts.mark, layout.schema or "public")
            made += [statement.as_string(None) for statement in texts]
        return made

    def __repr__(self) -> str:
        tokenizer = self.tokenizer
        analyser = (
            f"text_search={self._configuration}" if tokenizer is None else f"tokenizer={tokenizer_label(tokenizer)}"
        )
        return f"{super().__repr__()[:-1]}, {analyser})"

    @property
    def tokenizer(self) -> AnyTokenizer | None:
        """The analyser; None where a configuration of PostgreSQL stands in its place."""
        return None if self._texts is None else self._texts.tokenizer

    def adopt_tokenizer(self) -> str | None:
        """Analyse texts as the index that is there does; return its analyser's name, None where there is no index.

        An analyser that is not known by name here is left alone: opening the index says so.
        """
        return self._adopted(self._run(self._kept_tokenizer()))

    async def aadopt_tokenizer(self) -> str | None:
        """Async twin of `adopt_tokenizer`."""
        return self._adopted(await self._arun(self._kept_tokenizer()))

    def _kept_tokenizer(self) -> Operation:
        texts = self._own_texts()
        return Operation(lambda: texts.kept(self._layout))

    def _adopted(self, name: str | None) -> str | None:
        if name in tokenizer_names():
            self._analyse_by(name)
        return name

    def _analyse_by(self, tokenizer: AnyTokenizer | str | None) -> None:
        if tokenizer is not None:
            self._own_texts()
            self._texts = TextIndex(resolve_tokenizer(tokenizer), self._k1, self._b)

    def index_texts(
        self,
        *,
        tokenizer: AnyTokenizer | str | None = None,
        batch_size: int = 1_000,
        progress: Callable[[int, int], Any] | None = None,
    ) -> int:
        """Index the texts that are not indexed yet, all of them where another analyser made the index.

        Each batch is a transaction of its own, so that it may be broken off and called again; writers and searches go
        on meanwhile, and a search that would have to read too many texts says so.

        Args:
            tokenizer: another analyser for this store from now on; None keeps its own.
            batch_size: texts a transaction, 1 or more.
            progress: called as `progress(done, total)` after each batch.

        Returns:
            how many were indexed.
        """
        self._analyse_by(tokenizer)
        done, total = 0, int(self._run(self._begin_indexing()))
        while count := int(self._run(self._index_page(batch_size))):
            done += count
            if progress is not None:
                progress(done, max(total, done))
        return done

    async def aindex_texts(
        self,
        *,
        tokenizer: AnyTokenizer | str | None = None,
        batch_size: int = 1_000,
        progress: Callable[[int, int], Any] | None = None,
    ) -> int:
        """Async twin of `index_texts`."""
        self._analyse_by(tokenizer)
        done, total = 0, int(await self._arun(self._begin_indexing()))
        while count := int(await self._arun(self._index_page(batch_size))):
            done += count
            if progress is not None:
                progress(done, max(total, done))
        return done

    def maintain(self) -> int:
        """Join the pieces of the text index and sweep out what counts no more. Return how many pieces are left.

        Run it after large changes, and now and then; a vacuum of the tables afterwards gives their room back. -1 says
        that another process was at it.
        """
        return int(self._run(self._maintain()))

    async def amaintain(self) -> int:
        """Async twin of `maintain`."""
        return int(await self._arun(self._maintain()))

    def _own_texts(self) -> TextIndex:
        if self._texts is None:
            raise UnsupportedOperationError(
                "this store searches by PostgreSQL's text_search, which has no index of ours; open it with tokenizer="
            )
        return self._texts

    def _begin_indexing(self) -> Operation:
        texts = self._own_texts()

        def steps() -> Steps[int]:
            target = yield from self._known_target()
            yield from texts.begin_again(target)
            return (yield from texts.pending(target))

        return Operation(steps, writes=True)

    def _index_page(self, size: int) -> Operation:
        texts, most = self._own_texts(), check_top_k(size, argument="batch_size")

        def steps() -> Steps[int]:
            return (yield from texts.index_page((yield from self._known_target()), most))

        return Operation(steps, writes=True)

    def _maintain(self) -> Operation:
        texts = self._own_texts()

        def steps() -> Steps[int]:
            return (yield from texts.maintain((yield from self._known_target())))

        return Operation(steps, writes=True)

    def _search_text(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
        syntax: Syntax | None,
    ) -> Operation:
        asked = self._asked(query, syntax)
        most, floor, expression = check_top_k(top_k), check_min_score(min_score), expression_of(filter)
        bound = check_per_document(per_document)

        def steps() -> Steps[list[Passage]]:
            if expression == FALSE:
                return []
            target = yield from self._known_target()
            return (yield from self._texts_found(target, asked, expression, most, floor, bound))

        return Operation(steps)

    def _asked(self, query: str, syntax: Syntax | None) -> Any:
        used = self._syntax if syntax is None else check_syntax(syntax)
        if self._texts is not None:
            return parse_query(query, self._texts.tokenizer, syntax=used)
        return parse_text_query(query, drop_stop_words=self._drop_stop_words, plain=used == "plain")

    def _texts_found(
        self,
        target: Target,
        asked: Any,
        filter: Expression | None,
        top_k: int,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        if self._texts is not None:
            options = {"top_k": top_k, "min_score": min_score, "per_document": per_document}
            return (yield from self._texts.search(target, asked, filter, **options))  # type: ignore[arg-type]

        def fetch(count: int) -> Steps[list[Passage]]:
            if asked.is_blank:
                return []
            answer = yield self._text_statement(target, asked, filter, count)
            if not answer.rows and asked.terms != asked.all_terms:
                answer = yield self._text_statement(target, _with_stop_words(asked), filter, count)
            return (yield from passages(answer.rows))

        found = yield from grow(fetch, top_k=top_k, per_document=per_document)
        return [one for one in found if min_score is None or one.score >= min_score]

    def _text_statement(self, target: Target, query: TextQuery, filter: Expression | None, top_k: int) -> Statement:
        return text_search.search_text(
            target,
            query,
            filter,
            configuration=self._configuration or "simple",
            ranking=self._ranking,
            top_k=top_k,
            k1=self._k1,
            b=self._b,
        )

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
    ) -> Operation:
        asked = self._asked(query, syntax)
        vector = prepare_embedding(embedding, dimension=self.dimension)
        answer = prepare_hybrid(
            top_k=top_k,
            fetch_top_k=fetch_top_k,
            k=k,
            weights=weights,
            fusion=fusion,
            min_score=min_score,
            per_document=per_document,
        )
        expression = expression_of(filter)

        def steps() -> Steps[list[Passage]]:
            if expression == FALSE:
                return []
            target = yield from self._known_target()

            def fetch(count: int) -> Steps[list[list[Passage]]]:
                walk = self._walk(target, expression, vector, count)
                dense = yield from walk.finished((yield walk.statement))
                lexical = yield from self._texts_found(target, asked, expression, count, None, None)
                return [(yield from passages(dense)), lexical]

            return (yield from answer(fetch))

        return Operation(steps)


def _with_stop_words(query: TextQuery) -> TextQuery:
    return replace(query, terms=query.all_terms)

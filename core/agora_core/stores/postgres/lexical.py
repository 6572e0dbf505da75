"""`PgLexicalVectorStore`: the records of a `PgVectorStore`, searched by their texts as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from agora_core.errors import InvalidArgumentError
from agora_core.filters import FALSE, Expression
from agora_core.fusion import reciprocal_rank_fusion
from agora_core.keyword.bm25 import DEFAULT_B, DEFAULT_K1, check_bm25_parameters
from agora_core.protocols import AnyFilter
from agora_core.records import Embedding, Passage
from agora_core.stores.postgres import text_search
from agora_core.stores.postgres.connections import Operation, Source
from agora_core.stores.postgres.layout import check_identifier
from agora_core.stores.postgres.operations import expression_of
from agora_core.stores.postgres.requests import Statement, Steps
from agora_core.stores.postgres.rows import passage
from agora_core.stores.postgres.search import both_legs
from agora_core.stores.postgres.statements import Target
from agora_core.stores.postgres.store import PgVectorStore
from agora_core.stores.postgres.text_query import TextQuery, parse_text_query
from agora_core.stores.postgres.text_search import RANKINGS, Ranking
from agora_core.validation import check_top_k, prepare_embedding

_LEXICAL_LEG: Final = 1


class PgLexicalVectorStore(PgVectorStore):
    """A `PgVectorStore` that also searches the texts of its records with PostgreSQL's full text search.

    A row is found when it holds any term of the query, so a natural question finds what its rare words name. Ranking
    is BM25, with the statistics of the rows that match query and filter.
    """

    def __init__(
        self,
        conninfo: Source,
        *,
        text_search: str = "simple",
        ranking: Ranking = "bm25",
        k1: float = DEFAULT_K1,
        b: float = DEFAULT_B,
        stop_words: bool = True,
        **options: Any,
    ) -> None:
        """Describe the store; nothing is connected. Everything else is as in `PgVectorStore`.

        Args:
            text_search: the text search configuration: `simple` knows no language; `english` and its like stem.
            ranking: `bm25`, or `ts_rank_cd` for PostgreSQL's cover density.
            k1: BM25's saturation of frequent terms, 0 or more.
            b: BM25's share of length normalisation, 0 to 1.
            stop_words: with `simple`, leave function words out of queries; where nothing else is found they count.

        Raises:
            InvalidArgumentError: an option is out of its range.
        """
        if ranking not in RANKINGS:
            raise InvalidArgumentError(f"ranking must be one of {', '.join(RANKINGS)}, got {ranking!r}")
        check_bm25_parameters(k1, b)
        self._configuration = check_identifier(text_search, argument="text_search")
        self._drop_stop_words = bool(stop_words) and self._configuration == "simple"
        self._ranking: Ranking = ranking
        self._k1, self._b = float(k1), float(b)
        super().__init__(conninfo, **options)

    def _text_search(self) -> str | None:
        return self._configuration

    def search_text(self, query: str, *, top_k: int, filter: AnyFilter | None = None) -> list[Passage]:
        """Return the `top_k` matching records whose text answers `query` best; a blank query finds nothing.

        Quoted phrases must stand in the text, and words or phrases with a minus before them must not; there is no other
        syntax and no way to get it wrong. Scores are above 0; equal scores are in code-point order of ids.

        Args:
            query: what a user typed; its first 100,000 characters.
            top_k: 1 or more.
            filter: a mapping or an expression; it bounds the statistics of the ranking too.
        """
        return list(self._run(self._text_operation(query, top_k, filter)))

    async def asearch_text(self, query: str, *, top_k: int, filter: AnyFilter | None = None) -> list[Passage]:
        """Async twin of `search_text`."""
        return list(await self._arun(self._text_operation(query, top_k, filter)))

    def search_hybrid(
        self,
        query: str,
        embedding: Embedding,
        *,
        top_k: int,
        fetch_top_k: int = 20,
        k: float = 60,
        weights: Sequence[float] | None = (1.0, 1.0),
        filter: AnyFilter | None = None,
    ) -> list[Passage]:
        """Search by embedding and by text in one statement, and fuse both lists by `reciprocal_rank_fusion`.

        The ranking is that of a `HybridRetriever` over an `EmbeddingRetriever` and a `LexicalRetriever` of this store.

        Args:
            query: the text.
            embedding: shape (dimension,).
            top_k: 1 or more.
            fetch_top_k: how many each list brings; raised to `top_k`.
            k, weights: of the fusion; the weights are those of the embedding and of the text.
            filter: bounds both lists.
        """
        return list(self._run(self._hybrid_operation(query, embedding, top_k, fetch_top_k, k, weights, filter)))

    async def asearch_hybrid(
        self,
        query: str,
        embedding: Embedding,
        *,
        top_k: int,
        fetch_top_k: int = 20,
        k: float = 60,
        weights: Sequence[float] | None = (1.0, 1.0),
        filter: AnyFilter | None = None,
    ) -> list[Passage]:
        """Async twin of `search_hybrid`."""
        operation = self._hybrid_operation(query, embedding, top_k, fetch_top_k, k, weights, filter)
        return list(await self._arun(operation))

    def _text_operation(self, query: str, top_k: int, filter: AnyFilter | None) -> Operation:
        parsed = parse_text_query(query, drop_stop_words=self._drop_stop_words)
        most, expression = check_top_k(top_k), expression_of(filter)

        def steps() -> Steps[list[Passage]]:
            if parsed.is_blank or expression == FALSE:
                return []
            target = yield from self._operations.target()
            answer = yield self._text_statement(target, parsed, expression, most)
            if not answer.rows and parsed.terms != parsed.all_terms:
                answer = yield self._text_statement(target, _with_stop_words(parsed), expression, most)
            return [passage(row) for row in answer.rows]

        return Operation(steps)

    def _text_statement(self, target: Target, query: TextQuery, filter: Expression | None, top_k: int) -> Statement:
        return text_search.search_text(
            target,
            query,
            filter,
            configuration=self._configuration,
            ranking=self._ranking,
            top_k=top_k,
            k1=self._k1,
            b=self._b,
        )

    def _hybrid_operation(
        self,
        query: str,
        embedding: Embedding,
        top_k: int,
        fetch_top_k: int,
        k: float,
        weights: Sequence[float] | None,
        filter: AnyFilter | None,
    ) -> Operation:
        parsed = parse_text_query(query, drop_stop_words=self._drop_stop_words)
        vector = prepare_embedding(embedding, dimension=self.dimension)
        most = check_top_k(top_k)
        fetched = max(check_top_k(fetch_top_k, argument="fetch_top_k"), most)
        expression = expression_of(filter)
        # Fused once with nothing: a wrong k or weight is refused before anything is asked.
        reciprocal_rank_fusion([[], []], k=k, weights=weights)

        def steps() -> Steps[list[Passage]]:
            if expression == FALSE:
                return []
            target = yield from self._operations.target()
            walk = self._operations.walk(target, expression, vector, fetched)
            lexical: list[Sequence[Any]] = []
            if parsed.is_blank:
                dense = yield from walk.finished((yield walk.statement))
            else:
                answer = yield both_legs(walk.statement, self._text_statement(target, parsed, expression, fetched))
                rows = sorted(answer.rows, key=lambda row: (row[0], -(row[6] or 0.0), row[2] or ""))
                lexical = [row[2:] for row in rows if row[0] == _LEXICAL_LEG]
                first = replace(answer, rows=[row[1:] for row in rows if row[0] != _LEXICAL_LEG])
                dense = yield from walk.finished(first)
                if not lexical and parsed.terms != parsed.all_terms:
                    again = yield self._text_statement(target, _with_stop_words(parsed), expression, fetched)
                    lexical = list(again.rows)
            rankings = [[passage(row) for row in dense], [passage(row) for row in lexical]]
            return reciprocal_rank_fusion(rankings, k=k, weights=weights)[:most]

        return Operation(steps)


def _with_stop_words(query: TextQuery) -> TextQuery:
    return replace(query, terms=query.all_terms)

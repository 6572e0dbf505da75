"""`PgLexicalVectorStore`: the records of a `PgVectorStore`, searched by their texts as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from agora_core.errors import InvalidArgumentError
from agora_core.filters import FALSE, Expression
from agora_core.fusion import Fusion, fuse
from agora_core.keyword.bm25 import DEFAULT_B, DEFAULT_K1, check_bm25_parameters
from agora_core.protocols import AnyFilter
from agora_core.records import Embedding, Passage
from agora_core.steps import Steps
from agora_core.stores.operations import LexicalOperations, Syntax
from agora_core.stores.per_document import check_per_document, grow, grow_fused
from agora_core.stores.postgres import text_search
from agora_core.stores.postgres.connections import Operation, Source
from agora_core.stores.postgres.layout import check_identifier
from agora_core.stores.postgres.operations import expression_of
from agora_core.stores.postgres.rows import passage
from agora_core.stores.postgres.search import both_legs
from agora_core.stores.postgres.session import Statement
from agora_core.stores.postgres.statements import Target
from agora_core.stores.postgres.store import PgVectorStore
from agora_core.stores.postgres.text_query import TextQuery, parse_text_query
from agora_core.stores.postgres.text_search import RANKINGS, Ranking
from agora_core.validation import check_min_score, check_top_k, prepare_embedding

_LEXICAL_LEG: Final = 1


class PgLexicalVectorStore(LexicalOperations, PgVectorStore):
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

    def _search_text(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
        syntax: Syntax | None,
    ) -> Operation:
        parsed = parse_text_query(query, drop_stop_words=self._drop_stop_words)
        most, floor, expression = check_top_k(top_k), check_min_score(min_score), expression_of(filter)
        each = check_per_document(per_document)

        def steps() -> Steps[list[Passage]]:
            if parsed.is_blank or expression == FALSE:
                return []
            target = yield from self._known_target()
            words = parsed

            def best(wanted: int) -> Steps[list[Passage]]:
                nonlocal words
                answer = yield self._text_statement(target, words, expression, wanted)
                if not answer.rows and words.terms != words.all_terms:
                    words = _with_stop_words(words)
                    answer = yield self._text_statement(target, words, expression, wanted)
                return [passage(row) for row in answer.rows if floor is None or row[4] >= floor]

            return (yield from grow(best, top_k=most, per_document=each))

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
        parsed = parse_text_query(query, drop_stop_words=self._drop_stop_words)
        vector = prepare_embedding(embedding, dimension=self.dimension)
        most, floor, each = check_top_k(top_k), check_min_score(min_score), check_per_document(per_document)
        fetched = check_top_k(fetch_top_k, argument="fetch_top_k")
        expression = expression_of(filter)

        def fused(rankings: Sequence[Sequence[Passage]], cut: int | None) -> list[Passage]:
            found = fuse(rankings, fusion=fusion, k=k, weights=weights, top_k=cut)
            return [passage for passage in found if floor is None or passage.score >= floor]

        # Fused once with nothing: a wrong fusion, k or weight is refused before anything is asked.
        fused([[], []], None)

        def steps() -> Steps[list[Passage]]:
            if expression == FALSE:
                return []
            target = yield from self._known_target()

            def legs(wanted: int) -> Steps[list[list[Passage]]]:
                walk = self._walk(target, expression, vector, wanted)
                lexical: list[Sequence[Any]] = []
                if parsed.is_blank:
                    dense = yield from walk.finished((yield walk.statement))
                else:
                    answer = yield both_legs(walk.statement, self._text_statement(target, parsed, expression, wanted))
                    rows = sorted(answer.rows, key=lambda row: (row[0], -(row[6] or 0.0), row[2] or ""))
                    lexical = [row[2:] for row in rows if row[0] == _LEXICAL_LEG]
                    first = replace(answer, rows=[row[1:] for row in rows if row[0] != _LEXICAL_LEG])
                    dense = yield from walk.finished(first)
                    if not lexical and parsed.terms != parsed.all_terms:
                        again = yield self._text_statement(target, _with_stop_words(parsed), expression, wanted)
                        lexical = list(again.rows)
                return [[passage(row) for row in dense], [passage(row) for row in lexical]]

            return (yield from grow_fused(legs, fused, top_k=most, fetch_top_k=fetched, per_document=each))

        return Operation(steps)


def _with_stop_words(query: TextQuery) -> TextQuery:
    return replace(query, terms=query.all_terms)

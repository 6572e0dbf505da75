"""Text search as statements: BM25 whose statistics are those of the rows that match, at the moment they match.

Every row with a term is found through the GIN index, term by term, so a row is only looked at for terms it has. From
those hits come the number of rows, the document frequencies and the average length; there are no side tables to keep
right under concurrent writes, and a filter bounds the statistics as it bounds the rows.

How often a term stands in a row is read off `ts_rank`. For one lexeme without weights its value depends on that number
alone: 0.1 / 1.64493406685 times the sum of 1/j^2 for j from 1 to it. `width_bucket` turns it back into the number,
which is far cheaper than to unnest every tsvector.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from psycopg import sql

from agora_core.errors import InvalidArgumentError
from agora_core.filters import Expression
from agora_core.keyword.stopwords import STOP_WORDS, stop_words
from agora_core.stores.postgres.schema import tsvector_sql
from agora_core.stores.postgres.session import Statement
from agora_core.stores.postgres.statements import Target, rendered

Ranking = Literal["bm25", "ts_rank_cd"]
RANKINGS: Final[tuple[Ranking, ...]] = ("bm25", "ts_rank_cd")

_MOST_POSITIONS: Final = 256
"""A tsvector keeps no more positions of one lexeme."""


def _rank_bounds() -> list[float]:
    """Return the values between those that `ts_rank` gives for 1, 2, 3, ... occurrences."""
    ranks, total = [], 0.0
    for occurrence in range(1, _MOST_POSITIONS + 1):
        total += 1.0 / occurrence**2
        ranks.append(0.1 * total / 1.64493406685)
    return [(low + high) / 2 for low, high in itertools.pairwise(ranks)]


_RANK_BOUNDS: Final = "{" + ",".join(map(repr, _rank_bounds())) + "}"

# A lexeme as a query of its own, whatever characters are in it.
_TERM: Final = r"('''' || replace(replace(lexeme, '\', '\\'), '''', '''''') || '''')"


def tsvector(target: Target, configuration: str) -> sql.Composable:
    """Return the lexemes of a row: the stored column, or the expression where a table has none."""
    if target.catalog.text_search is not None:
        return target.column(target.catalog.text_search)
    return sql.SQL("{}").format(tsvector_sql(target.column(target.layout.columns.text), configuration))


def search_text(
    target: Target,
    query: TextQuery,
    filter: Expression | None,
    *,
    configuration: str,
    ranking: Ranking,
    top_k: int,
    k1: float,
    b: float,
) -> Statement:
    """Return the best rows of (id, text, source, metadata, score). `query.terms` is what is looked for."""
    condition = target.condition(filter)
    lexemes = tsvector(target, configuration)
    clauses, parameters = _clauses(query, lexemes)
    pieces = {
        "table": target.table,
        "payload": target.payload,
        "key": target.column(target.layout.columns.id),
        "id": target.id,
        "lexemes": lexemes,
        "condition": sql.SQL("{}{}").format(condition.clause, clauses),
        "term": sql.SQL(_TERM),
        "text": target.column(target.layout.columns.text),
    }
    template = _BM25 if ranking == "bm25" else _COVER_DENSITY
    values: dict[str, Any] = {"configuration": configuration, "terms": query.terms, "k": top_k}
    if ranking == "bm25":
        values.update(bounds=_RANK_BOUNDS, k1=k1, b=b)
    return rendered(template.format(**pieces), condition.parameters, parameters, values)


# Gains are summed as whole numbers of 1e-12, so that the sum does not hang on the order of rows, and equal ones tie.
# The length of a text is its bytes, which the server knows without reading a long text.
_BM25: Final = sql.SQL(
    "WITH terms AS MATERIALIZED ("
    "SELECT row_number() OVER () AS number, {term}::tsquery AS term "
    "FROM unnest(to_tsvector(%(configuration)s::text::regconfig, %(terms)s::text))"
    "), hits AS MATERIALIZED ("
    "SELECT {key} AS key, terms.number, octet_length({text}) AS length, "
    "width_bucket(ts_rank({lexemes}, terms.term)::float8, %(bounds)s::float8[]) + 1 AS frequency "
    "FROM terms JOIN {table} AS t ON {lexemes} @@ terms.term WHERE {condition}"
    "), matching AS ("
    "SELECT count(*) AS n, avg(length)::float8 AS length "
    "FROM (SELECT min(length) AS length FROM hits GROUP BY key) AS lengths"
    "), weights AS ("
    "SELECT number, ln(1 + (matching.n - count(*) + 0.5)::float8 / (count(*) + 0.5)) AS idf "
    "FROM hits, matching GROUP BY number, matching.n"
    "), best AS MATERIALIZED ("
    "SELECT key, sum((1e12 * idf * frequency * (%(k1)s::float8 + 1) / (frequency + %(k1)s::float8 * "
    "(1 - %(b)s::float8 + %(b)s::float8 * hits.length / greatest(matching.length, 1))))::bigint)::float8 / 1e12 "
    "AS score "
    'FROM hits JOIN weights USING (number), matching GROUP BY key ORDER BY score DESC, key COLLATE "C" LIMIT %(k)s'
    ") SELECT {payload}, best.score AS score FROM best JOIN {table} AS t ON {key} = best.key ORDER BY score DESC, {id}"
)

_COVER_DENSITY: Final = sql.SQL(
    "WITH query AS MATERIALIZED ("
    "SELECT string_agg({term}, ' | ')::tsquery AS terms "
    "FROM unnest(to_tsvector(%(configuration)s::text::regconfig, %(terms)s::text))"
    ") SELECT {payload}, ts_rank_cd({lexemes}, query.terms, 32)::float8 AS score FROM query JOIN {table} AS t "
    "ON {lexemes} @@ query.terms WHERE {condition} ORDER BY score DESC, {id} LIMIT %(k)s"
)


def _clauses(query: TextQuery, lexemes: sql.Composable) -> tuple[sql.Composable, dict[str, Any]]:
    """Return what phrases and exclusions add to the condition. One of stop words only says nothing and asks nothing."""
    clauses: list[sql.Composable] = []
    parameters: dict[str, Any] = {}
    for prefix, phrases in (("w", query.phrases), ("x", query.excluded)):
        for number, phrase in enumerate(phrases):
            name = f"{prefix}{number}"
            parameters[name] = phrase
            said = sql.SQL("phraseto_tsquery(%(configuration)s::text::regconfig, {}::text)").format(
                sql.Placeholder(name)
            )
            template = " AND (numnode({said}) = 0 OR {lexemes} @@ {said})"
            if prefix == "x":
                template = " AND (numnode({said}) = 0 OR NOT {lexemes} @@ {said})"
            clauses.append(sql.SQL(template).format(said=said, lexemes=lexemes))
    return sql.SQL("").join(clauses), parameters


# What a user types, taken apart: terms to find, phrases that must stand there, words that must not.

_LONGEST_QUERY: Final = 100_000
_MOST_CLAUSES: Final = 64

# A quoted phrase or a run without blanks, with a minus before it or not.
_PART = re.compile(r'(?<!\S)(-?)"([^"]*)"|(\S+)')
_EXCLUDED = re.compile(r"-[^\W_]", re.UNICODE)
_WORD = re.compile(r"\w+", re.UNICODE)
# What no database stores: U+0000 and lone surrogates.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class TextQuery:
    """A query; `terms` is text whose words are looked for, any of them. `all_terms` keeps its stop words."""

    terms: str
    all_terms: str
    phrases: tuple[str, ...]
    excluded: tuple[str, ...]

    @property
    def is_blank(self) -> bool:
        """Whether there is nothing to look for."""
        return not self.all_terms


def parse_text_query(query: Any, *, drop_stop_words: bool, plain: bool = False) -> TextQuery:
    """Take a query apart. There is no syntax to get wrong: what is neither a phrase nor an exclusion is words.

    `"heat pump"` must stand so; `-price` and `-"used car"` must not stand; everything else is found if any word is.

    Args:
        plain: quotes and minus are characters like others.
        drop_stop_words: leave function words out, unless there is nothing else. The language is the one that most of
            them belong to.

    Raises:
        InvalidArgumentError: the query is not a str.
    """
    if not isinstance(query, str):
        raise InvalidArgumentError(f"query must be a str, got {type(query).__name__}")
    words: list[str] = []
    phrases: list[str] = []
    excluded: list[str] = []
    text = _UNSTORABLE.sub(" ", query)[:_LONGEST_QUERY]
    for minus, phrase, word in [("", "", part) for part in text.split()] if plain else _PART.findall(text):
        if word:
            if not plain and _EXCLUDED.match(word):
                excluded.append(word[1:])
            else:
                words.append(word)
        elif _WORD.search(phrase):
            (excluded if minus else phrases).append(phrase)
    wanted = [*words, *phrases]
    kept = without_stop_words(words) if drop_stop_words else words
    return TextQuery(
        terms=" ".join([*kept, *phrases]) or " ".join(wanted),
        all_terms=" ".join(wanted),
        phrases=tuple(phrases[:_MOST_CLAUSES]),
        excluded=tuple(excluded[:_MOST_CLAUSES]),
    )


def without_stop_words(words: list[str]) -> list[str]:
    """Return the words that are no function words of the language that most of the function words belong to."""
    parts = [tuple(part.lower() for part in _WORD.findall(word)) for word in words]
    counts = {language: sum(part in stop_words(language) for word in parts for part in word) for language in STOP_WORDS}
    most = max(counts.values())
    if not most:
        return words
    dropped = frozenset[str]().union(*(stop_words(language) for language, n in counts.items() if n == most))
    return [
        word
        for word, inside in zip(words, parts, strict=True)
        # A hyphenated word is a term of its own.
        if "-" in word or not inside or not all(part in dropped for part in inside)
    ]

"""Vector search as statements: exact through the filter's index where few rows match, else through the vector index.

The planner cannot be left the choice: it takes the vector index for selective filters too, and then finds a part of the
rows or none. So the choice is made here, from what is counted:

* `bounded_exact` scores at most as many matching rows as are cheap to score exactly, and says when there are more;
* `exact` scores all that match;
* `nearest` walks the vector index on until enough rows match (pgvector 0.8's iterative scan).

The rows of each are (n, id, text, source, metadata, score), n only said by the first.

Each is one statement and its own transaction. The index settings are made inside it by `set_config(..., true)`, which
is SET LOCAL: nothing stays on a pooled session, and no BEGIN and COMMIT have to travel.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final, NamedTuple

from psycopg import sql

from agora_core.filters import Expression
from agora_core.stores.postgres.conditions import Raw
from agora_core.stores.postgres.layout import OPERATORS
from agora_core.stores.postgres.rows import Vector
from agora_core.stores.postgres.session import Statement
from agora_core.stores.postgres.statements import Target, rendered

EXACT_ROWS: Final = 5_000
"""Matching rows up to which a filtered search is exact."""

EXACT_ROWS_UNFILTERED: Final = 1_000
"""Rows of a table up to which an unfiltered search is exact."""

SPARSE: Final = 0.05
"""A share of 100,000 rows below which scoring all that match is cheaper than walking the index past the others."""

SPARSEST: Final = 0.02
"""A share below which a walk with the widest list finds less than 99 % of the best, however large the table."""

PROBES: Final = 10
"""Lists of an IVFFlat index that are looked at first."""

LARGEST_EF: Final = 1_000
SMALLEST_EF: Final = 40
"""pgvector's own default: where it is enough, nothing has to be set."""

_SMALLEST_FILTERED_EF: Final = 200
_MARGIN: Final = 10
_ROUNDING: Final = 3
"""Rows beyond the last asked for: those of one score may be apart by a rounding in the order of the index."""


def distance(target: Target) -> sql.Composable:
    """Return the distance as pgvector computes it, in full precision."""
    return sql.SQL("{} {} %(q)s::{}").format(
        target.column(target.layout.columns.embedding), _operator(target), target.layout.vector_type
    )


def indexed_distance(target: Target) -> sql.Composable:
    """Return the distance that the vector index orders by."""
    if not target.layout.half_index:
        return distance(target)
    half = sql.SQL("halfvec({})").format(sql.Literal(target.layout.dimension))
    return sql.SQL("({}::{half}) {} (%(q)s::vector::{half})").format(
        target.column(target.layout.columns.embedding), _operator(target), half=half
    )


def score(target: Target) -> sql.Composable:
    """Return the score, higher is better. A zero vector, whose cosine distance is NaN, scores 0."""
    if target.layout.metric == "cosine":
        return sql.SQL("coalesce(nullif(1 - ({}), 'NaN'), 0)").format(distance(target))
    # 0 - x and not -x, for an exact match is 0 and not -0.
    return sql.SQL("(0 - ({}))").format(distance(target))


def bounded_exact(
    target: Target, filter: Expression | None, vector: Vector, top_k: int, most: int, per_document: int | None = None
) -> Statement:
    """Return the exact best rows where at most `most` match. Every row begins with the number seen: `most + 1` is more.

    There is always a row; one whose id is null stands for none.
    """
    condition = target.condition(filter)
    text = _bounded_exact(target, condition.clause.text, per_document is not None)
    parameters = {**condition.parameters, "q": vector, "k": top_k, "most": most + 1}
    return Statement(text, parameters if per_document is None else {**parameters, "each": per_document})


# Putting SQL together is a measurable part of a search.
@functools.lru_cache(maxsize=128)
def _bounded_exact(target: Target, condition: str, grouped: bool) -> str:
    return (
        sql.SQL(
            "WITH matching AS MATERIALIZED ("
            "SELECT {key} AS key, {score} AS score{document} FROM {table} AS t WHERE {condition} LIMIT %(most)s"
            "), best AS MATERIALIZED ("
            "SELECT key, score FROM {ranked} WHERE (SELECT count(*) FROM matching) < %(most)s "
            'ORDER BY score DESC, key COLLATE "C" LIMIT %(k)s'
            ") SELECT seen.n, found.* FROM (SELECT count(*) AS n FROM matching) AS seen LEFT JOIN ("
            "SELECT {payload}, best.score FROM best JOIN {table} AS t ON {key} = best.key"
            ') AS found ON true ORDER BY found.score DESC, found.id COLLATE "C"'
        )
        .format(
            key=target.column(target.layout.columns.id),
            score=score(target),
            table=target.table,
            condition=Raw(condition),
            payload=target.payload,
            document=sql.SQL(", {} AS document").format(target.document_id) if grouped else sql.SQL(""),
            ranked=_cut_by_document(sql.SQL("matching")) if grouped else sql.SQL("matching"),
        )
        .as_string(None)
    )


def _cut_by_document(rows: sql.Composable) -> sql.Composable:
    """Return those rows of (key, score, document) that are among the best `each` of their document."""
    return sql.SQL(
        "(SELECT key, score FROM (SELECT key, score, row_number() OVER "
        '(PARTITION BY document ORDER BY score DESC, key COLLATE "C") AS place FROM {}) AS placed '
        "WHERE place <= %(each)s) AS cut"
    ).format(rows)


def exact(
    target: Target, filter: Expression | None, vector: Vector, top_k: int, per_document: int | None = None
) -> Statement:
    """Return the exact best rows of all that match; of each document at most so many, where that is given."""
    if per_document is not None:
        return _grouped(target, filter, score(target), top_k, per_document, {"q": vector})
    condition = target.condition(filter)
    # The order is by the score and not by the distance, so no vector index can serve it.
    query = sql.SQL(
        "SELECT NULL::bigint AS n, {payload}, {score} AS score FROM {table} AS t WHERE {condition} "
        "ORDER BY score DESC, {id} LIMIT %(k)s"
    ).format(
        payload=target.payload,
        score=score(target),
        table=target.table,
        condition=condition.clause,
        id=target.id,
    )
    return rendered(query, condition.parameters, {"q": vector, "k": top_k})


def _grouped(
    target: Target,
    filter: Expression | None,
    score: sql.Composable,
    top_k: int,
    per_document: int,
    more: dict[str, Any],
) -> Statement:
    condition = target.condition(filter)
    ranked = sql.SQL("(SELECT {} AS key, {} AS score, {} AS document FROM {} AS t WHERE {}) AS matching").format(
        target.column(target.layout.columns.id), score, target.document_id, target.table, condition.clause
    )
    query = sql.SQL(
        'WITH best AS MATERIALIZED (SELECT key, score FROM {} ORDER BY score DESC, key COLLATE "C" LIMIT %(k)s) '
        "SELECT NULL::bigint AS n, {}, best.score FROM best JOIN {} AS t ON {} = best.key ORDER BY best.score DESC, {}"
    ).format(_cut_by_document(ranked), target.payload, target.table, target.column(target.layout.columns.id), target.id)
    return rendered(query, condition.parameters, {"k": top_k, "each": per_document}, more)


def first_by_id(target: Target, filter: Expression | None, top_k: int, per_document: int | None = None) -> Statement:
    """Return the rows for a zero vector, to which all are equally similar: score 0, in the order of ids."""
    if per_document is not None:
        return _grouped(target, filter, sql.SQL("0::float8"), top_k, per_document, {})
    condition = target.condition(filter)
    query = sql.SQL(
        "SELECT NULL::bigint AS n, {payload}, 0::float8 AS score FROM {table} AS t WHERE {condition} "
        "ORDER BY {id} LIMIT %(k)s"
    ).format(payload=target.payload, table=target.table, condition=condition.clause, id=target.id)
    return rendered(query, condition.parameters, {"k": top_k})


def nearest(
    target: Target,
    filter: Expression | None,
    vector: Vector,
    top_k: int,
    *,
    width: int | None = None,
    iterative: bool = True,
) -> Statement:
    """Return the best rows that a walk of the vector index finds, zero vectors aside.

    Rows of one distance stay together up to the cut (WITH TIES), so that the id decides between them and not the index.

    Args:
        width: `ef_search` of HNSW or the probes of IVFFlat; None leaves the session's settings.
        iterative: go on where the list holds too few rows, with a `width` and pgvector 0.8; the order is then not quite
            that of the distance, so that more rows are taken.
    """
    condition = target.condition(filter)
    iterative = iterative and width is not None and target.catalog.iterative_scan
    margin = _MARGIN if iterative or target.layout.half_index else _ROUNDING
    parameters: dict[str, Any] = {**condition.parameters, "q": vector, "k": top_k, "reach": top_k + margin}
    if target.layout.half_index:
        # The rows are scored anew in full precision.
        parameters["reach"] *= 2
    if width is not None:
        parameters["width"] = str(width)
    return Statement(_nearest(target, condition.clause.text, width is not None, iterative), parameters)


@functools.lru_cache(maxsize=128)
def _nearest(target: Target, condition: str, with_settings: bool, iterative: bool) -> str:
    cosine = target.layout.metric == "cosine"
    # IS TRUE keeps other indexes away: this statement is for filters too wide for them.
    where = sql.SQL("") if condition == "true" else sql.SQL(" WHERE ({}) IS TRUE").format(Raw(condition))
    return (
        sql.SQL(
            "SELECT NULL::bigint AS n, id, text, source, metadata, score FROM ("
            "SELECT {payload}, {score} AS score, {nonzero} AS nonzero FROM {table} AS t{where} "
            "ORDER BY {order} FETCH FIRST %(reach)s ROWS WITH TIES"
            ') AS nearest WHERE nonzero{set} ORDER BY score DESC, id COLLATE "C" LIMIT %(k)s'
        )
        .format(
            # A condition without columns is judged once, before the scan beneath it begins.
            set=_settings(target, iterative) if with_settings else sql.SQL(""),
            payload=target.payload,
            score=score(target),
            nonzero=sql.SQL("{} <> 0").format(_norm(target)) if cosine else sql.SQL("true"),
            table=target.table,
            where=where,
            order=indexed_distance(target),
        )
        .as_string(None)
    )


def zero_vectors(target: Target, filter: Expression | None, top_k: int) -> Statement:
    """Return the first rows by id whose embedding is zero: a cosine index leaves them out, and their score is 0."""
    condition = target.condition(filter)
    query = sql.SQL(
        "SELECT NULL::bigint AS n, {payload}, 0::float8 AS score FROM {table} AS t "
        "WHERE {norm} = 0 AND {condition} ORDER BY {id} LIMIT %(k)s"
    ).format(payload=target.payload, table=target.table, norm=_norm(target), condition=condition.clause, id=target.id)
    return rendered(query, condition.parameters, {"k": top_k})


class Breadth(NamedTuple):
    """How much a filter lets through: the share of matching rows, and the rows of the table, as estimated."""

    share: float
    rows: float


def is_walkable(target: Target, filtered: bool, top_k: int, breadth: Breadth) -> bool:
    """Say whether the vector index is the cheaper way to the best rows, and finds enough of them.

    Scoring costs share * rows and walking 1 / share, so the share where they meet falls with the root of the rows.
    """
    if target.catalog.vector_index is None or top_k + _MARGIN > LARGEST_EF:
        return False
    meeting = max(SPARSEST, min(SPARSE, SPARSE * math.sqrt(100_000 / max(1.0, breadth.rows))))
    return not filtered or (target.catalog.iterative_scan and breadth.share >= meeting)


def widening(top_k: int, share: float) -> int:
    """Return the `ef_search` for a filter that lets `share` of the rows through: enough of them in the first round."""
    if share >= 1.0:
        return min(LARGEST_EF, max(SMALLEST_EF, 5 * (top_k + _MARGIN)))
    return min(LARGEST_EF, max(_SMALLEST_FILTERED_EF, int((top_k + _MARGIN) / share)))


def estimate(target: Target, filter: Expression) -> Statement:
    """Return the statement whose plan holds the planner's estimate of matching rows and of all rows."""
    condition = target.condition(filter)
    query = sql.SQL(
        "EXPLAIN (FORMAT JSON) SELECT FROM {table} AS t WHERE {condition} UNION ALL SELECT FROM {table} AS t"
    ).format(table=target.table, condition=condition.clause)
    return rendered(query, condition.parameters)


def estimated_breadth(plan: Any, at_least: int, *, of_all: float = 0.0, twice: bool = False) -> Breadth:
    """Return how much matches, from the answer to `estimate`; all where the plan does not tell.

    Args:
        plan: under row security it tells of the rows that may be seen, and the vector index holds them all.
        at_least: so many rows were seen to match: before its first ANALYZE the planner guesses far too low.
        of_all: the rows of a table under row security; 0 without.
        twice: the filter says again what the policy says, and the planner has multiplied the two.
    """
    parts = [part for part in plan[0]["Plan"].get("Plans", ()) if part["Parent Relationship"] == "Member"]
    if len(parts) != 2 or not parts[1]["Plan Rows"]:
        return Breadth(1.0, 0.0)
    matching, seen = (float(part["Plan Rows"]) for part in parts)
    rows = max(seen, of_all)
    return Breadth(min(1.0, max(at_least / rows, matching / (seen if of_all and twice else rows))), rows)


def _operator(target: Target) -> sql.SQL:
    return {"<=>": sql.SQL("<=>"), "<->": sql.SQL("<->"), "<#>": sql.SQL("<#>")}[OPERATORS[target.layout.metric]]


def _settings(target: Target, iterative: bool) -> sql.Composable:
    """Return the settings of an index scan as a condition that holds."""
    index = target.catalog.vector_index
    names = ("hnsw.ef_search", "hnsw.iterative_scan")
    if index is not None and index.method == "ivfflat":
        names = ("ivfflat.probes", "ivfflat.iterative_scan")
    settings = sql.SQL(" AND (SELECT set_config({}, %(width)s, true)").format(sql.Literal(names[0]))
    if iterative:
        settings += sql.SQL(" || set_config({}, 'relaxed_order', true)").format(sql.Literal(names[1]))
    return settings + sql.SQL(") IS NOT NULL")


def _norm(target: Target) -> sql.Composable:
    return sql.SQL("{}({})").format(target.layout.norm_function, target.column(target.layout.columns.embedding))

"""Every statement the store runs on records, as pure functions of the layout, the catalog and the arguments.

Names are quoted through `psycopg.sql`, values are bound. Orders are written with COLLATE "C", by code point, whatever
the collation of a column or of the database.
"""

from __future__ import annotations

import functools
import uuid
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from psycopg import sql

from agora_core.filters import Expression
from agora_core.stores.postgres.catalog import Catalog
from agora_core.stores.postgres.conditions import ALWAYS, LONG, LONGEST, Condition, compile_condition
from agora_core.stores.postgres.layout import Layout
from agora_core.stores.postgres.schema import document_id_of_sql
from agora_core.stores.postgres.session import Statement
from agora_core.stores.postgres.tokens import value_token

_ADVISORY_BUCKETS: Final = 256


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """The table as one store sees it at one time: the pieces that statements are put together from.

    In every statement the table is called `t`.
    """

    layout: Layout
    catalog: Catalog

    @property
    def table(self) -> sql.Composable:
        """The quoted table."""
        return self.layout.name

    def column(self, name: str) -> sql.Composable:
        """Return a column of `t`."""
        return sql.Identifier("t", name)

    @property
    def id(self) -> sql.Composable:
        """The id, ordered by code point."""
        return sql.SQL('{} COLLATE "C"').format(self.column(self.layout.columns.id))

    @property
    def document_id(self) -> sql.Composable:
        """The id of a record's document."""
        if self.catalog.document_id is not None:
            document: sql.Composable = self.column(self.catalog.document_id)
        else:
            document = document_id_of_sql(self.column(self.layout.columns.id))
        return sql.SQL('({} COLLATE "C")').format(document)

    @property
    def payload(self) -> sql.Composable:
        """What a passage is made of: id, text, source, metadata as text."""
        columns = self.layout.columns
        source = sql.SQL("NULL::text") if columns.source is None else self.column(columns.source)
        return sql.SQL("{} AS id, {} AS text, {} AS source, {} AS metadata").format(
            self.column(columns.id), self.column(columns.text), source, self.metadata_text
        )

    @property
    def metadata_text(self) -> sql.Composable:
        """The metadata as text, after the order of its keys where that is kept; see `from_json_text`."""
        metadata = self.column(self.layout.columns.metadata)
        if self.catalog.key_order is None:
            return sql.SQL("{}::text").format(metadata)
        return sql.SQL("coalesce({}::text || chr(10), '') || {}::text").format(
            self.column(self.catalog.key_order), metadata
        )

    @property
    def context(self) -> sql.Composable:
        """The context of a record; null where the table keeps none."""
        name = self.catalog.context
        return sql.SQL("NULL::text") if name is None else self.column(name)

    @property
    def record(self) -> sql.Composable:
        """What a record is made of: the payload, the embedding in binary, the context."""
        return sql.SQL("{}, {} AS embedding, {} AS context").format(self.payload, self.embedding_bytes, self.context)

    @property
    def embedding_bytes(self) -> sql.Composable:
        """The embedding in pgvector's binary form, whether the connection knows the type or not."""
        send = sql.SQL("halfvec_send") if self.layout.storage == "halfvec" else sql.SQL("vector_send")
        return sql.SQL("{}({})").format(send, self.column(self.layout.columns.embedding))

    def condition(self, expression: Expression | None, prefix: str = "f") -> Condition:
        """Return the condition of a filter on `t`."""
        return ALWAYS if expression is None else _condition(self, expression, prefix)


# An actor's filter comes again with each of its searches.
@functools.lru_cache(maxsize=128)
def _condition(target: Target, expression: Expression, prefix: str) -> Condition:
    columns = target.layout.columns
    tokens = target.catalog.tokens
    return compile_condition(
        expression,
        metadata=target.column(columns.metadata),
        tokens=None if tokens is None else target.column(tokens),
        containment=tokens is None and target.catalog.has_containment_index(columns.metadata),
        # Under row security the index serves the policy alone.
        hashed_from=LONGEST if target.catalog.may_copy else LONG,
        prefix=prefix,
    )


def rendered(query: sql.Composable, *parameters: dict[str, Any]) -> Statement:
    """Return a statement from a query and its parameters."""
    merged: dict[str, Any] = {}
    for some in parameters:
        merged.update(some)
    return Statement(query.as_string(None), merged)


# Reading.


def get(target: Target, ids: Sequence[str], within: Expression | None) -> Statement:
    """Records by id, in any order."""
    bound = target.condition(within)
    return rendered(
        sql.SQL("SELECT {} FROM {} AS t WHERE {} = ANY (%(ids)s::text[]) AND {}").format(
            target.record,
            target.table,
            target.column(target.layout.columns.id),
            bound.clause,
        ),
        bound.parameters,
        {"ids": list(ids)},
    )


def scan_page(target: Target, filter: Expression | None, after: str | None, size: int) -> Statement:
    """The next `size` matching records by id; pages hold no transaction open between them."""
    condition = target.condition(filter)
    start = sql.SQL("") if after is None else sql.SQL(" AND {} > %(after)s::text").format(target.id)
    parameters: dict[str, Any] = {"size": size}
    if after is not None:
        parameters["after"] = after
    return rendered(
        sql.SQL("SELECT {} FROM {} AS t WHERE {}{} ORDER BY {} LIMIT %(size)s").format(
            target.record, target.table, condition.clause, start, target.id
        ),
        condition.parameters,
        parameters,
    )


def count(target: Target, filter: Expression | None) -> Statement:
    """How many records match."""
    condition = target.condition(filter)
    return rendered(
        sql.SQL("SELECT count(*) FROM {} AS t WHERE {}").format(target.table, condition.clause), condition.parameters
    )


def list_document_ids(target: Target, filter: Expression | None) -> Statement:
    """The ids of documents with a matching record, in order."""
    condition = target.condition(filter)
    return rendered(
        sql.SQL("SELECT DISTINCT {} AS document FROM {} AS t WHERE {} ORDER BY document").format(
            target.document_id, target.table, condition.clause
        ),
        condition.parameters,
    )


def list_documents(target: Target, filter: Expression | None) -> Statement:
    """The documents with a matching record, each with the metadata of its matching chunk of the smallest number."""
    condition = target.condition(filter)
    # As chunk_order_key: one without a number first, then by number (its length, then its digits), then by id.
    return rendered(
        sql.SQL(
            "SELECT DISTINCT ON (document) {document} AS document, {metadata} FROM {table} AS t, "
            "LATERAL ltrim(substring({id} from '#([0-9]+)$'), '0') AS number "
            "WHERE {condition} "
            'ORDER BY document, length(number) NULLS FIRST, number COLLATE "C" NULLS FIRST, {id}'
        ).format(
            document=target.document_id,
            metadata=target.metadata_text,
            table=target.table,
            id=target.id,
            condition=condition.clause,
        ),
        condition.parameters,
    )


def has_lists(target: Target, key: str) -> Statement | None:
    """Whether any record has a list under a key; None where no tokens say so."""
    if target.catalog.tokens is None:
        return None
    return rendered(
        sql.SQL("SELECT EXISTS (SELECT FROM {} AS t WHERE {} @> %(list)s::text[])").format(
            target.table, target.column(target.catalog.tokens)
        ),
        {"list": [value_token(key, [])]},
    )


def facets(target: Target, filter: Expression | None, path: Sequence[str], limit: int, *, lists: bool) -> Statement:
    """The most frequent values under a path as JSON texts, with their counts; of ties at the end all that may count.

    The rows are grouped once, by values or, with `lists`, by members. A list that may hold a member twice is grouped as
    a whole, under a mark that no record knows, and spread after that: lists like it are few, or few differ.
    """
    condition = target.condition(filter)
    value: sql.Composable = target.column(target.layout.columns.metadata)
    parameters: dict[str, Any] = {f"path{number}": segment for number, segment in enumerate(path)}
    for name in parameters:
        # `->` with a text key walks objects only.
        value = sql.SQL("{} -> {}::text").format(value, sql.Placeholder(name))
    value = sql.SQL("({})").format(value)
    whole = sql.SQL("jsonb_build_object(%(mark)s::text, {})").format(value)
    if lists:
        source: sql.Composable = sql.SQL(
            ", LATERAL jsonb_path_query(CASE WHEN CASE jsonb_typeof({value}) WHEN 'array' THEN {unique} ELSE true END "
            "THEN {value} ELSE {whole} END, '$[*]') AS member"
        ).format(value=value, whole=whole, unique=_members_differ(target, value, inside=len(path) > 1))
        member: sql.Composable = sql.SQL("member")
    else:
        source = sql.SQL("")
        member = sql.SQL("CASE jsonb_typeof({}) WHEN 'array' THEN {} ELSE {} END").format(value, whole, value)
    query = sql.SQL(
        "WITH found AS MATERIALIZED (SELECT {member} AS member, count(*) AS n FROM {table} AS t{source} "
        "WHERE {value} IS NOT NULL AND {condition} GROUP BY 1), "
        "total AS (SELECT member, sum(n)::bigint AS n FROM ("
        "SELECT member, n FROM found WHERE NOT member ? %(mark)s "
        "UNION ALL SELECT once.member, n FROM found, LATERAL (SELECT DISTINCT e.member FROM jsonb_array_elements("
        "found.member -> %(mark)s::text) AS e (member)) AS once WHERE found.member ? %(mark)s"
        ") AS spread GROUP BY member) "
        # Of strings the server knows the order that ties have.
        "SELECT text, n FROM (SELECT member::text AS text, n, jsonb_typeof(member) <> 'string' OR row_number() OVER ("
        "PARTITION BY n, jsonb_typeof(member) = 'string' ORDER BY member::text COLLATE \"C\") <= %(limit)s AS near "
        "FROM total) AS ranked WHERE near ORDER BY n DESC FETCH FIRST %(limit)s ROWS WITH TIES"
    ).format(member=member, table=target.table, source=source, value=value, condition=condition.clause)
    return rendered(query, condition.parameters, parameters, {"limit": limit, "mark": str(uuid.uuid4())})


def _members_differ(target: Target, value: sql.Composable, *, inside: bool) -> sql.Composable:
    """Return a cheap condition that is true only of a list whose members all differ; `inside` is below a first key."""
    text = (
        "CASE jsonb_array_length({v}) WHEN 0 THEN true WHEN 1 THEN true WHEN 2 THEN ({v} -> 0) <> ({v} -> 1) "
        "WHEN 3 THEN ({v} -> 0) <> ({v} -> 1) AND ({v} -> 0) <> ({v} -> 2) AND ({v} -> 1) <> ({v} -> 2) ELSE {more} END"
    )
    more: sql.Composable = sql.SQL("false")
    if target.catalog.tokens is not None and not inside:
        # A tsvector drops what stands twice; it takes 1 MB, and no token is longer than 255 bytes.
        tokens = target.column(target.catalog.tokens)
        more = sql.SQL("CASE WHEN cardinality({t}) < 4000 THEN cardinality({t}) = length(array_to_tsvector({t})) END")
        more = more.format(t=tokens)
    return sql.SQL(text).format(v=value, more=more)


def estimated_rows(target: Target) -> Statement:
    """How many rows the table has, as the server knows without counting; -1 before it has looked."""
    return Statement(
        "SELECT reltuples::bigint FROM pg_class WHERE oid = to_regclass(%(table)s)",
        {"table": target.layout.name.as_string(None)},
    )


# Removing.


def delete(target: Target, ids: Sequence[str], within: Expression | None) -> Statement:
    """Delete by id."""
    bound = target.condition(within)
    return rendered(
        sql.SQL("DELETE FROM {} AS t WHERE {} = ANY (%(ids)s::text[]) AND {}").format(
            target.table, target.column(target.layout.columns.id), bound.clause
        ),
        bound.parameters,
        {"ids": list(ids)},
    )


def remove_documents(target: Target, document_ids: Sequence[str], within: Expression | None) -> Statement:
    """Delete the chunks of documents."""
    bound = target.condition(within)
    locked = locked_rows(target, sql.SQL("{} = ANY (%(documents)s::text[])").format(target.document_id), bound)
    return rendered(
        sql.SQL("{} DELETE FROM {} AS t USING locked WHERE {} = locked.key").format(
            locked, target.table, target.column(target.layout.columns.id)
        ),
        bound.parameters,
        {"documents": list(document_ids)},
    )


def locked_rows(target: Target, documents: sql.Composable, bound: Condition) -> sql.Composable:
    """Lock a document's rows in the order of ids, as upserts do; in that of an index both could wait in a ring."""
    return sql.SQL(
        "WITH locked AS MATERIALIZED (SELECT {key} AS key FROM {table} AS t WHERE {documents} AND {bound} "
        "ORDER BY {id} FOR UPDATE)"
    ).format(
        key=target.column(target.layout.columns.id),
        table=target.table,
        documents=documents,
        bound=bound.clause,
        id=target.id,
    )


def remove_where(target: Target, filter: Expression) -> Statement:
    """Delete what matches. The row says how many were seen to match, and how many were deleted.

    Fewer deleted than seen: somebody else removed or changed some while this waited, and may have written others in
    their place that this statement does not see.
    """
    condition = target.condition(filter)
    return rendered(
        sql.SQL(
            "WITH gone AS (DELETE FROM {table} AS t WHERE {condition} RETURNING 1) "
            "SELECT (SELECT count(*) FROM {table} AS t WHERE {condition}), (SELECT count(*) FROM gone)"
        ).format(table=target.table, condition=condition.clause),
        condition.parameters,
    )


# Writing.


def lock_documents(target: Target, document_ids: Iterable[str]) -> Statement:
    """Let writers of the same documents wait for each other, until the transaction ends.

    A statement of its own, before the one that looks: the later of two must see what the earlier one inserted in the
    place of what it deleted. There are few locks, taken in order, so that a lock table holds them all.
    """
    buckets = sorted({zlib.crc32(document_id.encode()) % _ADVISORY_BUCKETS for document_id in document_ids})
    return Statement(
        "SELECT pg_advisory_xact_lock(%(table)s::int, bucket) FROM unnest(%(buckets)s::int[]) AS bucket",
        # The oid as a signed int, for the lock takes two of those.
        {"table": ((target.catalog.table or 0) + 2**31) % 2**32 - 2**31, "buckets": buckets},
    )


def fingerprints(target: Target, document_ids: Sequence[str], within: Expression | None, *, digests: bool) -> Statement:
    """Id, digest of what is embedded, digest of the text, source and metadata of the chunks of documents."""
    bound, columns = target.condition(within), target.layout.columns
    text, context = target.column(columns.text), target.context
    shown: sql.Composable = sql.SQL("NULL::text, NULL::text")
    if digests:
        # The first only where it is another than the second: digests are most of what this costs.
        shown = sql.SQL(
            "CASE WHEN {context} <> '' THEN "
            "encode(sha256(convert_to({context} || E'\\n\\n' || {text}, 'UTF8')), 'hex') END, "
            "encode(sha256(convert_to({text}, 'UTF8')), 'hex')"
        ).format(context=context, text=text)
    return rendered(
        sql.SQL(
            "SELECT {key}, {shown}, {source}, {metadata}::text FROM {table} AS t "
            "WHERE {document} = ANY (%(documents)s::text[]) AND {bound}"
        ).format(
            key=target.column(columns.id),
            shown=shown,
            source=sql.SQL("NULL::text") if columns.source is None else target.column(columns.source),
            metadata=target.column(columns.metadata),
            table=target.table,
            document=target.document_id,
            bound=bound.clause,
        ),
        bound.parameters,
        {"documents": list(document_ids)},
    )


_MODEL_MARK: Final = "agora embedding model: "


def model(target: Target) -> Statement:
    """The embedding model that filled the table, kept as the comment on its column of embeddings."""
    return Statement(
        "SELECT substring(description from %(mark)s) FROM pg_description JOIN pg_attribute "
        "ON attrelid = objoid AND attnum = objsubid WHERE objoid = %(table)s AND classoid = 'pg_class'::regclass "
        "AND attname = %(column)s",
        {
            "mark": f"^{_MODEL_MARK}(.*)$",
            "table": target.catalog.table,
            "column": target.layout.columns.embedding,
        },
    )


def keep_model(target: Target, name: str) -> Statement:
    """Keep the name of the model with the table."""
    return rendered(
        sql.SQL("COMMENT ON COLUMN {}.{} IS {}").format(
            target.layout.name, sql.Identifier(target.layout.columns.embedding), sql.Literal(_MODEL_MARK + name)
        )
    )

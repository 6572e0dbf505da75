"""What the database really has: read once from the catalog, and checked against what the store was told."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from agora_core.errors import SchemaError
from agora_core.stores.postgres.layout import OPERATORS, Layout
from agora_core.stores.postgres.session import Statement
from agora_core.stores.postgres.tokens import TOKENS_FUNCTION

_CATALOG: Final = """
SELECT
    current_setting('server_version_num')::int,
    current_setting('server_encoding'),
    (SELECT extversion FROM pg_extension WHERE extname = 'vector'),
    to_regtype('vector') IS NOT NULL,
    to_regclass(%(table)s)::oid::bigint,
    (
        SELECT json_agg(json_build_object(
            'name', attname,
            'type', format_type(atttypid, atttypmod),
            'not_null', attnotnull,
            'generated', CASE WHEN attgenerated = '' THEN NULL ELSE pg_get_expr(adbin, adrelid) END
        ))
        FROM pg_attribute
        LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
        WHERE attrelid = to_regclass(%(table)s) AND attnum > 0 AND NOT attisdropped
    ),
    (
        SELECT json_agg(json_build_object(
            'name', relname,
            'method', amname,
            'valid', indisvalid,
            'unique', indisunique,
            'whole', indpred IS NULL,
            'definition', pg_get_indexdef(indexrelid),
            'columns', (
                SELECT json_agg(pg_get_indexdef(indexrelid, n, true)) FROM generate_series(1, indnkeyatts) AS n
            ),
            'operators', (
                SELECT json_agg(opcname) FROM unnest(indclass::oid[]) AS class JOIN pg_opclass c ON c.oid = class
            )
        ))
        FROM pg_index
        JOIN pg_class i ON i.oid = indexrelid
        JOIN pg_am a ON a.oid = i.relam
        WHERE indrelid = to_regclass(%(table)s)
    ),
    has_table_privilege(to_regclass(%(table)s), 'SELECT'),
    has_database_privilege(current_database(), 'TEMPORARY'),
    NOT row_security_active(to_regclass(%(table)s)::oid),
    (SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(%(table)s)::oid),
    obj_description(to_regclass(%(table)s)::oid, 'pg_class'),
    EXISTS (SELECT FROM pg_stat_progress_create_index WHERE relid = to_regclass(%(table)s)::oid)
"""

LAYOUT_VERSION: Final = 2
"""Of the tables that `ensure_schema` makes; 1 had no mark and no columns of contexts and key orders."""

_MINIMUM_SERVER: Final = 140_000
_MINIMUM_PGVECTOR: Final = (0, 7)


@dataclass(frozen=True, slots=True)
class Index:
    """An index of the table, as the catalog describes it."""

    name: str
    method: str
    valid: bool
    unique: bool
    whole: bool
    definition: str
    columns: tuple[str, ...]
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Catalog:
    """The table as it is. Columns that only make things fast are None where they are missing or are not ours."""

    server: int
    encoding: str
    pgvector: tuple[int, ...]
    in_search_path: bool
    table: int | None
    columns: Mapping[str, Mapping[str, Any]]
    indexes: tuple[Index, ...]
    readable: bool
    may_stage: bool
    may_copy: bool
    tokens: str | None
    document_id: str | None
    text_search: str | None
    context: str | None
    key_order: str | None
    vector_index: Index | None
    alterable: bool
    comment: str | None
    building: bool

    @property
    def mark(self) -> Mapping[str, Any]:
        """What the table says of how it was made; empty where it says nothing."""
        try:
            said = json.loads(self.comment or "")["agora"]
        except (ValueError, TypeError, KeyError):
            return {}
        return said if isinstance(said, dict) else {}

    @property
    def iterative_scan(self) -> bool:
        """Whether an index scan goes on until enough rows match (pgvector 0.8)."""
        return self.pgvector >= (0, 8)

    def has_containment_index(self, column: str) -> bool:
        """Whether a GIN index answers `@>` on the metadata as a whole."""
        return any(
            i.method == "gin" and i.valid and i.whole and _unquoted(i.columns[0]) == column for i in self.indexes
        )


def catalog_statement(layout: Layout) -> Statement:
    """Return the statement that reads the catalog; its row goes to `read_catalog`."""
    return Statement(_CATALOG, {"table": layout.name.as_string(None)})


def read_catalog(row: Sequence[Any], layout: Layout, *, text_search: str | None) -> Catalog:
    """Return the catalog from the row of `catalog_statement`; `text_search` is the configuration of the store."""
    (
        server,
        encoding,
        version,
        in_path,
        table,
        columns,
        indexes,
        readable,
        may_stage,
        may_copy,
        alterable,
        comment,
        building,
    ) = row
    by_name = {column["name"]: column for column in columns or ()}
    found = tuple(
        Index(
            item["name"],
            item["method"],
            item["valid"],
            item["unique"],
            item["whole"],
            item["definition"],
            tuple(item["columns"] or ()),
            tuple(item["operators"] or ()),
        )
        for item in indexes or ()
    )
    names = layout.columns

    def generated(name: str | None, mark: str) -> str | None:
        # A column of that name which something else fills may say anything.
        expression = by_name.get(name or "", {}).get("generated")
        return name if expression is not None and mark in expression else None

    return Catalog(
        server=server,
        encoding=encoding,
        pgvector=tuple(int(part) for part in re.findall(r"[0-9]+", version or "")),
        in_search_path=in_path,
        table=table,
        columns=by_name,
        indexes=found,
        readable=bool(readable),
        may_stage=bool(may_stage),
        may_copy=bool(may_copy),
        tokens=generated(names.tokens, TOKENS_FUNCTION),
        document_id=generated(names.document_id, "regexp_replace"),
        text_search=(
            None if text_search is None else generated(names.text_search, f"to_tsvector('{text_search}'::regconfig")
        ),
        context=names.context if by_name.get(names.context or "", {}).get("type") == "text" else None,
        key_order=names.key_order if by_name.get(names.key_order or "", {}).get("type") == "jsonb" else None,
        alterable=bool(alterable),
        comment=comment,
        building=bool(building),
        vector_index=next((i for i in found if i.valid and i.whole and _serves(i, layout)), None),
    )


def check_server(catalog: Catalog) -> None:
    """Refuse a server that cannot hold the table.

    Raises:
        SchemaError: it is too old, lacks pgvector, or does not speak UTF-8.
    """
    if catalog.server < _MINIMUM_SERVER:
        raise SchemaError(f"PostgreSQL 14 or later is needed, and the server is {catalog.server // 10_000}; upgrade it")
    if catalog.encoding != "UTF8":
        raise SchemaError(f"the database's encoding is {catalog.encoding}, not UTF8; create the database with UTF8")
    if not catalog.pgvector:
        raise SchemaError(
            "the extension 'vector' is missing from this database; have someone who may run: CREATE EXTENSION vector"
        )
    if catalog.pgvector < _MINIMUM_PGVECTOR:
        version = ".".join(map(str, catalog.pgvector))
        raise SchemaError(f"pgvector 0.7 or later is needed, and {version} is there; run ALTER EXTENSION vector UPDATE")
    if not catalog.in_search_path:
        raise SchemaError("pgvector's types are not in the search_path; add the schema of the extension 'vector' to it")


def mark_of(layout: Layout) -> str:
    """Return what a table says of how it was made, as its comment."""
    made = {"version": LAYOUT_VERSION, "metric": layout.metric, "storage": layout.storage, "index": layout.index}
    return json.dumps({"agora": {**made, "options": dict(layout.index_options)}}, sort_keys=True)


def check_index(index: Index, layout: Layout) -> None:
    """Refuse a vector index that is not of the kind and the options that the store was told.

    Raises:
        SchemaError: it names what differs.
    """
    differs = [] if index.method == layout.index else [f"index is {index.method!r}, not {layout.index!r}"]
    if not differs:
        found = dict(re.findall(r"(\w+)='?(\d+)'?", index.definition.partition(" WITH (")[2]))
        for option, wanted in layout.index_options.items():
            if (there := int(found.get(option, _INDEX_DEFAULTS[option]))) != wanted:
                differs.append(f"{option} is {there}, not {wanted}")
    if differs:
        raise SchemaError(
            f"the vector index {index.name!r} differs from what the store was opened with: {'; '.join(differs)}; open "
            "it with what is there, or drop the index and build it anew"
        )


_INDEX_DEFAULTS: Final = {"m": 16, "ef_construction": 64, "lists": 100}


def check_table(catalog: Catalog, layout: Layout) -> None:
    """Refuse a table that is not as the store was told.

    Raises:
        SchemaError: one sentence that says what differs and what to do.
    """
    check_server(catalog)
    name = layout.name.as_string(None)
    if catalog.table is None:
        raise SchemaError(f"the table {name} does not exist; call ensure_schema() first")
    if int(catalog.mark.get("version", 1)) > LAYOUT_VERSION:
        raise SchemaError(f"the table {name} was made by a newer version of this library; open it with that one")
    if not catalog.readable:
        raise SchemaError(f"this role may not read the table {name}; GRANT SELECT, INSERT, UPDATE, DELETE on it")
    columns = layout.columns
    for argument in ("id", "text", "source", "metadata", "embedding"):
        column = getattr(columns, argument)
        if column is not None and column not in catalog.columns:
            raise SchemaError(
                f"the table {name} has no column {column!r}; name the column that holds the {argument} in "
                f"columns=PgVectorColumns({argument}=...)"
            )
    id_type = catalog.columns[columns.id]["type"].partition("(")[0]
    if id_type not in ("text", "character varying"):
        raise SchemaError(f"column {columns.id!r} of {name} is {id_type}, and ids are texts; alter its type to text")
    metadata_type = catalog.columns[columns.metadata]["type"]
    if metadata_type != "jsonb":
        raise SchemaError(
            f"column {columns.metadata!r} of {name} is {metadata_type}, not jsonb; alter its type to jsonb"
        )
    _check_vector(catalog, layout, name)
    if not any(
        i.unique and i.valid and i.whole and [_unquoted(c) for c in i.columns] == [columns.id] for i in catalog.indexes
    ):
        raise SchemaError(
            f"column {columns.id!r} of {name} has no unique index, which upserts need; make it the primary key"
        )


def _check_vector(catalog: Catalog, layout: Layout, name: str) -> None:
    found = catalog.columns[layout.columns.embedding]["type"].rpartition(".")[2]
    wanted = f"{layout.storage}({layout.dimension})"
    # A column without a dimension takes any; what it holds is the business of whoever made it.
    if found not in (wanted, layout.storage):
        raise SchemaError(
            f"column {layout.columns.embedding!r} of {name} is {found} and the store was opened for {wanted}; open it "
            "with the dimension and storage that the table has"
        )
    if layout.index is None:
        # Who searches exactly needs no index, and no index stands in the way.
        return
    made_for = catalog.mark.get("metric", layout.metric)
    if catalog.vector_index is None:
        others = [i for i in catalog.indexes if i.method in ("hnsw", "ivfflat") and _is_on_embedding(i, layout)]
        if others and all(i.valid for i in others) and not any(layout.opclass in i.operators for i in others):
            raise SchemaError(
                f"the vector index {others[0].name!r} of {name} is built for {', '.join(others[0].operators)} and the "
                f"store's metric is {layout.metric} ({layout.opclass}, the operator {OPERATORS[layout.metric]}); open "
                "the store with the metric of the index, or drop the index"
            )
        if made_for != layout.metric:
            raise SchemaError(
                f"{name} was made for the metric {made_for} and the store's is {layout.metric}; open it with that "
                "metric, or with index=None to search exactly"
            )


def _is_on_embedding(index: Index, layout: Layout) -> bool:
    return bool(index.columns) and layout.columns.embedding in index.columns[0]


def _serves(index: Index, layout: Layout) -> bool:
    """Say whether a vector index is over the expression that searches order by."""
    if index.method not in ("hnsw", "ivfflat") or layout.opclass not in index.operators or not index.columns:
        return False
    over = index.columns[0].replace("(", " ").replace(")", " ").split("::")
    if _unquoted(over[0].strip()) != layout.columns.embedding:
        return False
    return (len(over) > 1) == layout.half_index


def _unquoted(name: str) -> str:
    return name.strip('"')

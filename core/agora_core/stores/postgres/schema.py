"""The DDL of the table: pure functions that return readable statements, each of which may be run by hand."""

from __future__ import annotations

from typing import Final

from psycopg import sql

from agora_core.stores.postgres.catalog import Catalog
from agora_core.stores.postgres.layout import Layout
from agora_core.stores.postgres.tokens import TOKENS_FUNCTION, TOKENS_FUNCTION_BODY

LONGEST_SEARCHED_TEXT: Final = 200_000
"""Characters of a text that are searched; a tsvector holds 1 MB of words, and inserting more would fail."""


def document_id_of_sql(id_column: sql.Composable) -> sql.Composable:
    """Return the expression that agrees with `document_id_of`. `$` is the end of the text, newlines or not."""
    return sql.SQL("regexp_replace({}, '#[0-9]+$', '')").format(id_column)


def tsvector_sql(text_column: sql.Composable, configuration: str) -> sql.Composable:
    """Return the immutable expression that turns a text into its lexemes."""
    # The configuration was checked as an identifier; a bound parameter cannot stand in DDL.
    return sql.SQL("to_tsvector({}::regconfig, left({}, {}))").format(
        sql.Literal(configuration), text_column, sql.Literal(LONGEST_SEARCHED_TEXT)
    )


def tokens_function(layout: Layout) -> sql.Composed:
    """Return the statement that makes the function of the `tokens` column."""
    return sql.SQL(
        "CREATE OR REPLACE FUNCTION {}(metadata jsonb) RETURNS text[]\n"
        "LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $function${}$function$"
    ).format(layout.qualified(TOKENS_FUNCTION), sql.SQL(TOKENS_FUNCTION_BODY))


def generated_columns(layout: Layout, text_search: str | None) -> dict[str, sql.Composed]:
    """Return the definitions of the generated columns by their names."""
    columns = layout.columns
    definitions = {}
    if columns.document_id is not None:
        definitions[columns.document_id] = sql.SQL('{} text COLLATE "C" GENERATED ALWAYS AS ({}) STORED').format(
            sql.Identifier(columns.document_id), document_id_of_sql(sql.Identifier(columns.id))
        )
    if columns.tokens is not None:
        definitions[columns.tokens] = sql.SQL("{} text[] GENERATED ALWAYS AS ({}({})) STORED").format(
            sql.Identifier(columns.tokens), layout.qualified(TOKENS_FUNCTION), sql.Identifier(columns.metadata)
        )
    if text_search is not None and columns.text_search is not None:
        definitions[columns.text_search] = sql.SQL("{} tsvector GENERATED ALWAYS AS ({}) STORED").format(
            sql.Identifier(columns.text_search), tsvector_sql(sql.Identifier(columns.text), text_search)
        )
    return definitions


def later_columns(layout: Layout) -> dict[str, sql.Composed]:
    """Return the definitions of the columns that an older table lacks, by their names; adding one rewrites no row."""
    columns = {layout.columns.context: sql.SQL("text"), layout.columns.key_order: sql.SQL("jsonb")}
    return {
        name: sql.SQL("{} {}").format(sql.Identifier(name), kind) for name, kind in columns.items() if name is not None
    }


def add_column(layout: Layout, definition: sql.Composable) -> sql.Composed:
    """Return the statement that gives a table one of `later_columns`."""
    return sql.SQL("ALTER TABLE {} ADD COLUMN IF NOT EXISTS {}").format(layout.name, definition)


def create_table(layout: Layout, text_search: str | None) -> sql.Composed:
    """Return the statement that makes the table."""
    columns = layout.columns
    lines: list[sql.Composable] = [
        # "C" orders by code point, as every list and every tie of the library does, and compares fastest.
        sql.SQL('{} text COLLATE "C" PRIMARY KEY').format(sql.Identifier(columns.id)),
        sql.SQL("{} text NOT NULL").format(sql.Identifier(columns.text)),
    ]
    if columns.source is not None:
        lines.append(sql.SQL("{} text").format(sql.Identifier(columns.source)))
    lines += [
        sql.SQL("{} jsonb").format(sql.Identifier(columns.metadata)),
        sql.SQL("{} {}({}) NOT NULL").format(
            sql.Identifier(columns.embedding), layout.vector_type, sql.Literal(layout.dimension)
        ),
        *later_columns(layout).values(),
        *generated_columns(layout, text_search).values(),
    ]
    return sql.SQL("CREATE TABLE IF NOT EXISTS {} (\n    {}\n)").format(layout.name, sql.SQL(",\n    ").join(lines))


def add_columns(layout: Layout, text_search: str | None) -> sql.Composed | None:
    """Return the one statement that makes an adopted table fast, or None where it has all it can have.

    It rewrites the table under a lock, so a store never runs it by itself.
    """
    definitions = generated_columns(layout, text_search)
    if not definitions:
        return None
    return sql.SQL("ALTER TABLE {}\n    {}").format(
        layout.name,
        sql.SQL(",\n    ").join(sql.SQL("ADD COLUMN IF NOT EXISTS ") + item for item in definitions.values()),
    )


def plain_indexes(layout: Layout, text_search: str | None, catalog: Catalog | None) -> dict[str, sql.Composed]:
    """Return the statements of every index but the vector one, by name.

    Args:
        catalog: the table as it is, so that only columns it has are indexed; None for the table of `create_table`.
    """
    columns = layout.columns
    tokens = columns.tokens if catalog is None else catalog.tokens
    document_id = columns.document_id if catalog is None else catalog.document_id
    stored = columns.text_search if catalog is None else catalog.text_search
    indexes: dict[str, sql.Composed] = {}

    def add(suffix: str, definition: sql.Composable) -> None:
        name = layout.index_name(suffix)
        indexes[name] = sql.SQL("CREATE INDEX IF NOT EXISTS {} ON {} {}").format(
            sql.Identifier(name), layout.name, definition
        )

    if document_id is not None:
        add("document_id_idx", sql.SQL("({})").format(sql.Identifier(document_id)))
    else:
        add("document_expr_idx", sql.SQL('(({}) COLLATE "C")').format(document_id_of_sql(sql.Identifier(columns.id))))
    # Without fastupdate: every search would read the pending list, up to 4 MB of it, until a vacuum.
    if tokens is not None:
        add("tokens_idx", sql.SQL("USING gin ({}) WITH (fastupdate = off)").format(sql.Identifier(tokens)))
    if layout.metric == "cosine":
        # pgvector's cosine indexes leave zero vectors out; this finds them, and is empty for most tables.
        add(
            "zero_idx",
            sql.SQL('({} COLLATE "C") WHERE {}({}) = 0').format(
                sql.Identifier(columns.id), layout.norm_function, sql.Identifier(columns.embedding)
            ),
        )
    if text_search is not None:
        if stored is not None:
            add(
                f"{text_search[:20]}_text_idx",
                sql.SQL("USING gin ({}) WITH (fastupdate = off)").format(sql.Identifier(stored)),
            )
        else:
            expression = tsvector_sql(sql.Identifier(columns.text), text_search)
            add(
                f"{text_search[:20]}_text_expr_idx",
                sql.SQL("USING gin (({})) WITH (fastupdate = off)").format(expression),
            )
    return indexes


def vector_index(layout: Layout) -> tuple[str, sql.Composed] | None:
    """Return name and statement of the vector index, or None where the store has none."""
    if layout.index is None:
        return None
    name = layout.index_name(f"{layout.metric}_{layout.index}_idx")
    embedding: sql.Composable = sql.Identifier(layout.columns.embedding)
    if layout.half_index:
        embedding = sql.SQL("({}::halfvec({}))").format(embedding, sql.Literal(layout.dimension))
    options: sql.Composable = sql.SQL("")
    if layout.index_options:
        options = sql.SQL(" WITH ({})").format(
            sql.SQL(", ").join(
                sql.SQL("{} = {}").format(sql.Identifier(key), sql.Literal(value))
                for key, value in layout.index_options.items()
            )
        )
    return name, sql.SQL("CREATE INDEX IF NOT EXISTS {} ON {} USING {} ({} {}){}").format(
        sql.Identifier(name),
        layout.name,
        sql.SQL("ivfflat") if layout.index == "ivfflat" else sql.SQL("hnsw"),
        embedding,
        sql.Identifier(layout.opclass),
        options,
    )


def schema_statements(layout: Layout, *, text_search: str | None = None, with_vector_index: bool = True) -> list[str]:
    """Return everything a new table needs, in order, as text."""
    statements: list[sql.Composed] = [sql.SQL("CREATE EXTENSION IF NOT EXISTS vector").format()]
    if layout.schema is not None:
        statements.append(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(layout.schema)))
    if layout.columns.tokens is not None:
        statements.append(tokens_function(layout))
    statements.append(create_table(layout, text_search))
    statements.extend(plain_indexes(layout, text_search, None).values())
    index = vector_index(layout)
    if index is not None and with_vector_index:
        statements.append(index[1])
    return [statement.as_string(None) for statement in statements]

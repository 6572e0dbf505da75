"""Making and checking the schema, and building the vector index, as operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from psycopg import sql

from agora_core.errors import SchemaError
from agora_core.stores.postgres import schema
from agora_core.stores.postgres.catalog import Catalog, catalog_statement, check_server, check_table, read_catalog
from agora_core.stores.postgres.connections import Operation
from agora_core.stores.postgres.operations import Operations
from agora_core.stores.postgres.requests import Statement, Steps
from agora_core.stores.postgres.statements import rendered
from agora_core.stores.postgres.tokens import TOKENS_FUNCTION

Progress = Callable[[str, int, int], Any]
"""Called as `progress(phase, done, total)` now and then; the units of a phase are the server's (blocks or rows)."""

_LOCK = Statement("SELECT pg_advisory_xact_lock(hashtextextended('agora-retrieval schema', 0))")


def ensure_schema(operations: Operations, *, with_vector_index: bool) -> Operation:
    """Make what is missing, one process at a time; nothing that is there is rewritten."""
    layout = operations.layout

    def look() -> Steps[Catalog]:
        answer = yield catalog_statement(layout)
        return read_catalog(answer.rows[0], layout, text_search=operations.text_search)

    def steps() -> Steps[None]:
        yield _LOCK
        catalog = yield from look()
        # Each statement only where it is needed: a role that may not create can still open what is complete.
        if not catalog.pgvector:
            yield Statement("CREATE EXTENSION IF NOT EXISTS vector")
            catalog = yield from look()
        check_server(catalog)
        if layout.schema is not None and catalog.table is None:
            answer = yield Statement("SELECT to_regnamespace(%(name)s) IS NULL", {"name": f'"{layout.schema}"'})
            if answer.rows[0][0]:
                yield rendered(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(layout.schema)))
        if layout.columns.tokens is not None:
            function = layout.qualified(TOKENS_FUNCTION).as_string(None)
            answer = yield Statement("SELECT to_regprocedure(%(name)s) IS NULL", {"name": f"{function}(jsonb)"})
            if answer.rows[0][0]:
                yield rendered(schema.tokens_function(layout))
        if catalog.table is None:
            yield rendered(schema.create_table(layout, operations.text_search))
            catalog = yield from look()
        check_table(catalog, layout)
        context = layout.columns.context
        if context is not None and context not in catalog.columns and catalog.alterable:
            yield rendered(schema.add_context(layout, context))
        present = {index.name for index in catalog.indexes}
        for name, statement in schema.plain_indexes(layout, operations.text_search, catalog).items():
            if name not in present:
                yield rendered(statement)
        index = schema.vector_index(layout)
        if with_vector_index and index is not None and catalog.vector_index is None and index[0] not in present:
            yield rendered(index[1])
        operations.look_again()

    return Operation(steps, writes=True)


def build_index(operations: Operations, *, memory_mb: int | None, concurrently: bool) -> Operation:
    """Build the vector index over what is there, and let the planner know the table."""
    layout = operations.layout

    def steps() -> Steps[bool]:
        index = schema.vector_index(layout)
        if index is None:
            raise SchemaError(
                "the store was opened with index=None; open it with index='hnsw' or 'ivfflat' to build one"
            )
        answer = yield catalog_statement(layout)
        catalog = read_catalog(answer.rows[0], layout, text_search=operations.text_search)
        check_table(catalog, layout)
        name, statement = index
        left = next((i for i in catalog.indexes if i.name == name), None)
        if left is not None and not left.valid:
            # What an interrupted CREATE INDEX CONCURRENTLY leaves behind.
            yield rendered(sql.SQL("DROP INDEX {}").format(layout.qualified(name)))
        elif catalog.vector_index is not None:
            return False
        if concurrently:
            text = statement.as_string(None).replace("CREATE INDEX", "CREATE INDEX CONCURRENTLY", 1)
            yield Statement(text)
        else:
            if memory_mb is not None:
                yield Statement(
                    "SELECT set_config('maintenance_work_mem', %(memory)s, true)", {"memory": f"{memory_mb}MB"}
                )
            yield rendered(statement)
        yield rendered(sql.SQL("ANALYZE {}").format(layout.name))
        operations.look_again()
        return True

    # CREATE INDEX CONCURRENTLY refuses to stand in a transaction.
    return Operation(steps, writes=not concurrently)


def build_progress(operations: Operations) -> Operation:
    """Return (phase, done, total) of the build under way on the table, or None."""

    def steps() -> Steps[tuple[str, int, int] | None]:
        answer = yield Statement(
            "SELECT phase, greatest(blocks_done, tuples_done), greatest(blocks_total, tuples_total) "
            "FROM pg_stat_progress_create_index WHERE relid = to_regclass(%(table)s)",
            {"table": operations.layout.name.as_string(None)},
        )
        return (answer.rows[0][0], int(answer.rows[0][1]), int(answer.rows[0][2])) if answer.rows else None

    return Operation(steps)

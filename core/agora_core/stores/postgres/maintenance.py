"""Making and checking the schema, building the vector index, swapping tables: the part of a store that runs DDL."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Final

from psycopg import errors, sql

from agora_core.errors import InvalidArgumentError, SchemaError
from agora_core.steps import Steps
from agora_core.stores.postgres import schema
from agora_core.stores.postgres.catalog import check_index, check_server, check_table, mark_of
from agora_core.stores.postgres.connections import Operation
from agora_core.stores.postgres.layout import Layout
from agora_core.stores.postgres.operations import PgOperations
from agora_core.stores.postgres.session import Statement
from agora_core.stores.postgres.statements import rendered
from agora_core.stores.postgres.text.schema import EVENTS, PARTS, functions
from agora_core.stores.postgres.tokens import TOKENS_FUNCTION

Progress = Callable[[str, int, int], Any]
"""Called as `progress(phase, done, total)` now and then; the units of a phase are the server's (blocks or rows)."""

_LOCK: Final = Statement("SELECT pg_advisory_xact_lock(hashtextextended('agora-retrieval schema', 0))")
_POLL_SECONDS: Final = 0.5
_MADE_BY_ANOTHER: Final = (
    errors.UniqueViolation,
    errors.DuplicateObject,
    errors.DuplicateTable,
    errors.DuplicateSchema,
    errors.DuplicateFunction,
)


def _made(statement: Statement) -> Steps[None]:
    """Run a statement that makes something, which somebody else may be making at the same time.

    Our own processes wait for one another. IF NOT EXISTS does not help against others: it looks, and then fails on the
    unique index of a system catalog once the other has committed. Then the thing is there.
    """
    yield Statement("SAVEPOINT agora_make")
    try:
        yield statement
    except _MADE_BY_ANOTHER:
        yield Statement("ROLLBACK TO SAVEPOINT agora_make")
    yield Statement("RELEASE SAVEPOINT agora_make")


class PgSchema(PgOperations):
    """The schema of one table."""

    _index_later: bool

    def schema_statements(self) -> list[str]:
        """Return the statements that make the schema of a new table, to read or to run by hand; nothing is run."""
        return schema.schema_statements(
            self._layout, text_search=self._text_search(), with_vector_index=not self._index_later
        )

    def adoption_statement(self) -> str | None:
        """Return the one statement that makes a table of another maker fast; it rewrites the table under a lock.

        Run `ensure_schema` before it, for the function it uses, and after it, for the indexes of the new columns.
        """
        statement = schema.add_columns(self._layout, self._text_search())
        return None if statement is None else statement.as_string(None)

    def ensure_schema(self) -> None:
        """Make what is missing of extension, schema, table and indexes, and check what is there.

        May be called by many processes at once, and by a role that may not create where nothing is missing. A table
        that exists is never rewritten; its missing indexes are built, which blocks writes to it meanwhile.

        Raises:
            SchemaError: something there is not as the store was told, or the role may not make what is missing.
        """
        self._run(self._ensure_schema())

    async def aensure_schema(self) -> None:
        """Async twin of `ensure_schema`."""
        await self._arun(self._ensure_schema())

    def build_index(
        self,
        *,
        progress: Progress | None = None,
        memory_mb: int | None = None,
        concurrently: bool = False,
    ) -> bool:
        """Build the vector index if there is none, then ANALYZE. Return whether it was built now.

        Args:
            progress: called as `progress(phase, done, total)` about twice a second, in this thread.
            memory_mb: maintenance_work_mem for this build; a graph that fits is built many times faster.
            concurrently: do not block writers; takes longer.

        Raises:
            SchemaError: the store has `index=None`.
        """
        operation = self._build_index(memory_mb=memory_mb, concurrently=concurrently)
        if progress is None:
            return bool(self._run(operation))
        outcome: list[Any] = []
        done = threading.Event()

        def build() -> None:
            try:
                outcome.append(self._run(operation))
            except BaseException as error:  # it is raised in the caller's thread
                outcome.append(error)
            finally:
                done.set()

        threading.Thread(target=build, name="agora-build-index", daemon=True).start()
        while not done.wait(_POLL_SECONDS):
            if (state := self._run(self._build_progress())) is not None:
                progress(*state)
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        progress("done", 1, 1)
        return bool(outcome[0])

    async def abuild_index(
        self,
        *,
        progress: Progress | None = None,
        memory_mb: int | None = None,
        concurrently: bool = False,
    ) -> bool:
        """Async twin of `build_index`."""
        operation = self._build_index(memory_mb=memory_mb, concurrently=concurrently)
        building = asyncio.ensure_future(self._arun(operation))
        while progress is not None and not building.done():
            await asyncio.wait([building], timeout=_POLL_SECONDS)
            if building.done():
                break
            if (state := await self._arun(self._build_progress())) is not None:
                progress(*state)
        built = bool(await building)
        if progress is not None:
            progress("done", 1, 1)
        return built

    def _ensure_schema(self) -> Operation:
        """Make what is missing, one process at a time; nothing that is there is rewritten."""
        layout = self._layout

        def steps() -> Steps[None]:
            yield _LOCK
            catalog = yield from self._look()
            # Each statement only where it is needed: a role that may not create can still open what is complete.
            if not catalog.pgvector:
                yield from _made(Statement("CREATE EXTENSION IF NOT EXISTS vector"))
                catalog = yield from self._look()
            check_server(catalog)
            if layout.schema is not None and catalog.table is None:
                answer = yield Statement("SELECT to_regnamespace(%(name)s) IS NULL", {"name": f'"{layout.schema}"'})
                if answer.rows[0][0]:
                    yield from _made(rendered(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(layout.schema))))
            if layout.columns.tokens is not None:
                function = layout.qualified(TOKENS_FUNCTION).as_string(None)
                answer = yield Statement("SELECT to_regprocedure(%(name)s) IS NULL", {"name": f"{function}(jsonb)"})
                if answer.rows[0][0]:
                    yield from _made(rendered(schema.tokens_function(layout)))
            if catalog.table is None:
                yield from _made(rendered(schema.create_table(layout, self._text_search())))
                catalog = yield from self._look()
            check_table(catalog, layout)
            if layout.index is not None and catalog.vector_index is not None:
                check_index(catalog.vector_index, layout)
            own = catalog.tokens is not None or catalog.document_id is not None
            if own and catalog.comment is None and catalog.alterable:
                yield rendered(sql.SQL("COMMENT ON TABLE {} IS {}").format(layout.name, mark_of(layout)))
            for name, definition in schema.later_columns(layout).items():
                if name not in catalog.columns and catalog.alterable:
                    yield rendered(schema.add_column(layout, definition))
            wanted = schema.plain_indexes(layout, self._text_search(), catalog)
            index = schema.vector_index(layout)
            if not self._index_later and index is not None and catalog.vector_index is None:
                wanted[index[0]] = index[1]
            # An invalid index is what an interrupted build leaves, or one that is being built.
            present = {index.name for index in catalog.indexes if index.valid or catalog.building}
            for name, statement in wanted.items():
                if name in present:
                    continue
                if any(left.name == name for left in catalog.indexes):
                    yield rendered(sql.SQL("DROP INDEX IF EXISTS {}").format(layout.qualified(name)))
                yield from _made(rendered(statement))
            self._recheck()
            if self._texts is not None:
                yield from self._texts.ensure((yield from self._known_target()))

        return Operation(steps, writes=True)

    def _build_index(self, *, memory_mb: int | None, concurrently: bool) -> Operation:
        """Build the vector index over what is there, and let the planner know the table."""
        layout = self._layout

        def steps() -> Steps[bool]:
            index = schema.vector_index(layout)
            if index is None:
                raise SchemaError(
                    "the store was opened with index=None; open it with index='hnsw' or 'ivfflat' to build one"
                )
            catalog = yield from self._look()
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
            self._recheck()
            return True

        # CREATE INDEX CONCURRENTLY refuses to stand in a transaction.
        return Operation(steps, writes=not concurrently)

    def _build_progress(self) -> Operation:
        """Return (phase, done, total) of the build under way on the table, or None."""

        def steps() -> Steps[tuple[str, int, int] | None]:
            answer = yield Statement(
                "SELECT phase, greatest(blocks_done, tuples_done), greatest(blocks_total, tuples_total) "
                "FROM pg_stat_progress_create_index WHERE relid = to_regclass(%(table)s)",
                {"table": self._layout.name.as_string(None)},
            )
            return (answer.rows[0][0], int(answer.rows[0][1]), int(answer.rows[0][2])) if answer.rows else None

        return Operation(steps)


# Two tables change names: how a store keeps its name when it moves to another model.

_PARKED = "agora_swapped"


def check_swap(one: Layout, other: Layout) -> None:
    """Refuse tables that cannot change names.

    Raises:
        InvalidArgumentError: they are one table, or lie in two schemas.
    """
    if one.schema != other.schema:
        raise InvalidArgumentError("into must be a table of the same schema, for a name belongs to its schema")
    if one.table == other.table:
        raise InvalidArgumentError("into must be another table")


def swap(one: Layout, other: Layout) -> Steps[None]:
    """Let both tables change names, with their indexes and what text search keeps beside them."""
    # In the order of names, as every other swap of the two, so that none waits for the other in a ring.
    for layout in sorted((one, other), key=lambda layout: layout.table):
        yield rendered(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(layout.name))
    names = yield from _names(one)
    others = yield from _names(other)
    for kind, suffix in names:
        yield _rename(one, kind, _named(one, suffix), f"{_PARKED}_{suffix}"[:63])
    for kind, suffix in others:
        yield _rename(one, kind, _named(other, suffix), _named(one, suffix))
    for kind, suffix in names:
        yield _rename(one, kind, f"{_PARKED}_{suffix}"[:63], _named(other, suffix))
    answer = yield Statement(
        "SELECT nspname FROM pg_class JOIN pg_namespace n ON n.oid = relnamespace "
        "WHERE pg_class.oid = to_regclass(%(name)s)::oid",
        {"name": one.name.as_string(None)},
    )
    # The bodies of trigger functions hold names.
    for layout, found in ((one, others), (other, names)):
        if ("FUNCTION", "text_on_insert") in found:
            for statement in functions(layout, answer.rows[0][0]):
                yield rendered(statement)


def _names(layout: Layout) -> Steps[list[tuple[str, str]]]:
    """Return what has a name that the table's begins: what kind it is, and the rest of its name; "" is the table."""
    found = [("TABLE", "")]
    answer = yield Statement(
        "SELECT i.relname FROM pg_index JOIN pg_class i ON i.oid = indexrelid WHERE indrelid = to_regclass(%(table)s)",
        {"table": layout.name.as_string(None)},
    )
    present = {row[0] for row in answer.rows}
    prefix = f"{layout.table}_"
    found += [("INDEX", name.removeprefix(prefix)) for name in sorted(present) if name.startswith(prefix)]
    for part in PARTS:
        answer = yield Statement(
            "SELECT to_regclass(%(name)s) IS NOT NULL",
            {"name": layout.qualified(layout.index_name(f"text_{part}")).as_string(None)},
        )
        if answer.rows[0][0]:
            found.append(("TABLE", f"text_{part}"))
    if ("TABLE", "text_rows") in found:
        found += [("FUNCTION", f"text_on_{event}") for event in EVENTS]
    return found


def _named(layout: Layout, suffix: str) -> str:
    return layout.index_name(suffix) if suffix else layout.table


def _rename(layout: Layout, kind: str, old: str, new: str) -> Statement:
    what = sql.SQL("{}()" if kind == "FUNCTION" else "{}").format(layout.qualified(old))
    return rendered(sql.SQL("ALTER {} {} RENAME TO {}").format(sql.SQL(kind), what, sql.Identifier(new)))

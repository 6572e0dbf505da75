"""Writing records: one INSERT for a few, COPY for many, straight into the table where nothing has to be replaced.

A batch whose ids are all new is copied into the table itself, which is as fast as PostgreSQL takes rows. Any other is
copied into a temporary table and merged from there with ON CONFLICT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from psycopg import errors, sql

from agora_core.errors import SchemaError, ScopeViolationError
from agora_core.filters import Expression
from agora_core.steps import Steps
from agora_core.stores.postgres.conditions import ALWAYS, Condition
from agora_core.stores.postgres.rows import COPY_HEADER, COPY_TRAILER, Vector, copy_rows, row_values
from agora_core.stores.postgres.session import Copy, Statement, Work
from agora_core.stores.postgres.statements import Target, rendered
from agora_core.validation import RecordBatch

_ROWS_WITHOUT_STAGE: Final = 500

_STAGE: Final = sql.Identifier("pg_temp", "agora_stage")
_SAVE: Final = Statement("SAVEPOINT agora_copy")
_RELEASE: Final = Statement("RELEASE SAVEPOINT agora_copy")
_ROLL_BACK: Final = Statement("ROLLBACK TO SAVEPOINT agora_copy")


After = Callable[[RecordBatch], Steps[None]]
"""What is done after each batch, within its transaction."""


def write(
    target: Target, batches: Iterator[RecordBatch], bound: Expression | None, *, single: int, after: After | None = None
) -> Steps[int]:
    """Upsert checked batches within the transaction that runs. Return how many records were written, each id once.

    Args:
        bound: what the records replaced must match.
        single: up to this many records go as one INSERT.
        after: what follows the write of each batch.

    Raises:
        ScopeViolationError: a record to replace lies outside the bound.
        SchemaError: a record has a context, and the table has no place for it.
    """
    batches = (_with_contexts(target, batch) for batch in batches)
    first = yield Work(lambda: next(batches, None))
    if first is None or not len(first):
        return 0
    second = yield Work(lambda: next(batches, None))
    if second is None:
        if len(first) <= single:
            yield from _insert(target, first, bound, single)
        else:
            loader = _Loader(target, bound)
            yield from loader.load(first)
            yield from loader.finish()
        if after is not None:
            yield from after(first)
        return len(first)
    loader = _Loader(target, bound)
    # Eight bytes an id tell how many there were, whatever the length of the load.
    seen = []
    waiting = [first, second]
    while waiting:
        batch = waiting.pop(0)
        yield from loader.load(batch)
        if after is not None:
            yield from after(batch)
        seen.append(np.fromiter(map(hash, batch.ids), dtype=np.int64, count=len(batch)))
        if not waiting and (following := (yield Work(lambda: next(batches, None)))) is not None:
            waiting.append(following)
    yield from loader.finish()
    return len(np.unique(np.concatenate(seen)))


class _Loader:
    """Loads batches one after another; a later one replaces what an earlier one brought."""

    def __init__(self, target: Target, bound: Expression | None) -> None:
        self._target = target
        self._bound = bound
        self._staged = False

    def load(self, batch: RecordBatch) -> Steps[None]:
        target = self._target
        if target.catalog.may_copy:
            known = yield any_known(target, batch.ids)
            if not known.rows[0][0] and (yield from self._copied(batch)):
                return
        if not target.catalog.may_stage:
            yield from _insert(target, batch, self._bound, _ROWS_WITHOUT_STAGE)
            return
        yield empty_stage() if self._staged else create_stage(target)
        self._staged = True
        yield Copy(copy_stage(target), self._pieces(batch))
        answer = yield merge_stage(target, self._bound)
        _check_all(answer.count, len(batch))

    def finish(self) -> Steps[None]:
        """Leave nothing behind: the transaction may be a caller's, who goes on with it."""
        if self._staged:
            yield drop_stage()

    def _copied(self, batch: RecordBatch) -> Steps[bool]:
        """Copy into the table; False where another writer brought one of the ids in the meantime."""
        yield _SAVE
        try:
            yield Copy(copy_table(self._target), self._pieces(batch))
        except errors.UniqueViolation:
            yield _ROLL_BACK
            return False
        yield _RELEASE
        return True

    def _pieces(self, batch: RecordBatch) -> Iterator[bytes]:
        layout = self._target.layout
        yield COPY_HEADER
        yield from copy_rows(batch, layout.storage, list(written_columns(self._target)))
        yield COPY_TRAILER


def _insert(target: Target, batch: RecordBatch, bound: Expression | None, most: int) -> Steps[None]:
    values = row_values(batch, target.layout.storage, written_columns(target))
    rows = [tuple(Vector(value) if isinstance(value, bytes) else value for value in row) for row in values]
    for start in range(0, len(rows), most):
        some = rows[start : start + most]
        answer = yield insert_rows(target, some, bound)
        _check_all(answer.count, len(some))


def _with_contexts(target: Target, batch: RecordBatch) -> RecordBatch:
    if target.catalog.context is None and any(batch.contexts):
        name = target.layout.columns.context
        raise SchemaError(
            f"records have a context and the table {target.layout.name.as_string(None)} has no column for it; "
            + ("open the store with columns.context" if name is None else "call ensure_schema() as the table's owner")
        )
    return batch


def _check_all(written: int, expected: int) -> None:
    if written != expected:
        raise ScopeViolationError(
            f"{expected - written} of {expected} records have the ids of records outside the scope of this store; "
            "nothing was written"
        )


# The statements.


def written_columns(target: Target) -> dict[str, str]:
    """Return which columns a write fills, in their order: what of a record each holds, and its name."""
    columns = target.layout.columns
    names = {
        "id": columns.id,
        "text": columns.text,
        "source": columns.source,
        "metadata": columns.metadata,
        "embedding": columns.embedding,
        "context": target.catalog.context,
        "key_order": target.catalog.key_order,
    }
    return {part: name for part, name in names.items() if name is not None}


def _names(target: Target) -> sql.Composable:
    return sql.SQL(", ").join(map(sql.Identifier, written_columns(target).values()))


def _types(target: Target) -> dict[str, sql.Composable]:
    special = {"metadata": sql.SQL("jsonb"), "key_order": sql.SQL("jsonb"), "embedding": target.layout.vector_type}
    return {part: special.get(part, sql.SQL("text")) for part in written_columns(target)}


def _on_conflict(target: Target, within: Condition) -> sql.Composable:
    """Replace the record of the same id. Where that lies outside the bound nothing is written, and the count tells."""
    columns = target.layout.columns
    assignments = sql.SQL(", ").join(
        sql.SQL("{name} = excluded.{name}").format(name=sql.Identifier(name))
        for name in written_columns(target).values()
        if name != columns.id
    )
    where = sql.SQL("") if within is ALWAYS else sql.SQL(" WHERE {}").format(within.strict)
    return sql.SQL("ON CONFLICT ({}) DO UPDATE SET {}{}").format(sql.Identifier(columns.id), assignments, where)


def insert_rows(target: Target, rows: Sequence[Sequence[Any]], within: Expression | None) -> Statement:
    """Upsert a few rows, of the values that `written_columns` names, in one statement."""
    bound, types = target.condition(within), _types(target)
    parameters: dict[str, Any] = {}
    lines = []
    for number, row in enumerate(rows):
        names = [f"{part}{number}" for part in types]
        parameters.update(zip(names, row, strict=True))
        values = map(sql.SQL("{}::{}").format, map(sql.Placeholder, names), types.values())
        lines.append(sql.SQL("({})").format(sql.SQL(", ").join(values)))
    return rendered(
        sql.SQL("INSERT INTO {} AS t ({}) VALUES {} {}").format(
            target.table,
            _names(target),
            sql.SQL(", ").join(lines),
            _on_conflict(target, bound),
        ),
        bound.parameters,
        parameters,
    )


def any_known(target: Target, ids: Sequence[str]) -> Statement:
    """Whether any of these ids is there already."""
    return rendered(
        sql.SQL("SELECT EXISTS (SELECT FROM {} AS t WHERE {} = ANY (%(ids)s::text[]))").format(
            target.table, target.column(target.layout.columns.id)
        ),
        {"ids": list(ids)},
    )


def copy_table(target: Target) -> str:
    """Return the COPY straight into the table."""
    return sql.SQL("COPY {} ({}) FROM STDIN WITH (FORMAT BINARY)").format(target.table, _names(target)).as_string(None)


def create_stage(target: Target) -> Statement:
    """Make the temporary table that records are merged from; it goes with the transaction, if not before."""
    names = map(sql.Identifier, written_columns(target).values())
    columns = map(sql.SQL("{} {}").format, names, _types(target).values())
    return rendered(sql.SQL("CREATE TABLE {} ({}) ON COMMIT DROP").format(_STAGE, sql.SQL(", ").join(columns)))


def copy_stage(target: Target) -> str:
    """Return the COPY that fills the stage."""
    return sql.SQL("COPY {} ({}) FROM STDIN WITH (FORMAT BINARY)").format(_STAGE, _names(target)).as_string(None)


def merge_stage(target: Target, within: Expression | None) -> Statement:
    """Upsert what was copied, in the order it was copied in, which is that of ids."""
    bound = target.condition(within)
    return rendered(
        sql.SQL("INSERT INTO {table} AS t ({columns}) SELECT {columns} FROM {stage} {on_conflict}").format(
            table=target.table, columns=_names(target), stage=_STAGE, on_conflict=_on_conflict(target, bound)
        ),
        bound.parameters,
    )


def empty_stage() -> Statement:
    """Empty the stage for the next batch."""
    return rendered(sql.SQL("TRUNCATE {}").format(_STAGE))


def drop_stage() -> Statement:
    """Drop the stage."""
    return rendered(sql.SQL("DROP TABLE {}").format(_STAGE))

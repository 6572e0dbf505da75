"""Writing records: one INSERT for a few, COPY for many, straight into the table where nothing has to be replaced.

A batch whose ids are all new is copied into the table itself, which is as fast as PostgreSQL takes rows. Any other is
copied into a temporary table and merged from there with ON CONFLICT.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from psycopg import errors

from agora_core.errors import SchemaError, ScopeViolationError
from agora_core.filters import Expression
from agora_core.steps import Steps
from agora_core.stores.postgres import statements
from agora_core.stores.postgres.rows import COPY_HEADER, COPY_TRAILER, Vector, copy_rows, row_values
from agora_core.stores.postgres.session import Copy, Statement, Work
from agora_core.stores.postgres.statements import Target
from agora_core.validation import RecordBatch

_ROWS_WITHOUT_STAGE: Final = 500

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
            known = yield statements.any_known(target, batch.ids)
            if not known.rows[0][0] and (yield from self._copied(batch)):
                return
        if not target.catalog.may_stage:
            yield from _insert(target, batch, self._bound, _ROWS_WITHOUT_STAGE)
            return
        yield statements.empty_stage() if self._staged else statements.create_stage(target)
        self._staged = True
        yield Copy(statements.copy_stage(target), self._pieces(batch))
        answer = yield statements.merge_stage(target, self._bound)
        _check_all(answer.count, len(batch))

    def finish(self) -> Steps[None]:
        """Leave nothing behind: the transaction may be a caller's, who goes on with it."""
        if self._staged:
            yield statements.drop_stage()

    def _copied(self, batch: RecordBatch) -> Steps[bool]:
        """Copy into the table; False where another writer brought one of the ids in the meantime."""
        yield _SAVE
        try:
            yield Copy(statements.copy_table(self._target), self._pieces(batch))
        except errors.UniqueViolation:
            yield _ROLL_BACK
            return False
        yield _RELEASE
        return True

    def _pieces(self, batch: RecordBatch) -> Iterator[bytes]:
        layout = self._target.layout
        yield COPY_HEADER
        yield from copy_rows(batch, layout.storage, list(statements.written_columns(self._target)))
        yield COPY_TRAILER


def _insert(target: Target, batch: RecordBatch, bound: Expression | None, most: int) -> Steps[None]:
    values = row_values(batch, target.layout.storage, statements.written_columns(target))
    rows = [tuple(Vector(value) if isinstance(value, bytes) else value for value in row) for row in values]
    for start in range(0, len(rows), most):
        some = rows[start : start + most]
        answer = yield statements.insert_rows(target, some, bound)
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

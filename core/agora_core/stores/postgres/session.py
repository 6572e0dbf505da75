"""One operation on one connection: the requests it may make, and how they are sent, from sync and from async code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection, sql
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format, TransactionStatus

from agora_core.steps import Steps, adrive, drive
from agora_core.stores.postgres.rows import Vector

Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement and its bound parameters; answered by an `Answer`. A value is never part of `text`."""

    text: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Copy:
    """A COPY FROM STDIN and the pieces of its stream; answered by an `Answer` without rows."""

    text: str
    pieces: Iterable[bytes]


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a statement, and how many rows it returned or wrote."""

    rows: Sequence[Sequence[Any]]
    count: int


@dataclass(frozen=True, slots=True)
class Work:
    """Something to be computed, beside the event loop in async code; answered by what it returns."""

    function: Callable[[], Any]


Request = Statement | Copy | Work

_AT_ONCE: Final = 64
"""Rows that are made into something where they arrive: going to a thread costs more."""


def beside(function: Callable[[], Made], rows: int) -> Steps[Made]:
    """Return what `function` makes of so many rows; of many beside the event loop."""
    made: Made = function() if rows <= _AT_ONCE else (yield Work(function))
    return made


class VectorDumper(Dumper):
    """Sends an embedding in binary, its type left to the cast beside it, so that no oid has to be looked up."""

    format = Format.BINARY
    oid = 0

    def dump(self, obj: Vector) -> Buffer | None:
        """Return the bytes as they are."""
        return bytes(obj)


def _is_free(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Say whether a statement will be a transaction of its own."""
    return connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE


class Phase:
    """How far an attempt came."""

    __slots__ = ("committing", "connected", "lost")

    def __init__(self) -> None:
        self.connected = False
        self.committing = False
        self.lost = False


def run(
    connection: Connection[Any],
    writes: bool,
    steps: Steps[Any],
    first: Request,
    phase: Phase,
    adapt: bool,
    actor: Mapping[str, str] | None,
) -> Any:
    """Run an operation, whose first request was taken already, in a transaction where it writes or has an actor."""
    phase.connected = True
    free = _is_free(connection)
    if not writes and actor is None and free:
        return _drive(connection, steps, first, adapt)
    # A read in a caller's own transaction is undone, which leaves none of its settings behind; one on a connection
    # that opens transactions by itself must not leave that open.
    with connection.transaction(force_rollback=not writes):
        if actor is not None:
            connection.execute(_settings(actor))
        result = _drive(connection, steps, first, adapt)
        if actor is not None and writes and not free:
            # The transaction may be a caller's, who goes on without this actor.
            connection.execute(_settings(dict.fromkeys(actor)))
        phase.committing = writes
    return result


async def arun(
    connection: AsyncConnection[Any],
    writes: bool,
    steps: Steps[Any],
    first: Request,
    phase: Phase,
    adapt: bool,
    actor: Mapping[str, str] | None,
) -> Any:
    """Async twin of `run`."""
    phase.connected = True
    free = _is_free(connection)
    if not writes and actor is None and free:
        return await _adrive(connection, steps, first, adapt)
    async with connection.transaction(force_rollback=not writes):
        if actor is not None:
            await connection.execute(_settings(actor))
        result = await _adrive(connection, steps, first, adapt)
        if actor is not None and writes and not free:
            await connection.execute(_settings(dict.fromkeys(actor)))
        phase.committing = writes
    return result


def _settings(actor: Mapping[str, str | None]) -> sql.Composed:
    """Return the statement that makes settings of this transaction; None is the default."""
    calls = (sql.SQL("set_config({}, {}, true)").format(name, value) for name, value in actor.items())
    return sql.SQL("SELECT {}").format(sql.SQL(", ").join(calls))


def _drive(connection: Connection[Any], steps: Steps[Any], request: Request, adapt: bool) -> Any:
    with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
        if adapt:
            register_types(cursor)
        return drive(steps, lambda request: execute(cursor, request), request)


async def _adrive(connection: AsyncConnection[Any], steps: Steps[Any], request: Request, adapt: bool) -> Any:
    async with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
        if adapt:
            register_types(cursor)
        return await adrive(steps, lambda request: aexecute(cursor, request), request, is_large=_is_large)


def _is_large(answer: object) -> bool:
    return isinstance(answer, Answer) and len(answer.rows) > _AT_ONCE


def register_types(what: psycopg.abc.AdaptContext) -> None:
    """Teach a connection of ours to send embeddings, or one cursor of a connection that was handed in."""
    what.adapters.register_dumper(Vector, VectorDumper)


def execute(cursor: psycopg.Cursor[Any], request: Request) -> Any:
    """Send one request, unprepared, and return its answer."""
    if isinstance(request, Work):
        return request.function()
    if isinstance(request, Copy):
        with cursor.copy(request.text.encode()) as copy:
            for piece in request.pieces:
                copy.write(piece)
        return Answer((), max(0, cursor.rowcount))
    cursor.execute(request.text.encode(), request.parameters or None, prepare=False)
    return Answer(cursor.fetchall() if cursor.description else (), max(0, cursor.rowcount))


async def aexecute(cursor: psycopg.AsyncCursor[Any], request: Request) -> Any:
    """Async twin of `execute`; what takes long is computed in a thread."""
    if isinstance(request, Work):
        return await asyncio.to_thread(request.function)
    if isinstance(request, Copy):
        async with cursor.copy(request.text.encode()) as copy:
            pieces = iter(request.pieces)
            while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                await copy.write(piece)
        return Answer((), max(0, cursor.rowcount))
    await cursor.execute(request.text.encode(), request.parameters or None, prepare=False)
    return Answer(await cursor.fetchall() if cursor.description else (), max(0, cursor.rowcount))

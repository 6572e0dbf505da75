"""Running an operation on one connection, of either colour: each statement sent, its answer handed back."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format, TransactionStatus

from agora_core.stores.postgres.requests import Answer, Copy, Request, Steps
from agora_core.stores.postgres.rows import Vector


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

    __slots__ = ("committing", "connected")

    def __init__(self) -> None:
        self.connected = False
        self.committing = False


def run(connection: Connection[Any], writes: bool, steps: Steps[Any], first: Request, phase: Phase, adapt: bool) -> Any:
    """Run an operation, whose first request was taken already, in a transaction where it writes; return its result."""
    phase.connected = True
    if not writes and _is_free(connection):
        return drive(connection, steps, first, adapt)
    # A read in a caller's own transaction is undone, which leaves none of its settings behind; one on a connection
    # that opens transactions by itself must not leave that open.
    with connection.transaction(force_rollback=not writes):
        result = drive(connection, steps, first, adapt)
        phase.committing = writes
    return result


async def arun(
    connection: AsyncConnection[Any], writes: bool, steps: Steps[Any], first: Request, phase: Phase, adapt: bool
) -> Any:
    """Async twin of `run`."""
    phase.connected = True
    if not writes and _is_free(connection):
        return await adrive(connection, steps, first, adapt)
    async with connection.transaction(force_rollback=not writes):
        result = await adrive(connection, steps, first, adapt)
        phase.committing = writes
    return result


def drive(connection: Connection[Any], steps: Steps[Any], request: Request, adapt: bool) -> Any:
    """Send each request of an operation and hand it the answer, until it returns."""
    try:
        with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
            if adapt:
                teach(cursor)
            while True:
                try:
                    answer = execute(cursor, request)
                except psycopg.Error as error:
                    # The operation may have set a savepoint and know another way.
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
    except StopIteration as end:
        return end.value
    finally:
        steps.close()


async def adrive(connection: AsyncConnection[Any], steps: Steps[Any], request: Request, adapt: bool) -> Any:
    """Async twin of `drive`."""
    try:
        async with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
            if adapt:
                teach(cursor)
            while True:
                try:
                    answer = await aexecute(cursor, request)
                except psycopg.Error as error:
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
    except StopIteration as end:
        return end.value
    finally:
        steps.close()


def teach(what: psycopg.abc.AdaptContext) -> None:
    """Teach a connection of ours to send embeddings, or one cursor of a connection that was handed in."""
    what.adapters.register_dumper(Vector, VectorDumper)


def execute(cursor: psycopg.Cursor[Any], request: Request) -> Answer:
    """Send one request, unprepared, and return its answer."""
    if isinstance(request, Copy):
        with cursor.copy(request.text.encode()) as copy:
            for piece in request.pieces:
                copy.write(piece)
        return Answer((), max(0, cursor.rowcount))
    cursor.execute(request.text.encode(), request.parameters or None, prepare=False)
    return Answer(cursor.fetchall() if cursor.description else (), max(0, cursor.rowcount))


async def aexecute(cursor: psycopg.AsyncCursor[Any], request: Request) -> Answer:
    """Async twin of `execute`."""
    if isinstance(request, Copy):
        async with cursor.copy(request.text.encode()) as copy:
            for piece in request.pieces:
                await copy.write(piece)
        return Answer((), max(0, cursor.rowcount))
    await cursor.execute(request.text.encode(), request.parameters or None, prepare=False)
    return Answer(await cursor.fetchall() if cursor.description else (), max(0, cursor.rowcount))

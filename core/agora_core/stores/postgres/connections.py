"""Where operations run: one executor for both colours, over pools it opens itself or over what it was handed.

Nothing is connected before the first operation and nothing is held after it. Connections are used in autocommit: a read
is one statement, a write is a transaction. No statement is prepared, so that plans see their values and pgbouncer may
hand the next statement to another session.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar, Union, cast

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.adapt import Buffer, Dumper
from psycopg.pq import Format, TransactionStatus
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from agora_core.errors import InvalidArgumentError, StoreClosedError, UnsupportedOperationError
from agora_core.stores.postgres.failures import RETRIED, is_lost, translated
from agora_core.stores.postgres.loop_pool import LoopPool
from agora_core.stores.postgres.requests import Answer, Copy, Request, Steps
from agora_core.stores.postgres.rows import Vector

T = TypeVar("T")

Source = Union[str, ConnectionPool[Any], AsyncConnectionPool[Any], "Connection[Any]", "AsyncConnection[Any]"]
"""A connection string, or an open or unopened pool, or one connection, of either colour."""

_MOST_ATTEMPTS: Final = 8
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of a store.

    `steps` begins the operation; where `replayable`, it may begin again after a rollback. `writes` asks for a
    transaction.
    """

    steps: Callable[[], Steps[Any]]
    writes: bool = False
    replayable: bool = True


class _VectorDumper(Dumper):
    """Sends an embedding in binary, its type left to the cast beside it, so that no oid has to be looked up."""

    format = Format.BINARY
    oid = 0

    def dump(self, obj: Vector) -> Buffer | None:
        return bytes(obj)


class Connections:
    """Runs operations over a source. Safe in threads and in several event loops, one after another or at once."""

    def __init__(
        self, source: Source, *, max_connections: int, pool_timeout: float, max_retries: int = _MOST_ATTEMPTS
    ) -> None:
        self._source = source
        self._max_connections = max_connections
        self._pool_timeout = pool_timeout
        self._attempts = max_retries
        self._lock = threading.RLock()
        self._connection_lock = threading.RLock()
        self._closed = False
        self._pool: ConnectionPool[Any] | None = None
        # Kept by strong references, and let go when the loop is found closed: sockets must be closed by someone.
        self._pools: dict[asyncio.AbstractEventLoop, LoopPool] = {}
        self._loop: weakref.ref[asyncio.AbstractEventLoop] | None = None
        self._one_at_a_time: asyncio.Lock | None = None
        self._adapts = not isinstance(source, str)
        if isinstance(source, str):
            _check_conninfo(source)
        elif not isinstance(source, (ConnectionPool, AsyncConnectionPool, Connection, AsyncConnection)):
            raise InvalidArgumentError(
                "the first argument must be a connection string, or a psycopg pool or connection, "
                f"got {type(source).__name__}"
            )

    @property
    def is_natively_async(self) -> bool:
        """Whether async operations run without a worker thread."""
        return isinstance(self._source, (str, AsyncConnectionPool, AsyncConnection))

    @property
    def described(self) -> str:
        """Host, port and database, for a repr: never the password."""
        if isinstance(self._source, str):
            known = psycopg.conninfo.conninfo_to_dict(self._source)
            shown = {name: known[name] for name in ("host", "port", "dbname") if known.get(name)}
            return " ".join(f"{name}={value}" for name, value in shown.items()) or "default server"
        return type(self._source).__name__

    # Sync.

    def run(self, operation: Operation) -> Any:
        """Run an operation and return its result.

        Raises:
            AgoraError: whatever the driver raised, translated.
            UnsupportedOperationError: only an async pool or connection was given.
        """
        attempt = 0
        while True:
            attempt += 1
            phase = _Phase()
            steps = operation.steps()
            try:
                # The first step is taken before a connection is: what asks for nothing needs none.
                first = next(steps)
                with self._connection() as connection:
                    return _run(connection, operation.writes, steps, first, phase, self._adapts)
            except StopIteration as end:
                return end.value
            except psycopg.Error as error:
                pause = self._pause(error, operation, phase, attempt)
                if pause is None:
                    raise translated(error, committing=phase.committing and is_lost(error)) from None
                if is_lost(error):
                    self._drop_stale()
            time.sleep(pause)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Connection[Any]]:
        source = self._source
        self._check_open()
        if isinstance(source, (AsyncConnectionPool, AsyncConnection)):
            raise UnsupportedOperationError(
                f"this store was opened with an {type(source).__name__}, so only its async methods work; await the "
                "async method, or open the store with a connection string, which serves both"
            )
        if isinstance(source, Connection):
            with self._connection_lock:
                yield source
            return
        pool = self._opened() if isinstance(source, str) else source
        if pool is source:
            # Does nothing to a pool that is open.
            pool.open()
        with pool.connection() as connection:
            yield connection

    def _opened(self) -> ConnectionPool[Any]:
        with self._lock:
            self._check_open()
            if self._pool is None:
                conninfo = cast("str", self._source)
                # Asked once by itself: a pool would try for its whole timeout, and then not say what was wrong.
                psycopg.connect(conninfo, **_PARAMETERS).close()
                pool = ConnectionPool(
                    conninfo,
                    min_size=0,
                    max_size=self._max_connections,
                    timeout=self._pool_timeout,
                    kwargs=dict(_PARAMETERS),
                    configure=_adapt,
                    name="agora-postgres",
                    open=False,
                )
                pool.open()
                self._pool = pool
            return self._pool

    def _drop_stale(self) -> None:
        pool = self._source if isinstance(self._source, ConnectionPool) else self._pool
        if pool is not None:
            pool.check()

    # Async.

    async def arun(self, operation: Operation) -> Any:
        """Async twin of `run`; in a worker thread where only a sync pool or connection was given."""
        if not self.is_natively_async:
            return await asyncio.to_thread(self.run, operation)
        attempt = 0
        while True:
            attempt += 1
            phase = _Phase()
            steps = operation.steps()
            try:
                first = next(steps)
                async with self._aconnection() as connection:
                    return await _arun(connection, operation.writes, steps, first, phase, self._adapts)
            except StopIteration as end:
                return end.value
            except psycopg.Error as error:
                pause = self._pause(error, operation, phase, attempt)
                if pause is None:
                    raise translated(error, committing=phase.committing and is_lost(error)) from None
                if is_lost(error):
                    await self._adrop_stale()
            await asyncio.sleep(pause)

    @contextlib.asynccontextmanager
    async def _aconnection(self) -> AsyncIterator[AsyncConnection[Any]]:
        source = self._source
        self._check_open()
        if isinstance(source, str):
            async with self._loop_pool().connection() as connection:
                yield connection
        elif isinstance(source, AsyncConnection):
            async with self._this_loop():
                yield source
        else:
            self._this_loop()
            pool = cast("AsyncConnectionPool[Any]", source)
            # Does nothing to a pool that is open.
            await pool.open()
            async with pool.connection() as connection:
                yield connection

    def _this_loop(self) -> asyncio.Lock:
        """Return the lock of the loop that what was handed in belongs to.

        Raises:
            UnsupportedOperationError: this is another loop.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._loop is None or self._one_at_a_time is None:
                self._loop = weakref.ref(loop)
                self._one_at_a_time = asyncio.Lock()
            elif self._loop() is not loop:
                raise UnsupportedOperationError(
                    f"the {type(self._source).__name__} given to this store belongs to another event loop; open the "
                    "store with a connection string, which works in any"
                )
            return self._one_at_a_time

    def _loop_pool(self) -> LoopPool:
        loop = asyncio.get_running_loop()
        with self._lock:
            self._check_open()
            for other in [other for other in self._pools if other.is_closed()]:
                self._pools.pop(other).close()
            pool = self._pools.get(loop)
            if pool is None:
                pool = LoopPool(
                    cast("str", self._source),
                    size=self._max_connections,
                    timeout=self._pool_timeout,
                    parameters=_PARAMETERS,
                    configure=_adapt,
                )
                self._pools[loop] = pool
            return pool

    async def _adrop_stale(self) -> None:
        if isinstance(self._source, AsyncConnectionPool):
            await self._source.check()
        elif isinstance(self._source, str):
            self._loop_pool().drop_idle()

    # Closing.

    def close(self) -> None:
        """Close the pools opened here; what was handed in stays open."""
        with self._lock:
            self._closed = True
            pool, self._pool = self._pool, None
            pools = list(self._pools.values())
            self._pools.clear()
        for other in pools:
            other.close()
        if pool is not None:
            pool.close()

    async def aclose(self) -> None:
        """Async twin of `close`; the workers of the sync pool are waited for in a thread."""
        await asyncio.to_thread(self.close)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError("the store is closed; open another one")

    # Again.

    def _pause(self, error: Exception, operation: Operation, phase: _Phase, attempt: int) -> float | None:
        """Return the seconds after which to try again, or None where that is useless or not safe."""
        if not operation.replayable or attempt >= self._attempts:
            return None
        if isinstance(error, RETRIED):
            # Spread out, or those who met once meet again.
            longest: float = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**attempt)
            return random.uniform(0.5, 1.0) * longest  # noqa: S311 # nothing is guarded by it
        # A connection is tried anew once it was had; one that cannot be made fails at once.
        if is_lost(error) and phase.connected and not (operation.writes and phase.committing):
            if isinstance(self._source, (Connection, AsyncConnection)) or attempt > 2:
                return None
            return 0.0
        return None


def _is_free(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    """Say whether a statement will be a transaction of its own."""
    return connection.autocommit and connection.info.transaction_status == TransactionStatus.IDLE


class _Phase:
    """How far an attempt came."""

    __slots__ = ("committing", "connected")

    def __init__(self) -> None:
        self.connected = False
        self.committing = False


def _run(
    connection: Connection[Any], writes: bool, steps: Steps[Any], first: Request, phase: _Phase, adapt: bool
) -> Any:
    phase.connected = True
    if not writes and _is_free(connection):
        return _drive(connection, steps, first, adapt)
    # A read in a caller's own transaction is undone, which leaves none of its settings behind; one on a connection
    # that opens transactions by itself must not leave that open.
    with connection.transaction(force_rollback=not writes):
        result = _drive(connection, steps, first, adapt)
        phase.committing = writes
    return result


async def _arun(
    connection: AsyncConnection[Any], writes: bool, steps: Steps[Any], first: Request, phase: _Phase, adapt: bool
) -> Any:
    phase.connected = True
    if not writes and _is_free(connection):
        return await _adrive(connection, steps, first, adapt)
    async with connection.transaction(force_rollback=not writes):
        result = await _adrive(connection, steps, first, adapt)
        phase.committing = writes
    return result


def _drive(connection: Connection[Any], steps: Steps[Any], request: Request, adapt: bool) -> Any:
    try:
        with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
            if adapt:
                _adapt(cursor)
            while True:
                try:
                    answer = _execute(cursor, request)
                except psycopg.Error as error:
                    # The operation may have set a savepoint and know another way.
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
    except StopIteration as end:
        return end.value
    finally:
        steps.close()


async def _adrive(connection: AsyncConnection[Any], steps: Steps[Any], request: Request, adapt: bool) -> Any:
    try:
        async with connection.cursor(row_factory=psycopg.rows.tuple_row) as cursor:
            if adapt:
                _adapt(cursor)
            while True:
                try:
                    answer = await _aexecute(cursor, request)
                except psycopg.Error as error:
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
    except StopIteration as end:
        return end.value
    finally:
        steps.close()


def _adapt(what: psycopg.abc.AdaptContext) -> None:
    """Teach a connection of ours to send embeddings, or one cursor of a connection that was handed in."""
    what.adapters.register_dumper(Vector, _VectorDumper)


def _execute(cursor: psycopg.Cursor[Any], request: Request) -> Answer:
    if isinstance(request, Copy):
        with cursor.copy(request.text.encode()) as copy:
            for piece in request.pieces:
                copy.write(piece)
        return Answer((), max(0, cursor.rowcount))
    cursor.execute(request.text.encode(), request.parameters or None, prepare=False)
    return Answer(cursor.fetchall() if cursor.description else (), max(0, cursor.rowcount))


async def _aexecute(cursor: psycopg.AsyncCursor[Any], request: Request) -> Answer:
    if isinstance(request, Copy):
        async with cursor.copy(request.text.encode()) as copy:
            for piece in request.pieces:
                await copy.write(piece)
        return Answer((), max(0, cursor.rowcount))
    await cursor.execute(request.text.encode(), request.parameters or None, prepare=False)
    return Answer(await cursor.fetchall() if cursor.description else (), max(0, cursor.rowcount))


def _check_conninfo(conninfo: str) -> None:
    try:
        psycopg.conninfo.conninfo_to_dict(conninfo)
    except psycopg.Error:
        # The parser's own message quotes the string, password and all.
        raise InvalidArgumentError(
            "the connection string could not be read; write it as postgresql://user:password@host/database, special "
            "characters percent-encoded, or as key=value pairs"
        ) from None


_PARAMETERS: Final[dict[str, Any]] = {"autocommit": True, "prepare_threshold": None}

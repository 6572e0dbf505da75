"""Where operations run: one executor for sync and async calls, over pools it opens itself or over what it was handed.

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
import warnings
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar, Union, cast

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from agora_core.concurrency import renew_after_fork
from agora_core.errors import AgoraError, InvalidArgumentError, StoreClosedError, UnsupportedOperationError
from agora_core.steps import Steps
from agora_core.stores.postgres import session
from agora_core.stores.postgres.failures import RETRIED, is_lost, translated
from agora_core.stores.postgres.pools import LoopPool, ThreadPool
from agora_core.stores.postgres.session import Phase

T = TypeVar("T")

Source = Union[str, ConnectionPool[Any], AsyncConnectionPool[Any], "Connection[Any]", "AsyncConnection[Any]"]
"""A connection string, or an open or unopened pool, or one connection, sync or async."""

_MOST_ATTEMPTS: Final = 8
_FIRST_PAUSE: Final = 0.01
_LONGEST_PAUSE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Operation:
    """One call of a store.

    `steps` begins the operation; where `replayable`, it may begin again after a rollback. `writes` asks for a
    transaction. `otherwise` makes the result of an error, where the operation has one.
    """

    steps: Callable[[], Steps[Any]]
    writes: bool = False
    replayable: bool = True
    otherwise: Callable[[AgoraError], Any] | None = None


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
        self._pool: ThreadPool | None = None
        # Kept by strong references, and let go when the loop is found closed: sockets must be closed by someone.
        self._pools: dict[asyncio.AbstractEventLoop, LoopPool] = {}
        self._loop: weakref.ref[asyncio.AbstractEventLoop] | None = None
        self._one_at_a_time: asyncio.Lock | None = None
        self._adapts = not isinstance(source, str)
        self._inherited = False
        self._told = False
        renew_after_fork(self)
        if isinstance(source, str):
            _check_conninfo(source)
        elif not isinstance(source, (ConnectionPool, AsyncConnectionPool, Connection, AsyncConnection)):
            raise InvalidArgumentError(
                "the first argument must be a connection string, or a psycopg pool or connection, "
                f"got {type(source).__name__}"
            )

    def renew(self) -> None:
        """Begin anew in a forked process, which must not use the connections and locks of its parent."""
        pools: list[ThreadPool | LoopPool] = [*self._pools.values()]
        if self._pool is not None:
            pools.append(self._pool)
        self._pool, self._pools = None, {}
        self._lock, self._connection_lock = threading.RLock(), threading.RLock()
        self._loop = self._one_at_a_time = None
        self._inherited = not isinstance(self._source, str)
        for pool in pools:
            pool.disown()

    @property
    def is_natively_async(self) -> bool:
        """Whether async operations run without a worker thread."""
        return isinstance(self._source, (str, AsyncConnectionPool, AsyncConnection))

    @property
    def conninfo(self) -> ConnInfo:
        """The connection string of what was handed in."""
        source = self._source
        told: Any = source
        if isinstance(source, (Connection, AsyncConnection)):
            told = source.info.dsn
        elif not isinstance(source, str):
            told = source.conninfo
        return ConnInfo(told if isinstance(told, str) else "")

    @property
    def described(self) -> str:
        """Host, port and database, for a repr: never the password."""
        if isinstance(self._source, str):
            known = psycopg.conninfo.conninfo_to_dict(self._source)
            shown = {name: known[name] for name in ("host", "port", "dbname") if known.get(name)}
            return " ".join(f"{name}={value}" for name, value in shown.items()) or "default server"
        return type(self._source).__name__

    # Sync.

    def run(self, operation: Operation, actor: Mapping[str, str] | None = None) -> Any:
        """Run an operation and return its result; `actor` are settings of its transaction.

        Raises:
            AgoraError: whatever the driver raised, translated.
            UnsupportedOperationError: only an async pool or connection was given.
        """
        attempt = 0
        while True:
            attempt += 1
            phase = Phase()
            steps = operation.steps()
            try:
                # The first step is taken before a connection is: what asks for nothing needs none.
                first = next(steps)
                with self._connection() as connection:
                    try:
                        return session.run(connection, operation.writes, steps, first, phase, self._adapts, actor)
                    except psycopg.Error as error:
                        if self._judged(error, connection, phase):
                            connection.close()
                        raise
            except StopIteration as end:
                return end.value
            except psycopg.Error as error:
                pause = self._pause(error, operation, phase, attempt)
                if pause is None:
                    raise translated(error, lost=phase.lost, committing=phase.committing and phase.lost) from None
                if phase.lost:
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
        if isinstance(source, str):
            with self._opened().connection() as connection:
                yield connection
            return
        # Does nothing to a pool that is open.
        source.open()
        with source.connection() as connection:
            yield connection

    def _opened(self) -> ThreadPool:
        # No lock is held while anything is connected: the event loop takes the same one.
        with self._lock:
            self._check_open()
            if self._pool is None:
                self._pool = ThreadPool(
                    cast("str", self._source),
                    size=self._max_connections,
                    timeout=self._pool_timeout,
                    configure=session.register_types,
                )
            return self._pool

    def _drop_stale(self) -> None:
        if isinstance(self._source, ConnectionPool):
            self._source.check()
        elif self._pool is not None:
            self._pool.drop_idle()

    def _judged(self, error: psycopg.Error, connection: Connection[Any] | AsyncConnection[Any], phase: Phase) -> bool:
        """Note whether the connection is lost, and say whether it must not go back into its pool."""
        phase.lost = is_lost(error, connection)
        single = isinstance(self._source, (Connection, AsyncConnection))
        return phase.lost and not single and not connection.closed

    # Async.

    async def arun(self, operation: Operation, actor: Mapping[str, str] | None = None) -> Any:
        """Async twin of `run`; in a worker thread where only a sync pool or connection was given."""
        if not self.is_natively_async or self._cannot_be_async():
            return await asyncio.to_thread(self.run, operation, actor)
        attempt = 0
        while True:
            attempt += 1
            phase = Phase()
            steps = operation.steps()
            try:
                first = next(steps)
                async with self._aconnection() as connection:
                    try:
                        return await session.arun(
                            connection, operation.writes, steps, first, phase, self._adapts, actor
                        )
                    except psycopg.Error as error:
                        if self._judged(error, connection, phase):
                            await connection.close()
                        raise
            except StopIteration as end:
                return end.value
            except psycopg.Error as error:
                pause = self._pause(error, operation, phase, attempt)
                if pause is None:
                    raise translated(error, lost=phase.lost, committing=phase.committing and phase.lost) from None
                if phase.lost:
                    await self._adrop_stale()
            await asyncio.sleep(pause)

    def _cannot_be_async(self) -> bool:
        """Say whether the driver refuses this event loop, as it does the default one of Windows."""
        if not isinstance(self._source, str) or type(asyncio.get_running_loop()).__name__ != "ProactorEventLoop":
            return False
        if not self._told:
            self._told = True
            warnings.warn(
                "psycopg cannot use the ProactorEventLoop of Windows, so the async methods of this store run in worker "
                "threads; use asyncio.SelectorEventLoop for native ones",
                RuntimeWarning,
                stacklevel=4,
            )
        return True

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
                    configure=session.register_types,
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
        if self._inherited:
            raise UnsupportedOperationError(
                f"the {type(self._source).__name__} given to this store was made before this process was forked, and "
                "its connections are those of the parent; make it in each process, or open the store with a connection "
                "string, which works in all"
            )

    # Again.

    def _pause(self, error: Exception, operation: Operation, phase: Phase, attempt: int) -> float | None:
        """Return the seconds after which to try again, or None where that is useless or not safe."""
        if not operation.replayable or attempt >= self._attempts:
            return None
        if isinstance(error, RETRIED):
            # Spread out, or those who met once meet again.
            longest: float = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**attempt)
            return random.uniform(0.5, 1.0) * longest  # noqa: S311 # nothing is guarded by it
        # A connection is tried anew once it was had; one that cannot be made fails at once.
        if phase.lost and phase.connected and not (operation.writes and phase.committing):
            if isinstance(self._source, (Connection, AsyncConnection)) or attempt > 2:
                return None
            return 0.0
        return None


class ConnInfo(str):
    """A connection string that does not show its password."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the string as keywords, the password masked."""
        known = psycopg.conninfo.conninfo_to_dict(self)
        masked: dict[str, Any] = {name: "***" if "password" in name else value for name, value in known.items()}
        return repr(psycopg.conninfo.make_conninfo(**masked))


def _check_conninfo(conninfo: str) -> None:
    try:
        psycopg.conninfo.conninfo_to_dict(conninfo)
    except psycopg.Error:
        # The parser's own message quotes the string, password and all.
        raise InvalidArgumentError(
            "the connection string could not be read; write it as postgresql://user:password@host/database, special "
            "characters percent-encoded, or as key=value pairs"
        ) from None

"""Two small pools of connections, one for threads and one for an event loop, without threads or tasks of their own.

psycopg's pools keep workers. A framework that closes a loop under them, or a fork, leaves those behind; nothing here
outlives its owner but idle sockets. Who asks connects by itself, so that the cause of a failure is its own, at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final, Generic, TypeVar

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.pq import TransactionStatus
from psycopg_pool import PoolTimeout

C = TypeVar("C", "Connection[Any]", "AsyncConnection[Any]")

_LONGEST_IDLE: Final = 600.0
_PARAMETERS: Final[dict[str, Any]] = {"autocommit": True, "prepare_threshold": None}

# Connections of the process that this one was forked from: never used, never ended, never collected.
_inherited: Final[list[Any]] = []


class _Idle(Generic[C]):
    """What both pools keep: the idle connections, the one used last to be used next."""

    def __init__(self, conninfo: str, *, timeout: float, configure: Callable[[Any], None]) -> None:
        self._conninfo = conninfo
        self._timeout = timeout
        self._configure = configure
        self._idle: deque[tuple[C, float]] = deque()
        self._lent: set[C] = set()
        self._closed = False

    def _take(self) -> C | None:
        limit = time.monotonic() - _LONGEST_IDLE
        while self._idle and self._idle[0][1] < limit:
            _finish(self._idle.popleft()[0])
        while self._idle:
            connection, _ = self._idle.pop()
            if not connection.closed:
                self._lent.add(connection)
                return connection
        return None

    def _give_back(self, connection: C) -> None:
        self._lent.discard(connection)
        if self._closed or connection.info.transaction_status != TransactionStatus.IDLE:
            # Broken, or left in the middle of something.
            _finish(connection)
        else:
            self._idle.append((connection, time.monotonic()))

    def _seconds(self, deadline: float) -> dict[str, Any]:
        """Return the connect_timeout that is left of the wait; the driver's least is two seconds."""
        left = max(1, math.ceil(deadline - time.monotonic()))
        given = psycopg.conninfo.conninfo_to_dict(self._conninfo).get("connect_timeout")
        own = int(given) if given is not None and str(given).lstrip("-").isdigit() else 0
        return {"connect_timeout": min(left, own) if own > 0 else left}

    def _late(self) -> PoolTimeout:
        return PoolTimeout(f"couldn't get a connection after {self._timeout:.2f} sec")

    def drop_idle(self) -> None:
        """Close what lies idle; it may be stale."""
        while self._idle:
            _finish(self._idle.pop()[0])

    def close(self) -> None:
        """Close what lies idle now, and what is lent out when it comes back."""
        self._closed = True
        self.drop_idle()

    def disown(self) -> None:
        """Let go of every connection in a forked process: nothing is sent, the parent goes on with them."""
        for connection in [*(connection for connection, _ in self._idle), *self._lent]:
            _inherited.append(connection)
            with contextlib.suppress(OSError, psycopg.Error):
                os.close(connection.fileno())
        self._idle.clear()
        self._lent.clear()


class ThreadPool(_Idle["Connection[Any]"]):
    """At most `size` connections for sync code in any threads. No lock is held while one is made."""

    def __init__(self, conninfo: str, *, size: int, timeout: float, configure: Callable[[Any], None]) -> None:
        super().__init__(conninfo, timeout=timeout, configure=configure)
        self._permits = threading.Semaphore(size)
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def connection(self) -> Iterator[Connection[Any]]:
        """Lend a connection.

        Raises:
            PoolTimeout: none became free in time.
            psycopg.OperationalError: a new one could not be made.
        """
        deadline = time.monotonic() + self._timeout
        if not self._permits.acquire(timeout=self._timeout):
            raise self._late()
        try:
            with self._lock:
                connection = self._take()
            if connection is None:
                connection = Connection.connect(self._conninfo, **_PARAMETERS, **self._seconds(deadline))
                self._configure(connection)
                with self._lock:
                    self._lent.add(connection)
            try:
                yield connection
            finally:
                with self._lock:
                    self._give_back(connection)
        finally:
            self._permits.release()

    def drop_idle(self) -> None:
        """Close what lies idle; it may be stale."""
        with self._lock:
            super().drop_idle()


class LoopPool(_Idle["AsyncConnection[Any]"]):
    """At most `size` connections for one event loop; `close` may be called from anywhere."""

    def __init__(self, conninfo: str, *, size: int, timeout: float, configure: Callable[[Any], None]) -> None:
        super().__init__(conninfo, timeout=timeout, configure=configure)
        self._permits = asyncio.Semaphore(size)

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        """Lend a connection.

        Raises:
            PoolTimeout: none became free in time.
            psycopg.OperationalError: a new one could not be made.
        """
        deadline = time.monotonic() + self._timeout
        await self._acquire()
        try:
            connection = self._take()
            if connection is None:
                made = AsyncConnection.connect(self._conninfo, **_PARAMETERS, **self._seconds(deadline))
                connection = await made
                self._configure(connection)
                self._lent.add(connection)
            try:
                yield connection
            finally:
                self._give_back(connection)
        finally:
            self._permits.release()

    async def _acquire(self) -> None:
        if not self._permits.locked():
            await self._permits.acquire()
            return
        waiting = asyncio.ensure_future(self._permits.acquire())
        try:
            await asyncio.wait([waiting], timeout=self._timeout)
        except asyncio.CancelledError:
            # The permit may have come in the same moment.
            if waiting.done() and not waiting.cancelled():
                self._permits.release()
            waiting.cancel()
            raise
        if not waiting.done():
            waiting.cancel()
            raise self._late()


def _finish(connection: Connection[Any] | AsyncConnection[Any]) -> None:
    # What `close` does, without awaiting: the loop may be gone.
    connection.pgconn.finish()

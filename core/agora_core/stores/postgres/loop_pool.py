"""A small pool of async connections for one event loop, without background tasks.

psycopg's own async pool keeps worker tasks in its loop. A framework that closes a loop under them (and many open one
loop a call) leaves those tasks and their sockets behind; this pool has nothing that outlives the loop but idle sockets,
and `close` may be called from anywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.pq import TransactionStatus
from psycopg_pool import PoolTimeout

_LONGEST_IDLE: Final = 600.0


class LoopPool:
    """At most `size` connections; the one used last is used next."""

    def __init__(
        self,
        conninfo: str,
        *,
        size: int,
        timeout: float,
        parameters: Mapping[str, Any],
        configure: Callable[[AsyncConnection[Any]], None],
    ) -> None:
        self._conninfo = conninfo
        self._timeout = timeout
        self._parameters = parameters
        self._configure = configure
        self._permits = asyncio.Semaphore(size)
        self._idle: deque[tuple[AsyncConnection[Any], float]] = deque()
        self._closed = False

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        """Lend a connection.

        Raises:
            PoolTimeout: none became free in time.
            psycopg.OperationalError: a new one could not be made.
        """
        await self._acquire()
        try:
            connection = self._take() or await self._connect()
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
            raise PoolTimeout(f"couldn't get a connection after {self._timeout:.2f} sec")

    async def _connect(self) -> AsyncConnection[Any]:
        connection = await AsyncConnection.connect(self._conninfo, **self._parameters)
        self._configure(connection)
        return connection

    def _take(self) -> AsyncConnection[Any] | None:
        limit = time.monotonic() - _LONGEST_IDLE
        while self._idle and self._idle[0][1] < limit:
            _finish(self._idle.popleft()[0])
        while self._idle:
            connection, _ = self._idle.pop()
            if not connection.closed:
                return connection
        return None

    def _give_back(self, connection: AsyncConnection[Any]) -> None:
        if self._closed or connection.info.transaction_status != TransactionStatus.IDLE:
            # Broken, or left in the middle of something by a cancelled task.
            _finish(connection)
        else:
            self._idle.append((connection, time.monotonic()))

    def drop_idle(self) -> None:
        """Close what lies idle; it may be stale."""
        while self._idle:
            _finish(self._idle.pop()[0])

    def close(self) -> None:
        """Close what lies idle now, and what is lent out when it comes back."""
        self._closed = True
        self.drop_idle()


def _finish(connection: AsyncConnection[Any]) -> None:
    # What `close` does, without awaiting: the loop may be gone.
    connection.pgconn.finish()

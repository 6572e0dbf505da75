"""Clients: opened lazily, one async client an event loop, a lock around local mode, retries with back-off."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from os import PathLike, fspath
from typing import Any, Final, TypeVar

from agora_core.concurrency import kept_over_forks
from agora_core.errors import (
    InvalidArgumentError,
    SchemaError,
    StoreClosedError,
    StoreUnavailableError,
    UnsupportedOperationError,
)
from agora_core.extras import require
from agora_core.steps import Steps, adrive, drive
from agora_core.stores.qdrant.requests import Call, Pause, is_too_large

T = TypeVar("T")

_TRANSIENT_STATUS: Final = frozenset((408, 425, 429, 500, 502, 503, 504))
_TRANSIENT_GRPC: Final = frozenset(("UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "ABORTED"))
_LONGEST_WAIT: Final = 10.0
_AT_ONCE: Final = 32
"""Up to this many points of an answer are looked through on the event loop."""

# Stores that share a local client share its lock: local mode is not safe between threads.
_locks: weakref.WeakKeyDictionary[Any, threading.RLock] = weakref.WeakKeyDictionary()
_locks_guard = threading.Lock()


# Folders that are open in this process: the client, and how many stores use it.
_folders: dict[str, tuple[Any, int]] = {}
_connections: weakref.WeakSet[QdrantConnection] = weakref.WeakSet()
# Clients of a parent process are never used here again, and never closed either.
_inherited: list[Any] = []


def _lock_of(client: Any) -> threading.RLock:
    with _locks_guard:
        return _locks.setdefault(client, kept_over_forks(threading.RLock(), after=1))


def _after_fork() -> None:
    """Give a forked child clients of its own: two processes that use one connection read each other's answers."""
    global _locks_guard
    _locks_guard = threading.Lock()
    _locks.clear()
    _inherited.extend(client for client, _ in _folders.values())
    _folders.clear()
    for connection in list(_connections):
        connection.forget_parent()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class QdrantConnection:
    """Runs programs against Qdrant, with a sync or an async client."""

    def __init__(
        self,
        client: Any,
        *,
        async_client: Any = None,
        options: dict[str, Any],
        max_retries: int,
        retry_backoff: float,
    ) -> None:
        """Take a client, a URL, `":memory:"` or a path; nothing is opened yet.

        Raises:
            InvalidArgumentError: neither a client nor a place to connect to was given, or both an API key and a client.
        """
        self._options = dict(options)
        self._client: Any = None
        self.local: bool = False
        self._given_async: Any = async_client
        self._open: Callable[[], Any] | None = None
        self._async_clients: dict[asyncio.AbstractEventLoop, Any] = {}
        self._guard = threading.Lock()
        self._closed = False
        self._max_retries, self._retry_backoff = max_retries, retry_backoff
        self._url: str | None = None
        if client is None and async_client is None:
            raise InvalidArgumentError("client is missing; give a QdrantClient, a URL, a path or ':memory:'")
        self._given_async_is_taken = False
        self._folder: str | None = None
        if isinstance(client, (str, PathLike)):
            self._take_place(fspath(client))
        elif client is not None:
            self._take_client(client)
        self._async_is_local = self._has_local_async_client()
        _connections.add(self)

    def forget_parent(self) -> None:
        """Drop, in a forked child, what belongs to its parent; the next use opens anew. The parent's stays as it is."""
        self._guard = threading.Lock()
        _inherited.append((self._client, dict(self._async_clients)))
        self._async_clients = {}
        if self._given_async is not None and not self._async_is_local:
            self._given_async_is_taken = True
        if self._client is None or (self.local and self._folder is None):
            # What is kept in memory was copied with the process.
            return
        if self._open is None:
            given = self._client
            self._open = lambda: type(given)(**given.init_options)
        self._client = None

    def _has_local_async_client(self) -> bool:
        if self._given_async is None:
            return False
        local = _is_local(self._given_async)
        if self._client is None and self._open is None:
            self.local = local
            return local
        if self.local is not local:
            raise InvalidArgumentError(
                "client and async_client stand for different places: one is local mode and the other a server; "
                "give two of a kind"
            )
        if local:
            # Two local clients never share their data, so all calls use the one that has a lock: the sync one.
            self._given_async = None
        return False

    def _take_place(self, place: str | bytes) -> None:
        if not isinstance(place, str) or not place:
            raise InvalidArgumentError("client must be a URL, a path or ':memory:'; got an empty or a bytes path")
        if "://" in place:
            self._url = place
            self._open = lambda: self._new("QdrantClient", url=place, **self._options)
            return
        self.local = True
        if any(value is not None for value in self._options.values()):
            given = sorted(name for name, value in self._options.items() if value is not None)
            raise InvalidArgumentError(f"{', '.join(given)} has no meaning for local mode; leave it out")
        if place != ":memory:":
            self._folder = os.path.realpath(place)
            self._open = lambda: self._shared_folder(place)
            return
        # The lock below makes it safe; sqlite only knows the thread it was opened in.
        self._open = lambda: self._new("QdrantClient", location=place, force_disable_check_same_thread=True)

    def _shared_folder(self, place: str) -> Any:
        """Open a folder, or share the client of another store of this process."""
        folder = self._folder or place
        with _locks_guard:
            client, users = _folders.get(folder, (None, 0))
            if client is None:
                try:
                    client = self._new("QdrantClient", path=place, force_disable_check_same_thread=True)
                except RuntimeError as error:
                    if "already accessed" not in str(error):
                        raise
                    raise StoreUnavailableError(
                        f"the folder {place!r} is open in another process (or in a QdrantClient of this one, which can "
                        "be given to the store instead of the folder); close it there, or run a Qdrant server and "
                        "give its URL: a folder serves one process at a time"
                    ) from error
            _folders[folder] = (client, users + 1)
            return client

    def _release_folder(self, client: Any) -> bool:
        """Say whether nobody uses the client of a folder any more."""
        if self._folder is None:
            return True
        with _locks_guard:
            known, users = _folders.get(self._folder, (client, 1))
            if known is client and users > 1:
                _folders[self._folder] = (client, users - 1)
                return False
            _folders.pop(self._folder, None)
            return True

    def _take_client(self, client: Any) -> None:
        package = require("qdrant_client", extra="qdrant")
        if isinstance(client, package.AsyncQdrantClient):
            if self._given_async is not None:
                raise InvalidArgumentError("client is an AsyncQdrantClient and async_client was given too; give one")
            self._given_async = client
            return
        if any(value is not None for value in self._options.values()):
            given = sorted(name for name, value in self._options.items() if value is not None)
            raise InvalidArgumentError(f"{', '.join(given)} belongs to the client that was given; set it there")
        self._client = client
        self.local = _is_local(client)

    def _new(self, kind: str, **options: Any) -> Any:
        package = require("qdrant_client", extra="qdrant")
        return getattr(package, kind)(**{name: value for name, value in options.items() if value is not None})

    def sync_client(self) -> Any:
        """Return the sync client, opening it where this store was given a place.

        Raises:
            StoreClosedError: the store was closed.
            UnsupportedOperationError: only an async client was given.
        """
        with self._guard:
            self._check_open()
            if self._client is None:
                if self._open is None:
                    raise UnsupportedOperationError(
                        "this QdrantStore has only an async client; await the async methods, or give a QdrantClient"
                    )
                self._client = self._open()
            return self._client

    def _async_client(self) -> Any:
        """Return the client for the running event loop: the one given, or one of this store's own.

        Connections belong to the loop they were opened in, so the given client serves the loop that used it first, and
        every other loop gets one of its own with the same options.
        """
        self._check_open()
        if self._async_is_local:
            return self._given_async
        loop = asyncio.get_running_loop()
        with self._guard:
            client = self._async_clients.get(loop)
            if client is None:
                for other in [other for other in self._async_clients if other.is_closed()]:
                    del self._async_clients[other]
                client = self._async_clients[loop] = self._next_async_client()
            return client

    def _next_async_client(self) -> Any:
        given = self._given_async
        if given is None:
            # check_compatibility would block the loop with a sync request of its own.
            return self._new("AsyncQdrantClient", url=self._url, **{**self._options, "check_compatibility": False})
        if not self._given_async_is_taken:
            self._given_async_is_taken = True
            return given
        return type(given)(**given.init_options)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosedError("the Qdrant store was closed; make a new one")

    def run(self, program: Steps[T]) -> T:
        """Run a program to its end with the sync client, which is opened when the first call needs it.

        In local mode the whole program holds the client's lock, so it is one step to every other thread.
        """
        self._check_open()
        with ExitStack() as held:
            opened: list[Any] = []

            def perform(call: Call | Pause) -> Any:
                if isinstance(call, Pause):
                    return time.sleep(call.seconds)
                if not opened:
                    opened.append(self.sync_client())
                    if self.local:
                        held.enter_context(_lock_of(opened[0]))
                return self._call(opened[0], call)

            return drive(program, perform)

    def _call(self, client: Any, call: Call) -> Any:
        for attempt in range(self._max_retries + 1):
            try:
                return getattr(client, call.method)(**call.arguments)
            except Exception as error:
                wait = self._wait_after(error, attempt, call)
                time.sleep(wait)
        raise AssertionError("unreachable")

    async def arun(self, program: Steps[T]) -> T:
        """Run a program to its end with the async client, or with the sync one in a worker thread."""
        self._check_open()
        if self._given_async is None and self._url is None:
            return await asyncio.to_thread(self.run, program)

        async def perform(call: Call | Pause) -> Any:
            if isinstance(call, Pause):
                return await asyncio.sleep(call.seconds)
            return await self._acall(self._async_client(), call)

        # An async local client never yields to the loop, so the lock is not held across anything that waits.
        with _lock_of(self._given_async) if self._async_is_local else nullcontext():
            return await adrive(program, perform, is_large=_is_large)

    async def _acall(self, client: Any, call: Call) -> Any:
        for attempt in range(self._max_retries + 1):
            try:
                return await getattr(client, call.method)(**call.arguments)
            except Exception as error:
                wait = self._wait_after(error, attempt, call)
                await asyncio.sleep(wait)
        raise AssertionError("unreachable")

    def _wait_after(self, error: Exception, attempt: int, call: Call) -> float:
        """Return the seconds to wait before the next attempt, or raise where there is none.

        Every request may be repeated: upserts, deletes and merges of the same values do the same twice as once.
        """
        if _names_missing_collection(error):
            name = call.arguments.get("collection_name")
            raise SchemaError(f"the Qdrant collection {name!r} does not exist; call ensure_collection()") from error
        if is_too_large(error) or not _is_transient(error):
            raise error
        if attempt >= self._max_retries:
            raise StoreUnavailableError(
                f"Qdrant did not answer {call.method} after {attempt + 1} attempts ({type(error).__name__}); "
                "see the cause, and check that the server is up and reachable"
            ) from error
        told: Any = getattr(error, "retry_after_s", None)
        if told is not None:
            return min(float(told), _LONGEST_WAIT)
        # Full jitter, so that many writers do not come back at the same moment.
        return min(self._retry_backoff * 2.0**attempt, _LONGEST_WAIT) * random.uniform(0.5, 1.0)  # noqa: S311 # no secret

    def close(self) -> None:
        """Close what this store opened itself; async clients of other loops are closed with their loops."""
        with self._guard:
            client, self._closed = self._client, True
            if self._open is None or client is None:
                return
            self._client = None
        if self._release_folder(client):
            with _lock_of(client) if self.local else nullcontext():
                client.close()

    async def aclose(self) -> None:
        """Close what this store opened itself, with the async client of the running loop."""
        loop = asyncio.get_running_loop()
        mine = self._async_clients.pop(loop, None)
        if mine is not None and mine is not self._given_async:
            await mine.close()
        await asyncio.to_thread(self.close)


def _is_large(answer: Any) -> bool:
    """Say whether the operation has much to do with an answer: many points, in a page or in several lists."""
    if isinstance(answer, (list, tuple)):
        return len(answer) > _AT_ONCE or any(map(_is_large, answer[:1]))
    found = getattr(answer, "points", None) or getattr(answer, "hits", None) or ()
    return len(found) > _AT_ONCE


def _is_local(client: Any) -> bool:
    sync = require("qdrant_client.local.qdrant_local", extra="qdrant").QdrantLocal
    asynchronous = require("qdrant_client.local.async_qdrant_local", extra="qdrant").AsyncQdrantLocal
    return isinstance(getattr(client, "_client", None), (sync, asynchronous))


def _is_transient(error: Exception) -> bool:
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in _TRANSIENT_STATUS
    if hasattr(error, "retry_after_s"):
        return True
    source = getattr(error, "source", None)
    if type(error).__name__ == "ResponseHandlingException":
        # Wraps what httpx raised; a body that could not be read as an answer is no matter of time.
        return type(source).__module__.partition(".")[0] in ("httpx", "httpcore")
    code = getattr(error, "code", None)
    if type(error).__module__.partition(".")[0] == "grpc" and callable(code):
        return getattr(code(), "name", "") in _TRANSIENT_GRPC
    return isinstance(error, (ConnectionError, TimeoutError))


def _names_missing_collection(error: Exception) -> bool:
    if isinstance(error, ValueError):
        text = str(error)
        return text.startswith("Collection ") and "not found" in text
    if getattr(error, "status_code", None) == 404:
        content = getattr(error, "content", b"")
        return b"doesn't exist" in content and b"ollection" in content
    details = getattr(error, "details", None)
    return callable(details) and "doesn't exist" in str(details()) and "ollection" in str(details())

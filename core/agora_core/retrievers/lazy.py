"""A retriever whose parts are made at its first use, once, whichever colour and thread that comes from."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from agora_core.calling import acall, call, given, offers
from agora_core.errors import UnsupportedOperationError
from agora_core.filters import Expression
from agora_core.ingestion import aingest_documents, ingest_documents
from agora_core.protocols import AnyFilter
from agora_core.records import IngestDocument, Passage
from agora_core.retrievers.base import BaseRetriever, shared_scope
from agora_core.retrievers.ports import RetrieverPort
from agora_core.steps import Steps, ask

T = TypeVar("T")

# How often a coroutine looks whether another thread or loop has finished making the parts.
_POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Parts:
    """What a lazy retriever is made of; `keyword` is the keyword index beside the store, where there is one."""

    retriever: Any
    store: Any
    embedder: Any
    keyword: Any = None


class LazyRetriever(BaseRetriever):
    """Made by the factories `memory`, `pgvector` and `qdrant`: nothing is imported, connected or embedded before use.

    Where making the parts fails, the call fails, and the next one tries again. Used as a context manager, it closes
    its store at the end.
    """

    def __init__(
        self,
        make: Callable[[], Parts],
        *,
        prepare: str | None = None,
        documents: Iterable[IngestDocument] = (),
        chunking: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep how the parts are made.

        Args:
            make: makes them, without waiting for a network.
            prepare: a method of the store to call once before use (`ensure_schema`).
            documents: ingested once before use.
            chunking: options of `ingest_documents`.
        """
        self._make = make
        self._prepare = prepare
        self._documents = documents
        self._chunking = dict(chunking or {})
        self._parts: Parts | None = None
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'not used yet' if self._parts is None else repr(self._parts.retriever)})"

    @property
    def store(self) -> Any:
        """The store; made and prepared now where it is not yet."""
        return self.open().store

    @property
    def embedder(self) -> Any:
        """The embedder; made now where it is not yet."""
        return self.open().embedder

    def open(self) -> Parts:
        """Make the parts where that is not done yet, and return them.

        Raises:
            UnsupportedOperationError: this very event loop is making them; await `aopen` there.
        """
        if self._parts is not None:
            return self._parts
        self._refuse_own_loop()
        with self._lock:
            if self._parts is None:
                parts = self._make()
                try:
                    if self._prepare is not None:
                        call(parts.store, self._prepare)
                    if documents := self._given_documents():
                        ingest_documents(documents, **self._ingestion(parts))
                except BaseException:
                    if offers(parts.store, "close"):
                        with suppress(Exception):
                            call(parts.store, "close")
                    raise
                self._parts = parts
            return self._parts

    async def aopen(self) -> Parts:
        """Async twin of `open`: the loop stays free meanwhile."""
        if self._parts is not None:
            return self._parts
        async with self._held():
            if self._parts is None:
                self._parts = await self._amade()
            return self._parts

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[None]:
        """Hold the lock. Waiting in a worker thread would fill the pool that the making needs, so look now and then."""
        # The holder may be another thread or loop, which no asyncio.Event reaches.
        while not self._lock.acquire(blocking=False):  # noqa: ASYNC110
            await asyncio.sleep(_POLL_SECONDS)
        self._loop = asyncio.get_running_loop()
        try:
            yield
        finally:
            self._loop = None
            self._lock.release()

    async def _amade(self) -> Parts:
        parts: Parts = await _in_own_thread(self._make)
        try:
            if self._prepare is not None:
                await acall(parts.store, self._prepare)
            if documents := self._given_documents():
                if callable(getattr(parts.embedder, "embed", None)):
                    await _in_own_thread(lambda: ingest_documents(documents, **self._ingestion(parts)))
                else:
                    await aingest_documents(documents, **self._ingestion(parts))
        except BaseException:
            if offers(parts.store, "close"):
                with suppress(Exception):
                    await acall(parts.store, "close")
            raise
        return parts

    @property
    def scope(self) -> Expression | None:
        """The scope of the retriever behind; made now where it is not yet."""
        return shared_scope([self.open().retriever])

    def _retrieve(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        parts = yield from ask(self.open, self.aopen)
        options = {"top_k": top_k, "min_score": min_score, "per_document": per_document}
        return (yield from RetrieverPort(parts.retriever).retrieve(query, filter=filter, **options))  # type: ignore[arg-type]

    def close(self) -> None:
        """Close the store where it was made. Closing twice is allowed; the next use makes it anew."""
        self._refuse_own_loop()
        with self._lock:
            parts, self._parts = self._parts, None
        if parts is not None and offers(parts.store, "close"):
            call(parts.store, "close")

    async def aclose(self) -> None:
        """Async twin of `close`."""
        async with self._held():
            parts, self._parts = self._parts, None
        if parts is not None and offers(parts.store, "close"):
            await acall(parts.store, "close")

    def __enter__(self) -> LazyRetriever:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> LazyRetriever:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _refuse_own_loop(self) -> None:
        """Refuse to wait, in the thread of a loop, for what that loop is busy making: it would wait forever."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if loop is self._loop:
            raise UnsupportedOperationError(
                "this event loop is just making the retriever's parts, so a sync call on it would never return; "
                "await the async method instead"
            )

    def _given_documents(self) -> list[IngestDocument]:
        # Kept as a list: an iterator would be used up where the first attempt fails.
        if not isinstance(self._documents, list):
            self._documents = list(self._documents)
        return self._documents

    def _ingestion(self, parts: Parts) -> dict[str, Any]:
        return {
            "embedder": parts.embedder,
            "store": parts.store,
            **given(keyword=parts.keyword),
            **self._chunking,
        }


async def _in_own_thread(function: Callable[[], T]) -> T:
    """Run a function in a thread of its own.

    The loop's pool may be full of sync callers that wait for this very function to end.
    """
    executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="agora-open")
    try:
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(executor, lambda: context.run(function))
    finally:
        executor.shutdown(wait=False)


def made(value: Any, *, having: str) -> Any:
    """Return a part: `value` itself where it has the method `having`, else what it returns when called."""
    if isinstance(value, type) or (callable(value) and not offers(value, having)):
        return value()
    return value

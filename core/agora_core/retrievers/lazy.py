"""A retriever whose parts are made at its first use, once, whichever thread or event loop that comes from."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final, TypeVar

from agora_core.calling import Method, given, offers
from agora_core.concurrency import fork_safe_lock
from agora_core.corpus.report import SyncReport
from agora_core.corpus.syncing import async_sync_documents, sync_documents
from agora_core.errors import UnsupportedOperationError
from agora_core.filters import Expression
from agora_core.ingestion import aingest_documents, ingest_documents
from agora_core.ingestion_plan import KeywordPort
from agora_core.protocols import AnyFilter
from agora_core.records import IngestDocument, Passage
from agora_core.retrievers.base import BaseRetriever, shared_scope
from agora_core.retrievers.ports import RetrieverPort
from agora_core.steps import Call, Steps, arun, ask, run
from agora_core.stores.ports import StorePort

T = TypeVar("T")

SAMPLE: Final = 100
"""How many texts an analyser is suggested from, the first ones."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What a lazy retriever is made of; `keyword` is the keyword index beside the store, where there is one."""

    retriever: Any
    store: Any
    embedder: Any
    keyword: Any = None


class LazyRetriever(BaseRetriever):
    """Made by the factories `memory`, `pgvector` and `qdrant`: nothing is imported, connected or embedded before use.

    One object that adds (`add`), reconciles (`sync`), saves, loads and retrieves. Patches and removals are done to its
    `store`, and every leg follows. Where making the parts fails, the call fails, and the next one tries again. Used as
    a context manager, it closes its store at the end.
    """

    def __init__(
        self,
        make: Callable[[Sequence[IngestDocument]], Parts],
        *,
        prepare: str | None = None,
        fills_keyword: bool = False,
        documents: Iterable[IngestDocument] = (),
        chunking: Mapping[str, Any] | None = None,
        load: Callable[[str | os.PathLike[str]], Parts] | None = None,
        suggest: Callable[[Sequence[str]], str] | None = None,
    ) -> None:
        """Keep how the parts are made.

        Args:
            make: makes them from the documents to come, without waiting for a network.
            prepare: a method of the store to call once before use (`ensure_schema`).
            fills_keyword: put what the store holds into the keyword index before use.
            documents: ingested once before use.
            chunking: options of `ingest_documents`.
            suggest: names the analyser for texts like these, where nobody has named one. The store's `index_texts`
                takes it; the analyser of an index that is there stays.
            load: makes the parts over a store saved to a file; None where stores keep their records themselves.
        """
        self._make = make
        self._prepare = prepare
        self._documents = documents
        self._chunking = dict(chunking or {})
        self._fills_keyword = fills_keyword
        self._load, self._suggest = load, suggest
        self._file: str | os.PathLike[str] | None = None
        self._parts: Parts | None = None
        # The lock guards the two after it, and is never held while anything is waited for.
        self._lock = fork_safe_lock()
        self._busy: Future[None] | None = None
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
        while (parts := self._parts) is None:
            with self._held():
                if self._parts is None:
                    made: list[Parts] = []
                    try:
                        self._parts = run(self._making(made))
                    except BaseException:
                        for left in made:
                            with suppress(Exception):
                                run(_closing(left))
                        raise
        return parts

    async def aopen(self) -> Parts:
        """Async twin of `open`: the loop stays free meanwhile."""
        while (parts := self._parts) is None:
            async with self._aheld():
                if self._parts is None:
                    made: list[Parts] = []
                    try:
                        self._parts = await arun(self._making(made))
                    except BaseException:
                        for left in made:
                            with suppress(Exception):
                                await arun(_closing(left))
                        raise
        return parts

    def _making(self, made: list[Parts]) -> Steps[Parts]:
        """Make and prepare the parts; `made` holds them from when there is something to close."""
        if self._file is not None and self._load is not None:
            make = partial(self._load, self._file)
        else:
            make = partial(self._make, self._given_documents())
        parts: Parts = yield Call(make, partial(_in_own_thread, make))
        made.append(parts)
        adopts = self._suggest is not None and offers(parts.store, "adopt_tokenizer")
        kept = (yield from Method(parts.store, "adopt_tokenizer")()) if adopts else None
        if self._prepare is not None:
            yield from Method(parts.store, self._prepare)()
        if adopts and kept is None and self._prepare is not None:
            found = yield from StorePort(parts.store).reader().page()
            yield from self._analyse(parts, [record.text for record in found[:SAMPLE]])
        if parts.keyword is not None and self._fills_keyword:
            yield from _fill(parts)
        if documents := self._given_documents():
            yield from self._ingesting(parts, documents)
        return parts

    def _ingesting(self, parts: Parts, documents: Iterable[IngestDocument]) -> Steps[int]:
        options = self._filling(parts)
        ingest = partial(ingest_documents, documents, **options)
        if callable(getattr(parts.embedder, "embed", None)):
            written: int = yield Call(ingest, partial(_in_own_thread, ingest))
        else:
            written = yield Call(ingest, partial(aingest_documents, documents, **options))
        return written

    def _settled(self, parts: Parts, documents: Any) -> Steps[Any]:
        """Return documents to come; an empty store takes the analyser that their first texts suggest."""
        if self._suggest is None or isinstance(documents, AsyncIterable):
            return documents
        if not offers(parts.store, "index_texts") or (yield from StorePort(parts.store).count()):
            return documents
        coming = iter(documents)
        take = partial(lambda: list(itertools.islice(coming, SAMPLE)))
        first = yield Call(take, partial(_in_own_thread, take))
        # Whoever takes them in refuses what is no document.
        texts = [getattr(document, "text", None) for document in first]
        yield from self._analyse(parts, [text for text in texts if isinstance(text, str)])
        return itertools.chain(first, coming)

    def _analyse(self, parts: Parts, texts: Sequence[str]) -> Steps[None]:
        name = "unicode" if self._suggest is None or not texts else self._suggest(texts)
        if name != "unicode" and name != getattr(parts.store.tokenizer, "name", None):
            yield from Method(parts.store, "index_texts")(tokenizer=name)

    def _filling(self, parts: Parts) -> dict[str, Any]:
        return {"embedder": parts.embedder, "store": parts.store, **given(keyword=parts.keyword), **self._chunking}

    def add(self, documents: Iterable[IngestDocument]) -> int:
        """Cut, embed and store documents, each in the place of what was stored under its id; see `ingest_documents`.

        They are cut as those given to the factory. Return how many chunks were written.
        """
        return run(self._adding(self.open(), documents))

    async def aadd(self, documents: Iterable[IngestDocument]) -> int:
        """Async twin of `add`."""
        return await arun(self._adding(await self.aopen(), documents))

    def _adding(self, parts: Parts, documents: Iterable[IngestDocument]) -> Steps[int]:
        coming = yield from self._settled(parts, documents)
        return (yield from self._ingesting(parts, coming))

    def sync(self, documents: Iterable[IngestDocument], **options: Any) -> SyncReport:
        """Hold these documents and no others, embedding only what is new; see `sync_documents` for the other options.

        They are cut as those given to the factory. Return what was done.
        """
        coming = run(self._settled(parts := self.open(), documents))
        return sync_documents(coming, **{**self._filling(parts), **options})

    async def async_sync(
        self, documents: Iterable[IngestDocument] | AsyncIterable[IngestDocument], **options: Any
    ) -> SyncReport:
        """Async twin of `sync`; takes an async iterator too."""
        coming = await arun(self._settled(parts := await self.aopen(), documents))
        return await async_sync_documents(coming, **{**self._filling(parts), **options})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all that is held to one file, in place of what stood there; `load` reads it.

        Raises:
            UnsupportedOperationError: the store keeps its records itself.
        """
        run(_saving(self.open(), path))

    async def asave(self, path: str | os.PathLike[str]) -> None:
        """Async twin of `save`."""
        await arun(_saving(await self.aopen(), path))

    def load(self, path: str | os.PathLike[str]) -> LazyRetriever:
        """Hold what `save` wrote to `path`, in the place of what is held now, and return this retriever.

        The documents that were given to the factory are not ingested then. Nothing is embedded, and the analyser of the
        texts is the saved one. A failure leaves all as it was.

        Raises:
            InvalidArgumentError: the file is not a saved store or is damaged, or it was indexed by another tokenizer
                than the factory was told.
            FileNotFoundError: there is no such file.
            UnsupportedOperationError: the store keeps its records itself, or was given to the factory.
        """
        with self._held():
            parts, self._parts = self._parts, run(self._loading(path))
        if parts is not None:
            run(_closing(parts))
        return self

    async def aload(self, path: str | os.PathLike[str]) -> LazyRetriever:
        """Async twin of `load`."""
        async with self._aheld():
            parts, self._parts = self._parts, await arun(self._loading(path))
        if parts is not None:
            await arun(_closing(parts))
        return self

    def _loading(self, path: str | os.PathLike[str]) -> Steps[Parts]:
        if self._load is None:
            raise UnsupportedOperationError(
                "there is nothing to load: this retriever's store keeps its records itself, or was given as store=; "
                "a saved store of one's own is given loaded: store=MemoryVectorStore.load(path)"
            )
        load = partial(self._load, path)
        parts: Parts = yield Call(load, partial(_in_own_thread, load))
        # From now on it is made anew from there.
        self._file, self._documents = path, []
        return parts

    def _claim(self, loop: asyncio.AbstractEventLoop | None) -> Future[None] | None:
        """Take the making or closing upon oneself; return what to wait for where another has it."""
        with self._lock:
            if self._busy is not None:
                return self._busy
            self._busy, self._loop = Future(), loop
            # A waiter that is cancelled must not cancel what the others wait for.
            self._busy.set_running_or_notify_cancel()
            return None

    def _release(self) -> None:
        with self._lock:
            busy, self._busy, self._loop = self._busy, None, None
        if busy is not None:
            busy.set_result(None)

    @contextmanager
    def _held(self) -> Iterator[None]:
        self._refuse_own_loop()
        while (busy := self._claim(None)) is not None:
            wait([busy])
        try:
            yield
        finally:
            self._release()

    @asynccontextmanager
    async def _aheld(self) -> AsyncIterator[None]:
        while (busy := self._claim(asyncio.get_running_loop())) is not None:
            await asyncio.wait([asyncio.wrap_future(busy)])
        try:
            yield
        finally:
            self._release()

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
        with self._held():
            parts, self._parts = self._parts, None
        if parts is not None:
            run(_closing(parts))

    async def aclose(self) -> None:
        """Async twin of `close`."""
        async with self._aheld():
            parts, self._parts = self._parts, None
        if parts is not None:
            await arun(_closing(parts))

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


def _closing(parts: Parts) -> Steps[None]:
    if offers(parts.store, "close"):
        yield from Method(parts.store, "close")()


def _saving(parts: Parts, path: str | os.PathLike[str]) -> Steps[None]:
    if not offers(parts.store, "save"):
        raise UnsupportedOperationError(
            f"{type(parts.store).__name__} keeps its records itself, so there is nothing to save; open it again later"
        )
    yield from Method(parts.store, "save")(path)


def _fill(parts: Parts) -> Steps[None]:
    """Put what a store holds into the keyword index beside it."""
    store = StorePort(parts.store)
    keyword, reader = KeywordPort(parts.keyword, store), store.reader()
    while page := (yield from reader.page()):
        yield from keyword.write(page, None)


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

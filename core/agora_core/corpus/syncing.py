"""Keep an index equal to a source of truth, at the cost of what changed.

Documents go through in windows: the store tells of what it has, changes are worked out, new texts are embedded, each
document is written. Only when the source has ended well is what it no longer holds removed.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from agora_core.chunking import Cutter, document_cutter
from agora_core.concurrency import map_bounded
from agora_core.corpus.changes import DocumentChange, change_of
from agora_core.corpus.report import SyncReport
from agora_core.embedding import EmbedderPort
from agora_core.errors import AgoraError, InvalidArgumentError, ScopeViolationError, UnsafeRemovalError
from agora_core.events import watching
from agora_core.filters import compile_filter, predicate
from agora_core.ingestion import Progress, progress_bar, storable_document
from agora_core.ingestion_plan import KeywordPort
from agora_core.protocols import AnyFilter, EmbeddingProvider, VectorStore
from agora_core.records import ChunkRecord, Embedding, IngestDocument, VectorRecord, document_id_of
from agora_core.steps import Call, Steps, arun, run
from agora_core.stores.fingerprints import Fingerprint, fingerprint_of
from agora_core.stores.ports import StorePort
from agora_core.validation import check_top_k

Contextualize = Callable[[IngestDocument, ChunkRecord], "str | None"]

_WINDOW: Final = 100
_BATCH: Final = 256
_REMOVED_AT_ONCE: Final = 200


def sync_documents(
    documents: Iterable[IngestDocument],
    *,
    embedder: EmbeddingProvider,
    store: VectorStore,
    keyword: Any = None,
    scope: AnyFilter | None = None,
    allow_empty: bool = False,
    strict: bool = False,
    dry_run: bool = False,
    concurrency: int = 4,
    show_progress: bool = False,
    contextualize: Contextualize | None = None,
    **chunking: Any,
) -> SyncReport:
    """Make a store hold these documents and no others, embedding only what is new; return what was done.

    Only chunks whose embedded text is new to their document are embedded: a paragraph added at the top does not embed
    the book again. A changed label is patched. What is equal is left alone, and its text is not read back. What the
    source no longer holds is removed when it has ended. Killed anywhere and run again, it ends with the same index.

    Args:
        documents: the whole truth; an iterator of any length is taken up bit by bit. An id given twice fails the second
            time. A blank document counts as present, without chunks.
        embedder: any object with `embed`.
        store: a store, or a view of one: then nothing outside the view is read, written or removed.
        keyword: a `KeywordRetriever` to keep in step.
        scope: a filter that bounds everything, as a view would: a document outside it fails, and removal goes no
            further.
        allow_empty: let an empty source remove everything; without it an empty source is refused.
        strict: raise at the first document that fails; nothing is removed then. Otherwise it is told in `failed`.
        dry_run: embed and write nothing, and report what the run would do.
        concurrency: how many batches of texts are embedded at once, 1 or more.
        show_progress: show a bar of documents written (extra `progress`).
        contextualize: gives each chunk a context of its own, behind the document's; None adds none.
        chunking: options of `chunk_documents`.

    Raises:
        UnsafeRemovalError: the source is empty; nothing was written.
        InvalidArgumentError: an argument is not as described.
        Exception: what the source raised. What was written stays whole, and nothing is removed.
    """
    sync = _Sync(embedder, store, keyword, scope, allow_empty, strict, dry_run, concurrency, contextualize, chunking)
    with progress_bar(documents, show_progress, "syncing") as bar:
        return run(watching("sync", sync.steps(_SyncSource(documents), bar)))


async def async_sync_documents(
    documents: Iterable[IngestDocument] | AsyncIterable[IngestDocument],
    *,
    embedder: EmbeddingProvider,
    store: VectorStore,
    keyword: Any = None,
    scope: AnyFilter | None = None,
    allow_empty: bool = False,
    strict: bool = False,
    dry_run: bool = False,
    concurrency: int = 4,
    show_progress: bool = False,
    contextualize: Contextualize | None = None,
    **chunking: Any,
) -> SyncReport:
    """Async twin of `sync_documents`; takes an async iterator too. A sync one is read in a worker thread."""
    sync = _Sync(embedder, store, keyword, scope, allow_empty, strict, dry_run, concurrency, contextualize, chunking)
    source = _AsyncSource(documents) if isinstance(documents, AsyncIterable) else _SyncSource(documents)
    with progress_bar(documents, show_progress, "syncing") as bar:
        return await arun(watching("sync", sync.steps(source, bar)))


class _SyncSource:
    """Documents of an iterable, some at a time."""

    def __init__(self, documents: Iterable[Any]) -> None:
        if isinstance(documents, (str, bytes, IngestDocument)) or not isinstance(documents, Iterable):
            raise InvalidArgumentError(
                f"documents must be an iterable of IngestDocument, got {type(documents).__name__}"
            )
        self._documents: Iterator[Any] = iter(documents)

    def next(self) -> Steps[list[Any]]:
        """Return the next documents; none are left when it is empty."""
        documents: list[Any] = yield Call(self._take, lambda: asyncio.to_thread(self._take))
        return documents

    def _take(self) -> list[Any]:
        return list(itertools.islice(self._documents, _WINDOW))


class _AsyncSource:
    """Documents of an async iterable, some at a time."""

    def __init__(self, documents: AsyncIterable[Any]) -> None:
        self._documents: AsyncIterator[Any] = aiter(documents)

    def next(self) -> Steps[list[Any]]:
        """Return the next documents; none are left when it is empty."""
        documents: list[Any] = yield Call(list, self._take)
        return documents

    async def _take(self) -> list[Any]:
        taken = []
        async for document in self._documents:
            taken.append(document)
            if len(taken) == _WINDOW:
                break
        return taken


class _Sync:
    """One run: what is known of the store, and what was done."""

    def __init__(
        self,
        embedder: EmbeddingProvider,
        store: Any,
        keyword: Any,
        scope: AnyFilter | None,
        allow_empty: bool,
        strict: bool,
        dry_run: bool,
        concurrency: int,
        contextualize: Contextualize | None,
        chunking: dict[str, Any],
    ) -> None:
        unknown = set(chunking) - {"chunk_size", "overlap", "separator", "chunker"}
        if unknown:
            raise TypeError(f"sync_documents got an unexpected keyword argument {min(unknown)!r}")
        if chunking.get("chunker") is not None and len(chunking) > 1:
            others = ", ".join(sorted(set(chunking) - {"chunker"}))
            raise InvalidArgumentError(
                f"{others} cannot be given together with chunker=; give them to the chunker itself"
            )
        if contextualize is not None and not callable(contextualize):
            raise InvalidArgumentError(f"contextualize must be a function of document and chunk, got {contextualize!r}")
        self._cut: Cutter = document_cutter(**chunking)
        self._contextualize = contextualize
        self._embedder = EmbedderPort(embedder)
        view = store if scope is None else store.scoped(scope)
        self._store = StorePort(view)
        bound = self._store.scope()
        self._bound = None if bound is None else predicate(compile_filter(bound))
        self._keyword = None if keyword is None else KeywordPort(keyword, self._store)
        self._allow_empty, self._strict, self._dry_run = bool(allow_empty), bool(strict), bool(dry_run)
        self._concurrency = check_top_k(concurrency, argument="concurrency")
        self._seen: set[str] = set()
        self._scanned: dict[str, list[Fingerprint]] | None = None
        self.report = SyncReport()

    def steps(self, source: Any, bar: Progress) -> Steps[SyncReport]:
        begun = time.perf_counter()
        position = 0
        yield from self._store.check_model(self._embedder.model, fills=not self._dry_run)
        while documents := (yield from source.next()):
            changes = []
            for document in documents:
                if (cut := self._taken(document, position)) is not None:
                    changes.append(cut)
                position += 1
            yield from self._window(changes)
            bar.update(len(documents))
        if position == 0 and not self._allow_empty:
            raise UnsafeRemovalError(
                "the source is empty, which would remove every document of the store; nothing was written. Pass "
                "allow_empty=True if that is meant",
                reason="empty-source",
            )
        yield from self._remove_gone()
        self.report.seconds = time.perf_counter() - begun
        return self.report

    # A document -------------------------------------------------------------------------------------------------------

    def _taken(self, document: Any, position: int) -> tuple[str, list[ChunkRecord]] | None:
        """Return the id and the chunks of a document, None where it fails."""
        key = str(getattr(document, "id", f"documents[{position}]"))
        try:
            checked = storable_document(document, position)
            key = checked.id
            if key in self._seen:
                raise InvalidArgumentError(f"the id {key!r} is given twice; the first document of it counts")
            self._seen.add(key)
            return key, self._stamped(checked, self._contextualized(checked, self._cut(checked)))
        except Exception as error:
            self._seen.add(key)
            self._fail(key, error)
            return None

    def _contextualized(self, document: IngestDocument, chunks: list[ChunkRecord]) -> list[ChunkRecord]:
        if self._contextualize is None:
            return chunks
        made = []
        for chunk in chunks:
            own = self._contextualize(document, chunk)
            if own is not None and not isinstance(own, str):
                raise InvalidArgumentError(f"contextualize must return a str or None, got {type(own).__name__}")
            context = "\n\n".join(part for part in (chunk.context, own) if part) or None
            made.append(ChunkRecord(chunk.id, chunk.text, chunk.source, chunk.metadata, context))
        return made

    def _stamped(self, document: IngestDocument, chunks: list[ChunkRecord]) -> list[ChunkRecord]:
        """Return the chunks as the store will hold them; refuse a document outside the scope, before it is paid for."""
        behind = getattr(self._store.store, "stamped", None)
        if self._bound is None or behind is None:
            return chunks
        # The ids of a namespace are the view's business; only the labels matter here.
        stamped = behind([VectorRecord(one.id, one.text, (), one.source, one.metadata, one.context) for one in chunks])
        for one in stamped:
            if not self._bound(dict(one.metadata or {})):
                raise ScopeViolationError(
                    f"document {document.id!r} lies outside the scope of this sync; nothing of it was written"
                )
        return [
            ChunkRecord(chunk.id, chunk.text, chunk.source, one.metadata, chunk.context)
            for chunk, one in zip(chunks, stamped, strict=True)
        ]

    def _fail(self, key: str, error: Exception) -> None:
        if self._strict:
            raise error
        name = type(error).__name__
        report = self.report
        report.failed[key] = str(error) if isinstance(error, AgoraError) else f"{name}: {error}"
        # Of an id that was given twice the first document may be done already.
        for done in (report.embedded, report.reused, report.relabelled, report.unchanged):
            if key in done:
                done.remove(key)

    # A window ---------------------------------------------------------------------------------------------------------

    def _window(self, documents: Sequence[tuple[str, list[ChunkRecord]]]) -> Steps[None]:
        if not documents:
            return
        stored = yield from self._stored([key for key, _ in documents])
        changes = [change_of(key, chunks, stored.get(key, [])) for key, chunks in documents]
        if self._dry_run:
            for change in changes:
                self._count(change)
            return
        vectors = yield from self._embedded([change for change in changes if change.texts])
        for change in changes:
            if len(vectors.get(change.id, ())) < len(change.texts):
                continue
            try:
                yield from self._written(change, vectors.get(change.id, {}))
            except Exception as error:
                self._fail(change.id, error)
            else:
                self._count(change)

    def _stored(self, keys: list[str]) -> Steps[dict[str, list[Fingerprint]]]:
        found: dict[str, list[Fingerprint]] = {}
        if self._store.offers("fingerprints"):
            for one in (yield from self._store.method("fingerprints")(keys)):
                found.setdefault(document_id_of(one.id), []).append(one)
            return found
        if self._scanned is None:
            # A store that tells nothing by itself is read once; of each chunk only the row is kept.
            self._scanned = {}
            reader = self._store.reader()
            while page := (yield from reader.page()):
                for one in page:
                    row = fingerprint_of(one.id, one.text, one.context, one.source, one.metadata, digests=True)
                    self._scanned.setdefault(document_id_of(one.id), []).append(row)
        return {key: self._scanned.get(key, []) for key in keys}

    def _embedded(self, changes: list[DocumentChange]) -> Steps[dict[str, dict[str, Embedding]]]:
        """Embed the new texts of documents, in full batches, some at once. A document whose texts fail is told."""
        wanted = [(change.id, text) for change in changes for text in change.texts]
        batches = [wanted[start : start + _BATCH] for start in range(0, len(wanted), _BATCH)]
        answers = yield from self._all([[text for _, text in batch] for batch in batches])
        vectors: dict[str, dict[str, Embedding]] = {}
        again: dict[str, list[str]] = {}
        for batch, answer in zip(batches, answers, strict=True):
            found = [None] * len(batch) if isinstance(answer, Exception) else answer
            for (key, text), vector in zip(batch, found, strict=True):
                if vector is None:
                    again.setdefault(key, []).append(text)
                else:
                    vectors.setdefault(key, {})[text] = vector
        for key, texts in again.items():
            # One text may spoil a batch; each document gets a chance of its own.
            (answer,) = yield from self._all([texts])
            if isinstance(answer, Exception):
                self._fail(key, answer)
            else:
                vectors.setdefault(key, {}).update(zip(texts, answer, strict=True))
        return vectors

    def _all(self, batches: list[list[str]]) -> Steps[list[Any]]:
        """Return the vectors of each batch, or the error that it ended with."""

        def one(texts: list[str]) -> Any:
            try:
                return run(self._embedder.embed(texts))
            except Exception as error:
                return error

        async def aone(texts: list[str]) -> Any:
            try:
                return await arun(self._embedder.embed(texts))
            except Exception as error:
                return error

        def together() -> list[Any]:
            if len(batches) == 1 or self._concurrency == 1:
                return list(map(one, batches))
            with ThreadPoolExecutor(self._concurrency, thread_name_prefix="agora-embed") as pool:
                return list(pool.map(one, batches))

        if not batches:
            return []
        answers: list[Any] = yield Call(together, lambda: map_bounded(aone, batches, limit=self._concurrency))
        return answers

    def _written(self, change: DocumentChange, vectors: dict[str, Embedding]) -> Steps[None]:
        store = self._store
        if change.outcome == "unchanged":
            return
        if change.patch is not None and store.offers("update_metadata"):
            yield from store.update_metadata(change.id, change.patch)
            if self._keyword is not None:
                yield from self._keyword.write(change.records_for_index(), [change.id])
            return
        kept: dict[str, Embedding] = {}
        if needed := sorted(set(change.kept.values())):
            kept = {record.id: record.embedding for record in (yield from store.get(needed))}
        records = change.records(vectors, kept)
        if change.whole and store.offers("replace_documents"):
            yield from store.replace_documents([change.id], records)
        else:
            if records:
                yield from store.upsert(records)
            if change.stale:
                yield from store.delete(change.stale)
        if self._keyword is not None:
            yield from self._keyword.write(change.records_for_index(), [change.id])

    def _count(self, change: DocumentChange) -> None:
        report = self.report
        if change.id not in report.failed:
            getattr(report, change.outcome).append(change.id)
        if change.outcome != "unchanged":
            report.chunks_embedded += len(change.texts)
            report.characters_embedded += sum(map(len, change.texts))
            report.chunks_reused += change.reused

    def _remove_gone(self) -> Steps[None]:
        stored: list[str] = yield from self._store.list_document_ids()
        gone = [key for key in stored if key not in self._seen]
        if not self._dry_run:
            for start in range(0, len(gone), _REMOVED_AT_ONCE):
                some = gone[start : start + _REMOVED_AT_ONCE]
                if self._store.offers("replace_documents"):
                    yield from self._store.replace_documents(some, [])
                else:
                    for key in some:
                        yield from self._store.remove(key)
                if self._keyword is not None:
                    yield from self._keyword.write([], some)
        self.report.removed = gone

"""Keep an index equal to a source of truth, at the cost of what changed.

Documents go through in windows: the store tells of what it has, changes are worked out, new texts are embedded, whole
documents are written. Only when the source has ended well is removed what it no longer holds, of what was there when
the run began.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from agora_core.chunking import Chunker, Cutter, document_cutter
from agora_core.corpus.batches import Answer, EmbeddingAhead, batched
from agora_core.corpus.changes import DocumentChange, change_of
from agora_core.corpus.report import SyncReport
from agora_core.corpus.sources import Source
from agora_core.corpus.writing import Failures, Window, Writing
from agora_core.embedding import EmbedderPort
from agora_core.errors import (
    InvalidArgumentError,
    ScopeViolationError,
    UnsafeRemovalError,
    out_of_scope,
)
from agora_core.events import watching
from agora_core.filters import compile_filter, predicate
from agora_core.ingestion import Progress, progress_bar, storable_document
from agora_core.ingestion_plan import KeywordPort
from agora_core.protocols import AnyFilter, EmbeddingProvider, VectorStore
from agora_core.records import ChunkRecord, IngestDocument, VectorRecord, document_id_of
from agora_core.steps import Steps, arun, run
from agora_core.stores.fingerprints import Fingerprint, record_fingerprint
from agora_core.stores.ports import StorePort
from agora_core.validation import check_top_k

Contextualize = Callable[[IngestDocument, ChunkRecord], "str | None"]

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
    chunker: Chunker | None = None,
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
        strict: raise at the first document that fails; those before it are written, and nothing is removed. Otherwise
            it is told in `failed`, and something without a readable id, which may stand for any document, keeps all
            from being removed.
        dry_run: embed and write nothing, and report what the run would do.
        concurrency: how many batches of texts are embedded at once, while what is embedded is written. With 1 nothing
            runs beside the caller.
        show_progress: show a bar of documents written (extra `progress`).
        chunker: cuts the documents; with options of `chunk_documents` beside it, it is refused.
        contextualize: gives each chunk a context of its own, behind the document's; None adds none.
        chunking: options of `chunk_documents`.

    Raises:
        UnsafeRemovalError: the source is empty; nothing was written.
        InvalidArgumentError: an argument is not as described.
        Exception: what the source raised, or what embedder or store raised for eight documents in a row. What was
            written stays whole, and nothing is removed.

    Examples:
        >>> copy = MemoryVectorStore()
        >>> sync_documents(documents, embedder=embedder, store=copy).embedded
        ['leave', 'board']
        >>> sync_documents(documents[:1], embedder=embedder, store=copy).removed
        ['board']
    """
    flags = (allow_empty, strict, dry_run)
    sync = _Sync(embedder, store, keyword, scope, *flags, concurrency, contextualize, chunker, chunking)
    with progress_bar(documents, show_progress, "syncing") as bar:
        return run(watching("sync", sync.steps(Source(documents), bar)))


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
    chunker: Chunker | None = None,
    contextualize: Contextualize | None = None,
    **chunking: Any,
) -> SyncReport:
    """Async twin of `sync_documents`; takes an async iterator too. A sync one is read in a worker thread.

    Examples:
        >>> asyncio.run(async_sync_documents(documents, embedder=embedder, store=MemoryVectorStore())).chunks_embedded
        2
    """
    flags = (allow_empty, strict, dry_run)
    sync = _Sync(embedder, store, keyword, scope, *flags, concurrency, contextualize, chunker, chunking)
    with progress_bar(documents, show_progress, "syncing") as bar:
        return await arun(watching("sync", sync.steps(Source(documents), bar)))


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
        chunker: Chunker | None,
        chunking: dict[str, Any],
    ) -> None:
        if chunker is not None and chunking:
            others = ", ".join(sorted(chunking))
            raise InvalidArgumentError(
                f"{others} cannot be given together with chunker=; give them to the chunker itself"
            )
        if contextualize is not None and not callable(contextualize):
            raise InvalidArgumentError(f"contextualize must be a function of document and chunk, got {contextualize!r}")
        self._cut: Cutter = document_cutter(chunker=chunker, **chunking)
        self._contextualize = contextualize
        self._embedder = EmbedderPort(embedder)
        # What the scope hides is asked of the store behind it.
        self._behind = None if scope is None else StorePort(store)
        self._store = StorePort(store if scope is None else store.scoped(scope))
        bound = self._store.scope()
        self._bound = None if bound is None else predicate(compile_filter(bound))
        self._keyword = None if keyword is None else KeywordPort(keyword, self._store)
        self._allow_empty, self._dry_run = bool(allow_empty), bool(dry_run)
        self._concurrency = check_top_k(concurrency, argument="concurrency")
        self._seen: set[str] = set()
        self._nameless = self._named = False
        self._ended: Exception | None = None
        self._ahead = EmbeddingAhead(self._embedder, self._concurrency)
        self._scanned: dict[str, list[Fingerprint]] | None = None
        self.report = SyncReport()
        self._failures = Failures(self.report, strict=bool(strict))
        self._writing = Writing(self._store, self._keyword, self._ahead, self._failures)

    def steps(self, source: Source, bar: Progress) -> Steps[SyncReport]:
        begun = time.perf_counter()
        self._failures.bar = bar
        yield from self._store.check_model(self._embedder.model)
        documents = yield from source.next()
        if not documents and not self._allow_empty:
            raise UnsafeRemovalError(
                "the source is empty, which would remove every document of the store; nothing was written. Pass "
                "allow_empty=True if that is meant",
                reason="empty-source",
            )
        # Documents that others add from now on are not taken for gone.
        there = dict.fromkeys((yield from self._store.list_document_ids()))
        try:
            yield from self._windows(source, documents, there)
        finally:
            self._ahead.close()
        if self._ended is not None:
            raise self._ended
        if not self._nameless:
            yield from self._remove_gone([key for key in there if key not in self._seen])
        self.report.seconds = time.perf_counter() - begun
        return self.report

    def _windows(self, source: Source, documents: list[Any], there: Mapping[str, None]) -> Steps[None]:
        """Take the source through; while one window is embedded the one before it is written."""
        position = 0
        before: Window | None = None
        while documents or before is not None:
            cut = []
            for document in documents:
                try:
                    if (one := self._taken(document, position)) is not None:
                        cut.append(one)
                except Exception as error:
                    self._ended = error
                    break
                position += 1
            changes = yield from self._changes(cut, there)
            window = (yield from self._begun(changes)) if documents else None
            if before is not None:
                yield from self._finished(before, (yield from before.answers))
            before, documents = window, []
            if self._ended is None and window is not None:
                try:
                    documents = yield from source.next()
                except Exception as error:
                    self._ended = error

    # A document -------------------------------------------------------------------------------------------------------

    def _taken(self, document: Any, position: int) -> tuple[str, list[ChunkRecord]] | None:
        """Return the id and the chunks of a document, None where it fails."""
        key = getattr(document, "id", None)
        if not isinstance(key, str):
            key, self._nameless = f"documents[{position}]", True
        try:
            checked = storable_document(document, position)
            key = checked.id
            if key in self._seen:
                raise InvalidArgumentError(f"the id {key!r} is given twice; the first document of it counts")
            self._seen.add(key)
            return key, self._stamped(checked, self._contextualized(checked, self._cut(checked)))
        except Exception as error:
            self._seen.add(key)
            self._failures.tell(key, error)
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

    # A window ---------------------------------------------------------------------------------------------------------

    def _changes(
        self, documents: Sequence[tuple[str, list[ChunkRecord]]], there: Mapping[str, None]
    ) -> Steps[list[DocumentChange]]:
        stored = yield from self._stored([key for key, _ in documents if key in there])
        changes = [change_of(key, chunks, stored.get(key, ())) for key, chunks in documents]
        if self._behind is not None and self._behind.offers("fingerprints"):
            changes = yield from self._inside(self._behind, changes, stored)
        return changes

    def _begun(self, changes: list[DocumentChange]) -> Steps[Window]:
        """Begin to embed the new texts of documents."""
        wanted = [] if self._dry_run else [(change.id, text) for change in changes for text in change.texts]
        if wanted and not self._named:
            yield from self._store.check_model(self._embedder.model, fills=True)
            self._named = True
        batches = list(batched([text for _, text in wanted]))
        return Window(changes, wanted, batches, (yield from self._ahead.begin(batches)))

    def _finished(self, window: Window, answers: list[Answer]) -> Steps[None]:
        """Write a window whose texts are embedded."""
        changes = window.changes if self._dry_run else (yield from self._writing.finished(window, answers))
        for change in changes:
            self._count(change)

    def _stored(self, keys: list[str]) -> Steps[dict[str, list[Fingerprint]]]:
        found: dict[str, list[Fingerprint]] = {}
        if not keys:
            return found
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
                    row = record_fingerprint(one)
                    self._scanned.setdefault(document_id_of(one.id), []).append(row)
        return {key: self._scanned.get(key, []) for key in keys}

    def _inside(
        self, behind: StorePort, changes: list[DocumentChange], stored: Mapping[str, Sequence[Fingerprint]]
    ) -> Steps[list[DocumentChange]]:
        """Refuse documents that would write over a record outside the scope, before they are paid for."""
        writing = [change.id for change in changes if change.written]
        if not writing:
            return changes
        taken = {one.id for one in (yield from behind.method("fingerprints")(writing, digests=False))}
        taken -= {one.id for rows in stored.values() for one in rows}
        allowed = []
        for change in changes:
            if clash := [chunk.id for chunk in change.written if chunk.id in taken]:
                self._failures.tell(change.id, out_of_scope(clash[0]))
            else:
                allowed.append(change)
        return allowed

    def _count(self, change: DocumentChange) -> None:
        report = self.report
        if change.id not in report.failed:
            getattr(report, change.outcome).append(change.id)
            self._failures.bar.update(1)
        if change.outcome != "unchanged":
            report.chunks_embedded += len(change.texts)
            report.characters_embedded += sum(map(len, change.texts))
            report.chunks_reused += change.reused

    def _remove_gone(self, gone: list[str]) -> Steps[None]:
        if gone and getattr(self._store.store, "namespace", None) is not None:
            # Records in scope outside the namespace are seen there, and are not its own.
            own = yield from self._store.method("fingerprints")(gone, digests=False)
            gone = sorted({document_id_of(one.id) for one in own})
        if not self._dry_run:
            for start in range(0, len(gone), _REMOVED_AT_ONCE):
                some = gone[start : start + _REMOVED_AT_ONCE]
                if self._store.offers("replace_documents"):
                    yield from self._store.replace_documents(some, [])
                else:
                    for key in some:
                        yield from self._store.remove(key)
            if self._keyword is not None:
                lost = yield from self._keyword.unknown(self._seen)
                if doomed := sorted({*gone, *lost}):
                    yield from self._keyword.write([], doomed)
        self.report.removed = gone

"""Keep an index equal to a source of truth, at the cost of what changed.

Documents go through in windows: the store tells of what it has, changes are worked out, new texts are embedded, whole
documents are written. Only when the source has ended well is removed what it no longer holds, of what was there when
the run began.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from agora_core.chunking import Cutter, document_cutter
from agora_core.corpus.batches import batched, embed_batches, narrow
from agora_core.corpus.changes import DocumentChange, change_of
from agora_core.corpus.report import SyncReport
from agora_core.corpus.sources import Source
from agora_core.embedding import EmbedderPort
from agora_core.errors import (
    AgoraError,
    InvalidArgumentError,
    SchemaError,
    ScopeViolationError,
    StoreClosedError,
    StoreUnavailableError,
    UnsafeRemovalError,
    UnsupportedOperationError,
    out_of_scope,
)
from agora_core.events import watching
from agora_core.filters import compile_filter, predicate
from agora_core.ingestion import Progress, progress_bar, storable_document
from agora_core.ingestion_plan import KeywordPort
from agora_core.protocols import AnyFilter, EmbeddingProvider, VectorStore
from agora_core.records import ChunkRecord, Embedding, IngestDocument, VectorRecord, document_id_of
from agora_core.steps import Steps, arun, run
from agora_core.stores.fingerprints import Fingerprint, Patched, fingerprint_of
from agora_core.stores.ports import StorePort
from agora_core.validation import check_top_k

Contextualize = Callable[[IngestDocument, ChunkRecord], "str | None"]

Vectors = dict[str, dict[str, Embedding]]
"""By document, by text."""

_WRITTEN_AT_ONCE: Final = 1_000
_READ_AT_ONCE: Final = 256
_REMOVED_AT_ONCE: Final = 200
_IN_A_ROW: Final = 8
_ALL_FAIL: Final = (StoreUnavailableError, StoreClosedError, SchemaError, UnsupportedOperationError)
"""Errors that say nothing of one document."""


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
        strict: raise at the first document that fails; nothing is removed then. Otherwise it is told in `failed`, and
            something without a readable id, which may stand for any document, keeps all from being removed.
        dry_run: embed and write nothing, and report what the run would do.
        concurrency: how many batches of texts are embedded at once, 1 or more.
        show_progress: show a bar of documents written (extra `progress`).
        contextualize: gives each chunk a context of its own, behind the document's; None adds none.
        chunking: options of `chunk_documents`.

    Raises:
        UnsafeRemovalError: the source is empty; nothing was written.
        InvalidArgumentError: an argument is not as described.
        Exception: what the source raised, or what embedder or store raised for eight documents in a row. What was
            written stays whole, and nothing is removed.
    """
    sync = _Sync(embedder, store, keyword, scope, allow_empty, strict, dry_run, concurrency, contextualize, chunking)
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
    contextualize: Contextualize | None = None,
    **chunking: Any,
) -> SyncReport:
    """Async twin of `sync_documents`; takes an async iterator too. A sync one is read in a worker thread."""
    sync = _Sync(embedder, store, keyword, scope, allow_empty, strict, dry_run, concurrency, contextualize, chunking)
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
        # What the scope hides is asked of the store behind it.
        self._behind = None if scope is None else StorePort(store)
        self._store = StorePort(store if scope is None else store.scoped(scope))
        bound = self._store.scope()
        self._bound = None if bound is None else predicate(compile_filter(bound))
        self._keyword = None if keyword is None else KeywordPort(keyword, self._store)
        self._allow_empty, self._strict, self._dry_run = bool(allow_empty), bool(strict), bool(dry_run)
        self._concurrency = check_top_k(concurrency, argument="concurrency")
        self._seen: set[str] = set()
        self._nameless = self._named = False
        self._in_a_row = 0
        self._scanned: dict[str, list[Fingerprint]] | None = None
        self._bar: Progress
        self.report = SyncReport()

    def steps(self, source: Source, bar: Progress) -> Steps[SyncReport]:
        begun = time.perf_counter()
        self._bar = bar
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
        position = 0
        while documents:
            cut = [self._taken(document, position + place) for place, document in enumerate(documents)]
            yield from self._window([one for one in cut if one is not None], there)
            position += len(documents)
            documents = yield from source.next()
        if not self._nameless:
            yield from self._remove_gone([key for key in there if key not in self._seen])
        self.report.seconds = time.perf_counter() - begun
        return self.report

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

    def _fail(self, key: str, error: Exception, *, outside: bool = False) -> None:
        """Tell of a document that failed; `outside` says that embedder or store raised, who may be down."""
        self._in_a_row += outside
        if self._strict or self._in_a_row >= _IN_A_ROW:
            raise error
        name = type(error).__name__
        report = self.report
        report.failed[key] = str(error) if isinstance(error, AgoraError) else f"{name}: {error}"
        self._bar.update(1)
        # Of an id that was given twice the first document may be done already.
        for done in (report.embedded, report.reused, report.relabelled, report.unchanged):
            if key in done:
                done.remove(key)

    # A window ---------------------------------------------------------------------------------------------------------

    def _window(self, documents: Sequence[tuple[str, list[ChunkRecord]]], there: Mapping[str, None]) -> Steps[None]:
        stored = yield from self._stored([key for key, _ in documents if key in there])
        changes = [change_of(key, chunks, stored.get(key, ())) for key, chunks in documents]
        if self._behind is not None and self._behind.offers("fingerprints"):
            changes = yield from self._inside(self._behind, changes, stored)
        if not self._dry_run:
            vectors = yield from self._embedded([change for change in changes if change.texts])
            changes = [change for change in changes if len(vectors.get(change.id, ())) == len(change.texts)]
            changes = yield from self._written(changes, vectors)
            yield from self._indexed(changes)
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
                    row = fingerprint_of(one.id, one.text, one.context, one.source, one.metadata, digests=True)
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
                self._fail(change.id, out_of_scope(clash[0]))
            else:
                allowed.append(change)
        return allowed

    def _embedded(self, changes: list[DocumentChange]) -> Steps[Vectors]:
        """Embed the new texts of documents, in full batches, some at once. A document whose texts fail is told."""
        vectors: Vectors = {}
        if not changes:
            return vectors
        if not self._named:
            yield from self._store.check_model(self._embedder.model, fills=True)
            self._named = True
        wanted = [(change.id, text) for change in changes for text in change.texts]
        batches = list(batched([text for _, text in wanted]))
        answers = yield from embed_batches(self._embedder, batches, concurrency=self._concurrency)
        again: dict[str, list[str]] = {}
        places = iter(wanted)
        for batch, answer in zip(batches, answers, strict=True):
            for place, (key, text) in enumerate([next(places) for _ in batch]):
                if isinstance(answer, Exception):
                    again.setdefault(key, []).append(text)
                else:
                    vectors.setdefault(key, {})[text] = answer[place]
        for key, texts in again.items():
            # One text may spoil a batch; each document gets a chance of its own.
            own = list(batched(texts))
            answers = yield from embed_batches(self._embedder, own, concurrency=self._concurrency)
            failed = next((answer for answer in answers if isinstance(answer, Exception)), None)
            if failed is not None:
                self._fail(key, failed, outside=True)
                continue
            self._in_a_row = 0
            for batch, answer in zip(own, answers, strict=True):
                vectors.setdefault(key, {}).update(zip(batch, answer, strict=True))  # type: ignore[arg-type]
        return vectors

    def _written(self, changes: list[DocumentChange], vectors: Vectors) -> Steps[list[DocumentChange]]:
        """Write documents, many at once, and return those that are as they should be."""
        patches = {change.id: change.patch for change in changes if change.patch is not None}
        if patches and self._store.offers("update_metadata"):
            outcomes: dict[str, Patched | Exception] = yield from self._store.patch_documents(patches)
            for key in patches:
                outcome = outcomes.get(key)
                if not isinstance(outcome, Patched) or outcome.refused:
                    missing = InvalidArgumentError(f"document {key!r} was removed, or left the scope, meanwhile")
                    self._fail(key, outcome if isinstance(outcome, Exception) else missing)
        else:
            patches = {}
        for group in _groups([one for one in changes if one.outcome != "unchanged" and one.id not in patches]):
            try:
                yield from self._put(group, vectors)
            except _ALL_FAIL:
                raise
            except Exception as error:
                if len(group) == 1:
                    self._fail(group[0].id, error, outside=True)
                    continue
                # One document may spoil the group.
                for change in group:
                    try:
                        yield from self._put([change], vectors)
                    except Exception as own:
                        self._fail(change.id, own, outside=True)
                    else:
                        self._in_a_row = 0
            else:
                self._in_a_row = 0
        return [change for change in changes if change.id not in self.report.failed]

    def _put(self, group: Sequence[DocumentChange], vectors: Vectors) -> Steps[None]:
        store = self._store
        needed = sorted(
            {key for change in group for key in change.kept.values()} if any(c.written for c in group) else ()
        )
        kept: dict[str, Embedding] = {}
        for start in range(0, len(needed), _READ_AT_ONCE):
            found = yield from store.get(needed[start : start + _READ_AT_ONCE])
            kept.update(zip([record.id for record in found], narrow([one.embedding for one in found]), strict=True))
        records = [record for change in group for record in change.records(vectors.get(change.id, {}), kept)]
        if store.offers("replace_documents"):
            yield from store.replace_documents([change.id for change in group if change.replaced], records)
            return
        if records:
            yield from store.upsert(records)
        if stale := [key for change in group for key in change.stale]:
            yield from store.delete(stale)

    def _indexed(self, changes: Sequence[DocumentChange]) -> Steps[None]:
        """Write to the keyword index what changed, and what it lost when a run was broken off."""
        if self._keyword is None or not changes:
            return
        records = {change.id: change.records_for_index() for change in changes}
        stale = yield from self._keyword.stale(records)
        if stale is None:
            stale = [change.id for change in changes if change.outcome != "unchanged"]
        if stale:
            yield from self._keyword.write([record for key in stale for record in records[key]], stale)

    def _count(self, change: DocumentChange) -> None:
        report = self.report
        if change.id not in report.failed:
            getattr(report, change.outcome).append(change.id)
            self._bar.update(1)
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


def _groups(changes: Sequence[DocumentChange]) -> Iterator[list[DocumentChange]]:
    """Put documents together until they have 1,000 chunks to write."""
    group: list[DocumentChange] = []
    count = 0
    for change in changes:
        group.append(change)
        count += len(change.written)
        if count >= _WRITTEN_AT_ONCE:
            yield group
            group, count = [], 0
    if group:
        yield group

"""What ingestion does, step by step, without doing it: the sync and the async driver make the calls."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from agora_core.calling import offers
from agora_core.embedding import checked_vectors
from agora_core.errors import UnsupportedOperationError
from agora_core.records import ChunkRecord, Embedding, VectorRecord, document_id_of, indexed_text
from agora_core.stores.scoped import ScopedVectorStore

# Stale chunks of a store that only deletes by id are looked for in blocks of this many numbers.
_BLOCK: Final = 256


@dataclass(frozen=True, slots=True)
class Call:
    """A call that the driver makes for the plan; its result is sent back."""

    target: Any
    method: str
    arguments: tuple[Any, ...]
    options: dict[str, Any] = field(default_factory=dict)


Steps = Generator[Call, Any, None]


@dataclass(slots=True)
class WholeDocument:
    """All chunks of one document. `adds` says that they join others of the same ingestion instead of replacing."""

    id: str
    chunks: Sequence[ChunkRecord]
    adds: bool = False
    vectors: list[Embedding] = field(default_factory=list)

    @property
    def missing(self) -> int:
        """How many vectors are still missing."""
        return len(self.chunks) - len(self.vectors)

    def records(self) -> list[VectorRecord]:
        """Return the chunks with their vectors."""
        return [
            VectorRecord(chunk.id, chunk.text, vector, chunk.source, chunk.metadata, chunk.context)
            for chunk, vector in zip(self.chunks, self.vectors, strict=True)
        ]


class IngestionPlan:
    """Collects documents, asks for vectors in full batches, and for each document to be written once it has all."""

    def __init__(self, embedder: Any, store: Any, keyword: Any, *, batch_size: int) -> None:
        self.written = 0
        self._embedder = embedder
        self._store = store
        self._keyword = keyword
        self._scope = store if isinstance(store, ScopedVectorStore) else None
        # The keyword index may serve others too: what bounds the writes to the store bounds those to it.
        self._within = _bounded_by(self._scope, keyword)
        self._batch_size = batch_size
        self._waiting: dict[tuple[str, bool], WholeDocument] = {}
        self._missing = 0
        self._stored_ids: set[str] | None = None

    def take(self, document: WholeDocument) -> Steps:
        """Take a document, and do what is due: a batch that is full, a document that is ready."""
        key = (document.id, document.adds)
        # Of documents with one id the last wins; an earlier one that still waits is not paid for.
        earlier = None if document.adds else self._waiting.pop(key, None)
        if earlier is not None:
            self._missing -= earlier.missing
        if document.adds and key in self._waiting:
            yield from self.finish()
        self._waiting[key] = document
        self._missing += len(document.chunks)
        while self._missing >= self._batch_size:
            yield from self._embed()
            yield from self._write_ready()
        if len(self._waiting) >= self._batch_size:
            # Documents without text ask for no vectors and would pile up.
            yield from self.finish()

    def finish(self) -> Steps:
        """Do all that is left."""
        while self._missing:
            yield from self._embed()
            yield from self._write_ready()
        yield from self._write_ready()

    def _embed(self) -> Steps:
        """Fill one batch in the order of the documents, across their borders."""
        shares: list[tuple[WholeDocument, int]] = []
        texts: list[str] = []
        for document in self._waiting.values():
            room = self._batch_size - len(texts)
            if not room:
                break
            if share := min(document.missing, room):
                start = len(document.vectors)
                texts += [indexed_text(chunk.text, chunk.context) for chunk in document.chunks[start : start + share]]
                shares.append((document, share))
        answer = yield Call(self._embedder, "embed", (texts,))
        vectors = iter(checked_vectors(answer, len(texts), self._embedder))
        for document, share in shares:
            document.vectors += [next(vectors) for _ in range(share)]
        self._missing -= len(texts)

    def _write_ready(self) -> Steps:
        """Write the documents that have all their vectors. Vectors come in order, so these stand at the head."""
        while ready := self._ready():
            records = [record for document in ready for record in document.records()]
            if ready[0].adds:
                yield Call(self._store, "upsert", (records,))
            elif offers(self._store, "replace_documents"):
                yield Call(self._store, "replace_documents", ([document.id for document in ready], records))
            else:
                for document in ready:
                    yield from self._replace_by_parts(document)
            yield from self._write_keywords(ready, records)
            for document in ready:
                del self._waiting[(document.id, document.adds)]
            self.written += len(records)

    def _ready(self) -> list[WholeDocument]:
        ready: list[WholeDocument] = []
        for document in self._waiting.values():
            if document.missing or (ready and document.adds != ready[0].adds):
                break
            ready.append(document)
        return ready

    def _write_keywords(self, ready: Sequence[WholeDocument], records: list[VectorRecord]) -> Steps:
        if self._keyword is None:
            return
        chunks: list[Any] = [chunk for document in ready for chunk in document.chunks]
        if self._scope is not None:
            chunks = list(self._scope.stamped(records))
        document_ids, within = [document.id for document in ready], self._within
        if not ready[0].adds:
            if offers(self._keyword, "replace_documents"):
                yield Call(self._keyword, "replace_documents", (document_ids, chunks), within)
                return
            for document_id in document_ids:
                yield Call(self._keyword, "remove_document", (document_id,), within)
        if chunks:
            yield Call(self._keyword, "add", (chunks,), within)

    def _replace_by_parts(self, document: WholeDocument) -> Steps:
        """Replace in a store that cannot do it in one step: the new chunks are there before the stale ones go."""
        records = document.records()
        if offers(self._store, "delete"):
            if records:
                yield Call(self._store, "upsert", (records,))
            yield from self._delete_stale(document)
            return
        known = yield from self._is_stored(document.id)
        if records:
            yield Call(self._store, "upsert", (records,))
        if known:
            # Only whole documents can be removed here. The records were just accepted, so they will be again.
            yield Call(self._store, "remove", (document.id,))
            if records:
                yield Call(self._store, "upsert", (records,))

    def _delete_stale(self, document: WholeDocument) -> Steps:
        kept = {chunk.id for chunk in document.chunks}
        numbers = [chunk.id[len(document.id) + 1 :] for chunk in document.chunks if chunk.id != document.id]
        highest = max((int(number) for number in numbers if len(number) < 10), default=-1)
        stale = [document.id] if document_id_of(document.id) == document.id else []
        start, stop = 0, highest + 1 + _BLOCK
        while True:
            stale += [f"{document.id}#{number}" for number in range(start, stop)]
            removed = yield Call(self._store, "delete", ([key for key in stale if key not in kept],))
            if not removed:
                return
            stale, start, stop = [], stop, stop + _BLOCK

    def _is_stored(self, document_id: str) -> Generator[Call, Any, bool]:
        if self._stored_ids is None:
            if offers(self._store, "list_document_ids"):
                self._stored_ids = set((yield Call(self._store, "list_document_ids", ())))
            else:
                listed = yield Call(self._store, "list_documents", ())
                self._stored_ids = {entry.id for entry in listed}
        return document_id in self._stored_ids


def _bounded_by(scope: ScopedVectorStore | None, keyword: Any) -> dict[str, Any]:
    """Return the option that keeps writes to a keyword index in a scope.

    Raises:
        UnsupportedOperationError: the index has no such option.
    """
    if scope is None or keyword is None:
        return {}
    for name in ("replace_documents", "remove_document", "add"):
        method = getattr(keyword, name, None)
        if method is not None and "within" not in inspect.signature(method).parameters:
            raise UnsupportedOperationError(
                f"{type(keyword).__name__}.{name} takes no `within`, so it cannot be kept in the scope of the store; "
                "add the argument (see KeywordRetriever), or ingest without keyword"
            )
    return {"within": scope.scope}

"""What ingestion does, as steps: a document is written once all its vectors are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from agora_core.calling import Method, offers
from agora_core.embedding import EmbedderPort
from agora_core.errors import UnsupportedOperationError
from agora_core.records import ChunkRecord, Embedding, VectorRecord, document_id_of, indexed_text
from agora_core.steps import Steps
from agora_core.stores.ports import StorePort

# Stale chunks of a store that only deletes by id are looked for in blocks of this many numbers.
_BLOCK: Final = 256


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
        self._embedder = EmbedderPort(embedder)
        self._store = StorePort(store)
        self._keyword = None if keyword is None else KeywordPort(keyword, self._store)
        self._batch_size = batch_size
        self._waiting: dict[tuple[str, bool], WholeDocument] = {}
        self._missing = 0
        self._stored_ids: set[str] | None = None

    def take(self, document: WholeDocument) -> Steps[None]:
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

    def finish(self) -> Steps[None]:
        """Do all that is left."""
        while self._missing:
            yield from self._embed()
            yield from self._write_ready()
        yield from self._write_ready()

    def _embed(self) -> Steps[None]:
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
        yield from self._store.check_model(self._embedder.model, fills=True)
        vectors = iter((yield from self._embedder.embed(texts)))
        for document, share in shares:
            document.vectors += [next(vectors) for _ in range(share)]
        self._missing -= len(texts)

    def _write_ready(self) -> Steps[None]:
        """Write the documents that have all their vectors. Vectors come in order, so these stand at the head."""
        while ready := self._ready():
            records = [record for document in ready for record in document.records()]
            if ready[0].adds:
                yield from self._store.upsert(records)
            elif self._store.offers("replace_documents"):
                yield from self._store.replace_documents([document.id for document in ready], records)
            else:
                for document in ready:
                    yield from self._replace_by_parts(document)
            if self._keyword is not None:
                replaced = None if ready[0].adds else [document.id for document in ready]
                yield from self._keyword.write(records, replaced)
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

    def _replace_by_parts(self, document: WholeDocument) -> Steps[None]:
        """Replace in a store that cannot do it in one step: the new chunks are there before the stale ones go."""
        records = document.records()
        if self._store.offers("delete"):
            if records:
                yield from self._store.upsert(records)
            yield from self._delete_stale(document)
            return
        known = yield from self._is_stored(document.id)
        if records:
            yield from self._store.upsert(records)
        if known:
            # Only whole documents can be removed here. The records were just accepted, so they will be again.
            yield from self._store.remove(document.id)
            if records:
                yield from self._store.upsert(records)

    def _delete_stale(self, document: WholeDocument) -> Steps[None]:
        kept = {chunk.id for chunk in document.chunks}
        numbers = [chunk.id[len(document.id) + 1 :] for chunk in document.chunks if chunk.id != document.id]
        highest = max((int(number) for number in numbers if len(number) < 10), default=-1)
        stale = [document.id] if document_id_of(document.id) == document.id else []
        start, stop = 0, highest + 1 + _BLOCK
        while True:
            stale += [f"{document.id}#{number}" for number in range(start, stop)]
            removed = yield from self._store.delete([key for key in stale if key not in kept])
            if not removed:
                return
            stale, start, stop = [], stop, stop + _BLOCK

    def _is_stored(self, document_id: str) -> Steps[bool]:
        if self._stored_ids is None:
            self._stored_ids = set((yield from self._store.list_document_ids()))
        return document_id in self._stored_ids


class KeywordPort:
    """A keyword index that is kept in step with a store, in the store's whole scope and under the ids it keeps."""

    def __init__(self, keyword: object, store: StorePort) -> None:
        """Resolve the index, and take its bound from the store.

        Raises:
            UnsupportedOperationError: the store does not say what bounds it, or the index cannot be bounded so.
        """
        self._store = store.store
        # The index may serve others too: what bounds the writes to the store bounds those to it.
        self._within = store.scope()
        if self._within is None and getattr(keyword, "backed_by", store) is None and store.offers("get"):
            # An index that can ask a store what is true is told of it; a view would be one tenant's.
            setattr(keyword, "backed_by", store.store)  # noqa: B010 - any object with the attribute serves
        self._add = Method(keyword, "add")
        self._replace = Method(keyword, "replace_documents") if offers(keyword, "replace_documents") else None
        self._remove = Method(keyword, "remove_document") if self._replace is None else None
        self._stale = Method(keyword, "stale_documents") if offers(keyword, "stale_documents") else None
        for method in (self._replace, self._remove, self._add):
            if method is not None and self._within is not None and not method.knows("within"):
                raise UnsupportedOperationError(
                    f"{type(keyword).__name__}.{method.name} takes no `within`, so it cannot be kept in the scope of "
                    "the store; add the argument (see KeywordRetriever), or ingest without keyword"
                )

    def stale(self, documents: Mapping[str, Sequence[VectorRecord]]) -> Steps[list[str] | None]:
        """Return the documents of which the index holds something else; None where it cannot tell."""
        if self._stale is None:
            return None
        kept = {self._kept_ids([key])[0]: self._kept(records) for key, records in documents.items()}
        stale = set((yield from self._stale(kept, within=self._within)))
        return [key for key, stored in zip(documents, kept, strict=True) if stored in stale]

    def unknown(self, known: Iterable[str]) -> Steps[list[str]]:
        """Return the documents of the index, within its bound, that are not among the known ones."""
        if self._stale is None or getattr(self._store, "namespace", None) is not None:
            return []
        listed = Method(self._stale.target, "list_document_ids")
        return sorted({*(yield from listed(*(() if self._within is None else (self._within,))))} - {*known})

    def _kept(self, records: Sequence[VectorRecord]) -> list[VectorRecord]:
        stamped = getattr(self._store, "stamped", None)
        return list(records) if stamped is None else list(stamped(records))

    def _kept_ids(self, document_ids: Sequence[str]) -> list[str]:
        stored_ids = getattr(self._store, "stored_ids", None)
        return list(document_ids) if stored_ids is None else list(stored_ids(document_ids))

    def write(self, records: Sequence[VectorRecord], replaced: Sequence[str] | None) -> Steps[None]:
        """Write what was written to the store; in the place of the documents `replaced`, where some are given."""
        kept, documents = self._kept(records), self._kept_ids(replaced or ())
        if replaced is not None and self._replace is not None:
            yield from self._replace(documents, kept, within=self._within)
            return
        if self._remove is not None:
            for document_id in documents:
                yield from self._remove(document_id, within=self._within)
        if kept:
            yield from self._add(kept, within=self._within)

"""Move a store to another embedding model while the old index answers."""

from __future__ import annotations

import time
from typing import Any

from agora_core.corpus.report import SyncReport
from agora_core.embedding import EmbedderPort
from agora_core.errors import InvalidArgumentError
from agora_core.events import watching
from agora_core.filters.literals import json_equal
from agora_core.protocols import EmbeddingProvider, VectorStore
from agora_core.records import VectorRecord, document_id_of, indexed_text
from agora_core.steps import Steps, arun, run
from agora_core.stores.fingerprints import Fingerprint, record_fingerprint
from agora_core.stores.ports import Reader, StorePort
from agora_core.validation import check_top_k


def reembed(store: VectorStore, embedder: EmbeddingProvider, *, into: VectorStore, batch_size: int = 256) -> SyncReport:
    """Fill another store with the records of one, embedded by another model; return what was done.

    The old store answers meanwhile, and nothing is changed in it. Broken off and called again it goes on where it was:
    what `into` holds is compared with the source, what changed there meanwhile is embedded again, and what is gone is
    removed. Switch by using `into` when it returns; `PgVectorStore.swap_tables(into)` keeps the name.

    Args:
        store: any object with `scan`.
        embedder: the new model.
        into: an empty store for the new model, or one that an earlier call began to fill: another table, collection or
            memory store.
        batch_size: records read, embedded and written at a time, 1 or more.

    Returns:
        a report of documents: `embedded`, `relabelled` (metadata or source alone), `unchanged`, `removed`.

    Raises:
        InvalidArgumentError: `into` is the store itself.

    Examples:
        >>> reembed(store, FakeEmbeddingProvider(dimensions=8), into=MemoryVectorStore()).embedded
        ['board', 'leave']
    """
    return run(watching("sync", _Move(store, embedder, into, batch_size).steps()))


async def async_reembed(
    store: VectorStore, embedder: EmbeddingProvider, *, into: VectorStore, batch_size: int = 256
) -> SyncReport:
    """Async twin of `reembed`.

    Examples:
        >>> asyncio.run(async_reembed(store, FakeEmbeddingProvider(dimensions=8), into=MemoryVectorStore())).embedded
        ['board', 'leave']
    """
    return await arun(watching("sync", _Move(store, embedder, into, batch_size).steps()))


class _Move:
    def __init__(self, store: Any, embedder: EmbeddingProvider, into: Any, batch_size: int) -> None:
        if into is store:
            raise InvalidArgumentError("into must be another store than the one whose records it takes")
        self._size = check_top_k(batch_size, argument="batch_size")
        self._source, self._target = StorePort(store), StorePort(into)
        self._embedder = EmbedderPort(embedder)
        self._outcomes: dict[str, str] = {}
        self.report = SyncReport()

    def steps(self) -> Steps[SyncReport]:
        begun = time.perf_counter()
        yield from self._target.check_model(self._embedder.model, fills=True)
        # Both are read in the order of ids, so that they are compared as they go by, in bounded memory.
        source, target = _Ordered(self._source.reader()), _Ordered(self._target.reader())
        waiting: list[tuple[VectorRecord, Fingerprint | None]] = []
        gone: list[str] = []
        there = yield from target.next()
        while (record := (yield from source.next())) is not None:
            while there is not None and there.id < record.id:
                gone.append(there.id)
                there = yield from target.next()
            same = there if there is not None and there.id == record.id else None
            waiting.append((record, None if same is None else record_fingerprint(same)))
            if same is not None:
                there = yield from target.next()
            if len(waiting) >= self._size:
                yield from self._write(waiting)
                waiting = []
        yield from self._write(waiting)
        while there is not None:
            gone.append(there.id)
            there = yield from target.next()
        yield from self._remove(gone)
        for key, outcome in self._outcomes.items():
            getattr(self.report, outcome).append(key)
        self.report.seconds = time.perf_counter() - begun
        return self.report

    def _write(self, pairs: list[tuple[VectorRecord, Fingerprint | None]]) -> Steps[None]:
        fresh, relabelled = [], []
        for record, there in pairs:
            here = record_fingerprint(record)
            if there is None or (there.embedded, there.text) != (here.embedded, here.text):
                fresh.append(record)
            elif there.source != here.source or not json_equal(there.metadata or {}, here.metadata or {}):
                relabelled.append(record)
                self._note(record.id, "relabelled")
            else:
                self._note(record.id, "unchanged")
        written: list[VectorRecord] = []
        if fresh:
            texts = [indexed_text(record.text, record.context) for record in fresh]
            vectors = yield from self._embedder.embed(texts)
            written = [_with_vector(record, vector) for record, vector in zip(fresh, vectors, strict=True)]
            self.report.chunks_embedded += len(fresh)
            self.report.characters_embedded += sum(map(len, texts))
            for record in fresh:
                self._note(record.id, "embedded")
        if relabelled:
            kept = {one.id: one for one in (yield from self._target.get([record.id for record in relabelled]))}
            written += [_with_vector(record, kept[record.id].embedding) for record in relabelled]
            self.report.chunks_reused += len(relabelled)
        if written:
            yield from self._target.upsert(written)

    def _remove(self, ids: list[str]) -> Steps[None]:
        for start in range(0, len(ids), self._size):
            yield from self._target.delete(ids[start : start + self._size])
        self.report.removed = sorted({document_id_of(key) for key in ids} - set(self._outcomes))

    def _note(self, record_id: str, outcome: str) -> None:
        rank = ("unchanged", "relabelled", "embedded")
        key = document_id_of(record_id)
        self._outcomes[key] = max(outcome, self._outcomes.get(key, outcome), key=rank.index)


class _Ordered:
    """The records of a scan, one by one."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._page: list[VectorRecord] = []

    def next(self) -> Steps[VectorRecord | None]:
        if not self._page:
            self._page = list(reversed((yield from self._reader.page())))
        return self._page.pop() if self._page else None


def _with_vector(record: VectorRecord, vector: Any) -> VectorRecord:
    return VectorRecord(record.id, record.text, vector, record.source, record.metadata, record.context)

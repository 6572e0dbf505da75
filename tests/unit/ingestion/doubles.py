"""An embedder that can fail, and the least a store can be, for the tests of ingestion."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from agora_core import (
    IndexedDocument,
    IngestDocument,
    MemoryVectorStore,
    Passage,
    VectorRecord,
    document_id_of,
)
from agora_core.testing import FakeEmbeddingProvider

LONG = "Ship torque bridge warranty; free boat closes manual. " * 10


class Embedder(FakeEmbeddingProvider):
    """Counts what it is paid for, and fails at one call."""

    def __init__(self, fails_at: int | None = None, answer: Callable[[Any], Any] | None = None) -> None:
        super().__init__(16)
        self.batches: list[list[str]] = []
        self.fails_at = fails_at
        self.answer = answer

    def embed(self, texts: Sequence[str]) -> Any:
        if self.fails_at == len(self.batches):
            raise ConnectionError("the model went away")
        self.batches.append(list(texts))
        vectors = super().embed(texts)
        return vectors if self.answer is None else self.answer(vectors)

    async def aembed(self, texts: Sequence[str]) -> Any:
        await asyncio.sleep(0)
        return self.embed(texts)


class MinimalStore:
    """The least that serves as a store: the four methods of the protocol, over a dict."""

    scope = None

    def __init__(self) -> None:
        self.records: dict[str, VectorRecord] = {}
        self.log: list[str] = []
        self.fails_at: str | None = None

    def _enter(self, name: str) -> None:
        self.log.append(name)
        if self.fails_at == name:
            raise ConnectionError("the store went away")

    def upsert(self, records: Any) -> None:
        self._enter("upsert")
        self.records.update({record.id: record for record in records})

    def search(self, embedding: Any, *, top_k: int, filter: Any = None, min_score: Any = None) -> list[Passage]:
        return []

    def remove(self, document_id: str) -> None:
        self._enter("remove")
        self.records = {key: record for key, record in self.records.items() if document_id_of(key) != document_id}

    def list_documents(self, filter: Any = None) -> list[IndexedDocument]:
        return [IndexedDocument(key) for key in sorted({document_id_of(key) for key in self.records})]


class DeletingStore(MinimalStore):
    """A store that deletes by id and cannot replace in one step."""

    def delete(self, ids: Sequence[str]) -> int:
        self._enter("delete")
        return sum(self.records.pop(key, None) is not None for key in ids)


def ids(store: Any) -> list[str]:
    return sorted(store.records) if isinstance(store, MinimalStore) else [record.id for record in store.scan()]


def content(store: MemoryVectorStore) -> dict[str, tuple[Any, ...]]:
    return {one.id: (one.text, one.source, one.metadata, tuple(one.embedding)) for one in store.scan()}


def documents(*keys: str, text: str = LONG) -> list[IngestDocument]:
    return [IngestDocument(key, f"{key} {text}", f"{key}.md", {"key": key}) for key in keys]

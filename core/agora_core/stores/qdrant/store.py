"""The Qdrant store: each method validates its arguments and runs one program."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from agora_core.errors import InvalidArgumentError
from agora_core.filters import removal_filter
from agora_core.metadata import MetadataPatch, validate_patch
from agora_core.protocols import AnyFilter
from agora_core.records import Embedding, IndexedDocument, Passage, VectorRecord
from agora_core.stores.qdrant import programs, ranking
from agora_core.stores.qdrant.filters import CompiledFilter, compile_for_qdrant
from agora_core.stores.qdrant.handle import QdrantCollection
from agora_core.stores.qdrant.programs import Program
from agora_core.stores.qdrant.requests import documents_condition
from agora_core.validation import (
    check_id,
    check_ids,
    check_min_score,
    check_top_k,
    prepare_embedding,
    prepare_records,
)

T = TypeVar("T")

_SCAN_BATCH = 128
_QUERY_BATCH = 32


class QdrantStore(QdrantCollection):
    """A vector store in one Qdrant collection: in this process (`":memory:"`, a path), on a server or on a cluster.

    Nothing is opened before the first use, and only what the store opened itself is closed with it. Async methods are
    native where a URL or an `async_client` was given; with a sync client, and in local mode, they run in a worker
    thread. Writes wait until they can be read.
    """

    def upsert(self, records: Iterable[VectorRecord], *, within: AnyFilter | None = None) -> int:
        """Upsert in batches; see `BaseVectorStore.upsert`. Everything is validated before the first request.

        A batch is written whole or not at all; where a later one fails, earlier ones stay, and repeating the call
        completes it. `within` is checked by reading before writing; from Qdrant 1.16 on the write carries it as well,
        so that a record another writer takes out of scope in between is left alone.
        """
        return self._run(self._upsert(records, within))

    async def aupsert(self, records: Iterable[VectorRecord], *, within: AnyFilter | None = None) -> int:
        """Async twin of `upsert`."""
        return await self._arun(self._upsert(records, within))

    def _upsert(self, records: Iterable[VectorRecord], within: AnyFilter | None) -> Program[int]:
        batch = prepare_records(records, dimension=self.dimension)
        bound = _bound(within)
        if not len(batch):
            return 0
        yield from self._index(batch.metadata)
        conditional = yield from self._conditions(bound)
        return (yield from programs.upsert(self._settings, batch, bound, conditional=conditional))

    def search(
        self,
        embedding: Embedding,
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
    ) -> list[Passage]:
        """Search by embedding; see `BaseVectorStore.search`."""
        return self._run(self._search(embedding, top_k, filter, min_score))

    async def asearch(
        self,
        embedding: Embedding,
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
    ) -> list[Passage]:
        """Async twin of `search`."""
        return await self._arun(self._search(embedding, top_k, filter, min_score))

    def _search(
        self, embedding: Embedding, top_k: int, filter: AnyFilter | None, min_score: float | None
    ) -> Program[list[Passage]]:
        vector = prepare_embedding(embedding, dimension=self.dimension)
        most, floor, compiled = check_top_k(top_k), check_min_score(min_score), compile_for_qdrant(filter)
        if compiled.denies:
            return []
        return (yield from ranking.search(self._settings, vector, compiled, most, floor))

    def search_many(
        self,
        embeddings: Iterable[Embedding],
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
    ) -> list[list[Passage]]:
        """Return what `search` returns for each of `embeddings`, in their order; 32 queries travel in one request.

        Raises:
            DimensionMismatchError, InvalidEmbeddingError, InvalidFilterError, InvalidArgumentError: an argument is
                not as described.
        """
        return self._run(self._search_many(embeddings, top_k, filter, min_score))

    async def asearch_many(
        self,
        embeddings: Iterable[Embedding],
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
    ) -> list[list[Passage]]:
        """Async twin of `search_many`."""
        return await self._arun(self._search_many(embeddings, top_k, filter, min_score))

    def _search_many(
        self, embeddings: Iterable[Embedding], top_k: int, filter: AnyFilter | None, min_score: float | None
    ) -> Program[list[list[Passage]]]:
        most, floor, compiled = check_top_k(top_k), check_min_score(min_score), compile_for_qdrant(filter)
        if isinstance(embeddings, (str, bytes, Mapping)) or not isinstance(embeddings, Iterable):
            raise InvalidArgumentError(f"embeddings must be a list of vectors, got {type(embeddings).__name__}")
        vectors = [
            prepare_embedding(value, dimension=self.dimension, where=f"embeddings[{n}]")
            for n, value in enumerate(embeddings)
        ]
        found: list[list[Passage]] = []
        for part in programs.batched(vectors, _QUERY_BATCH):
            if compiled.denies:
                found += [[] for _ in part]
                continue
            searches = [ranking.search(self._settings, vector, compiled, most, floor) for vector in part]
            found += yield from programs.together(self._settings, searches)
        return found

    def get(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> list[VectorRecord]:
        """Get records by id; see `BaseVectorStore.get`. Under cosine the embeddings come back with length 1."""
        return self._run(self._get(ids, within))

    async def aget(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> list[VectorRecord]:
        """Async twin of `get`."""
        return await self._arun(self._get(ids, within))

    def _get(self, ids: Sequence[str], within: AnyFilter | None) -> Program[list[VectorRecord]]:
        return (yield from programs.get(self._settings, check_ids(ids), _bound(within)))

    def delete(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> int:
        """Delete records by id; see `BaseVectorStore.delete`."""
        return self._run(self._delete(ids, within))

    async def adelete(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> int:
        """Async twin of `delete`."""
        return await self._arun(self._delete(ids, within))

    def _delete(self, ids: Sequence[str], within: AnyFilter | None) -> Program[int]:
        return (yield from programs.delete(self._settings, check_ids(ids), _bound(within)))

    def remove(self, document_id: str, *, within: AnyFilter | None = None) -> int:
        """Remove a document; see `BaseVectorStore.remove`."""
        return self._run(self._remove(document_id, within))

    async def aremove(self, document_id: str, *, within: AnyFilter | None = None) -> int:
        """Async twin of `remove`."""
        return await self._arun(self._remove(document_id, within))

    def _remove(self, document_id: str, within: AnyFilter | None) -> Program[int]:
        document = check_id(document_id, argument="document_id")
        compiled = compile_for_qdrant(within)
        if compiled.denies:
            return 0
        return (yield from programs.remove(self._settings, compiled, documents_condition([document])))

    def remove_where(self, filter: AnyFilter) -> int:
        """Remove what matches; see `BaseVectorStore.remove_where`."""
        return self._run(self._remove_where(filter))

    async def aremove_where(self, filter: AnyFilter) -> int:
        """Async twin of `remove_where`."""
        return await self._arun(self._remove_where(filter))

    def _remove_where(self, filter: AnyFilter) -> Program[int]:
        compiled = compile_for_qdrant(removal_filter(filter))
        if compiled.denies:
            return 0
        return (yield from programs.remove(self._settings, compiled))

    def replace_documents(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], *, within: AnyFilter | None = None
    ) -> int:
        """Replace documents; see `BaseVectorStore.replace_documents`.

        The new points are written first and the stale ones deleted after, so a reader sees the old document, the new
        one or a mixture, and never neither.
        """
        return self._run(self._replace(document_ids, records, within))

    async def areplace_documents(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], *, within: AnyFilter | None = None
    ) -> int:
        """Async twin of `replace_documents`."""
        return await self._arun(self._replace(document_ids, records, within))

    def _replace(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], within: AnyFilter | None
    ) -> Program[int]:
        documents = check_ids(document_ids, argument="document_ids")
        batch = prepare_records(records, dimension=self.dimension)
        bound = _bound(within)
        if len(batch):
            yield from self._index(batch.metadata)
        conditional = yield from self._conditions(bound)
        replaced = programs.replace_documents(self._settings, documents, batch, bound, conditional=conditional)
        return (yield from replaced)

    def update_metadata(self, document_id: str, patch: MetadataPatch, *, within: AnyFilter | None = None) -> int:
        """Patch a document on the server, by one request; see `BaseVectorStore.update_metadata`.

        Patches of different keys at the same time both hold, because nothing is read and written back.
        """
        return self._run(self._update(document_id, patch, within))

    async def aupdate_metadata(self, document_id: str, patch: MetadataPatch, *, within: AnyFilter | None = None) -> int:
        """Async twin of `update_metadata`."""
        return await self._arun(self._update(document_id, patch, within))

    def _update(self, document_id: str, patch: MetadataPatch, within: AnyFilter | None) -> Program[int]:
        document = check_id(document_id, argument="document_id")
        effective, bound = validate_patch(patch), _bound(within)
        if not effective or (bound is not None and bound.denies):
            return 0
        yield from self._index([{key: value for key, value in effective.items() if value is not None}])
        return (yield from programs.update_metadata(self._settings, document, effective, bound))

    def list_documents(self, filter: AnyFilter | None = None) -> list[IndexedDocument]:
        """List documents; see `BaseVectorStore.list_documents`."""
        return self._run(self._listed(programs.documents, filter, []))

    async def alist_documents(self, filter: AnyFilter | None = None) -> list[IndexedDocument]:
        """Async twin of `list_documents`."""
        return await self._arun(self._listed(programs.documents, filter, []))

    def list_document_ids(self, filter: AnyFilter | None = None) -> list[str]:
        """List document ids; see `BaseVectorStore.list_document_ids`."""
        return self._run(self._listed(programs.document_ids, filter, []))

    async def alist_document_ids(self, filter: AnyFilter | None = None) -> list[str]:
        """Async twin of `list_document_ids`."""
        return await self._arun(self._listed(programs.document_ids, filter, []))

    def count(self, filter: AnyFilter | None = None) -> int:
        """Count what matches; see `BaseVectorStore.count`."""
        return self._run(self._listed(programs.count, filter, 0))

    async def acount(self, filter: AnyFilter | None = None) -> int:
        """Async twin of `count`."""
        return await self._arun(self._listed(programs.count, filter, 0))

    def _listed(self, program: Any, filter: AnyFilter | None, denied: T) -> Program[T]:
        compiled = compile_for_qdrant(filter)
        if compiled.denies:
            return denied
        result: T = yield from program(self._settings, compiled)
        return result

    def scan(self, filter: AnyFilter | None = None) -> Iterator[VectorRecord]:
        """Iterate over what matches; see `BaseVectorStore.scan`. Only the ids are held in memory at once."""
        compiled = compile_for_qdrant(filter)
        return self._scan(compiled)

    def _scan(self, compiled: CompiledFilter) -> Iterator[VectorRecord]:
        if compiled.denies:
            return
        ids = self._run(programs.matching_ids(self._settings, compiled))
        for part in programs.batched(ids, _SCAN_BATCH):
            yield from self._run(programs.fetch(self._settings, part, compiled))

    async def ascan(self, filter: AnyFilter | None = None) -> AsyncIterator[VectorRecord]:
        """Async twin of `scan`."""
        compiled = compile_for_qdrant(filter)
        if compiled.denies:
            return
        ids = await self._arun(programs.matching_ids(self._settings, compiled))
        for part in programs.batched(ids, _SCAN_BATCH):
            for record in await self._arun(programs.fetch(self._settings, part, compiled)):
                yield record


def _bound(within: AnyFilter | None) -> CompiledFilter | None:
    return None if within is None else compile_for_qdrant(within)

"""The Qdrant store: each method validates its arguments and runs one program."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from agora_core.errors import InvalidArgumentError
from agora_core.filters import removal_filter
from agora_core.metadata import MetadataPatch, validate_patch
from agora_core.protocols import AnyFilter
from agora_core.records import Embedding, IndexedDocument, Passage, VectorRecord
from agora_core.stores.base import BaseVectorStore
from agora_core.stores.qdrant import collection as collections
from agora_core.stores.qdrant import programs, ranking
from agora_core.stores.qdrant.connection import QdrantConnection
from agora_core.stores.qdrant.filters import CompiledFilter, compile_for_qdrant, qdrant_models
from agora_core.stores.qdrant.programs import Program
from agora_core.stores.qdrant.requests import Call, documents_condition
from agora_core.stores.qdrant.settings import IndexMetadata, Metric, QdrantSettings, check_collection, check_metric
from agora_core.validation import (
    check_id,
    check_ids,
    check_min_score,
    check_top_k,
    prepare_embedding,
    prepare_records,
)

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

T = TypeVar("T")

_SCAN_BATCH = 128


class QdrantStore(BaseVectorStore):
    """A vector store in one Qdrant collection: in this process (`":memory:"`, a path), on a server or on a cluster.

    Nothing is opened before the first use, and only what the store opened itself is closed with it. Async methods are
    native where a URL or an `async_client` was given; with a sync client, and in local mode, they run in a worker
    thread. Writes wait until they can be read.
    """

    def __init__(
        self,
        client: QdrantClient | AsyncQdrantClient | str | PathLike[str] | None = None,
        *,
        async_client: AsyncQdrantClient | None = None,
        collection: str = "agent_rag_chunks",
        dimension: int = 1536,
        metric: Metric = "cosine",
        upsert_batch_size: int = 100,
        api_key: str | None = None,
        timeout: int | None = None,
        client_options: Mapping[str, Any] | None = None,
        max_retries: int = 3,
        retry_backoff: float = 0.2,
        exact: bool | None = None,
        hnsw_ef: int | None = None,
        quantization: Mapping[str, Any] | None = None,
        shard_key: str | int | Sequence[str | int] | None = None,
        consistency: Any = None,
        ordering: Literal["weak", "medium", "strong"] | None = None,
        index_metadata: IndexMetadata = "auto",
        tenant_key: str | None = None,
        collection_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Describe a store; no connection is made.

        Args:
            client: a `QdrantClient`, a URL, a folder for local mode, or `":memory:"`.
            async_client: serves the async methods; may stand alone.
            collection: the name of the collection.
            dimension: the length of embeddings.
            metric: `cosine`, `l2` or `inner`.
            upsert_batch_size: points a request.
            api_key, timeout (seconds): for a URL.
            client_options: more of what `QdrantClient` takes with a URL, as `prefer_grpc`, `headers` or `pool_size`.
            max_retries: attempts after the first, for errors that pass (429, 5xx, connection); 0 gives up at once.
            retry_backoff: seconds before the second attempt; doubles each time, up to 10.
            exact: True compares with every vector, False never; None walks the graph and asks exactly only where the
                walk may have missed a match.
            hnsw_ef: candidates a walk keeps; higher finds more and costs more. None is the collection's.
            quantization: search options for a quantized collection, as `{"rescore": True, "oversampling": 2.0}`.
            shard_key: the shards of a collection with custom sharding that this store reads and writes.
            consistency: read consistency on a cluster: a number of replicas, `majority`, `quorum` or `all`.
            ordering: write ordering on a cluster.
            index_metadata: `auto` indexes each top-level metadata key when it is first written (at most 64); a list
                names the keys; False indexes none.
            tenant_key: the metadata key whose index also keeps each tenant's points together.
            collection_options: what `ensure_collection` creates with: `on_disk`, `shard_number`, `replication_factor`,
                `write_consistency_factor`, `sharding_method`, `on_disk_payload`, `hnsw_config`, `optimizers_config`,
                `wal_config`, `quantization_config`, `strict_mode_config`, `metadata`, as qdrant-client takes them.

        Raises:
            InvalidArgumentError: an argument breaks its rule.
        """
        self._connection = QdrantConnection(
            client,
            async_client=async_client,
            options={"api_key": api_key, "timeout": timeout, **(client_options or {})},
            max_retries=_at_least(0, max_retries, "max_retries"),
            retry_backoff=_seconds(retry_backoff),
        )
        self._settings = QdrantSettings(
            collection=check_collection(collection),
            dimension=check_top_k(dimension, argument="dimension"),
            metric=check_metric(metric),
            local=self._connection.local,
            upsert_batch_size=check_top_k(upsert_batch_size, argument="upsert_batch_size"),
            shard_key=list(shard_key) if isinstance(shard_key, (list, tuple)) else shard_key,
            exact=exact,
            hnsw_ef=hnsw_ef,
            quantization=None if quantization is None else dict(quantization),
            read_options={} if consistency is None else {"consistency": _named("ReadConsistencyType", consistency)},
            write_options={} if ordering is None else {"ordering": _named("WriteOrdering", ordering)},
        )
        self._collection_options = collections.check_collection_options(collection_options or {})
        self._index_metadata = index_metadata
        self._tenant_key = tenant_key
        # Payload fields whose index this store asked for; asking twice would do no harm, only take time.
        self._indexed: set[str] = set()
        self._conditional: bool | None = None
        self.metric: Metric = self._settings.metric
        self.dimension: int = self._settings.dimension

    def __repr__(self) -> str:
        settings = self._settings
        return (
            f"{type(self).__name__}(collection={settings.collection!r}, dimension={settings.dimension}, "
            f"metric={settings.metric!r})"
        )

    def ensure_collection(self) -> None:
        """Create the collection and its indexes where there is none, and verify it where there is one.

        An existing collection is never changed, except that missing payload indexes are added.

        Raises:
            SchemaError: it exists with another dimension or distance, or without the vectors this store needs.
        """
        self._run(self._ensure())

    async def aensure_collection(self) -> None:
        """Async twin of `ensure_collection`."""
        await self._arun(self._ensure())

    def _ensure(self) -> Program[None]:
        named = self._index_metadata if isinstance(self._index_metadata, (list, tuple)) else ()
        yield from collections.ensure(self._settings, self._collection_options, named, self._tenant_key)

    def drop_collection(self) -> None:
        """Delete the collection with everything in it."""
        self._run(self._drop())

    async def adrop_collection(self) -> None:
        """Async twin of `drop_collection`."""
        await self._arun(self._drop())

    def _drop(self) -> Program[None]:
        yield Call("delete_collection", {"collection_name": self._settings.collection})
        self._indexed.clear()

    def reindex_filters(self) -> int:
        """Compute what filters need for points that another writer left without it. Return how many were written.

        Until then no filter matches such a point: it is found only by calls without a filter.
        """
        return self._run(self._reindex())

    async def areindex_filters(self) -> int:
        """Async twin of `reindex_filters`."""
        return await self._arun(self._reindex())

    def _reindex(self) -> Program[int]:
        return (yield from programs.reindex_filters(self._settings))

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

    def _conditions(self, within: CompiledFilter | None) -> Program[bool]:
        """Say whether a write can carry its scope to the server; asked once, and only where there is a scope."""
        if within is None or within.native is None:
            return False
        if self._conditional is None:
            self._conditional = yield from programs.supports_conditions(self._settings)
        return self._conditional

    def _index(self, written: Sequence[Mapping[str, Any] | None]) -> Program[None]:
        """Create the payload indexes of keys that this store has not written before."""
        if self._index_metadata != "auto" or self._settings.local:
            return
        for call in collections.new_indexes(self._settings, written, self._tenant_key, self._indexed):
            yield from collections.try_index(call)
            self._indexed.add(call.arguments["field_name"])

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

    def close(self) -> None:
        """Close the client, where this store opened it. Closing twice is allowed."""
        self._connection.close()

    async def aclose(self) -> None:
        """Async twin of `close`."""
        await self._connection.aclose()

    def _run(self, program: Program[T]) -> T:
        return self._connection.run(program)

    async def _arun(self, program: Program[T]) -> T:
        return await self._connection.arun(program)


def _bound(within: AnyFilter | None) -> CompiledFilter | None:
    return None if within is None else compile_for_qdrant(within)


def _named(kind: str, value: Any) -> Any:
    """Return the member of one of qdrant-client's enumerations that has this value; anything but a str as it is."""
    if not isinstance(value, str):
        return value
    members: Any = getattr(qdrant_models(), kind)
    if value not in [member.value for member in members]:
        raise InvalidArgumentError(
            f"{kind} must be one of {', '.join(member.value for member in members)}, got {value!r}"
        )
    return members(value)


def _at_least(least: int, value: Any, argument: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidArgumentError(f"{argument} must be an int of {least} or more, got {value!r}")
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise InvalidArgumentError(f"retry_backoff must be a number of seconds, 0 or more, got {value!r}")
    return float(value)

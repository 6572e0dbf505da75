"""One collection and the connection to it: how a Qdrant store is described, opened, prepared and closed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from agora_core.errors import InvalidArgumentError
from agora_core.steps import Steps
from agora_core.stores.base import Health
from agora_core.stores.operations import OperationStore
from agora_core.stores.qdrant import collection as collections
from agora_core.stores.qdrant import programs
from agora_core.stores.qdrant.connection import QdrantConnection
from agora_core.stores.qdrant.filters import CompiledFilter, qdrant_models
from agora_core.stores.qdrant.requests import Call
from agora_core.stores.qdrant.settings import IndexMetadata, Metric, QdrantSettings, check_collection, check_metric
from agora_core.validation import check_top_k

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient, QdrantClient

T = TypeVar("T")


class QdrantCollection(OperationStore):
    """What a Qdrant store is before it reads or writes a record."""

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
            async_client: serves the async methods; may stand alone. In local mode a sync client serves both.
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
            # Each page of local mode begins with a loop over all points.
            scroll_page_size=4096 if self._connection.local else 256,
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

    def _ensure(self) -> Steps[None]:
        named = self._index_metadata if isinstance(self._index_metadata, (list, tuple)) else ()
        yield from collections.ensure(self._settings, self._collection_options, named, self._tenant_key)

    def drop_collection(self) -> None:
        """Delete the collection with everything in it."""
        self._run(self._drop())

    async def adrop_collection(self) -> None:
        """Async twin of `drop_collection`."""
        await self._arun(self._drop())

    def _drop(self) -> Steps[None]:
        yield Call("delete_collection", {"collection_name": self._settings.collection})
        self._indexed.clear()

    def reindex_filters(self) -> int:
        """Compute what filters need for points that another writer left without it. Return how many were written.

        Until then every filter has each such point sent and judges it here: right, and slow where there are many.
        Run it while nobody patches those points, since it reads their metadata before it writes.
        """
        return self._run(self._reindex())

    async def areindex_filters(self) -> int:
        """Async twin of `reindex_filters`."""
        return await self._arun(self._reindex())

    def _reindex(self) -> Steps[int]:
        return (yield from programs.reindex_filters(self._settings))

    def _conditions(self, within: CompiledFilter | None) -> Steps[bool]:
        """Say whether a write can carry its scope to the server; asked once, and only where there is a scope."""
        if within is None or within.tokens is None:
            return False
        if self._conditional is None:
            self._conditional = yield from programs.supports_conditions(self._settings)
        return self._conditional

    def _index(self, written: Sequence[Mapping[str, Any] | None]) -> Steps[None]:
        """Create the payload indexes of keys that this store has not written before."""
        if self._index_metadata != "auto" or self._settings.local:
            return
        for call in collections.new_indexes(self._settings, written, self._tenant_key, self._indexed):
            yield from collections.try_index(call)
            self._indexed.add(call.arguments["field_name"])

    def close(self) -> None:
        """Close the client, where this store opened it. Closing twice is allowed."""
        self._connection.close()

    async def aclose(self) -> None:
        """Async twin of `close`."""
        await self._connection.aclose()

    def _check(self) -> Steps[Health]:
        return collections.check(self._settings)

    def _run(self, operation: Steps[T]) -> T:
        return self._connection.run(operation)

    async def _arun(self, operation: Steps[T]) -> T:
        return await self._connection.arun(operation)


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

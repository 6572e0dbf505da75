"""Qdrant's real engine, in this process, behind the part of the client's interface that the store uses.

`qdrant-edge-py` is the segment code of the server without its network. Each request model of qdrant-client is
translated one to one; nothing is decided here.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import qdrant_edge as edge
from qdrant_client import models

# The engine syncs its files often, which on a busy disk takes most of the time; nothing here need outlive the test.
_FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@dataclass
class _Collection:
    shard: Any
    folder: Any
    vectors: Any
    sparse: Any
    metadata: Any
    indexes: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> tuple[Any, ...]:
        """Collections of one kind can be used one after the other, once emptied."""
        return (self.vectors.size, self.vectors.distance, tuple(self.sparse or ()))


class EdgeClient:
    """A sync client over edge shards, one for each collection."""

    def __init__(self, *, indexing_threshold: int | None = None, folder: Path | None = None) -> None:
        """`folder` outlives the client; without one each collection has a folder of its own that does not."""
        self._folder = folder
        self._collections: dict[str, _Collection] = {}
        # Emptied shards: making one takes a hundred times as long as emptying it.
        self._spare: list[_Collection] = []
        self._indexing_threshold = indexing_threshold
        self.calls: list[str] = []

    def close(self) -> None:
        for collection in [*self._collections.values(), *self._spare]:
            collection.shard.close()
            if self._folder is None:
                collection.folder.cleanup()
        self._collections.clear()
        self._spare.clear()

    def drop_all(self) -> None:
        """Forget every collection; what they stood on is emptied when it is next used."""
        self._spare += self._collections.values()
        self._collections.clear()

    def optimize(self, collection_name: str) -> bool:
        return bool(self._collections[collection_name].shard.optimize())

    def collection_exists(self, collection_name: str) -> bool:
        return collection_name in self._collections

    def create_collection(
        self,
        collection_name: str,
        vectors_config: models.VectorParams,
        sparse_vectors_config: dict[str, models.SparseVectorParams] | None = None,
        metadata: Any = None,
    ) -> bool:
        kind = (vectors_config.size, vectors_config.distance, tuple(sparse_vectors_config or ()))
        for spare in [one for one in self._spare if one.kind == kind]:
            self._spare.remove(spare)
            spare.shard.update(edge.UpdateOperation.delete_points_by_filter(edge.Filter()))
            spare.metadata = metadata
            self._collections[collection_name] = spare
            return True
        made = None if self._folder is None else self._folder / collection_name
        folder = tempfile.TemporaryDirectory(prefix="edge-", dir=_FOLDER) if made is None else made
        sparse = {name: edge.EdgeSparseVectorParams() for name in sparse_vectors_config or {}}
        config = edge.EdgeConfig(
            vectors=edge.EdgeVectorParams(
                size=vectors_config.size, distance=getattr(edge.Distance, vectors_config.distance.value)
            ),
            sparse_vectors=sparse or None,
            optimizers=edge.EdgeOptimizersConfig(indexing_threshold=self._indexing_threshold),
        )
        path = Path(folder.name) / "shard" if made is None else made
        shard = edge.EdgeShard.load(str(path)) if path.exists() else edge.EdgeShard.create(str(path), config)
        self._collections[collection_name] = _Collection(shard, folder, vectors_config, sparse_vectors_config, metadata)
        return True

    def delete_collection(self, collection_name: str) -> bool:
        self._spare.append(self._collections.pop(collection_name))
        return True

    def get_collection(self, collection_name: str) -> Any:
        collection = self._collections[collection_name]
        params = SimpleNamespace(vectors=collection.vectors, sparse_vectors=collection.sparse)
        config = SimpleNamespace(params=params, metadata=collection.metadata)
        return SimpleNamespace(config=config, payload_schema=dict(collection.indexes))

    def create_payload_index(self, collection_name: str, field_name: str, field_schema: Any, wait: bool = True) -> None:
        collection = self._collections[collection_name]
        if isinstance(field_schema, models.KeywordIndexParams):
            schema: Any = edge.KeywordIndexParams(is_tenant=field_schema.is_tenant)
        else:
            schema = getattr(edge.PayloadSchemaType, field_schema.value.capitalize())
        collection.shard.update(edge.UpdateOperation.create_field_index(field_name, schema))
        collection.indexes[field_name] = field_schema

    def info(self) -> Any:
        return SimpleNamespace(version="1.16.0")

    def upsert(
        self, collection_name: str, points: Sequence[models.PointStruct], wait: bool = True, update_filter: Any = None
    ) -> None:
        converted = [edge.Point(p.id, _vector(p.vector), p.payload) for p in points]
        condition = _optional_filter(update_filter)
        self._update(collection_name, edge.UpdateOperation.upsert_points(converted, condition))

    def delete(self, collection_name: str, points_selector: Any, wait: bool = True) -> None:
        if isinstance(points_selector, models.PointIdsList):
            self._update(collection_name, edge.UpdateOperation.delete_points(list(points_selector.points)))
        else:
            chosen = _filter(points_selector.filter)
            self._update(collection_name, edge.UpdateOperation.delete_points_by_filter(chosen))

    def batch_update_points(self, collection_name: str, update_operations: Sequence[Any], wait: bool = True) -> None:
        for operation in update_operations:
            if isinstance(operation, models.UpsertOperation):
                assert isinstance(operation.upsert, models.PointsList)
                self.upsert(collection_name, operation.upsert.points, wait, operation.upsert.update_filter)
                continue
            if isinstance(operation, models.DeleteOperation):
                self.delete(collection_name, operation.delete, wait)
                continue
            if isinstance(operation, models.UpdateVectorsOperation):
                vectors = [edge.PointVectors(p.id, _vector(p.vector)) for p in operation.update_vectors.points]
                self._update(collection_name, edge.UpdateOperation.update_vectors(vectors))
                continue
            if isinstance(operation, models.DeleteVectorsOperation):
                gone = operation.delete_vectors
                self._update(
                    collection_name, edge.UpdateOperation.delete_vectors(list(gone.points or ()), list(gone.vector))
                )
                continue
            given = operation.set_payload
            if given.points is not None:
                change = edge.UpdateOperation.set_payload(list(given.points), given.payload, given.key)
            else:
                change = edge.UpdateOperation.set_payload_by_filter(_filter(given.filter), given.payload, given.key)
            self._update(collection_name, change)

    def count(self, collection_name: str, count_filter: Any, exact: bool = True, shard_key_selector: Any = None) -> Any:
        request = edge.CountRequest(exact=exact, filter=_optional_filter(count_filter))
        return SimpleNamespace(count=self._collections[collection_name].shard.count(request))

    def retrieve(
        self,
        collection_name: str,
        ids: list[str],
        with_payload: list[str],
        with_vectors: bool,
        shard_key_selector: Any = None,
    ) -> list[Any]:
        shard = self._collections[collection_name].shard
        return [_record(r) for r in shard.retrieve(ids, with_payload=with_payload, with_vector=with_vectors)]

    def scroll(
        self,
        collection_name: str,
        scroll_filter: Any,
        limit: int,
        offset: Any,
        with_payload: Any,
        with_vectors: bool = False,
        shard_key_selector: Any = None,
    ) -> tuple[list[Any], Any]:
        request = edge.ScrollRequest(
            offset=offset,
            limit=limit,
            filter=_optional_filter(scroll_filter),
            with_payload=with_payload,
            with_vector=with_vectors,
        )
        records, after = self._collections[collection_name].shard.scroll(request)
        return [_record(r) for r in records], None if after is None else str(after)

    def facet(
        self,
        collection_name: str,
        key: str,
        facet_filter: Any,
        limit: int,
        exact: bool = True,
        shard_key_selector: Any = None,
    ) -> Any:
        if key not in self._collections[collection_name].indexes:
            raise ValueError(f"no index of {key}")
        request = edge.FacetRequest(key=key, limit=limit, exact=exact, filter=_optional_filter(facet_filter))
        hits = self._collections[collection_name].shard.facet(request).hits
        return SimpleNamespace(hits=[SimpleNamespace(value=hit.value, count=hit.count) for hit in hits])

    def update_collection(self, collection_name: str, metadata: Any) -> bool:
        self._collections[collection_name].metadata = metadata
        return True

    def query_points(
        self,
        collection_name: str,
        query: Any,
        using: str | None,
        query_filter: Any,
        limit: Any,
        with_payload: Any,
        with_vectors: bool = False,
        search_params: models.SearchParams | None = None,
        shard_key_selector: Any = None,
    ) -> Any:
        self.calls.append("exact" if search_params is not None and search_params.exact else "query")
        request = edge.QueryRequest(
            limit=limit,
            query=edge.Query.Nearest(_vector(query), using),
            filter=_optional_filter(query_filter),
            with_payload=with_payload,
            with_vector=with_vectors,
            params=None if search_params is None else edge.SearchParams(exact=bool(search_params.exact)),
        )
        points = self._collections[collection_name].shard.query(request)
        return SimpleNamespace(
            points=[SimpleNamespace(id=str(p.id), version=0, score=p.score, payload=p.payload) for p in points]
        )

    def query_batch_points(self, collection_name: str, requests: Sequence[models.QueryRequest]) -> list[Any]:
        return [
            self.query_points(
                collection_name, r.query, r.using, r.filter, r.limit, r.with_payload, False, r.params, r.shard_key
            )
            for r in requests
        ]

    def _update(self, collection_name: str, operation: Any) -> None:
        self._collections[collection_name].shard.update(operation)


def _record(record: Any) -> Any:
    return SimpleNamespace(id=str(record.id), payload=record.payload, vector=_read_vector(record.vector))


def _read_vector(vector: Any) -> Any:
    if isinstance(vector, edge.SparseVector):
        return models.SparseVector(indices=list(vector.indices), values=list(vector.values))
    if isinstance(vector, dict):
        return {name: _read_vector(value) for name, value in vector.items()}
    return vector


def _vector(vector: Any) -> Any:
    if isinstance(vector, models.SparseVector):
        return edge.SparseVector(indices=list(vector.indices), values=list(vector.values))
    if isinstance(vector, dict):
        return {name: _vector(value) for name, value in vector.items()}
    return vector


def _optional_filter(given: models.Filter | None) -> Any:
    return None if given is None else _filter(given)


def _filter(given: models.Filter) -> Any:
    return edge.Filter(
        must=_conditions(given.must), should=_conditions(given.should), must_not=_conditions(given.must_not)
    )


def _conditions(given: Any) -> Any:
    return None if given is None else [_condition(condition) for condition in given]


def _condition(given: Any) -> Any:
    if isinstance(given, models.Filter):
        return _filter(given)
    if isinstance(given, models.HasIdCondition):
        return edge.HasIdCondition(set(given.has_id))
    if isinstance(given, models.IsEmptyCondition):
        return edge.IsEmptyCondition(given.is_empty.key)
    if given.range is not None:
        bounds = {side: getattr(given.range, side) for side in ("lt", "lte", "gt", "gte")}
        return edge.FieldCondition(key=given.key, range=edge.RangeFloat(**bounds))
    if isinstance(given.match, models.MatchAny):
        return edge.FieldCondition(key=given.key, match=edge.MatchAny(any=[str(token) for token in given.match.any]))
    return edge.FieldCondition(key=given.key, match=edge.MatchValue(value=given.match.value))

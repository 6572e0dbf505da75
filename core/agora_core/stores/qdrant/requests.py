"""Requests to Qdrant as plain values, built by pure functions. Nothing here talks to a client."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from agora_core.errors import InvalidArgumentError
from agora_core.records import chunk_id_to_point_id
from agora_core.steps import Steps
from agora_core.stores.qdrant.filters import conjunction, qdrant_models
from agora_core.stores.qdrant.local_mode import settled
from agora_core.stores.qdrant.payload import (
    CONTEXT_KEY,
    DIGEST_KEY,
    DOCUMENT_KEY,
    FORMAT_KEY,
    MARK_KEY,
    TEXTS_KEY,
    point_payload,
)
from agora_core.stores.qdrant.settings import QdrantSettings
from agora_core.validation import Float32Array, RecordBatch


@dataclass(frozen=True, slots=True)
class Call:
    """One method of the client to be called with these arguments."""

    method: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pause:
    """A time to wait, in seconds."""

    seconds: float


# Which fields of a payload a read asks for; the tokens are never read back.
PASSAGE_FIELDS: Final = ("id", "text", "source", "metadata", TEXTS_KEY, CONTEXT_KEY, MARK_KEY)
LISTING_FIELDS: Final = ("id", "metadata", TEXTS_KEY, MARK_KEY)
ROW_FIELDS: Final = (*LISTING_FIELDS, "source", DIGEST_KEY)
WRITER_FIELDS: Final = ("id", "metadata", TEXTS_KEY, MARK_KEY, FORMAT_KEY)
# Servers take requests of 32 MB by default; what is counted here is less than what is sent.
_MOST_BYTES: Final = 8_000_000


def unit_vectors(vectors: Float32Array) -> Float32Array:
    """Return each row scaled to length 1, a zero row staying zero.

    Qdrant scales vectors itself under cosine, in float32, and leaves those shorter than about 3e-4 as they are: their
    scores would be wrong. Scaled here, in float64, equal directions give equal vectors.
    """
    wide = vectors.astype(np.float64)
    lengths = np.linalg.norm(wide, axis=-1, keepdims=True)
    scaled: Float32Array = np.divide(wide, lengths, out=np.zeros_like(wide), where=lengths > 0).astype(np.float32)
    return scaled


def stored_vectors(settings: QdrantSettings, vectors: Float32Array) -> Float32Array:
    """Return vectors as the collection keeps them, for writing and for asking."""
    if settings.metric != "cosine":
        return vectors
    return settled(unit_vectors(vectors)) if settings.local and vectors.ndim == 2 else unit_vectors(vectors)


def points_of(settings: QdrantSettings, batch: RecordBatch) -> list[Any]:
    """Return the points of validated records."""
    # Not validated again: every part has just been made of records that were.
    made = qdrant_models().PointStruct.model_construct
    dense = stored_vectors(settings, batch.vectors).tolist()
    sparse = settings.sparse.documents(batch.indexed_texts()) if settings.sparse is not None else None
    points = []
    for n, record_id in enumerate(batch.ids):
        vector: Any = dense[n]
        payload = point_payload(record_id, batch.texts[n], batch.sources[n], batch.metadata[n], batch.contexts[n])
        if settings.sparse is not None and sparse is not None:
            counts, payload["agora"]["l"] = sparse[n]
            if counts is not None:
                vector = {"": dense[n], settings.sparse.vector_name: counts}
        points.append(made(id=chunk_id_to_point_id(record_id), vector=vector, payload=payload))
    return points


def upsert(settings: QdrantSettings, points: list[Any], *, condition: Any = None) -> Call:
    """Write points, replacing those with the same id; with a Filter, only such as satisfy it when the write arrives."""
    return _write(settings, "upsert", points=points, update_filter=condition, shard_key_selector=settings.shard_key)


def upsert_bounded(settings: QdrantSettings, points: Sequence[Any], *, condition: Any = None) -> Steps[None]:
    """Write points in requests bounded by number and by bytes; what the server finds too large goes in halves.

    Raises:
        InvalidArgumentError: one record alone is too large for the server.
    """
    waiting = list(_bounded(points, settings.upsert_batch_size))[::-1]
    while waiting:
        part = waiting.pop()
        try:
            yield upsert(settings, part, condition=condition)
        except Exception as error:
            if not is_too_large(error):
                raise
            if len(part) == 1:
                raise InvalidArgumentError(
                    f"record {part[0].payload['id']!r} is larger than the Qdrant server takes in one request; cut its "
                    "text or its metadata, or raise the server's max_request_size_mb"
                ) from error
            middle = len(part) // 2
            waiting += [part[middle:], part[:middle]]


def _bounded(points: Sequence[Any], most: int) -> Iterator[list[Any]]:
    part: list[Any] = []
    size = 0
    for point in points:
        payload = point.payload
        # What a request spends on a record, roughly: numbers as text, the metadata again as tokens.
        weight = len(payload["text"].encode()) + len(payload["agora"].get("c") or "") + 24 * _width(point.vector)
        if payload.get("metadata"):
            weight += 4 * len(json.dumps(payload["metadata"])) + 100
        if part and (len(part) == most or size + weight > _MOST_BYTES):
            yield part
            part, size = [], 0
        part.append(point)
        size += weight
    if part:
        yield part


def _width(vector: Any) -> int:
    return len(vector[""]) if isinstance(vector, Mapping) else len(vector)


def is_too_large(error: Exception) -> bool:
    """Say whether a server has refused a request for its size, over HTTP or gRPC."""
    details = getattr(error, "details", None)
    told = str(details()) if callable(details) else str(getattr(error, "content", b""))
    too_large = ("larger than allowed", "larger than max", "too large")
    return getattr(error, "status_code", None) == 413 or any(words in told for words in too_large)


def delete_ids(settings: QdrantSettings, point_ids: Sequence[str]) -> Call:
    """Delete points by their ids, of which there is at least one."""
    selector = qdrant_models().PointIdsList(points=list(point_ids))
    return _write(settings, "delete", points_selector=selector, shard_key_selector=settings.shard_key)


def delete_matching(settings: QdrantSettings, condition: Any) -> Call:
    """Delete every point that satisfies a Filter."""
    selector = qdrant_models().FilterSelector(filter=condition)
    return _write(settings, "delete", points_selector=selector, shard_key_selector=settings.shard_key)


def update(settings: QdrantSettings, operations: Sequence[Any]) -> Call:
    """Do several operations one after the other, in one request."""
    return _write(settings, "batch_update_points", update_operations=list(operations))


def set_payload(
    settings: QdrantSettings,
    payload: Mapping[str, Any],
    key: str | None,
    *,
    ids: Sequence[str] | None = None,
    where: Sequence[Any] = (),
) -> Any:
    """Return the operation that merges into the payload (into the object at `key`), one level deep; None deletes.

    `ids` are points that exist. Local mode is told them alone: its lock makes conditions idle, and each would be asked
    of every point there is. A server gets a Filter: a point that went away meanwhile is no error.
    """
    models = qdrant_models()
    chosen = _points_or_filter(settings, ids, where)
    change = models.SetPayload(payload=dict(payload), key=key, **chosen)
    return models.SetPayloadOperation(set_payload=change)


def _points_or_filter(settings: QdrantSettings, ids: Sequence[str] | None, where: Sequence[Any]) -> dict[str, Any]:
    shard = {} if settings.shard_key is None else {"shard_key": settings.shard_key}
    if ids is not None and settings.local:
        return {"points": list(ids), **shard}
    named = [] if ids is None else [qdrant_models().HasIdCondition(has_id=list(ids))]
    return {"filter": conjunction([*named, *where]), **shard}


def delete_operation(settings: QdrantSettings, *, ids: Sequence[str] | None = None, where: Any = None) -> Any:
    """Return the operation that deletes points by their ids or by a Filter."""
    models = qdrant_models()
    shard = {} if settings.shard_key is None else {"shard_key": settings.shard_key}
    if ids is not None:
        return models.DeleteOperation(delete=models.PointIdsList(points=list(ids), **shard))
    return models.DeleteOperation(delete=models.FilterSelector(filter=where, **shard))


def insert(settings: QdrantSettings, identity: str, payload: Mapping[str, Any]) -> Any:
    """Return the operation that writes a point without a vector, where there is none of this id."""
    models = qdrant_models()
    shard = {} if settings.shard_key is None else {"shard_key": settings.shard_key}
    nobody = conjunction([models.HasIdCondition(has_id=[])])
    point = models.PointStruct(id=identity, vector={}, payload=dict(payload))
    return models.UpsertOperation(upsert=models.PointsList(points=[point], update_filter=nobody, **shard))


def text_operations(settings: QdrantSettings, name: str, made: Mapping[str, tuple[Any, int]]) -> list[Any]:
    """Return the operations that write the sparse vector and the length of points, by their ids."""
    models = qdrant_models()
    shard = {} if settings.shard_key is None else {"shard_key": settings.shard_key}
    full = [models.PointVectors(id=i, vector={name: counts}) for i, (counts, _) in made.items() if counts is not None]
    empty = [point_id for point_id, (counts, _) in made.items() if counts is None]
    operations = [set_payload(settings, {"l": length}, "agora", ids=[i]) for i, (_, length) in made.items()]
    if full:
        operations.append(models.UpdateVectorsOperation(update_vectors=models.UpdateVectors(points=full, **shard)))
    if empty:
        gone = models.DeleteVectors(points=empty, vector=[name], **shard)
        operations.append(models.DeleteVectorsOperation(delete_vectors=gone))
    return operations


def matches(key: str, values: Sequence[Any]) -> Any:
    """Return the condition that a payload field has one of these values."""
    models = qdrant_models()
    match = models.MatchValue(value=values[0]) if len(values) == 1 else models.MatchAny(any=list(values))
    return models.FieldCondition(key=key, match=match)


def set_filter_objects(settings: QdrantSettings, objects: Mapping[str, Mapping[str, Any]]) -> Call:
    """Write what is derived from each point's id and metadata, whole; the rest of the payload stays."""
    return update(settings, [set_payload(settings, value, None, ids=[i]) for i, value in objects.items()])


def retrieve(settings: QdrantSettings, point_ids: Sequence[str], fields: Sequence[str], *, vectors: bool) -> Call:
    """Read points by their ids, in no order."""
    return Call(
        "retrieve",
        {
            "collection_name": settings.collection,
            "ids": list(point_ids),
            "with_payload": list(fields),
            # The dense vector has no name; asked for by it, the sparse one is not sent.
            "with_vectors": vectors,
            "shard_key_selector": settings.shard_key,
            **settings.read_options,
        },
    )


def scroll(settings: QdrantSettings, condition: Any, fields: Sequence[str], offset: Any) -> Call:
    """Read one page of the points that satisfy a Filter (all where it is None), in the order of point ids."""
    return Call(
        "scroll",
        {
            "collection_name": settings.collection,
            "scroll_filter": condition,
            "limit": settings.scroll_page_size,
            "offset": offset,
            "with_payload": list(fields),
            "with_vectors": False,
            "shard_key_selector": settings.shard_key,
            **settings.read_options,
        },
    )


def scroll_points(settings: QdrantSettings, condition: Any, offset: Any) -> Call:
    """Read one page of points whole, with every vector."""
    page = scroll(settings, condition, (), offset)
    return Call("scroll", {**page.arguments, "with_payload": True, "with_vectors": True})


def count(settings: QdrantSettings, condition: Any) -> Call:
    """Count the points that satisfy a Filter, exactly."""
    return Call(
        "count",
        {
            "collection_name": settings.collection,
            "count_filter": condition,
            "exact": True,
            "shard_key_selector": settings.shard_key,
        },
    )


def facet(settings: QdrantSettings, key: str, condition: Any, *, limit: int) -> Call:
    """Count how often each value of a payload field occurs among the points that satisfy a Filter, exactly."""
    return Call(
        "facet",
        {
            "collection_name": settings.collection,
            "key": key,
            "facet_filter": condition,
            "limit": limit,
            "exact": True,
            "shard_key_selector": settings.shard_key,
            **settings.read_options,
        },
    )


def query(
    settings: QdrantSettings,
    vector: Any,
    condition: Any,
    *,
    limit: int,
    fields: Sequence[str],
    using: str | None = None,
    exact: bool | None = None,
) -> Call:
    """Ask for the points nearest to a vector."""
    return Call(
        "query_points",
        {
            "collection_name": settings.collection,
            "query": vector,
            "using": using,
            "query_filter": condition,
            "limit": limit,
            "with_payload": list(fields),
            "with_vectors": False,
            "search_params": None if settings.local else settings.search_params(exact=exact),
            "shard_key_selector": settings.shard_key,
            **settings.read_options,
        },
    )


def query_batch(settings: QdrantSettings, queries: Sequence[Call]) -> Call:
    """Ask several queries in one request; the answers come in their order."""
    models = qdrant_models()
    batch = [
        models.QueryRequest(
            query=one.arguments["query"],
            using=one.arguments["using"],
            filter=one.arguments["query_filter"],
            limit=one.arguments["limit"],
            with_payload=one.arguments["with_payload"],
            with_vector=False,
            params=one.arguments["search_params"],
            shard_key=settings.shard_key,
        )
        for one in queries
    ]
    arguments = {"collection_name": settings.collection, "requests": batch, **settings.read_options}
    return Call("query_batch_points", arguments)


def documents_condition(document_ids: Iterable[str]) -> Any:
    """Return the condition that a point belongs to one of these documents."""
    return matches(DOCUMENT_KEY, list(document_ids))


def narrowed(chosen: Any, *must: Any, without: Sequence[str] = ()) -> Any:
    """Return a Filter (None for everything) with further conditions, without the points of these ids."""
    conditions = [*must] if chosen is None else [*must, chosen]
    left_out = [qdrant_models().HasIdCondition(has_id=list(without))] if without else None
    return conjunction(conditions, must_not=left_out)


def _write(settings: QdrantSettings, method: str, **arguments: Any) -> Call:
    given = {name: value for name, value in arguments.items() if value is not None or name == "points"}
    return Call(method, {"collection_name": settings.collection, "wait": True, **given, **settings.write_options})

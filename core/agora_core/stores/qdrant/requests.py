"""Requests to Qdrant as plain values, built by pure functions. Nothing here talks to a client."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from agora_core.records import JSON, chunk_id_to_point_id
from agora_core.stores.qdrant.filters import conjunction, qdrant_models
from agora_core.stores.qdrant.local_mode import settled
from agora_core.stores.qdrant.payload import (
    CONTEXT_KEY,
    DOCUMENT_KEY,
    TEXTS_KEY,
    patched_slots,
    patched_texts,
    point_payload,
)
from agora_core.stores.qdrant.settings import QdrantSettings
from agora_core.validation import Float32Array, RecordBatch


@dataclass(frozen=True, slots=True)
class Call:
    """One method of the client to be called with these arguments."""

    method: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


# Which fields of a payload a read asks for; the tokens are never read back.
PASSAGE_FIELDS: Final = ("id", "text", "source", "metadata", TEXTS_KEY, CONTEXT_KEY)
LISTING_FIELDS: Final = ("id", "metadata", TEXTS_KEY)
ID_FIELDS: Final = ("id",)


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
    models = qdrant_models()
    dense = stored_vectors(settings, batch.vectors).tolist()
    sparse = settings.sparse.documents(batch.indexed_texts()) if settings.sparse is not None else None
    points = []
    for n, record_id in enumerate(batch.ids):
        vector: Any = dense[n]
        if settings.sparse is not None and sparse is not None and sparse[n] is not None:
            vector = {"": dense[n], settings.sparse.vector_name: sparse[n]}
        payload = point_payload(record_id, batch.texts[n], batch.sources[n], batch.metadata[n], batch.contexts[n])
        points.append(models.PointStruct(id=chunk_id_to_point_id(record_id), vector=vector, payload=payload))
    return points


def upsert(settings: QdrantSettings, points: list[Any], *, condition: Any = None) -> Call:
    """Write points, replacing those with the same id; with a Filter, only such as satisfy it when the write arrives."""
    return _write(settings, "upsert", points=points, update_filter=condition, shard_key_selector=settings.shard_key)


def delete_ids(settings: QdrantSettings, point_ids: Sequence[str]) -> Call:
    """Delete points by their ids, of which there is at least one."""
    selector = qdrant_models().PointIdsList(points=list(point_ids))
    return _write(settings, "delete", points_selector=selector, shard_key_selector=settings.shard_key)


def delete_matching(settings: QdrantSettings, condition: Any) -> Call:
    """Delete every point that satisfies a Filter."""
    selector = qdrant_models().FilterSelector(filter=condition)
    return _write(settings, "delete", points_selector=selector, shard_key_selector=settings.shard_key)


def patch(
    settings: QdrantSettings, effective: Mapping[str, JSON], *, condition: Any = None, point_ids: Sequence[str] = ()
) -> Call:
    """Merge a validated patch into the metadata of the points a Filter or ids select, on the server.

    `set_payload` with a key merges one level deep and removes the keys whose new value is null: the patch as it is.
    """
    models = qdrant_models()
    where: dict[str, Any] = {"filter": condition} if condition is not None else {"points": list(point_ids)}
    if settings.shard_key is not None:
        where["shard_key"] = settings.shard_key
    parts = (
        ("metadata", dict(effective)),
        ("agora", patched_slots(effective)),
        (TEXTS_KEY, patched_texts(effective)),
    )
    operations = [
        models.SetPayloadOperation(set_payload=models.SetPayload(key=key, payload=payload, **where))
        for key, payload in parts
    ]
    return _write(settings, "batch_update_points", update_operations=operations)


def set_filter_object(settings: QdrantSettings, objects: Mapping[str, Mapping[str, Any]]) -> Call:
    """Write the `agora` object of each point, whole; the rest of the payload stays."""
    models = qdrant_models()
    shard = {} if settings.shard_key is None else {"shard_key": settings.shard_key}
    operations = [
        models.SetPayloadOperation(
            set_payload=models.SetPayload(payload={"agora": dict(value)}, points=[point_id], **shard)
        )
        for point_id, value in objects.items()
    ]
    return _write(settings, "batch_update_points", update_operations=operations)


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
    models = qdrant_models()
    ids = list(document_ids)
    match = models.MatchValue(value=ids[0]) if len(ids) == 1 else models.MatchAny(any=ids)
    return models.FieldCondition(key=DOCUMENT_KEY, match=match)


def narrowed(chosen: Any, *must: Any, without: Sequence[str] = ()) -> Any:
    """Return a Filter (None for everything) with further conditions, without the points of these ids."""
    conditions = [*must] if chosen is None else [*must, chosen]
    left_out = [qdrant_models().HasIdCondition(has_id=list(without))] if without else None
    return conjunction(conditions, must_not=left_out)


def _write(settings: QdrantSettings, method: str, **arguments: Any) -> Call:
    given = {name: value for name, value in arguments.items() if value is not None or name == "points"}
    return Call(method, {"collection_name": settings.collection, "wait": True, **given, **settings.write_options})

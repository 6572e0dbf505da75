"""What each operation does, written once for both colours.

A program is a generator that yields one `Call` after another, is sent each answer, and returns its result. The store
runs it with a sync or an async client (`connection.py`); nothing here knows which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from agora_core.errors import out_of_scope
from agora_core.filters.paths import Path
from agora_core.metadata import merge_effective
from agora_core.records import (
    JSON,
    IndexedDocument,
    VectorRecord,
    chunk_id_to_point_id,
    chunk_order_key,
    document_id_of,
)
from agora_core.steps import Steps
from agora_core.stores.facets import Facets, facet_texts, most_frequent
from agora_core.stores.qdrant import requests
from agora_core.stores.qdrant.filters import NO_FILTER, CompiledFilter, conjunction, qdrant_models, without_tokens
from agora_core.stores.qdrant.payload import context_of, filter_object, metadata_of
from agora_core.stores.qdrant.requests import ID_FIELDS, LISTING_FIELDS, PASSAGE_FIELDS, Call
from agora_core.stores.qdrant.settings import QdrantSettings
from agora_core.validation import RecordBatch

T = TypeVar("T")
Payload = Mapping[str, Any]

_READ_BATCH = 256


def scrolled(
    settings: QdrantSettings, condition: Any, fields: Sequence[str], take: Callable[[str, Payload], None]
) -> Steps[None]:
    """Give every point that satisfies a Filter to `take`, page by page."""
    offset: Any = None
    while True:
        points, offset = yield requests.scroll(settings, condition, fields, offset)
        for point in points:
            # A point without an id in its payload is no record of this system; it is nobody's to list or to patch.
            if point.payload and "id" in point.payload:
                take(str(point.id), point.payload)
        if offset is None:
            return


def in_one_request(settings: QdrantSettings, parts: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Run programs that begin with a query side by side: their first queries travel in one request."""
    results: dict[int, T] = {}
    first: dict[int, Call] = {}
    for n, part in enumerate(parts):
        try:
            first[n] = next(part)
        except StopIteration as stop:
            results[n] = stop.value
    if first:
        answers = yield requests.query_batch(settings, list(first.values()))
        for n, answer in zip(first, answers, strict=True):
            results[n] = yield from _resumed(parts[n], answer)
    return [results[n] for n in range(len(parts))]


def _resumed(part: Steps[T], answer: Any) -> Steps[T]:
    """Go on with a program whose first call was answered."""
    try:
        call = part.send(answer)
        while True:
            call = part.send((yield call))
    except StopIteration as stop:
        result: T = stop.value
        return result


def upsert(
    settings: QdrantSettings, batch: RecordBatch, within: CompiledFilter | None, *, conditional: bool = False
) -> Steps[int]:
    """Write records in batches; with `within`, refuse first what lies outside.

    `conditional` says that the server can be told to leave a stored point alone that no longer matches when the write
    arrives; without it another writer can move one out of scope in between.
    """
    condition = None
    if within is not None:
        yield from _assert_within(settings, batch, within)
        if conditional and within.exact:
            condition = within.candidates
    points = requests.points_of(settings, batch)
    for part in batched(points, settings.upsert_batch_size):
        yield requests.upsert(settings, part, condition=condition)
    return len(batch)


def supports_conditions(settings: QdrantSettings) -> Steps[bool]:
    """Say whether the server takes a condition on an upsert: from version 1.16 on."""
    if settings.local:
        return True
    try:
        info = yield Call("info")
        major, minor = str(info.version).split(".")[:2]
        return (int(major), int(minor)) >= (1, 16)
    except Exception:
        # A server that does not say its version is taken for an old one, which costs a guard and no correctness.
        return False


def _assert_within(settings: QdrantSettings, batch: RecordBatch, within: CompiledFilter) -> Steps[None]:
    """Refuse records outside a scope, and such as would replace one outside."""
    for record_id, metadata in zip(batch.ids, batch.metadata, strict=True):
        if not within.matches(metadata or {}):
            raise out_of_scope(record_id)
    for ids in batched(batch.ids, _READ_BATCH):
        stored = yield from _stored(settings, ids, LISTING_FIELDS)
        for record_id, point in stored.items():
            if not within.matches(metadata_of(point.payload) or {}):
                raise out_of_scope(record_id)


def _stored(
    settings: QdrantSettings, ids: Sequence[str], fields: Sequence[str], *, vectors: bool = False
) -> Steps[dict[str, Any]]:
    """Return the points stored under these record ids, by record id."""
    if not ids:
        return {}
    points = yield requests.retrieve(settings, [chunk_id_to_point_id(i) for i in ids], fields, vectors=vectors)
    return {str(point.payload["id"]): point for point in points if point.payload and "id" in point.payload}


def get(settings: QdrantSettings, ids: Sequence[str], within: CompiledFilter | None) -> Steps[list[VectorRecord]]:
    """Read records in the order asked."""
    records = []
    for part in batched(ids, _READ_BATCH):
        stored = yield from _stored(settings, part, PASSAGE_FIELDS, vectors=True)
        found = [stored[record_id] for record_id in part if record_id in stored]
        records += [
            record_of(point) for point in found if within is None or within.matches(metadata_of(point.payload) or {})
        ]
    return records


def record_of(point: Any) -> VectorRecord:
    """Return the record in a point that was read with its vector."""
    vector = point.vector.get("", []) if isinstance(point.vector, Mapping) else point.vector
    payload = point.payload
    return VectorRecord(
        id=payload["id"],
        text=payload["text"],
        embedding=np.asarray(vector, dtype=np.float32).tolist(),
        source=payload.get("source"),
        metadata=metadata_of(payload),
        context=context_of(payload),
    )


def delete(settings: QdrantSettings, ids: Sequence[str], within: CompiledFilter | None) -> Steps[int]:
    """Delete records by id."""
    deleted = 0
    for part in batched(ids, _READ_BATCH):
        stored = yield from _stored(settings, part, ID_FIELDS if within is None else LISTING_FIELDS)
        doomed = [
            str(point.id)
            for point in stored.values()
            if within is None or within.matches(metadata_of(point.payload) or {})
        ]
        if doomed and within is None:
            yield requests.delete_ids(settings, doomed)
        elif doomed and within is not None:
            yield _delete_within(settings, within.candidates, doomed)
        deleted += len(doomed)
    return deleted


def remove(settings: QdrantSettings, compiled: CompiledFilter, *must: Any, without: Sequence[str] = ()) -> Steps[int]:
    """Delete what matches a filter and the conditions `must`, except the points of the ids `without`."""
    removed, judged = 0, compiled.candidates
    if compiled.exact:
        condition = requests.narrowed(None if compiled is NO_FILTER else compiled.own, *must, without=without)
        removed = int((yield requests.count(settings, condition)).count)
        if removed:
            yield requests.delete_matching(settings, condition)
        if compiled is NO_FILTER:
            return removed
        judged = without_tokens()
    doomed: list[str] = []

    def take(point_id: str, payload: Payload) -> None:
        if compiled.matches(metadata_of(payload) or {}):
            doomed.append(point_id)

    yield from scrolled(settings, requests.narrowed(judged, *must, without=without), LISTING_FIELDS, take)
    for part in batched(doomed, _READ_BATCH):
        yield _delete_within(settings, compiled.candidates, part)
    return removed + len(doomed)


def _delete_within(settings: QdrantSettings, condition: Any, point_ids: list[str]) -> Call:
    """Delete points that were just seen to match, unless another writer has taken them out of the filter since."""
    ids = qdrant_models().HasIdCondition(has_id=point_ids)
    return requests.delete_matching(settings, requests.narrowed(condition, ids))


def replace_documents(
    settings: QdrantSettings,
    document_ids: Sequence[str],
    batch: RecordBatch,
    within: CompiledFilter | None,
    *,
    conditional: bool = False,
) -> Steps[int]:
    """Write the new points, and only then delete those of the documents that are not among them."""
    written = yield from upsert(settings, batch, within, conditional=conditional)
    kept: dict[str, list[str]] = {}
    for record_id in batch.ids:
        kept.setdefault(document_id_of(record_id), []).append(chunk_id_to_point_id(record_id))
    for part in batched(document_ids, _READ_BATCH):
        keep = [point_id for document_id in part for point_id in kept.get(document_id, ())]
        yield from remove(settings, within or NO_FILTER, requests.documents_condition(part), without=keep)
    return written


def update_metadata(
    settings: QdrantSettings, document_id: str, effective: Mapping[str, JSON], within: CompiledFilter | None
) -> Steps[int]:
    """Merge a patch into every chunk of a document, on the server."""
    document = requests.documents_condition([document_id])
    if within is None:
        condition = conjunction([document])
        written = int((yield requests.count(settings, condition)).count)
        if written:
            yield requests.patch(settings, effective, condition=condition)
        return written
    touched: list[str] = []

    def take(point_id: str, payload: Payload) -> None:
        metadata = metadata_of(payload) or {}
        if not within.matches(metadata):
            return
        if not within.matches(merge_effective(metadata, effective)):
            raise out_of_scope(str(payload.get("id")))
        touched.append(point_id)

    condition = requests.narrowed(within.candidates, document)
    yield from scrolled(settings, condition, LISTING_FIELDS, take)
    for part in batched(touched, _READ_BATCH):
        # Asked for by a filter: a point that went away meanwhile is no error, one that left the scope is not touched.
        ids = qdrant_models().HasIdCondition(has_id=part)
        yield requests.patch(settings, effective, condition=requests.narrowed(within.candidates, document, ids))
    return len(touched)


def count(settings: QdrantSettings, compiled: CompiledFilter) -> Steps[int]:
    """Count what matches."""
    if compiled is NO_FILTER:
        return int((yield requests.count(settings, None)).count)
    counted, judged = 0, compiled.candidates
    if compiled.exact:
        counted = int((yield requests.count(settings, compiled.own)).count)
        judged = without_tokens()

    def take(point_id: str, payload: Payload) -> None:
        nonlocal counted
        counted += compiled.matches(metadata_of(payload) or {})

    yield from scrolled(settings, judged, LISTING_FIELDS, take)
    return counted


def matching_ids(settings: QdrantSettings, compiled: CompiledFilter) -> Steps[list[str]]:
    """Return the ids of the records that match, in code-point order. The metadata is read only to be checked."""
    ids: list[str] = []
    check = compiled is not NO_FILTER

    def take(point_id: str, payload: Payload) -> None:
        if not check or compiled.matches(metadata_of(payload) or {}):
            ids.append(payload["id"])

    yield from scrolled(settings, compiled.candidates, LISTING_FIELDS if check else ID_FIELDS, take)
    return sorted(ids)


def document_ids(settings: QdrantSettings, compiled: CompiledFilter) -> Steps[list[str]]:
    """Return the ids of the documents with a matching record."""
    ids = yield from matching_ids(settings, compiled)
    return sorted({document_id_of(record_id) for record_id in ids})


def documents(settings: QdrantSettings, compiled: CompiledFilter) -> Steps[list[IndexedDocument]]:
    """Return the documents with a matching record, each with the metadata of the first of these."""
    first: dict[str, tuple[tuple[int, str, str], dict[str, JSON] | None]] = {}

    def take(point_id: str, payload: Payload) -> None:
        metadata = metadata_of(payload)
        if not compiled.matches(metadata or {}):
            return
        record_id = str(payload["id"])
        document_id, order = document_id_of(record_id), chunk_order_key(record_id)
        if document_id not in first or order < first[document_id][0]:
            first[document_id] = (order, metadata)

    yield from scrolled(settings, compiled.candidates, LISTING_FIELDS, take)
    return [IndexedDocument(document_id, first[document_id][1]) for document_id in sorted(first)]


def facets(settings: QdrantSettings, compiled: CompiledFilter, path: Path, limit: int) -> Steps[Facets]:
    """Count the values at a path of the records that match."""
    counts: Counter[str] = Counter()

    def take(point_id: str, payload: Payload) -> None:
        metadata = metadata_of(payload) or {}
        if compiled.matches(metadata):
            counts.update(facet_texts(metadata, path))

    yield from scrolled(settings, compiled.candidates, LISTING_FIELDS, take)
    return most_frequent(counts.items(), limit)


def reindex_filters(settings: QdrantSettings) -> Steps[int]:
    """Compute the `agora` object of every point that has none of this format. Return how many were written."""
    written, offset = 0, None
    while True:
        points, offset = yield requests.scroll(settings, without_tokens(), LISTING_FIELDS, offset)
        objects = {str(p.id): filter_object(metadata_of(p.payload)) for p in points if "id" in (p.payload or {})}
        if objects:
            yield requests.set_filter_object(settings, objects)
        written += len(objects)
        if offset is None:
            return written


def batched(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """Cut a sequence into lists of at most `size`."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])

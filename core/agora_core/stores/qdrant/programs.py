"""What each operation does: steps that yield `Call`s, written once for sync and async clients.

Reads look at points through a `View`, so that a change of several points is seen whole (see `journal`). Writes first
end what another writer left under way on the same documents.
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
from agora_core.steps import Steps, together
from agora_core.stores.facets import Facets, facet_texts, most_frequent
from agora_core.stores.fingerprints import Fingerprint, fingerprint_of
from agora_core.stores.qdrant import requests
from agora_core.stores.qdrant.filters import NO_FILTER, CompiledFilter, conjunction, qdrant_models, without_tokens
from agora_core.stores.qdrant.journal import (
    Change,
    View,
    beside_id,
    candidates,
    mark_of,
    overtaken,
    perform,
    repeated,
    settle,
    whole,
)
from agora_core.stores.qdrant.payload import (
    CONTEXT_KEY,
    DOCUMENT_KEY,
    FORMAT,
    FORMAT_KEY,
    context_of,
    derived,
    digests_of,
    metadata_of,
)
from agora_core.stores.qdrant.requests import LISTING_FIELDS, PASSAGE_FIELDS, ROW_FIELDS, WRITER_FIELDS, Call
from agora_core.stores.qdrant.settings import QdrantSettings
from agora_core.validation import RecordBatch

T = TypeVar("T")
Payload = Mapping[str, Any]

_READ_BATCH = 256
_MOST_DOCUMENTS = 1_000_000


def scrolled(
    settings: QdrantSettings,
    condition: Any,
    take: Callable[[str, Payload], None],
    *,
    view: View | None = None,
    fields: Sequence[str] = LISTING_FIELDS,
) -> Steps[None]:
    """Give every record that satisfies a Filter to `take`, page by page, as `view` shows it; without one, as it is."""
    offset: Any = None
    while True:
        points, offset = yield requests.scroll(settings, condition, fields, offset)
        for point in points:
            seen = point.payload if view is None else view.look(point.payload)
            if seen and "id" in seen:
                take(str(point.id), seen)
        if offset is None:
            return


def in_one_request(settings: QdrantSettings, parts: Sequence[Steps[T]]) -> Steps[list[T]]:
    """Run operations that begin with a query side by side: their first queries travel in one request."""
    if settings.local:
        # Nothing travels, and a filter looks at the journal first.
        return (yield from together(parts))
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
    """Go on with an operation whose first call was answered."""
    try:
        call = part.send(answer)
        while True:
            call = part.send((yield call))
    except StopIteration as stop:
        result: T = stop.value
        return result


# Reading --------------------------------------------------------------------------------------------------------------


def stored(
    settings: QdrantSettings, ids: Sequence[str], view: View, fields: Sequence[str], *, vectors: bool = False
) -> Steps[dict[str, Any]]:
    """Return the records with these ids by id: the point of each, and its payload as `view` shows it."""
    found: dict[str, tuple[Any, Payload]] = {}
    beside: list[str] = []
    points = yield requests.retrieve(settings, [chunk_id_to_point_id(i) for i in ids], fields, vectors=vectors)
    for point in points:
        seen = view.look(point.payload)
        if seen is not None:
            found[seen["id"]] = (point, seen)
        mark = mark_of(point.payload or {})
        if mark is not None and seen is None and view.state(mark[1:]) == "done":
            beside.append(beside_id(point.payload["id"], mark[1:]))
    if beside:
        points = yield requests.retrieve(settings, beside, fields, vectors=vectors)
        seen_points = [(point, view.look(point.payload)) for point in points]
        found.update({seen["id"]: (point, seen) for point, seen in seen_points if seen is not None})
    return found


def get(settings: QdrantSettings, ids: Sequence[str], within: CompiledFilter | None) -> Steps[list[VectorRecord]]:
    """Read records in the order asked."""

    def read(view: View) -> Steps[list[VectorRecord]]:
        records = []
        for part in batched(ids, _READ_BATCH):
            found = yield from stored(settings, part, view, PASSAGE_FIELDS, vectors=True)
            seen = [found[record_id] for record_id in part if record_id in found]
            records += [
                record_of(point, payload)
                for point, payload in seen
                if within is None or within.matches(metadata_of(payload) or {})
            ]
        return records

    return whole(settings, read)


def record_of(point: Any, payload: Payload) -> VectorRecord:
    """Return the record in a point that was read with its vector."""
    vector = point.vector.get("", []) if isinstance(point.vector, Mapping) else point.vector
    return VectorRecord(
        id=payload["id"],
        text=payload["text"],
        embedding=np.asarray(vector, dtype=np.float32).tolist(),
        source=payload.get("source"),
        metadata=metadata_of(payload),
        context=context_of(payload),
    )


def count(settings: QdrantSettings, compiled: CompiledFilter) -> Steps[int]:
    """Count what matches: what has tokens on the server, the rest one by one."""
    answer, judged = yield from _told(settings, compiled, requests.count(settings, compiled.own))
    return len(judged) + (0 if answer is None else int(answer.count))


def _told(
    settings: QdrantSettings, compiled: CompiledFilter, request: Call
) -> Steps[tuple[Any, dict[str, tuple[str, str | None]]]]:
    """Ask a question about the matches with tokens, and judge the rest: the id and the mark of each by its point.

    A filter that tokens do not say exactly, and local mode, leave all to be judged, and the answer None.
    """
    by_server = compiled.exact and not settings.local

    def judged(view: View) -> Steps[dict[str, tuple[str, str | None]]]:
        found: dict[str, tuple[str, str | None]] = {}

        def take(point_id: str, payload: Payload) -> None:
            if compiled.matches(metadata_of(payload) or {}):
                found[point_id] = payload["id"], mark_of(payload)

        rest = without_tokens() if by_server else (yield from candidates(settings, compiled, view))
        yield from scrolled(settings, rest, take, view=view)
        return found

    def read(view: View) -> Steps[Any]:
        while True:
            before = yield from judged(view)
            if not by_server:
                return None, before
            answer = yield request
            # A point that got or lost its mark in between would be told twice or never.
            if (yield from judged(view)) == before:
                return answer, before

    return whole(settings, read)


def matching(
    settings: QdrantSettings, compiled: CompiledFilter, take: Callable[[Payload], None], view: View
) -> Steps[None]:
    """Give the payload of every matching record to `take`."""

    def judge(point_id: str, payload: Payload) -> None:
        if compiled is NO_FILTER or compiled.matches(metadata_of(payload) or {}):
            take(payload)

    condition = yield from candidates(settings, compiled, view)
    yield from scrolled(settings, condition, judge, view=view)


def matching_ids(settings: QdrantSettings, compiled: CompiledFilter) -> Steps[list[str]]:
    """Return the ids of the records that match, in code-point order."""

    def read(view: View) -> Steps[list[str]]:
        ids: list[str] = []
        yield from matching(settings, compiled, lambda payload: ids.append(payload["id"]), view)
        return sorted(ids)

    return whole(settings, read)


def document_ids(settings: QdrantSettings, compiled: CompiledFilter) -> Steps[list[str]]:
    """Return the ids of the documents with a matching record."""
    if compiled.exact and not settings.local:
        try:
            request = requests.facet(settings, DOCUMENT_KEY, compiled.own, limit=_MOST_DOCUMENTS)
            answer, judged = yield from _told(settings, compiled, request)
        except Exception:
            # A collection without that index, or a server that counts no values; what else is wrong is told below.
            answer = None
        if answer is not None and len(answer.hits) < _MOST_DOCUMENTS:
            named = {str(hit.value) for hit in answer.hits}
            return sorted(named.union(document_id_of(record_id) for record_id, _ in judged.values()))
    ids = yield from matching_ids(settings, compiled)
    return sorted({document_id_of(record_id) for record_id in ids})


def documents(settings: QdrantSettings, compiled: CompiledFilter) -> Steps[list[IndexedDocument]]:
    """Return the documents with a matching record, each with the metadata of the first of these."""

    def read(view: View) -> Steps[list[IndexedDocument]]:
        first: dict[str, tuple[tuple[int, str, str], Payload]] = {}

        def take(payload: Payload) -> None:
            document_id, order = document_id_of(payload["id"]), chunk_order_key(payload["id"])
            if document_id not in first or order < first[document_id][0]:
                first[document_id] = (order, payload)

        yield from matching(settings, compiled, take, view)
        return [IndexedDocument(document_id, metadata_of(first[document_id][1])) for document_id in sorted(first)]

    return whole(settings, read)


def facets(settings: QdrantSettings, compiled: CompiledFilter, path: Path, limit: int) -> Steps[Facets]:
    """Count the values at a path of the records that match."""

    def read(view: View) -> Steps[Facets]:
        counts: Counter[str] = Counter()
        yield from matching(settings, compiled, lambda p: counts.update(facet_texts(metadata_of(p) or {}, path)), view)
        return most_frequent(counts.items(), limit)

    return whole(settings, read)


def fingerprints(
    settings: QdrantSettings, document_ids: Sequence[str], within: CompiledFilter | None, *, digests: bool
) -> Steps[list[Fingerprint]]:
    """Return one row for each record of these documents; only texts without digests beside them are read."""
    bound = within or NO_FILTER

    def read(view: View) -> Steps[list[Fingerprint]]:
        found: list[Fingerprint] = []
        bare: list[str] = []

        def take(_: str, payload: Payload) -> None:
            metadata, kept = metadata_of(payload), digests_of(payload) if digests else (None, None)
            if bound is not NO_FILTER and not bound.matches(metadata or {}):
                return
            if kept is None:
                bare.append(payload["id"])
            else:
                found.append(Fingerprint(payload["id"], kept[0], kept[1], payload.get("source"), metadata))

        for part in batched(document_ids, _READ_BATCH):
            condition = requests.narrowed(bound.candidates, requests.documents_condition(part))
            yield from scrolled(settings, condition, take, view=view, fields=ROW_FIELDS)
        for part in batched(bare, _READ_BATCH):
            for point in (yield from stored(settings, part, view, PASSAGE_FIELDS)).values():
                payload = point.payload
                texts = payload.get("text", ""), context_of(payload)
                row = payload["id"], *texts, payload.get("source"), metadata_of(payload)
                found.append(fingerprint_of(*row, digests=True))
        return found

    return whole(settings, read)


# Writing --------------------------------------------------------------------------------------------------------------


def upsert(
    settings: QdrantSettings, batch: RecordBatch, within: CompiledFilter | None, *, conditional: bool = False
) -> Steps[int]:
    """Write records in batches; with `within`, refuse first what lies outside.

    `conditional` says that the server can be told to leave a stored point alone that no longer matches when the write
    arrives; without it another writer can move one out of scope in between.
    """
    documents = set(map(document_id_of, batch.ids))
    if within is not None:
        yield from settle(settings, documents)
        yield from _assert_within(settings, batch, within)
    points = requests.points_of(settings, batch)
    yield from requests.upsert_bounded(settings, points, condition=_guard(within, conditional=conditional))
    # After the write, which takes marks away: what others left under way is ended without touching these points.
    yield from settle(settings, documents)
    return len(batch)


def _guard(within: CompiledFilter | None, *, conditional: bool) -> Any:
    return within.candidates if within is not None and conditional and within.exact else None


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


def _assert_within(settings: QdrantSettings, batch: RecordBatch, within: CompiledFilter | None) -> Steps[None]:
    """Refuse records outside a scope, and such as would replace one outside."""
    if within is None:
        return
    for record_id, metadata in zip(batch.ids, batch.metadata, strict=True):
        if not within.matches(metadata or {}):
            raise out_of_scope(record_id)
    for ids in batched(batch.ids, _READ_BATCH):
        found = yield from stored(settings, ids, View(), LISTING_FIELDS)
        for record_id, (_, payload) in found.items():
            if not within.matches(metadata_of(payload) or {}):
                raise out_of_scope(record_id)


def delete(settings: QdrantSettings, ids: Sequence[str], within: CompiledFilter | None) -> Steps[int]:
    """Delete records by id."""
    yield from settle(settings, set(map(document_id_of, ids)))
    deleted = 0
    for part in batched(ids, _READ_BATCH):
        found = yield from stored(settings, part, View(), LISTING_FIELDS)
        doomed = [
            str(point.id)
            for point, payload in found.values()
            if within is None or within.matches(metadata_of(payload) or {})
        ]
        if doomed:
            yield _delete_within(settings, within or NO_FILTER, doomed)
        deleted += len(doomed)
    return deleted


def _delete_within(settings: QdrantSettings, within: CompiledFilter, point_ids: list[str]) -> Call:
    """Delete points that were just seen to match, unless another writer has taken them out of the filter since."""
    if within is NO_FILTER:
        return requests.delete_ids(settings, point_ids)
    ids = qdrant_models().HasIdCondition(has_id=point_ids)
    return requests.delete_matching(settings, requests.narrowed(within.candidates, ids))


def remove(settings: QdrantSettings, compiled: CompiledFilter, document: str | None = None) -> Steps[int]:
    """Remove what matches a filter, of one document where it is named."""
    named = None if document is None else [document]
    must = [] if document is None else [requests.documents_condition([document])]

    def attempt() -> Steps[int | None]:
        _, exists = yield from settle(settings, named)
        change = Change(named, bound=compiled)
        by_server = compiled.exact and not settings.local and document is None
        judged = without_tokens() if by_server else compiled.candidates
        found = yield from _collect(settings, requests.narrowed(judged, *must), compiled, change)
        if (yield from overtaken(settings, change)):
            return None
        change.going += found
        removed = len(change.going)
        if by_server:
            removed += int((yield requests.count(settings, compiled.own)).count)
            change.selection = compiled.own
        if not removed:
            return 0
        if removed == 1 and not by_server:
            yield _delete_within(settings, compiled, change.going)
            return 1
        return removed if (yield from perform(settings, change, exists)) else None

    return repeated(settings, attempt)


def _collect(
    settings: QdrantSettings, condition: Any, compiled: CompiledFilter, change: Change
) -> Steps[dict[str, str]]:
    """Return the document of each point that matches, by its id; the change takes note of each."""
    found: dict[str, str] = {}

    def take(point_id: str, payload: Payload) -> None:
        if compiled.matches(metadata_of(payload) or {}):
            found[point_id] = document_id_of(payload["id"])
            change.look(point_id, payload)

    yield from scrolled(settings, condition, take, fields=WRITER_FIELDS)
    return found


def replace_documents(
    settings: QdrantSettings,
    document_ids: Sequence[str],
    batch: RecordBatch,
    within: CompiledFilter | None,
    *,
    conditional: bool = False,
) -> Steps[int]:
    """Put records in the place of documents: readers see each document old or new, and nothing else at any moment."""
    listed = set(document_ids)
    everything = listed.union(map(document_id_of, batch.ids))
    points = requests.points_of(settings, batch)

    def attempt() -> Steps[int | None]:
        _, exists = yield from settle(settings, everything)
        yield from _assert_within(settings, batch, within)
        change, old = Change(document_ids, bound=within), dict[str, str]()
        for part in batched(document_ids, _READ_BATCH):
            condition = requests.narrowed((within or NO_FILTER).candidates, requests.documents_condition(part))
            old.update((yield from _collect(settings, condition, within or NO_FILTER, change)))
        if (yield from overtaken(settings, change)):
            return None
        alone = _single(change, old, points, listed)
        if (change.going or change.fresh or change.copies) and not (yield from perform(settings, change, exists)):
            return None
        yield from requests.upsert_bounded(settings, alone, condition=_guard(within, conditional=conditional))
        return len(batch)

    return repeated(settings, attempt)


def _single(change: Change, old: Mapping[str, str], points: Sequence[Any], listed: set[str]) -> list[Any]:
    """Fill a change with what must be seen at once, and return the points that can be written on their own.

    Those are of documents that are not replaced, or are one point in the place of none or of itself: Qdrant writes
    that in one step.
    """
    new: dict[str, list[Any]] = {}
    for point in points:
        new.setdefault(document_id_of(point.payload["id"]), []).append(point)
    before: dict[str, set[str]] = {}
    for point_id, document_id in old.items():
        before.setdefault(document_id, set()).add(point_id)
    alone: list[Any] = []
    for document_id in {**new, **before}:
        fresh, stale = new.get(document_id, []), before.get(document_id, set())
        if document_id not in listed or (len(fresh) == 1 and stale <= {fresh[0].id}):
            alone += fresh
            continue
        change.going += sorted(stale)
        for point in fresh:
            (change.copies if point.id in stale else change.fresh).append(point)
    return alone


def update_metadata(
    settings: QdrantSettings, document_id: str, effective: Mapping[str, JSON], within: CompiledFilter | None
) -> Steps[int]:
    """Merge a patch into every chunk of a document, on the server."""

    def attempt() -> Steps[int | None]:
        _, exists = yield from settle(settings, [document_id])
        change = Change([document_id], bound=within, patch=effective)

        def take(point_id: str, payload: Payload) -> None:
            metadata = metadata_of(payload) or {}
            if within is not None:
                if not within.matches(metadata):
                    return
                if not within.matches(merge_effective(metadata, effective)):
                    raise out_of_scope(str(payload.get("id")))
            change.patched.append(point_id)
            change.look(point_id, payload)

        document = requests.documents_condition([document_id])
        condition = requests.narrowed(None if within is None else within.candidates, document)
        yield from scrolled(settings, condition, take, fields=WRITER_FIELDS)
        if (yield from overtaken(settings, change)):
            return None
        if not change.patched:
            return 0
        return len(change.patched) if (yield from perform(settings, change, exists)) else None

    return repeated(settings, attempt)


def reindex_filters(settings: QdrantSettings) -> Steps[int]:
    """End what was cut off, and compute the `agora` object of every point that has none of this format."""
    written, _ = yield from settle(settings, None)
    unread = conjunction([], must_not=[requests.matches(FORMAT_KEY, [FORMAT])])
    offset: Any = None
    while True:
        points, offset = yield requests.scroll(settings, unread, (*LISTING_FIELDS, CONTEXT_KEY), offset)
        mine = [point for point in points if "id" in (point.payload or {})]
        # Marks that no journal knows: what was to come is dropped, what was there stays.
        lost = [str(p.id) for p in mine if (mark_of(p.payload) or "-")[0] in "+~="]
        kept = [point for point in mine if str(point.id) not in lost]
        objects = {str(p.id): derived(p.payload) for p in kept}
        if lost:
            yield requests.delete_ids(settings, lost)
        if objects:
            yield requests.set_filter_objects(settings, objects)
        written += len(lost) + len(objects)
        if offset is None:
            return written


def batched(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """Cut a sequence into lists of at most `size`."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])

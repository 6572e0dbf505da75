"""Search: the best `top_k`, with ties by id through the cut, and floors that include their own value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agora_core.records import Passage
from agora_core.steps import Steps
from agora_core.stores.per_document import grow
from agora_core.stores.qdrant import requests
from agora_core.stores.qdrant.filters import NO_FILTER, CompiledFilter
from agora_core.stores.qdrant.journal import View, candidates, whole
from agora_core.stores.qdrant.payload import metadata_of
from agora_core.stores.qdrant.programs import batched
from agora_core.stores.qdrant.requests import LISTING_FIELDS, PASSAGE_FIELDS
from agora_core.stores.qdrant.settings import QdrantSettings
from agora_core.validation import Float32Array

# Under cosine Qdrant's float32 sums are off by about this at most; scores this close to a floor are computed again.
_COSINE_NOISE = 1e-6
_GROWTH = 4


@dataclass(frozen=True, slots=True)
class Hit:
    """One point that was found; `payload` holds at least its id and metadata."""

    id: str
    score: float
    payload: Mapping[str, Any]
    point_id: str


def ranked(
    settings: QdrantSettings,
    vector: Any,
    compiled: CompiledFilter,
    top_k: int,
    view: View,
    *,
    using: str | None = None,
    score: Callable[[float], float],
    accept: Callable[[Mapping[str, Any]], bool] | None = None,
) -> Steps[list[Hit]]:
    """Return the `top_k` matching points of highest `score`, equal scores by id; `accept` judges payloads further.

    One more than `top_k` is asked for. Where the score at the cut reaches beyond what came back, or where the filter
    selects more than it should, more is asked for until the order is certain.
    """
    limit = top_k + 1 if compiled.exact else 2 * top_k + 32
    fields: tuple[str, ...] = PASSAGE_FIELDS
    exact = settings.exact
    condition = yield from candidates(settings, compiled, view)
    while True:
        answer = yield requests.query(settings, vector, condition, limit=limit, fields=fields, using=using, exact=exact)
        hits = [(score(point.score), point) for point in answer.points]
        found = [
            Hit(str(seen["id"]), value, seen, str(point.id))
            for value, point in hits
            if (seen := _match(view.look(point.payload), compiled)) is not None and (accept is None or accept(seen))
        ]
        if len(hits) < limit:
            if exact is None and not settings.local and using is None:
                # A walk through the graph can end early under a filter; only an exact pass says that no more match.
                exact = True
                continue
            break
        if sum(hit.score > hits[-1][0] for hit in found) >= top_k:
            break
        limit, exact = limit * _GROWTH, True if exact is None else exact
        fields = LISTING_FIELDS if accept is None else PASSAGE_FIELDS
    best = sorted(found, key=lambda hit: (-hit.score, hit.id))[:top_k]
    return best if fields is PASSAGE_FIELDS else (yield from _completed(settings, best, compiled, view))


def _match(payload: Mapping[str, Any] | None, compiled: CompiledFilter) -> Mapping[str, Any] | None:
    """Judge a point by its own metadata, whatever the engine thought of its tokens."""
    if payload is None or compiled is NO_FILTER:
        return payload
    return payload if compiled.matches(metadata_of(payload) or {}) else None


def _completed(settings: QdrantSettings, hits: list[Hit], compiled: CompiledFilter, view: View) -> Steps[list[Hit]]:
    """Read what was left out while many candidates were looked through; a record that matches no more is left out."""
    payloads: dict[str, Mapping[str, Any]] = {}
    for part in batched(hits, 256):
        points = yield requests.retrieve(settings, [hit.point_id for hit in part], PASSAGE_FIELDS, vectors=False)
        for point in points:
            seen = _match(view.look(point.payload), compiled)
            if seen is not None:
                payloads[str(point.id)] = seen
    return [replace(hit, payload=payloads[hit.point_id]) for hit in hits if hit.point_id in payloads]


def passages_of(hits: list[Hit]) -> list[Passage]:
    """Return hits as passages, in their order."""
    return [
        Passage(hit.id, hit.payload["text"], hit.score, hit.payload.get("source"), metadata_of(hit.payload))
        for hit in hits
    ]


def search(
    settings: QdrantSettings,
    embedding: Float32Array,
    compiled: CompiledFilter,
    top_k: int,
    min_score: float | None,
    per_document: int | None = None,
) -> Steps[list[Passage]]:
    """Return the passages nearest to an embedding."""
    vector = requests.stored_vectors(settings, embedding).tolist()
    score = distance_score if settings.metric == "l2" else plain_score

    def read(view: View) -> Steps[list[Passage]]:
        def fetch(most: int) -> Steps[list[Passage]]:
            hits = yield from ranked(settings, vector, compiled, most, view, score=score)
            if min_score is not None and settings.metric == "cosine":
                hits = yield from _near_floor(settings, hits, embedding, min_score)
            return passages_of(hits)

        return grow(fetch, top_k=top_k, per_document=per_document)

    passages = yield from whole(settings, read)
    # After the cut: rows are ordered by this very score, so cutting first leaves the same ones.
    return passages if min_score is None else [passage for passage in passages if passage.score >= min_score]


def plain_score(score: float) -> float:
    """Return a similarity as the float32 that the engine holds; local mode computes some of them wider."""
    return float(np.float32(score)) + 0.0


def distance_score(distance: float) -> float:
    """Return a distance as a score, higher being better; an exact match is 0.0 and not -0.0."""
    return 0.0 - float(np.float32(distance))


def _near_floor(settings: QdrantSettings, hits: list[Hit], embedding: Float32Array, floor: float) -> Steps[list[Hit]]:
    """Compute anew, in float64, the cosine of the hits that the engine's rounding may have put below a floor."""
    near = [hit.point_id for hit in hits if 0 < floor - hit.score <= _COSINE_NOISE]
    if not near:
        return hits
    query = embedding.astype(np.float64)
    scores: dict[str, float] = {}
    for part in batched(near, 256):
        points = yield requests.retrieve(settings, part, ("id",), vectors=True)
        for point in points:
            raw = point.vector.get("", []) if isinstance(point.vector, Mapping) else point.vector
            stored = np.asarray(raw, dtype=np.float64)
            lengths = float(np.linalg.norm(query) * np.linalg.norm(stored))
            scores[str(point.id)] = plain_score(float(query @ stored) / lengths) if lengths else 0.0
    exact = [replace(hit, score=scores.get(hit.point_id, hit.score)) for hit in hits]
    return sorted(exact, key=lambda hit: (-hit.score, hit.id))

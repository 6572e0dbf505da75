"""Search: the best `top_k`, with ties by id through the cut, and floors that include their own value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from agora_core.records import Passage, chunk_id_to_point_id
from agora_core.steps import Steps
from agora_core.stores.per_document import grow
from agora_core.stores.qdrant import requests
from agora_core.stores.qdrant.filters import CompiledFilter
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


def ranked(
    settings: QdrantSettings,
    vector: Any,
    compiled: CompiledFilter,
    top_k: int,
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
    while True:
        answer = yield requests.query(
            settings, vector, compiled.candidates, limit=limit, fields=fields, using=using, exact=exact
        )
        payloads = [point.payload or {} for point in answer.points]
        hits = [
            Hit(str(payload.get("id")), score(point.score), payload)
            for point, payload in zip(answer.points, payloads, strict=True)
        ]
        found = [hit for hit in hits if _is_match(hit.payload, compiled) and (accept is None or accept(hit.payload))]
        if len(hits) < limit:
            if exact is None and not settings.local and using is None:
                # A walk through the graph can end early under a filter; only an exact pass says that no more match.
                exact = True
                continue
            break
        if sum(hit.score > hits[-1].score for hit in found) >= top_k:
            break
        limit, exact = limit * _GROWTH, True if exact is None else exact
        fields = LISTING_FIELDS if accept is None else PASSAGE_FIELDS
    best = sorted(found, key=lambda hit: (-hit.score, hit.id))[:top_k]
    return best if fields is PASSAGE_FIELDS else (yield from _whole(settings, best, compiled))


def _is_match(payload: Mapping[str, Any], compiled: CompiledFilter) -> bool:
    """Judge a point by its own metadata, whatever the engine thought of its tokens."""
    return "id" in payload and compiled.matches(metadata_of(payload) or {})


def _whole(settings: QdrantSettings, hits: list[Hit], compiled: CompiledFilter) -> Steps[list[Hit]]:
    """Read what was left out while many candidates were looked through; a record that matches no more is left out."""
    payloads: dict[str, Mapping[str, Any]] = {}
    for part in batched(hits, 256):
        ids = [chunk_id_to_point_id(hit.id) for hit in part]
        points = yield requests.retrieve(settings, ids, PASSAGE_FIELDS, vectors=False)
        payloads.update((p.payload["id"], p.payload) for p in points if _is_match(p.payload or {}, compiled))
    return [Hit(hit.id, hit.score, payloads[hit.id]) for hit in hits if hit.id in payloads]


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

    def fetch(most: int) -> Steps[list[Passage]]:
        hits = yield from ranked(settings, vector, compiled, most, score=score)
        if min_score is not None and settings.metric == "cosine":
            hits = yield from _near_floor(settings, hits, embedding, min_score)
        return passages_of(hits)

    passages = yield from grow(fetch, top_k=top_k, per_document=per_document)
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
    near = [hit.id for hit in hits if 0 < floor - hit.score <= _COSINE_NOISE]
    if not near:
        return hits
    query = embedding.astype(np.float64)
    scores: dict[str, float] = {}
    for part in batched(near, 256):
        ids = [chunk_id_to_point_id(record_id) for record_id in part]
        points = yield requests.retrieve(settings, ids, ("id",), vectors=True)
        for point in points:
            raw = point.vector.get("", []) if isinstance(point.vector, Mapping) else point.vector
            stored = np.asarray(raw, dtype=np.float64)
            lengths = float(np.linalg.norm(query) * np.linalg.norm(stored))
            scores[point.payload["id"]] = plain_score(float(query @ stored) / lengths) if lengths else 0.0
    exact = [Hit(hit.id, scores.get(hit.id, hit.score), hit.payload) for hit in hits]
    return sorted(exact, key=lambda hit: (-hit.score, hit.id))

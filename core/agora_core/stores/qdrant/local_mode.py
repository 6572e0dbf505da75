"""What local mode needs to answer the same question alike twice, and soon.

It has no index: a filter is a loop over all points, and inside it one over all values of a list. So it is given a
condition that holds where our own matching says so, one test a point however long the list is.

qdrant-client's local mode scales every stored vector to length 1 again, in float32 and in place, at every search under
cosine. A vector whose float32 length is not exactly 1 thereby moves by a rounding step each time, so that equal
vectors written at different moments get different scores and ties fall at random. A server does no such thing.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from agora_core.extras import require
from agora_core.filters.matching import Predicate
from agora_core.validation import Float32Array

_MOST_STEPS: Final = 64


def settled(vectors: Float32Array) -> Float32Array:
    """Return unit vectors, each moved by a few rounding steps to one that scaling in float32 leaves as it is.

    Equal rows stay equal. A row for which no such neighbour is found, and a zero row, are left alone.
    """
    rows: Float32Array = vectors.copy()
    for n, row in enumerate(rows):
        if row.any() and not _is_settled(row):
            rows[n] = _neighbour(row)
    return rows


def _lengths(row: Float32Array) -> tuple[np.float32, np.float32]:
    # Both ways in which local mode sums the squares: when a point is written, and when it is searched.
    return np.float32(np.linalg.norm(row)), np.float32(np.linalg.norm(row[np.newaxis], axis=-1)[0])


def _is_settled(row: Float32Array) -> bool:
    written, searched = _lengths(row)
    return bool(written == 1 and searched == 1)


def _neighbour(row: Float32Array) -> Float32Array:
    """Nudge the largest components by one rounding step each, towards length 1, until both sums give it."""
    moved: Float32Array = row.copy()
    largest = np.argsort(-np.abs(row), kind="stable")
    position = 0
    for _ in range(_MOST_STEPS):
        if _is_settled(moved):
            return moved
        shortest, longest = sorted(map(float, _lengths(moved)))
        missing = (1 - longest) or (1 - shortest)
        top = float(moved[largest[0]])
        # Moving one component by a step changes the length by about this; long rows take many steps at once.
        one_step = abs(top) * float(np.spacing(np.float32(abs(top))))
        together = max(1, min(len(row), int(abs(missing) / one_step / 2)))
        at = np.take(largest, range(position, position + together), mode="wrap")
        position += together
        moved[at] = np.nextafter(moved[at], np.copysign(np.float32(2 if missing > 0 else 0), moved[at]))
    return row


class _Judge:
    """Equal to the metadata that a filter matches: local mode compares a point's value with a condition's by `==`."""

    __slots__ = ("_matches",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, matches: Predicate) -> None:
        self._matches = matches

    def __eq__(self, metadata: object) -> bool:
        return self._matches(metadata if isinstance(metadata, dict) else {})


def judging_filter(matches: Predicate) -> Any:
    """Return a Filter for local mode that selects the points whose metadata `matches`; it cannot travel."""
    models = require("qdrant_client", extra="qdrant").models
    match = models.MatchValue.model_construct(value=_Judge(matches))
    judged = models.FieldCondition.model_construct(key="metadata", match=match)
    if not matches({}):
        return models.Filter.model_construct(must=[judged])
    empty = models.IsEmptyCondition(is_empty=models.PayloadField(key="metadata"))
    return models.Filter.model_construct(should=[judged, empty])

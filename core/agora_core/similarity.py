"""The metric table: how two embeddings are scored, what a score is worth in [0, 1], and diversification (MMR).

Search, score floor and relevance all read this one table, so that a sign cannot differ between them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agora_core.errors import DimensionMismatchError, InvalidArgumentError, InvalidEmbeddingError
from agora_core.records import Embedding
from agora_core.validation import check_top_k

Float64Array = npt.NDArray[np.float64]
FloatArray = npt.NDArray[Any]

# Far above the rounding of a float64 dot product (some 1e-15 of the scale at a thousand terms), and far below what
# float32 resolves.
_ROUNDING: Final = 1e-13
# Below the product of any two norms of float32 vectors that are not zero.
_TINY: Final = 1e-95


@dataclass(frozen=True, slots=True)
class Metric:
    """One line of the table.

    `score` takes vectors (n, d), their norms (n,), a query (d,) and its norm, all float64, and gives (n,).
    """

    name: str
    score: Callable[[Float64Array, Float64Array, Float64Array, float], Float64Array]
    relevance: Callable[[float], float]
    score_of_relevance: Callable[[float], float]


def exact_norms(vectors: FloatArray) -> Float64Array:
    """Return the Euclidean norms of `vectors`, shape (n, d), summed in float64; shape (n,)."""
    wide = np.asarray(vectors, dtype=np.float64)
    norms: Float64Array = np.sqrt(_dots(wide, wide))
    return norms


def _dots(left: Float64Array, right: Float64Array) -> Float64Array:
    # vecdot sums each row by itself: the same numbers give the same bits wherever their row stands. A matrix product
    # takes rows in groups, and the last few otherwise.
    dots: Float64Array = np.vecdot(left, right)
    return dots


def _snapped(scores: Float64Array, tolerance: Float64Array | float) -> Float64Array:
    """Move scores that rounding kept off a float32 number, or off zero, onto it: a floor given as 1.0 is then exact."""
    nearest = scores.astype(np.float32).astype(np.float64)
    np.copyto(scores, nearest, where=np.abs(nearest - scores) <= tolerance)
    np.copyto(scores, 0.0, where=np.abs(scores) <= tolerance)
    return scores


def _cosine(vectors: Float64Array, norms: Float64Array, query: Float64Array, query_norm: float) -> Float64Array:
    # The dot product with a zero vector is 0, and so is its score.
    return _snapped(_dots(vectors, query) / np.maximum(norms * query_norm, _TINY), _ROUNDING)


def _l2(vectors: Float64Array, norms: Float64Array, query: Float64Array, query_norm: float) -> Float64Array:
    differences = vectors - query
    distances = np.sqrt(_dots(differences, differences))
    with np.errstate(over="ignore"):
        return _snapped(-distances, distances * _ROUNDING)


def _inner(vectors: Float64Array, norms: Float64Array, query: Float64Array, query_norm: float) -> Float64Array:
    with np.errstate(over="ignore"):
        return _snapped(_dots(vectors, query), norms * (query_norm * _ROUNDING))


def _clipped(score: float) -> float:
    return min(1.0, max(0.0, score))


def _inverse_distance(score: float) -> float:
    return 1.0 / (1.0 - min(score, 0.0))


def _distance_score(relevance: float) -> float:
    return -math.inf if relevance <= 0.0 else min(0.0, 1.0 - 1.0 / relevance)


def _clipped_score(relevance: float) -> float:
    return -math.inf if relevance <= 0.0 else relevance


METRICS: Final[dict[str, Metric]] = {
    "cosine": Metric("cosine", _cosine, _clipped, _clipped_score),
    "l2": Metric("l2", _l2, _inverse_distance, _distance_score),
    "inner": Metric("inner", _inner, _clipped, _clipped_score),
}


def check_metric(value: Any, *, argument: str = "metric") -> str:
    """Return `value` where it names a metric of the table.

    Raises:
        InvalidArgumentError: it is none of `cosine`, `l2`, `inner`.
    """
    if not isinstance(value, str) or value not in METRICS:
        raise InvalidArgumentError(f"{argument} must be one of {', '.join(map(repr, METRICS))}, got {value!r}")
    return value


def exact_norm(vector: Float64Array) -> float:
    """Return the Euclidean norm of one float64 vector; that of a float32 vector never overflows it."""
    return math.sqrt(float(np.vecdot(vector, vector)))


def relevance_score(metric: str, score: float) -> float:
    """Return what a store's score is worth in [0, 1]; never falling where the score rises.

    cosine and inner: the score itself, cut to [0, 1] (inner is meant for unit vectors, where it is the cosine);
    l2: `1 / (1 + distance)`. Identical unit vectors give 1 under each metric.

    Raises:
        InvalidArgumentError: the metric is unknown, or the score is NaN.

    Examples:
        >>> relevance_score("cosine", 0.5), relevance_score("l2", -1.0)
        (0.5, 0.5)
    """
    entry = METRICS[check_metric(metric)]
    if math.isnan(score):
        raise InvalidArgumentError("score is NaN, which has no relevance")
    return entry.relevance(float(score))


def score_of_relevance(metric: str, relevance: float) -> float:
    """Return the least score whose `relevance_score` is `relevance` or more: a relevance floor as a score floor.

    A floor of 0 or less gives minus infinity, and one above 1, which nothing reaches, gives infinity.

    Raises:
        InvalidArgumentError: the metric is unknown, or the relevance is NaN.
    """
    entry = METRICS[check_metric(metric)]
    if math.isnan(relevance):
        raise InvalidArgumentError("relevance is NaN, which no score reaches or misses")
    return math.inf if relevance > 1.0 else entry.score_of_relevance(float(relevance))


def cosine_similarity(a: Embedding, b: Embedding) -> float:
    """Return the cosine of the angle between two vectors of one length, 0.0 where either is zero.

    Raises:
        DimensionMismatchError: the lengths differ.
        InvalidEmbeddingError: a vector is no flat sequence of numbers.

    Examples:
        >>> cosine_similarity([1.0, 0.0], [2.0, 0.0])
        1.0
    """
    left, right = _vector(a, "a"), _vector(b, "b")
    if len(left) != len(right):
        raise DimensionMismatchError(
            f"a has {len(left)} numbers and b has {len(right)}; only vectors of one length have an angle"
        )
    with np.errstate(over="ignore", invalid="ignore"):
        norms = math.sqrt(left @ left) * math.sqrt(right @ right)
        return float(left @ right) / norms if norms else 0.0


def _vector(value: Any, argument: str) -> Float64Array:
    try:
        vector = np.asarray(value)
    except (ValueError, TypeError):
        # Not flat, whatever it is.
        vector = np.empty((0, 0))
    if vector.ndim != 1 or (vector.dtype.kind not in "fiu" and vector.size):
        raise InvalidEmbeddingError(f"{argument} must be a flat sequence of numbers, got {type(value).__name__}")
    return vector.astype(np.float64)


def maximal_marginal_relevance(
    query_embedding: Embedding,
    embeddings: Sequence[Embedding] | FloatArray,
    *,
    top_k: int = 4,
    lambda_mult: float = 0.5,
) -> list[int]:
    """Return positions in `embeddings`, in the order in which greedy MMR picks them.

    The first is the most similar to the query; each next one has the largest
    `lambda_mult * cos(query, x) - (1 - lambda_mult) * max(cos(x, picked))` (Carbonell and Goldstein, 1998). Of equals
    the earlier position is picked.

    Args:
        query_embedding: shape (d,).
        embeddings: shape (n, d), as an array or a sequence of vectors.
        top_k: how many to pick; all where there are fewer.
        lambda_mult: 1 looks at relevance alone, 0 at diversity alone.

    Raises:
        InvalidArgumentError: `top_k` is below 1, or `lambda_mult` lies outside [0, 1].
        DimensionMismatchError: a vector has another length than the query.

    Examples:
        >>> maximal_marginal_relevance([1.0, 0.0], [[1.0, 0.1], [1.0, 0.1], [0.0, 1.0]], top_k=2, lambda_mult=0.1)
        [0, 2]
    """
    top_k = check_top_k(top_k)
    _check_share(lambda_mult)
    query = _vector(query_embedding, "query_embedding")
    vectors = _matrix(embeddings, len(query))
    if not len(vectors):
        return []
    query = (query / (math.sqrt(query @ query) or 1.0)).astype(vectors.dtype)
    norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    norms[norms == 0] = 1
    vectors = vectors / norms[:, None]
    relevance = vectors @ query
    best = int(relevance.argmax())
    picked = [best]
    gain = lambda_mult * relevance
    gain[best] = -np.inf
    # The nearest pick so far, kept as a running maximum: one product a pick.
    nearest = vectors @ vectors[best]
    while len(picked) < min(top_k, len(vectors)):
        best = int((gain - (1 - lambda_mult) * nearest).argmax())
        picked.append(best)
        gain[best] = -np.inf
        np.maximum(nearest, vectors @ vectors[best], out=nearest)
    return picked


def _check_share(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise InvalidArgumentError(f"lambda_mult must be a number from 0 to 1, got {value!r}")


def _matrix(embeddings: Any, dimension: int) -> FloatArray:
    try:
        matrix = np.asarray(embeddings)
    except (ValueError, TypeError):
        matrix = np.empty((len(embeddings), 0))
    if not matrix.size:
        if matrix.shape[0]:
            raise DimensionMismatchError(f"embeddings must have {dimension} numbers each, as the query has")
        return np.empty((0, dimension), dtype=np.float32)
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu":
        raise InvalidEmbeddingError(f"embeddings must be vectors of {dimension} numbers each")
    if matrix.shape[1] != dimension:
        raise DimensionMismatchError(f"embeddings have {matrix.shape[1]} numbers each where the query has {dimension}")
    return matrix.astype(np.float32 if matrix.dtype == np.float32 else np.float64, copy=False)

"""Exact nearest rows: a float32 pass over the matrix, and a float64 pass over those that rounding leaves in doubt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agora_core.similarity import Float64Array, exact_scores
from agora_core.stores.memory_rows import LARGE_NORM, IntArray, VectorView
from agora_core.validation import Float32Array

# 256 rows of 384 float32 stay in the second-level cache while they are multiplied.
_BLOCK: Final = 256
# Share of the rows above which one product over the whole matrix is cheaper than gathering them.
_GATHERED_SHARE: Final = 0.27
# So few rows are scored exactly at once.
_DIRECT: Final = 64
_SPARE: Final = 16
_EXACT_BLOCK: Final = 1024
_UNIT_ROUNDOFF: Final = 2.0**-24
_MANY_BYTES: Final = 64 * 2**20


def nearest(
    view: VectorView, ids: Sequence[str], query: Float32Array, top_k: int, rows: IntArray | None
) -> list[tuple[float, int]]:
    """Return `(score, row)` of the `top_k` best, best first and equal scores by id; `rows` None stands for all."""
    if rows is not None and len(rows) <= _DIRECT:
        return _ranked(view, ids, query, top_k, rows)
    live = view.count - len(view.dead) if rows is None else len(rows)
    if not live:
        return []
    if _float32_may_fail(view, query):
        return _ranked(view, ids, query, top_k, _live_rows(view) if rows is None else rows)
    unit, margin = _scaled(view, query)
    scores = _scores(view, unit, rows)
    return _ranked(view, ids, query, top_k, _in_doubt(scores, min(top_k, live), margin, rows))


def nearest_many(
    view: VectorView, ids: Sequence[str], queries: Float32Array, top_k: int, rows: IntArray | None
) -> list[list[tuple[float, int]]]:
    """Return what `nearest` returns for each of `queries`, shape (m, dimension), with one product for many."""
    live = view.count - len(view.dead) if rows is None else len(rows)
    if live <= _DIRECT or any(_float32_may_fail(view, query) for query in queries):
        return [nearest(view, ids, query, top_k, rows) for query in queries]
    found: list[list[tuple[float, int]]] = []
    step = max(1, _MANY_BYTES // (4 * view.count))
    for first in range(0, len(queries), step):
        block = queries[first : first + step]
        scaled = [_scaled(view, query) for query in block]
        table = _scores(view, np.stack([unit for unit, _ in scaled]), rows)
        for query, (_, margin), scores in zip(block, scaled, table, strict=False):
            doubtful = _in_doubt(scores, min(top_k, live), margin, rows)
            found.append(_ranked(view, ids, query, top_k, doubtful))
    return found


def _live_rows(view: VectorView) -> IntArray:
    alive = np.ones(view.count, dtype=bool)
    alive[view.dead] = False
    return np.flatnonzero(alive)


def _float32_may_fail(view: VectorView, query: Float32Array) -> bool:
    if view.extreme:
        return True
    # Under cosine the query is brought to length one first.
    return view.metric != "cosine" and _norm(query) > LARGE_NORM


def _norm(query: Float32Array) -> float:
    return math.sqrt(float(np.einsum("i,i->", query, query, dtype=np.float64)))


def _scaled(view: VectorView, query: Float32Array) -> tuple[Float32Array, float]:
    """Return the query of the float32 pass, and how far apart two of its scores must lie to be told apart for sure.

    A dot product of d terms, summed in any order, is off by at most d * u * |x| * |q| (Higham, Accuracy and Stability
    of Numerical Algorithms, 3.1); 8 more roundings cover the factors, the query's own and the threshold's.
    """
    error = (view.matrix.shape[1] + 8) * 1.01 * _UNIT_ROUNDOFF
    norm, largest = _norm(query), view.largest_norm
    if view.metric == "cosine":
        unit = (query / norm).astype(np.float32) if norm else query
        return unit, 2 * error
    if view.metric == "l2":
        return query, 2 * error * (largest * norm + largest * largest) + 1e-36
    return query, 2 * error * largest * norm + 1e-36


def _scores(view: VectorView, query: npt.NDArray[Any], rows: IntArray | None) -> npt.NDArray[np.float32]:
    """Return float32 scores that order as the metric does; shape (rows,), or (m, rows) for m queries."""
    matrix, factors, count = view.matrix, view.factors, view.count
    if rows is None:
        scores = _product(query, matrix[:count])
        _apply(view.metric, scores, factors[:count])
        scores[..., view.dead] = -np.inf
        return scores
    if len(rows) >= _GATHERED_SHARE * count:
        scores = _product(query, matrix[:count]).take(rows, axis=-1)
    else:
        scores = np.empty((*query.shape[:-1], len(rows)), dtype=np.float32)
        for first in range(0, len(rows), _BLOCK):
            block = matrix.take(rows[first : first + _BLOCK], axis=0, mode="clip")
            scores[..., first : first + _BLOCK] = _product(query, block)
    _apply(view.metric, scores, factors.take(rows))
    return scores


def _product(query: npt.NDArray[Any], vectors: Float32Array) -> npt.NDArray[np.float32]:
    product: npt.NDArray[np.float32] = vectors @ query if query.ndim == 1 else query @ vectors.T
    return product


def _apply(metric: str, scores: npt.NDArray[np.float32], factors: Float32Array) -> None:
    if metric == "cosine":
        scores *= factors
    elif metric == "l2":
        # x.q - |x|^2 / 2 orders as -|x - q| does.
        scores -= factors


def _in_doubt(scores: npt.NDArray[np.float32], wanted: int, margin: float, rows: IntArray | None) -> IntArray:
    """Return the rows that may be among the `wanted` best once they are scored exactly."""
    count = len(scores)
    reach = min(count, wanted + _SPARE)
    top = np.argpartition(scores, count - reach)[count - reach :]
    best = scores[top]
    threshold = float(np.partition(best, reach - wanted)[reach - wanted]) - margin
    if reach < count and float(best.min()) >= threshold:
        # Many are as good as equal: all of them have to be looked at.
        top = np.flatnonzero(scores >= threshold)
    else:
        top = top[best >= threshold]
    return top if rows is None else rows[top]


def _ranked(
    view: VectorView, ids: Sequence[str], query: Float32Array, top_k: int, rows: IntArray
) -> list[tuple[float, int]]:
    scores = _exact(view, query, rows)
    if len(rows) > 4 * top_k + _DIRECT:
        kept = scores >= np.partition(scores, len(scores) - top_k)[len(scores) - top_k]
        rows, scores = rows[kept], scores[kept]
    ranked = sorted(zip((-scores).tolist(), [ids[row] for row in rows.tolist()], rows.tolist(), strict=False))
    return [(0.0 - negated, row) for negated, _, row in ranked[:top_k]]


def _exact(view: VectorView, query: Float32Array, rows: IntArray) -> Float64Array:
    wide = query.astype(np.float64)
    if len(rows) <= _EXACT_BLOCK:
        return exact_scores(view.metric, view.matrix[rows], wide)
    blocks = (rows[first : first + _EXACT_BLOCK] for first in range(0, len(rows), _EXACT_BLOCK))
    return np.concatenate([exact_scores(view.metric, view.matrix[block], wide) for block in blocks])

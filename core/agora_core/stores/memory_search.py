"""Exact nearest rows: a float32 pass over the matrix, and a float64 pass over those that rounding leaves in doubt."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agora_core.similarity import Float64Array, exact_scores
from agora_core.stores.memory_rows import LARGE_NORM, IntArray, TableView
from agora_core.validation import Float32Array

# 256 rows of 384 float32 stay in the second-level cache while they are multiplied.
_BLOCK: Final = 256
# Share of the rows above which one product over the whole matrix is cheaper than gathering them.
_GATHERED_SHARE: Final = 0.27
# So few rows are scored exactly at once.
_DIRECT: Final = 16
_SPARE: Final = 16
_EXACT_BLOCK: Final = 1024
_UNIT_ROUNDOFF: Final = 2.0**-24
_MANY_BYTES: Final = 64 * 2**20

Ranked = list[tuple[float, int]]
"""`(score, row)`, best first and equal scores by id."""


def nearest(view: TableView, query: Float32Array, top_k: int, rows: IntArray | None) -> Ranked:
    """Return the `top_k` best rows; `rows` None stands for all that are not dead."""
    live = view.count - len(view.dead) if rows is None else len(rows)
    if not live:
        return []
    norm = _norm(query)
    if rows is not None and live <= _DIRECT:
        return _ranked(view, query, top_k, rows)
    if _float32_may_fail(view, norm):
        return _ranked(view, query, top_k, _live_rows(view) if rows is None else rows)
    scores = _scores(view, _unit(view, query, norm), rows)
    return _ranked(view, query, top_k, _in_doubt(scores, min(top_k, live), _margin(view, norm), rows))


def nearest_many(view: TableView, queries: Float32Array, top_k: int, rows: IntArray | None) -> list[Ranked]:
    """Return what `nearest` returns for each of `queries`, shape (m, dimension), with one product for many."""
    live = view.count - len(view.dead) if rows is None else len(rows)
    norms = [_norm(query) for query in queries]
    if live <= _DIRECT or any(_float32_may_fail(view, norm) for norm in norms):
        return [nearest(view, query, top_k, rows) for query in queries]
    units = np.stack([_unit(view, query, norm) for query, norm in zip(queries, norms, strict=True)])
    found: list[Ranked] = []
    step = max(1, _MANY_BYTES // (4 * view.count))
    for first in range(0, len(queries), step):
        for at, scores in enumerate(_scores(view, units[first : first + step], rows), first):
            doubtful = _in_doubt(scores, min(top_k, live), _margin(view, norms[at]), rows)
            found.append(_ranked(view, queries[at], top_k, doubtful))
    return found


def _live_rows(view: TableView) -> IntArray:
    alive = np.ones(view.count, dtype=bool)
    alive[view.dead] = False
    return np.flatnonzero(alive)


def _norm(query: Float32Array) -> float:
    wide = query.astype(np.float64)
    return math.sqrt(float(np.dot(wide, wide)))


def _float32_may_fail(view: TableView, norm: float) -> bool:
    # Under cosine the query is brought to length one, which takes a norm that float32 holds.
    smallest = 1.0 / LARGE_NORM if view.metric == "cosine" else 0.0
    return view.extreme or norm > LARGE_NORM or 0.0 < norm < smallest


def _unit(view: TableView, query: Float32Array, norm: float) -> Float32Array:
    """Return the query of the float32 pass."""
    return query / np.float32(norm) if view.metric == "cosine" and norm else query


def _margin(view: TableView, norm: float) -> float:
    """Return how far apart two scores of the float32 pass must lie to be told apart for sure.

    A dot product of d terms, summed in any order, is off by at most d * u * |x| * |q| (Higham, Accuracy and Stability
    of Numerical Algorithms, 3.1). 8 more roundings cover the factors and the threshold's; another d the query's norm.
    """
    dimension: int = view.matrix.shape[1]
    largest = view.largest_norm
    if view.metric == "cosine":
        return 2 * (2 * dimension + 8) * 1.01 * _UNIT_ROUNDOFF
    error = 2 * (dimension + 8) * 1.01 * _UNIT_ROUNDOFF
    if view.metric == "l2":
        return error * (largest * norm + largest * largest) * 1.01 + 1e-36
    return error * largest * norm * 1.01 + 1e-36


def _scores(view: TableView, query: npt.NDArray[Any], rows: IntArray | None) -> npt.NDArray[np.float32]:
    """Return float32 scores that order as the metric does; shape (rows,), or (m, rows) for m queries."""
    matrix, count = view.matrix, view.count
    if rows is None:
        scores = _product(query, matrix[:count])
        _apply(view.metric, scores, view.factors[:count])
        if len(view.dead):
            scores[..., view.dead] = -np.inf
        return scores
    if len(rows) >= _GATHERED_SHARE * count:
        scores = _product(query, matrix[:count]).take(rows, axis=-1)
    elif len(rows) <= _BLOCK:
        scores = _product(query, matrix.take(rows, axis=0, mode="clip"))
    else:
        scores = np.empty((*query.shape[:-1], len(rows)), dtype=np.float32)
        for first in range(0, len(rows), _BLOCK):
            block = matrix.take(rows[first : first + _BLOCK], axis=0, mode="clip")
            scores[..., first : first + _BLOCK] = _product(query, block)
    _apply(view.metric, scores, view.factors.take(rows))
    return scores


def _product(query: npt.NDArray[Any], vectors: Float32Array) -> npt.NDArray[np.float32]:
    product: npt.NDArray[np.float32] = np.dot(vectors, query) if query.ndim == 1 else query @ vectors.T
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
    ranks = np.argsort(best)
    threshold = float(best[ranks[reach - wanted]]) - margin
    if reach < count and float(best[ranks[0]]) >= threshold:
        # Many are as good as equal: all of them have to be looked at.
        top = np.flatnonzero(scores >= threshold)
    else:
        top = top[ranks[int(best[ranks].searchsorted(np.float32(threshold))) :]]
    return top if rows is None else rows[top]


def _ranked(view: TableView, query: Float32Array, top_k: int, rows: IntArray) -> Ranked:
    scores = _exact(view, query, rows)
    if len(rows) > 2 * top_k + _SPARE:
        kept = scores >= np.partition(scores, len(scores) - top_k)[len(scores) - top_k]
        rows, scores = rows[kept], scores[kept]
    ids, chosen = view.ids, rows.tolist()
    ranked = sorted(zip((-scores).tolist(), [ids[row] for row in chosen], chosen, strict=True))
    return [(0.0 - negated, row) for negated, _, row in ranked[:top_k]]


def _exact(view: TableView, query: Float32Array, rows: IntArray) -> Float64Array:
    if len(rows) <= _EXACT_BLOCK:
        return exact_scores(view.metric, view.matrix[rows], query, norms=view.norms[rows])
    blocks = (rows[first : first + _EXACT_BLOCK] for first in range(0, len(rows), _EXACT_BLOCK))
    return np.concatenate([_exact(view, query, block) for block in blocks])

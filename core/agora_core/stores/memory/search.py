"""Exact nearest rows: an int8 pass where there are codes, a float32 pass, and a float64 pass over what is in doubt."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agora_core.similarity import METRICS, Float64Array, exact_norm
from agora_core.stores.memory.codes import CodesView, candidates, kth_largest
from agora_core.stores.memory.rows import LARGE_NORM, SMALL_NORM, IntArray, TableView
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
# An int8 pass pays from so many rows on, where so few are wanted, and where it leaves so few.
_CODED_FROM: Final = 512
_CODED_SHARE: Final = 0.05
_NARROWED_SHARE: Final = 0.2
# From so many scores on, a threshold and one pass are quicker than `argpartition`.
_SEARCHED_FROM: Final = 4096
_MANY_BYTES: Final = 64 * 2**20

Ranked = list[tuple[float, int]]
"""`(score, row)`, best first and equal scores by id."""


class Query:
    """One embedding, ready for both passes."""

    __slots__ = ("narrow", "norm", "wide")

    def __init__(self, vector: Float32Array) -> None:
        self.narrow = vector
        self.wide = vector.astype(np.float64)
        self.norm = exact_norm(self.wide)


def nearest(view: TableView, query: Query, top_k: int, rows: IntArray | None) -> Ranked:
    """Return the `top_k` best rows; `rows` None stands for all that are not dead.

    Of a view with an `origin` the rows are its own on the way in, and those of the table on the way out.
    """
    live = view.count - len(view.dead) if rows is None else len(rows)
    if not live:
        return []
    if rows is not None and live <= _DIRECT:
        return _ranked(view, query, top_k, rows)
    if _float32_may_fail(view, query):
        return _ranked(view, query, top_k, view.live_rows() if rows is None else rows)
    wanted = min(top_k, live)
    if view.codes is not None and _codes_pay(live, wanted):
        (possible,) = _possible(view, view.codes, [query], wanted, rows)
        if len(possible) <= _NARROWED_SHARE * live:
            rows = possible
    return _settled(view, query, top_k, wanted, rows)


def nearest_many(view: TableView, queries: Sequence[Query], top_k: int, rows: IntArray | None) -> list[Ranked]:
    """Return what `nearest` returns for each of `queries`, with one product for many."""
    live = view.count - len(view.dead) if rows is None else len(rows)
    if live <= _DIRECT or any(_float32_may_fail(view, query) for query in queries):
        return [nearest(view, query, top_k, rows) for query in queries]
    wanted = min(top_k, live)
    found: list[Ranked] = []
    step = max(1, _MANY_BYTES // (4 * view.count))
    if view.codes is not None and _codes_pay(live, wanted):
        for first in range(0, len(queries), step):
            some = queries[first : first + step]
            for query, possible in zip(some, _possible(view, view.codes, some, wanted, rows), strict=True):
                chosen = possible if len(possible) <= _NARROWED_SHARE * live else rows
                found.append(_settled(view, query, top_k, wanted, chosen))
        return found
    for first in range(0, len(queries), step):
        some = queries[first : first + step]
        narrowed = [_narrowed(view, query) for query in some]
        table = _scores(view, np.stack([vector for vector, _ in narrowed]), rows)
        for query, (_, norm), scores in zip(some, narrowed, table, strict=True):
            found.append(_ranked(view, query, top_k, _in_doubt(scores, wanted, _margin(view, norm), rows)))
    return found


def _settled(view: TableView, query: Query, top_k: int, wanted: int, rows: IntArray | None) -> Ranked:
    """Rank by a float32 pass and an exact one, where there are so many rows that the former pays."""
    if rows is None or len(rows) > max(_DIRECT, 2 * wanted):
        narrow, norm = _narrowed(view, query)
        rows = _in_doubt(_scores(view, narrow, rows), wanted, _margin(view, norm), rows)
    return _ranked(view, query, top_k, rows)


def _codes_pay(live: int, wanted: int) -> bool:
    return live >= _CODED_FROM and wanted <= _CODED_SHARE * live


def _possible(
    view: TableView, codes: CodesView, queries: Sequence[Query], wanted: int, rows: IntArray | None
) -> list[IntArray]:
    """Return for each query the rows that an int8 pass cannot exclude from the `wanted` best."""
    narrowed = [_narrowed(view, query) for query in queries]
    return candidates(
        codes,
        np.stack([vector for vector, _ in narrowed]),
        [norm for _, norm in narrowed],
        [_margin(view, norm) for _, norm in narrowed],
        wanted=wanted,
        count=view.count,
        dead=view.dead,
        rows=rows,
        offsets=view.factors if view.metric == "l2" else None,
        largest_norm=_largest_norm(view),
    )


def _float32_may_fail(view: TableView, query: Query) -> bool:
    # Under cosine the query is brought to length one, which takes a norm that float32 holds.
    if view.extreme or view.metric == "inner":
        return view.extreme
    return query.norm > LARGE_NORM or (view.metric == "cosine" and 0.0 < query.norm < SMALL_NORM)


def _narrowed(view: TableView, query: Query) -> tuple[Float32Array, float]:
    """Return the query of the float32 and the int8 pass, and a bound on its norm."""
    if view.metric == "cosine" and query.norm:
        # Of length one but for rounding.
        return query.narrow * np.float32(1.0 / query.norm), 1.0 + 1e-6
    if view.metric == "inner" and query.norm:
        # A power of two changes no order and rounds nothing; so tiny and huge queries are scored like others.
        exponent = -math.frexp(query.norm)[1]
        return np.ldexp(query.wide, exponent).astype(np.float32), math.ldexp(query.norm, exponent)
    return query.narrow, query.norm


def _largest_norm(view: TableView) -> float:
    """Return a bound on the norms of the rows, as the metric scales them."""
    return 1.0 + 1e-6 if view.metric == "cosine" else view.largest_norm


def _margin(view: TableView, norm: float) -> float:
    """Return how far apart two scores of an approximate pass must lie to be told apart for sure; `norm` is the query's.

    A dot product of d terms, summed in any order, is off by at most d * u * |x| * |q| (Higham, Accuracy and Stability
    of Numerical Algorithms, 3.1). 8 more roundings cover the factors, the query's scaling and the threshold's. Where
    float32 holds a product only in part, or not at all, 2**-126 is lost of it.

    The order that counts is that of the float64 scores. Under l2 those are coarser than what is compared here where the
    query is far away: |x - q| is off by 1e-13 of itself (see `similarity`) and some roundings, and half its square by
    as many of |x - q| ** 2.
    """
    dimension: int = view.matrix.shape[1]
    largest = _largest_norm(view)
    roundings = 2 * (dimension + 8) * 1.01
    lost = roundings * (_UNIT_ROUNDOFF * largest * norm + 2.0**-126)
    if view.metric == "l2":
        wide = 3e-13 + roundings * 2.0**-52
        return lost + roundings * _UNIT_ROUNDOFF * largest * largest + wide * (largest + norm) ** 2
    return lost


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
    if count > _SEARCHED_FROM:
        top = np.flatnonzero(scores >= np.float32(kth_largest(scores, wanted) - margin))
        if len(top) <= _NARROWED_SHARE * count:
            return top if rows is None else rows[top]
    reach = min(count, wanted + _SPARE)
    top = scores.argpartition(count - reach)[count - reach :]
    best = scores[top]
    ranked = np.sort(best)
    threshold = np.float32(float(ranked[reach - wanted]) - margin)
    if reach < count and ranked[0] >= threshold:
        # Many are as good as equal: all of them have to be looked at.
        top = np.flatnonzero(scores >= threshold)
    else:
        top = top[best >= threshold]
    return top if rows is None else rows[top]


def _ranked(view: TableView, query: Query, top_k: int, rows: IntArray) -> Ranked:
    scores = _exact(view, query, rows)
    if len(rows) > 2 * top_k + _SPARE:
        kept = scores >= np.partition(scores, len(scores) - top_k)[len(scores) - top_k]
        rows, scores = rows[kept], scores[kept]
    ids, chosen = view.ids, (rows if view.origin is None else view.origin[rows]).tolist()
    # Negated, so that one ascending order serves scores and ids.
    ranked = sorted([(-score, ids[row], row) for score, row in zip(scores.tolist(), chosen, strict=True)])
    return [(0.0 - negated, row) for negated, _, row in ranked[:top_k]]


def _exact(view: TableView, query: Query, rows: IntArray) -> Float64Array:
    if len(rows) > _EXACT_BLOCK:
        blocks = (rows[first : first + _EXACT_BLOCK] for first in range(0, len(rows), _EXACT_BLOCK))
        return np.concatenate([_exact(view, query, block) for block in blocks])
    vectors = view.matrix.take(rows, axis=0, mode="clip").astype(np.float64)
    return METRICS[view.metric].score(vectors, view.norms[rows], query.wide, query.norm)

"""An int8 copy of the vectors, for a first pass that reads a quarter of the bytes and still loses no row.

A row x is kept as `scale * codes` with the exact length `error` of what that leaves out, and a query q likewise. Then

    |x.q - scale_x * scale_q * (codes_x . codes_q)|  <=  error_x * |q| + (|x| + error_x) * error_q

by the triangle and Cauchy-Schwarz inequalities. So every row has a lower and an upper bound, and a row whose upper
bound lies below the k-th best lower bound is none of the k best. The rest, some tens or hundreds, are scored exactly.

The product of int8 vectors is that of the package `simsimd` (extra `simd`): numpy has no quick one.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agora_core.errors import InvalidArgumentError, MissingExtraError
from agora_core.extras import require
from agora_core.validation import Float32Array

Int8Array = npt.NDArray[np.int8]

QUANTIZATIONS: Final = ("auto", "none", "int8")

# 2,048 rows of 384 int8 stay in the second-level cache while several queries pass over them.
_BLOCK: Final = 2048
# Share of the rows above which one product over all of them is cheaper than gathering.
_GATHERED_SHARE: Final = 0.4
_LEVELS: Final = 127
_SMALLEST_SCALE: Final = np.float32(1e-30)
# What float32 arithmetic may add to a residual, relative to the largest number of its vector.
_RESIDUAL_ROUNDING: Final = 1e-6
# Lower bounds are compared by the maxima of groups of this many rows, where there are groups enough.
_GROUP: Final = 64
_REFINED_FROM: Final = 64


@dataclass(frozen=True, slots=True)
class CodesView:
    """The codes of all rows, scaled as the metric needs them; see `RowTable.view` for what holds of the arrays."""

    codes: Int8Array
    """Shape (capacity, dimension)."""
    scales: Float32Array
    """Shape (capacity,); under cosine divided by the norm of the row."""
    errors: Float32Array
    """Shape (capacity,); under cosine divided by the norm of the row."""
    largest_error: float
    """A bound on all of them."""


def wants_codes(quantization: Any) -> bool:
    """Say whether a store of this option keeps codes.

    Raises:
        InvalidArgumentError: the option is unknown.
        MissingExtraError: `int8` was asked for and `simsimd` is not installed.
    """
    if quantization not in QUANTIZATIONS:
        raise InvalidArgumentError(
            f"quantization must be one of {', '.join(map(repr, QUANTIZATIONS))}, got {quantization!r}"
        )
    if quantization == "none":
        return False
    try:
        _simsimd()
    except MissingExtraError:
        if quantization == "int8":
            raise
        return False
    return True


@functools.lru_cache(maxsize=1)
def _simsimd() -> Any:
    return require("simsimd", extra="simd")


def encode(vectors: Float32Array) -> tuple[Int8Array, Float32Array, Float32Array]:
    """Return codes, scales and errors of `vectors`, shape (n, d), of any size.

    What is left out is measured in units of the scale, so that no square of it leaves what float32 holds.
    """
    dimension = vectors.shape[1]
    peaks = np.maximum(vectors.max(axis=1), -vectors.min(axis=1))
    scales = peaks * np.float32(1.0 / _LEVELS)
    small = scales < _SMALLEST_SCALE
    scales[small] = 1.0
    # At most 127 and a rounding, so no code leaves its range.
    residuals = vectors * (np.float32(1.0) / scales)[:, None]
    rounded = np.rint(residuals)
    codes = rounded.astype(np.int8)
    residuals -= rounded
    lengths = np.sqrt(np.vecdot(residuals, residuals)) * np.float32(1.0 + 1e-4 + dimension * 2.0**-24)
    errors = scales * (lengths + np.float32(dimension**0.5 * _LEVELS * _RESIDUAL_ROUNDING))
    # A scale that float32 holds only in part is not divided by: the codes are 0, and the error is all there is.
    errors[small] = peaks[small] * np.float32(dimension**0.5 * 1.001) + np.float32(1e-37)
    return codes, scales, errors


def candidates(
    view: CodesView,
    queries: Float32Array,
    norms: Sequence[float],
    margins: Sequence[float],
    *,
    wanted: int,
    count: int,
    dead: npt.NDArray[np.int32],
    rows: npt.NDArray[np.intp] | None,
    offsets: Float32Array | None,
    largest_norm: float,
) -> list[npt.NDArray[np.intp]]:
    """Return for each query the rows that may be among its `wanted` best.

    Args:
        view: the codes.
        queries: shape (m, d), as they are multiplied.
        norms: their norms.
        margins: how far apart two scores of one query must lie for float32 and float64 arithmetic to tell them apart.
        wanted: how many are looked for; not more than there are rows.
        count: the number of rows of the table.
        dead: rows to leave out, where `rows` is None.
        rows: the rows to look at, None for all.
        offsets: what is subtracted from a row's product, shape (capacity,); None for nothing.
        largest_norm: a bound on the norms of the rows, as the codes are scaled.
    """
    query_codes, query_scales, query_errors = encode(queries)
    table = _products(view.codes, query_codes, count, rows)
    scales = view.scales[:count] if rows is None else view.scales.take(rows)
    subtracted = None
    if offsets is not None:
        subtracted = offsets[:count] if rows is None else offsets.take(rows)
    found = []
    sizes = zip(norms, margins, query_scales.tolist(), query_errors.tolist(), strict=True)
    for scores, (norm, margin, scale, error) in zip(table, sizes, strict=True):
        # In units of the query's scale, which spares a pass.
        scores *= scales
        if subtracted is not None:
            scores *= scale
            scores -= subtracted
        unit = scale if subtracted is None else 1.0
        if rows is None and len(dead):
            scores[dead] = -np.inf
        shared = largest_norm * error + margin
        kth = kth_largest(scores, wanted)
        # A first cut by the widest bound of all, and where that leaves many, a second by the bounds of the rows.
        kept = np.flatnonzero(scores >= kth - 2 * (view.largest_error * (norm + error) + shared) / unit)
        if len(kept) > _REFINED_FROM + 4 * wanted:
            places = kept if rows is None else rows[kept]
            kept = kept[_within(scores[kept], view.errors[places] * ((norm + error) / unit), wanted, shared / unit)]
        found.append(kept if rows is None else rows[kept])
    return found


def _within(
    scores: npt.NDArray[np.float32], widths: npt.NDArray[Any], wanted: int, shared: float
) -> npt.NDArray[np.bool_]:
    """Say which rows may be among the best by the bounds of their own, `scores` plus or minus `widths` and `shared`."""
    within: npt.NDArray[np.bool_] = scores + widths >= kth_largest(scores - widths, wanted) - 2 * shared
    return within


def _products(
    codes: Int8Array, queries: Int8Array, count: int, rows: npt.NDArray[np.intp] | None
) -> npt.NDArray[np.float32]:
    """Return the products of the queries with the rows, shape (m, rows)."""
    if rows is not None and len(rows) >= _GATHERED_SHARE * count:
        return _products(codes, queries, count, None).take(rows, axis=1)
    if rows is None and len(queries) == 1:
        return _dot(queries, codes[:count])
    size = count if rows is None else len(rows)
    if rows is not None and size <= _BLOCK:
        return _dot(queries, codes.take(rows, axis=0, mode="clip"))
    table = np.empty((len(queries), size), dtype=np.float32)
    for first in range(0, size, _BLOCK):
        last = min(first + _BLOCK, size)
        block = codes[first:last] if rows is None else codes.take(rows[first:last], axis=0, mode="clip")
        table[:, first:last] = _dot(queries, block)
    return table


def _dot(queries: Int8Array, codes: Int8Array) -> npt.NDArray[np.float32]:
    # Sums of int8 products are whole numbers, exact in int32 up to 133,000 dimensions, and rounded once to float32.
    products: npt.NDArray[np.float32] = np.asarray(_simsimd().cdist(queries, codes, "dot", out_dtype="f32"))
    return products.reshape(len(queries), len(codes))


def kth_largest(values: npt.NDArray[np.float32], k: int) -> float:
    """Return a number that at least `k` of `values` reach: the k-th largest, or a little less where that is quicker."""
    groups = len(values) // _GROUP
    if groups >= 8 * k:
        # The maxima of groups are k values of the whole, if not the k largest.
        values = values[: groups * _GROUP].reshape(groups, _GROUP).max(axis=1)
    return float(np.partition(values, len(values) - k)[len(values) - k])

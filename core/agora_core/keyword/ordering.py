"""Arrays of postings: their types, and how they are put in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]
Float32Array = npt.NDArray[np.float32]
Float64Array = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


def stable_order(values: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    """Return the stable ascending order of ints from 0 up to 2**31."""
    # numpy sorts 16 bits by radix, several times as fast as it compares wider ones.
    order = (values & 0xFFFF).astype(np.uint16).argsort(kind="stable")
    if len(values) and int(values.max()) >> 16:
        high = (values >> 16).astype(np.uint16)
        order = order[high[order].argsort(kind="stable")]
    return order


def run_starts(*ordered: npt.NDArray[Any]) -> Int64Array:
    """Return where each run of equal values begins; of several columns, where any of them changes."""
    if not len(ordered[0]):
        return np.zeros(0, np.int64)
    changes = ordered[0][1:] != ordered[0][:-1]
    for column in ordered[1:]:
        changes |= column[1:] != column[:-1]
    return np.concatenate((np.zeros(1, np.int64), changes.nonzero()[0] + 1))

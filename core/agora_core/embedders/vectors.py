"""The shape in which embedders answer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float32]
"""One embedding: float32, shape (dimension,)."""


def to_unit_rows(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Divide each row of a (n, d) matrix by its length, in place; a zero row stays zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))
    lengths[lengths == 0.0] = 1.0
    matrix /= lengths[:, None]
    return matrix

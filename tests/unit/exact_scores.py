"""Scores by the metric table alone, as the exact pass of a store computes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from agora_core.similarity import METRICS, Float64Array, exact_norm, exact_norms


def exact_scores(metric: str, vectors: Any, query: Any) -> Float64Array:
    """Return the scores of float32 `vectors`, shape (n, d), against `query`, shape (d,); shape (n,)."""
    wide, target = vectors.astype(np.float64), query.astype(np.float64)
    return METRICS[metric].score(wide, exact_norms(wide), target, exact_norm(target))

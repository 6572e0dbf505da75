"""Vectors that local mode leaves as they are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core.stores.qdrant.local_mode import settled
from agora_core.stores.qdrant.requests import unit_vectors
from agora_core.validation import Float32Array


def rescaled(rows: Float32Array) -> Float32Array:
    """What a search in local mode does to the stored vectors."""
    lengths = np.linalg.norm(rows, axis=-1)[:, np.newaxis]
    scaled: Float32Array = rows / np.where(lengths != 0, lengths, np.float32(1.1920929e-7))
    return scaled


@given(st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=6))
def test_small_whole_vectors_settle(rows: list[list[int]]) -> None:
    units = unit_vectors(np.array(rows, dtype=np.float32))
    still = settled(units)
    assert np.array_equal(rescaled(still), still)
    assert np.abs(still - units).max() <= 1e-6
    assert np.array_equal(settled(still), still)


@pytest.mark.parametrize("dimension", [1, 2, 7, 64, 384, 1536])
def test_random_vectors_settle(dimension: int) -> None:
    rng = np.random.default_rng(dimension)
    for rows in (rng.normal(size=(60, dimension)), rng.integers(-2, 3, (60, dimension))):
        still = settled(unit_vectors(rows.astype(np.float32)))
        assert np.array_equal(rescaled(still), still)


def test_zero_rows_stay_zero() -> None:
    assert not settled(np.zeros((2, 3), dtype=np.float32)).any()

"""The short forms of `python -m tests.faults.kill` and of `make soak`; the long ones are run by hand."""

from __future__ import annotations

import pytest

from tests.faults.kill import run
from tests.faults.soak import soak
from tests.faults.stores import KINDS, Place


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_client_leaves_whole_documents(kind: str) -> None:
    cut = run(kind, 2, seed=11)
    assert sum(cut.values()) - cut["files left"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "seconds"), [("memory", 1), ("qdrant", 1), ("postgres", 2), ("engine", 3)])
def test_many_callers_and_trouble_lose_nothing(kind: str, seconds: int) -> None:
    place = Place(kind)
    try:
        counts = soak(place, seconds, seed=11)
    finally:
        place.remove()
    assert counts["done"] > 0
    assert counts["cut"] + counts["refused"] > 0

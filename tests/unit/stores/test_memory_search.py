"""The float32 pass never loses a row that belongs to the answer, whatever the numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora_core import MemoryVectorStore, VectorRecord, field
from agora_core.similarity import exact_scores

SHAPES = ["gauss", "far from the origin", "nearly equal", "few values", "wide range", "huge", "tiny", "some zero"]


def vectors_of(shape: str, rng: np.random.Generator, count: int, dimension: int) -> Any:
    made = rng.standard_normal((count, dimension))
    if shape == "far from the origin":
        made = made + 1000
    elif shape == "nearly equal":
        made = rng.standard_normal(dimension) + 1e-6 * made
    elif shape == "few values":
        made = np.sign(made)
    elif shape == "wide range":
        made = made * 10.0 ** rng.integers(-12, 12, (count, 1))
    elif shape == "huge":
        made = made * 10.0 ** rng.integers(-30, 37, (count, 1))
    elif shape == "tiny":
        made = made * 10.0 ** rng.integers(-44, -20, (count, 1))
    elif shape == "some zero":
        made[rng.random(count) < 0.3] = 0
    return made.astype(np.float32)


def expected(metric: str, ids: list[str], vectors: Any, query: Any, top_k: int) -> list[tuple[str, float]]:
    scores = exact_scores(metric, vectors, query).tolist()
    return sorted(zip(ids, scores, strict=True), key=lambda pair: (-pair[1], pair[0]))[:top_k]


@settings(max_examples=150)
@given(
    metric=st.sampled_from(["cosine", "l2", "inner"]),
    shape=st.sampled_from(SHAPES),
    query_shape=st.sampled_from([*SHAPES, "a row"]),
    seed=st.integers(0, 2**32),
    count=st.integers(1, 600),
    dimension=st.sampled_from([1, 2, 3, 17, 64]),
    top_k=st.sampled_from([1, 3, 10, 100, 1000]),
)
def test_exact_whatever_the_numbers(
    metric: str, shape: str, query_shape: str, seed: int, count: int, dimension: int, top_k: int
) -> None:
    rng = np.random.default_rng(seed)
    vectors = vectors_of(shape, rng, count, dimension)
    query = vectors[rng.integers(count)] if query_shape == "a row" else vectors_of(query_shape, rng, 1, dimension)[0]
    ids = [str(n) for n in rng.permutation(count)]
    shares = rng.random(count)
    store = MemoryVectorStore(metric=metric)
    store.upsert(
        VectorRecord(id, "", vector, None, {"share": float(share)})
        for id, vector, share in zip(ids, vectors, shares, strict=True)
    )
    found = store.search(query, top_k=top_k)
    assert [(p.id, p.score) for p in found] == expected(metric, ids, vectors, query, top_k)
    assert store.search_many([query, query], top_k=top_k) == [found, found]
    for share in (0.02, 0.2, 0.6):
        chosen = shares < share
        some = [id for id, inside in zip(ids, chosen, strict=True) if inside]
        found = store.search(query, top_k=top_k, filter=field("share") < share)
        wanted = expected(metric, some, vectors[chosen], query, top_k) if some else []
        assert [(p.id, p.score) for p in found] == wanted
        assert store.search_many([query] * 2, top_k=top_k, filter=field("share") < share) == [found, found]


@pytest.mark.parametrize("metric", ["cosine", "l2", "inner"])
def test_exact_at_a_size_that_is_computed_in_blocks(metric: str) -> None:
    rng = np.random.default_rng(7)
    vectors = rng.standard_normal((6000, 48)).astype(np.float32)
    vectors[2000:2300] = vectors[1999]
    ids = [f"{n}#0" for n in rng.permutation(6000)]
    store = MemoryVectorStore(metric=metric)
    for first in range(0, 6000, 1000):
        store.upsert(
            VectorRecord(ids[n], "", vectors[n], None, {"k": n % 10, "n": n}) for n in range(first, first + 1000)
        )
    gone = set(range(0, 6000, 7))
    store.delete([ids[n] for n in gone])
    for filter, chosen in (
        (None, [n for n in range(6000) if n not in gone]),
        ({"k": [1, 2]}, [n for n in range(6000) if n not in gone and n % 10 in (1, 2)]),
        ({"k": list(range(1, 10))}, [n for n in range(6000) if n not in gone and n % 10]),
    ):
        for query in (vectors[1999], rng.standard_normal(48).astype(np.float32), np.zeros(48, dtype=np.float32)):
            for top_k in (1, 10, 350):
                found = store.search(query, top_k=top_k, filter=filter)
                wanted = expected(metric, [ids[n] for n in chosen], vectors[chosen], query, top_k)
                assert [(p.id, p.score) for p in found] == wanted

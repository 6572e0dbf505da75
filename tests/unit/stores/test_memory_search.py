"""The float32 pass never loses a row that belongs to the answer, whatever the numbers."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agora_core import InvalidArgumentError, MemoryVectorStore, MissingExtraError, VectorRecord, field
from agora_core.stores.memory import codes as memory_codes
from agora_core.stores.memory.codes import encode
from tests.unit.exact_scores import exact_scores

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


def expected(metric: Any, ids: list[str], vectors: Any, query: Any, top_k: int) -> list[tuple[str, float]]:
    scores = exact_scores(metric, vectors, query).tolist()
    return sorted(zip(ids, scores, strict=True), key=lambda pair: (-pair[1], pair[0]))[:top_k]


@settings(max_examples=2 * settings().max_examples)
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
    metric: Any, shape: str, query_shape: str, seed: int, count: int, dimension: int, top_k: int
) -> None:
    rng = np.random.default_rng(seed)
    vectors = vectors_of(shape, rng, count, dimension)
    query = vectors[rng.integers(count)] if query_shape == "a row" else vectors_of(query_shape, rng, 1, dimension)[0]
    ids = [str(n) for n in rng.permutation(count)]
    shares = rng.random(count)
    store = MemoryVectorStore(metric=metric, quantization="none")
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


@settings(max_examples=settings().max_examples // 2)
@given(
    metric=st.sampled_from(["cosine", "l2", "inner"]),
    shape=st.sampled_from(SHAPES),
    query_shape=st.sampled_from([*SHAPES, "a row"]),
    seed=st.integers(0, 2**32),
    count=st.sampled_from([520, 700, 2000]),
    dimension=st.sampled_from([1, 3, 17, 64, 130]),
    top_k=st.sampled_from([1, 10, 20]),
)
def test_the_int8_pass_excludes_no_row_of_the_answer(
    metric: Any, shape: str, query_shape: str, seed: int, count: int, dimension: int, top_k: int
) -> None:
    pytest.importorskip("simsimd")
    rng = np.random.default_rng(seed)
    vectors = vectors_of(shape, rng, count, dimension)
    queries = [
        vectors[rng.integers(count)] if query_shape == "a row" else vectors_of(query_shape, rng, 1, dimension)[0]
    ]
    queries += list(vectors_of("gauss", rng, 2, dimension))
    plain = MemoryVectorStore(metric=metric, quantization="none")
    coded = MemoryVectorStore(metric=metric, quantization="int8")
    records = [VectorRecord(str(n), "", vector, None, {"n": n % 100}) for n, vector in enumerate(vectors)]
    for store in (plain, coded):
        store.upsert(records)
        if seed % 2:
            store.delete([str(n) for n in range(0, count, 9 if seed % 3 else 3)])
    for filter in (None, field("n") < 97, field("n") < 30, field("n") < 12):
        for query in queries:
            found = coded.search(query, top_k=top_k, filter=filter)
            assert found == plain.search(query, top_k=top_k, filter=filter)
        many = coded.search_many(queries, top_k=top_k, filter=filter)
        assert many == plain.search_many(queries, top_k=top_k, filter=filter)


@given(
    metric=st.sampled_from(["cosine", "l2", "inner"]),
    row_scale=st.integers(-38, 37),
    query_scale=st.integers(-45, 37),
    spread=st.sampled_from([0.0, 1e-12, 1e-6, 1.0]),
    seed=st.integers(0, 2**32),
    dimension=st.sampled_from([1, 3, 17, 130]),
    coded=st.booleans(),
)
def test_exact_at_every_scale_of_rows_and_query(
    metric: Any, row_scale: int, query_scale: int, spread: float, seed: int, dimension: int, coded: bool
) -> None:
    """The kind: an error bound that is right at a length of one, and wrong where squares underflow or where the
    float64 scores of rows that differ are equal, so that their ids decide."""
    if coded:
        pytest.importorskip("simsimd")
    rng = np.random.default_rng(seed)
    count = 520
    made = rng.standard_normal(dimension) + spread * rng.standard_normal((count, dimension))
    with np.errstate(over="ignore"):
        vectors = np.nan_to_num((made * 10.0**row_scale).astype(np.float32))
        query = np.nan_to_num((rng.standard_normal(dimension) * 10.0**query_scale).astype(np.float32))
    ids = [str(n) for n in rng.permutation(count)]
    store = MemoryVectorStore(metric=metric, quantization="int8" if coded else "none")
    store.upsert(VectorRecord(id, "", vector) for id, vector in zip(ids, vectors, strict=True))
    wanted = expected(metric, ids, vectors, query, 10)
    assert [(p.id, p.score) for p in store.search(query, top_k=10)] == wanted
    other = rng.standard_normal(dimension).astype(np.float32)
    many = store.search_many([query, other], top_k=10)
    assert [[(p.id, p.score) for p in found] for found in many] == [wanted, expected(metric, ids, vectors, other, 10)]


@pytest.mark.parametrize("size", [1e-45, 1e-40, 1e-30, 1e-27, 1e-22, 1e-17, 1.0, 1e17, 1e30])
@pytest.mark.parametrize("metric", ["cosine", "l2", "inner"])
def test_a_query_of_any_size_is_answered_exactly_by_codes(metric: Any, size: float) -> None:
    pytest.importorskip("simsimd")
    rng = np.random.default_rng(4)
    for scale in (1e-17, 1e-9, 1.0, 1e9, 1e17):
        made = rng.standard_normal((700, 24)) / 8
        # Signs alone are coded without an error, so that of the query is the only one.
        vectors = ((np.sign(made) if scale == 1.0 else made) * scale).astype(np.float32)
        ids = [str(n) for n in range(700)]
        store = MemoryVectorStore(metric=metric, quantization="int8")
        store.upsert(VectorRecord(id, "", vector) for id, vector in zip(ids, vectors, strict=True))
        for query in (rng.standard_normal((30 if scale == 1.0 else 5, 24)) * size).astype(np.float32):
            found = [(p.id, p.score) for p in store.search(query, top_k=35)]
            assert found == expected(metric, ids, vectors, query, 35)


@given(seed=st.integers(0, 2**32), shape=st.sampled_from(SHAPES), dimension=st.sampled_from([1, 2, 17, 384]))
def test_the_bounds_of_the_codes_hold(seed: int, shape: str, dimension: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = vectors_of(shape, rng, 50, dimension)
    codes, scales, errors = encode(vectors)
    lost = vectors.astype(np.float64) - codes.astype(np.float64) * scales.astype(np.float64)[:, None]
    assert (np.linalg.norm(lost, axis=1) <= errors).all()
    assert np.abs(codes.astype(int)).max(initial=0) <= 127


def test_codes_come_back_once_an_extreme_norm_is_gone() -> None:
    pytest.importorskip("simsimd")
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((3000, 16)).astype(np.float32)
    store = MemoryVectorStore(metric="inner", quantization="int8")
    store.upsert([VectorRecord(str(n), "", vector) for n, vector in enumerate(vectors[:1000])])
    store.upsert([VectorRecord("huge", "", [3e38] * 16)])
    store.upsert([VectorRecord(str(n), "", vectors[n]) for n in range(1000, 3000)])
    assert store.search([1.0] * 16, top_k=1)[0].id == "huge"
    store.delete(["huge"])
    store.delete([str(n) for n in range(1000)])
    ids = [str(n) for n in range(1000, 3000)]
    query = rng.standard_normal(16).astype(np.float32)
    found = store.search(query, top_k=9)
    assert [(p.id, p.score) for p in found] == expected("inner", ids, vectors[1000:], query, 9)


def test_the_quantization_is_one_of_three() -> None:
    with pytest.raises(InvalidArgumentError, match="quantization must be one of 'auto', 'none', 'int8', got 'int4'"):
        MemoryVectorStore(quantization="int4")  # type: ignore[arg-type]


def test_int8_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simsimd", None)
    memory_codes._simsimd.cache_clear()
    try:
        with pytest.raises(MissingExtraError, match=r"pip install 'agora-retrieval\[simd\]'"):
            MemoryVectorStore(quantization="int8")
        store = MemoryVectorStore()
        store.upsert([VectorRecord(str(n), "", [1.0, n]) for n in range(2000)])
        assert [p.id for p in store.search([1, 0], top_k=2)] == ["0", "1"]
    finally:
        memory_codes._simsimd.cache_clear()


@pytest.mark.parametrize("metric", ["cosine", "l2", "inner"])
def test_exact_at_a_size_that_is_computed_in_blocks(metric: Any) -> None:
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

"""The memory store, law by law. Random sequences of operations are in test_memory_model."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agora_core import (
    DimensionMismatchError,
    InvalidArgumentError,
    InvalidEmbeddingError,
    InvalidFilterError,
    InvalidMetadataError,
    MemoryVectorStore,
    ScopeViolationError,
    UnsafeRemovalError,
    VectorRecord,
    field,
)
from agora_core.stores.memory import reading as memory_reading


def record(id: str, embedding: Any = (1.0, 0.0), **rest: Any) -> VectorRecord:
    return VectorRecord(id, f"text of {id}", list(embedding), **rest)


@pytest.fixture
def store() -> MemoryVectorStore:
    made = MemoryVectorStore()
    made.upsert(
        [
            record("a#0", (1, 0), metadata={"team": ["x", "y"], "n": 1}),
            record("a#1", (0, 1), metadata={"team": ["y"], "n": 2}),
            record("b", (1, 1), source="b.md", metadata={"team": "x"}),
            record("c#0", (0, 0)),
        ]
    )
    return made


def ids(passages: list[Any]) -> list[str]:
    return [passage.id for passage in passages]


def test_an_empty_store_answers_nothing() -> None:
    store = MemoryVectorStore()
    assert store.search([1.0], top_k=3) == []
    assert store.search_many([[1.0], [2.0, 3.0]], top_k=3, filter={"k": 1}) == [[], []]
    assert (store.count(), store.get(["a"]), store.list_documents(), list(store.scan())) == (0, [], [], [])
    assert (store.delete(["a"]), store.remove("a"), store.remove_where({"k": 1})) == (0, 0, 0)
    assert store.update_metadata("a", {"k": 1}) == 0
    assert (len(store), store.dimension, store.metric) == (0, None, "cosine")
    assert bool(store)


def test_the_first_record_fixes_the_dimension_for_good(store: MemoryVectorStore) -> None:
    assert store.dimension == 2
    store.remove_where(field("team").exists())
    store.remove("c")
    assert len(store) == 0
    assert store.dimension == 2
    with pytest.raises(DimensionMismatchError, match="record 'd': embedding has 3 numbers where the store takes 2"):
        store.upsert([record("d", (1, 2, 3))])


def test_a_refused_first_write_fixes_nothing() -> None:
    store = MemoryVectorStore()
    with pytest.raises(DimensionMismatchError):
        store.upsert([record("a", (1, 2)), record("b", (1,))])
    with pytest.raises(ScopeViolationError):
        store.upsert([record("a", (1, 2))], within={"k": 1})
    store.upsert([])
    assert store.dimension is None
    assert store.upsert([record("a", (1,))]) == 1
    assert store.dimension == 1


@pytest.mark.parametrize("metric", ["l1", "", None, "COSINE"])
def test_the_metric_is_one_of_three(metric: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="metric must be one of 'cosine', 'l2', 'inner'"):
        MemoryVectorStore(metric=metric)


@pytest.mark.parametrize("dimension", [0, -1, True, 2.0, "2"])
def test_the_dimension_is_an_int_of_one_or_more(dimension: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="dimension must be"):
        MemoryVectorStore(dimension=dimension)


def test_unknown_options_are_refused(store: MemoryVectorStore) -> None:
    calls: list[Callable[..., Any]] = [
        MemoryVectorStore,
        lambda **rest: store.search([1, 0], top_k=1, **rest),
        lambda **rest: store.upsert([], **rest),
        lambda **rest: store.count(**rest),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="fitler"):
            call(fitler={})


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("cosine", [("a#0", 1.0), ("b", math.sqrt(0.5)), ("a#1", 0.0), ("c#0", 0.0)]),
        ("l2", [("a#0", 0.0), ("b", -1.0), ("c#0", -1.0), ("a#1", -math.sqrt(2))]),
        ("inner", [("a#0", 1.0), ("b", 1.0), ("a#1", 0.0), ("c#0", 0.0)]),
    ],
)
def test_scores_and_ties(metric: Any, expected: list[tuple[str, float]]) -> None:
    store = MemoryVectorStore(metric=metric)
    for one in (record("c#0", (0, 0)), record("b", (1, 1)), record("a#1", (0, 1)), record("a#0", (1, 0))):
        store.upsert([one])
    for top_k in (1, 2, 3, 4, 9):
        found = store.search([1, 0], top_k=top_k)
        assert ids(found) == [id for id, _ in expected][:top_k]
        assert [passage.score for passage in found] == pytest.approx([score for _, score in expected][:top_k])


def test_ties_at_the_cut_go_to_the_smaller_id() -> None:
    rng = np.random.default_rng(0)
    vector = rng.standard_normal(37)
    store = MemoryVectorStore()
    names = [f"{n}" for n in rng.permutation(3000)]
    store.upsert([VectorRecord(name, "", vector if n % 3 else -vector) for n, name in enumerate(names)])
    alike = sorted(name for n, name in enumerate(names) if n % 3)
    for top_k in (1, 10, 1999):
        assert ids(store.search(vector, top_k=top_k)) == alike[:top_k]
        assert ids(store.search(vector, top_k=top_k, filter=field("k") != 1)) == alike[:top_k]


@pytest.mark.parametrize("metric", ["cosine", "l2", "inner"])
def test_the_floor_is_inclusive_and_applied_before_the_cut(metric: Any) -> None:
    store = MemoryVectorStore(metric=metric)
    store.upsert([record("a", (1, 1, 1, 1)), record("b", (3, 0, 0, 0)), record("c", (-1, 0, 0, 0))])
    query = [3, 0, 0, 0]
    everything = store.search(query, top_k=9)
    for passage in everything:
        floor = float(np.float32(passage.score))
        if floor != passage.score:
            continue
        kept = store.search(query, top_k=9, min_score=floor)
        assert kept == [other for other in everything if other.score >= floor]
        assert passage in kept
        above = store.search(query, top_k=9, min_score=math.nextafter(floor, math.inf))
        assert passage not in above
    assert store.search(query, top_k=9, min_score=-math.inf) == everything
    assert store.search(query, top_k=9, min_score=math.inf) == []


def test_a_vector_passes_the_floor_of_one_against_itself() -> None:
    rng = np.random.default_rng(1)
    vectors = rng.standard_normal((200, 384)).astype(np.float32) * rng.uniform(1e-6, 1e6, (200, 1)).astype(np.float32)
    store = MemoryVectorStore()
    store.upsert([VectorRecord(str(n), "", vector) for n, vector in enumerate(vectors)])
    for n, vector in enumerate(vectors):
        (best,) = store.search(vector, top_k=1, min_score=1.0)
        assert (best.id, best.score) == (str(n), 1.0)


def test_a_zero_vector_scores_zero_and_is_never_lost(store: MemoryVectorStore) -> None:
    assert [p.score for p in store.search([0, 0], top_k=9)] == [0.0] * 4
    assert ids(store.search([0, 0], top_k=9)) == ["a#0", "a#1", "b", "c#0"]
    found = {passage.id: passage.score for passage in store.search([-1, -1], top_k=9, min_score=-1)}
    assert found["c#0"] == 0.0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s.search([1, 0], top_k=0), InvalidArgumentError, "top_k must be 1 or more, got 0"),
        (lambda s: s.search([1, 0], top_k=-2), InvalidArgumentError, "top_k must be 1 or more"),
        (lambda s: s.search([1, 0], top_k=True), InvalidArgumentError, "top_k must be an int"),
        (lambda s: s.search([1, 0], top_k=2.0), InvalidArgumentError, "top_k must be an int"),
        (lambda s: s.search([1], top_k=1), DimensionMismatchError, "embedding has 1 numbers where the store takes 2"),
        (lambda s: s.search([1, math.nan], top_k=1), InvalidEmbeddingError, "embedding holds NaN"),
        (lambda s: s.search("ab", top_k=1), InvalidEmbeddingError, "embedding must be a flat sequence"),
        (lambda s: s.search([1, 0], top_k=1, min_score=math.nan), InvalidArgumentError, "min_score is NaN"),
        (lambda s: s.search([1, 0], top_k=1, filter=[("k", 1)]), InvalidFilterError, "filter must be a mapping"),
        (lambda s: s.search([1, 0], top_k=1, filter={"k": {1}}), InvalidFilterError, "is a set"),
        (lambda s: s.search_many([[1, 0], [1]], top_k=1), DimensionMismatchError, r"embeddings\[1\] has 1 numbers"),
        (lambda s: s.search_many("ab", top_k=1), InvalidArgumentError, "embeddings must be a list of vectors"),
        (lambda s: s.count("k"), InvalidFilterError, "filter must be a mapping"),
        (lambda s: s.scan("k"), InvalidFilterError, "filter must be a mapping"),
        (lambda s: s.get("a#0"), InvalidArgumentError, "ids must be a list of str, got str"),
        (lambda s: s.delete("a#0"), InvalidArgumentError, "ids must be a list of str, got str"),
        (lambda s: s.replace_documents("a", []), InvalidArgumentError, "document_ids must be a list of str"),
        (lambda s: s.remove(3), ValueError, "the id must be a str, got int"),
        (lambda s: s.remove_where({}), UnsafeRemovalError, "empty-filter"),
        (lambda s: s.remove_where(field("k") != 1), UnsafeRemovalError, "unbounded-filter"),
        (lambda s: s.remove_where(None), InvalidFilterError, "filter must be a mapping"),
        (lambda s: s.update_metadata("a", [("k", 1)]), InvalidMetadataError, "patch must be a mapping"),
        (lambda s: s.update_metadata("a", {"k": {1}}), InvalidMetadataError, "is a set"),
        (lambda s: s.upsert([record("d"), record("")]), InvalidMetadataError, "id must not be empty"),
        (lambda s: s.upsert([record("d"), record("e", (1,))]), DimensionMismatchError, "record 'e'"),
        (lambda s: s.upsert([record("a#0", metadata={"k": {1}})]), InvalidMetadataError, "record 'a#0'"),
        (lambda s: s.replace_documents(["a"], [record("d", (1,))]), DimensionMismatchError, "record 'd'"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(
    store: MemoryVectorStore, call: Callable[[Any], Any], error: type[Exception], message: str
) -> None:
    before = list(store.scan())
    with pytest.raises(error, match=message):
        call(store)
    assert list(store.scan()) == before


def test_nothing_is_shared_with_the_store() -> None:
    metadata: dict[str, Any] = {"acl": {"read": ["a"]}, "tags": ["x"]}
    embedding = np.array([1.0, 0.0], dtype=np.float32)
    patch: dict[str, Any] = {"more": ["p"]}
    store = MemoryVectorStore()
    store.upsert([VectorRecord("a#0", "t", embedding, None, metadata)])
    store.update_metadata("a", patch)
    metadata["acl"]["read"].append("b")
    metadata["tags"].append("y")
    embedding[:] = 9
    patch["more"].append("q")
    expected = {"acl": {"read": ["a"]}, "tags": ["x"], "more": ["p"]}

    def answers() -> list[Any]:
        (found,) = store.search([1, 0], top_k=1)
        (got,) = store.get(["a#0"])
        (document,) = store.list_documents()
        (scanned,) = store.scan()
        return [found.metadata, got.metadata, document.metadata, scanned.metadata]

    for answer in answers():
        assert answer == expected
        answer["acl"]["read"].append("spoilt")
        answer.clear()
    assert answers() == [expected] * 4
    got = store.get(["a#0"])[0].embedding
    assert got == [1.0, 0.0]
    got[0] = 5.0
    assert store.get(["a#0"])[0].embedding == [1.0, 0.0]


def test_get_gives_back_the_float32_values() -> None:
    rng = np.random.default_rng(2)
    vectors = rng.standard_normal((20, 50)).astype(np.float32) * 1000
    for metric in ("cosine", "l2", "inner"):
        store = MemoryVectorStore(metric=metric)
        store.upsert([VectorRecord(str(n), "", vector) for n, vector in enumerate(vectors)])
        assert [r.embedding for r in store.get([str(n) for n in range(20)])] == vectors.tolist()


def test_get_answers_in_the_order_asked(store: MemoryVectorStore) -> None:
    assert [r.id for r in store.get(["c#0", "?", "a#1", "c#0", "a#0"])] == ["c#0", "a#1", "a#0"]
    assert [r.id for r in store.get(["b", "a#0", "a#1"], within={"team": ["x"]})] == ["b", "a#0"]


def test_no_metadata_and_empty_metadata_are_kept_as_given() -> None:
    store = MemoryVectorStore()
    store.upsert([record("a", metadata={}), record("b", metadata=None)])
    assert [r.metadata for r in store.scan()] == [{}, None]
    assert store.count({}) == 2


def test_documents_speak_through_their_chunk_with_the_smallest_number() -> None:
    store = MemoryVectorStore()
    store.upsert([record(f"d#{n}", metadata={"n": n, "odd": n % 2}) for n in (10, 3, 2)])
    store.upsert([record("e", metadata={"n": -1}), record("e#0", metadata={"n": 0})])
    assert [(d.id, (d.metadata or {})["n"]) for d in store.list_documents()] == [("d", 2), ("e", -1)]
    assert [(d.id, (d.metadata or {})["n"]) for d in store.list_documents({"odd": 1})] == [("d", 3)]
    assert store.list_document_ids({"n": [10, 0]}) == ["d", "e"]


def test_remove_goes_by_the_document_of_a_chunk() -> None:
    store = MemoryVectorStore()
    store.upsert([record(id) for id in ("a#1", "a#1#0", "a", "#3")])
    assert store.remove("a#1") == 1
    assert [r.id for r in store.scan()] == ["#3", "a", "a#1"]
    assert store.remove("a") == 2
    assert store.remove("") == 1


def test_replacing_documents_leaves_no_tail(store: MemoryVectorStore) -> None:
    written = store.replace_documents(["a", "c", "?"], [record("a#0", (0, 1)), record("d#0"), record("d#0", (1, 1))])
    assert written == 2
    assert [r.id for r in store.scan()] == ["a#0", "b", "d#0"]
    assert store.replace_documents(["a", "b", "d"], []) == 0
    assert len(store) == 0


def test_a_patch_moves_a_document_between_filters(store: MemoryVectorStore) -> None:
    for _ in range(3):
        assert store.count({"team": ["y"]}) == 2
        assert store.update_metadata("a", {"team": ["z", "x"], "n": None}) == 2
        assert (store.count({"team": ["y"]}), store.count({"team": ["z"]}), store.count({"team": ["x"]})) == (0, 2, 3)
        assert store.count(field("n").exists()) == 0
        assert store.update_metadata("a", {"team": ["y"], "n": 1}) == 2
        assert (store.count({"team": ["z"]}), store.count({"n": 1.0})) == (0, 2)


def test_patches_count_the_chunks_they_wrote(store: MemoryVectorStore) -> None:
    assert store.update_metadata("a", {}) == 0
    assert store.update_metadata("?", {"k": 1}) == 0
    assert store.update_metadata("c", {"k": None}) == 1
    assert store.get(["c#0"])[0].metadata == {}


def test_within_bounds_every_call_by_id_or_document(store: MemoryVectorStore) -> None:
    scope = {"team": ["x"]}
    assert store.delete(["a#1", "c#0"], within=scope) == 0
    assert store.remove("c", within=scope) == 0
    assert store.update_metadata("a", {"seen": True}, within=scope) == 1
    with pytest.raises(ScopeViolationError, match="record 'a#0' lies outside the scope"):
        store.update_metadata("a", {"team": "other"}, within=scope)
    with pytest.raises(ScopeViolationError, match="record 'new'"):
        store.upsert([record("b", metadata={"team": "x"}), record("new", metadata={"team": "y"})], within=scope)
    with pytest.raises(ScopeViolationError, match="record 'a#1'"):
        store.upsert([record("a#1", metadata={"team": "x"})], within=scope)
    with pytest.raises(ScopeViolationError, match="record 'c#0'"):
        store.replace_documents(["a"], [record("c#0", metadata={"team": "x"})], within=scope)
    assert store.replace_documents(["a", "c"], [record("a#5", metadata={"team": "x"})], within=scope) == 1
    assert [r.id for r in store.scan()] == ["a#1", "a#5", "b", "c#0"]
    view = store.scoped(scope)
    assert [r.id for r in view.scan()] == ["a#5", "b"]
    assert ids(view.search_many([[1, 0]], top_k=9)[0]) == ["a#5", "b"]


def test_a_filter_that_was_seen_before_sees_later_writes(store: MemoryVectorStore) -> None:
    filters: list[Any] = [{"team": ["x"]}, {"team": "x"}, field("n") >= 1, field("team").exists(), ~(field("n") == 1)]

    def counts() -> list[int]:
        assert [len(store.search([1, 0], top_k=99, filter=f)) for f in filters] == [store.count(f) for f in filters]
        return [store.count(f) for f in filters]

    assert counts() == [2, 1, 2, 3, 3]
    store.upsert([record("d", metadata={"team": "x", "n": 1})])
    assert counts() == [3, 2, 3, 4, 3]
    store.delete(["b"])
    assert counts() == [2, 1, 3, 3, 2]
    store.replace_documents(["a"], [record("a#0")])
    assert counts() == [1, 1, 1, 1, 2]


def test_a_filter_asked_again_and_again_answers_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    for metric in ("cosine", "l2", "inner"):
        store = MemoryVectorStore(metric=metric)
        store.upsert(
            [VectorRecord(f"{n}", "", v, None, {"k": n % 9}) for n, v in enumerate(rng.standard_normal((900, 5)))]
        )
        for query in (rng.standard_normal(5), np.zeros(5)):
            filters: list[Any] = [{"k": 1}, {"k": [2, 3]}, field("k") < 8]
            first = [store.search(query, top_k=30, filter=f) for f in filters]
            for _ in range(3):
                assert [store.search(query, top_k=30, filter=f) for f in filters] == first
                assert [store.search_many([query], top_k=30, filter=f)[0] for f in filters] == first
            assert store._selections.block(store._table, store._select({"k": 1})) is not None
            store.update_metadata(first[0][0].id, {"k": 2})
            assert store._selections.block(store._table, store._select({"k": 1})) is None
            assert first[0][0].id not in ids(store.search(query, top_k=300, filter={"k": 1}))
            store.update_metadata(first[0][0].id, {"k": 1})
    monkeypatch.setattr(memory_reading, "_LEAST_BYTES", 0)
    for _ in range(4):
        assert [store.search(query, top_k=30, filter=f) for f in filters] == first


def test_filters_of_equal_python_values_are_kept_apart() -> None:
    store = MemoryVectorStore()
    store.upsert([record("b", metadata={"k": True}), record("n", metadata={"k": 1}), record("s", metadata={"k": "1"})])
    for _ in range(2):
        for asked, found in ((True, ["b"]), (1, ["n"]), (1.0, ["n"]), ("1", ["s"]), (False, [])):
            assert ids(store.search([1, 0], top_k=9, filter={"k": asked})) == found
            assert ids(store.search([1, 0], top_k=9, filter={"k": [asked]})) == found
            assert ids(store.search([1, 0], top_k=9, filter={"k": (asked,)})) == found
    allowed = ["1"]
    filter = {"k": allowed}
    assert store.count(filter) == 1
    allowed.append(True)  # type: ignore[arg-type]
    assert store.count(filter) == 2


def test_a_denying_filter_answers_nothing(store: MemoryVectorStore) -> None:
    assert store.search([1, 0], top_k=9, filter={"team": []}) == []
    assert store.count({"team": []}) == 0
    assert store.remove_where({"team": []}) == 0
    assert len(store) == 4


def test_search_many_answers_as_search_does() -> None:
    rng = np.random.default_rng(3)
    store = MemoryVectorStore(metric="l2")
    store.upsert([VectorRecord(str(n), "", v, None, {"k": n % 7}) for n, v in enumerate(rng.standard_normal((500, 9)))])
    store.remove_where({"k": 3})
    queries = rng.standard_normal((40, 9))
    for filter in (None, {"k": 1}, {"k": [0, 1, 2, 4, 5]}, {"k": 99}):
        for floor in (None, -3.0):
            one_by_one = [store.search(q, top_k=7, filter=filter, min_score=floor) for q in queries]
            assert store.search_many(queries, top_k=7, filter=filter, min_score=floor) == one_by_one
    assert store.search_many([], top_k=1) == []


def test_scanning_goes_on_while_others_write() -> None:
    store = MemoryVectorStore()
    store.upsert([record(f"{n:04}", metadata={"k": 1}) for n in range(1000)])
    seen = []
    for n, one in enumerate(store.scan({"k": 1})):
        seen.append(one.id)
        if n == 0:
            store.delete([f"{n:04}" for n in range(500, 1000, 2)])
            store.update_metadata("0999", {"k": 2})
            store.upsert([record("9999", metadata={"k": 1}), record("0997", metadata={"k": 1, "new": True})])
    assert seen == sorted(seen)
    assert set(seen) >= {f"{n:04}" for n in range(500)} | {f"{n:04}" for n in range(501, 999, 2)}
    assert not {"0998", "0999", "9999"} & set(seen)


async def test_the_async_twins(store: MemoryVectorStore, tmp_path: Path) -> None:
    assert await store.asearch_many([[1, 0]], top_k=2) == store.search_many([[1, 0]], top_k=2)
    await store.asave(tmp_path / "kept")
    assert list((await MemoryVectorStore.aload(tmp_path / "kept")).scan()) == list(store.scan())
    async with store as same:
        assert same is store
        assert await store.asearch([1, 0], top_k=2) == store.search([1, 0], top_k=2)
        assert await store.aupsert([record("z")]) == 1
        assert [r.id async for r in store.ascan()] == ["a#0", "a#1", "b", "c#0", "z"]
        assert await store.acount({"team": "x"}) == 1
        assert await store.aremove("z") == 1
    assert len(store) == 4


def test_the_store_prints_what_it_is(store: MemoryVectorStore) -> None:
    assert repr(store) == "MemoryVectorStore(metric='cosine', dimension=2, records=4)"

"""A search beside a write sees the store before it or after it, never between."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from agora_core import DimensionMismatchError, MemoryVectorStore, VectorRecord, document_id_of

CHUNKS = 40


def document(version: int, chunks: int = CHUNKS) -> list[VectorRecord]:
    rng = np.random.default_rng(version)
    return [
        VectorRecord(f"d#{n}", f"v{version}", rng.standard_normal(8), None, {"version": version, "d": True})
        for n in range(chunks)
    ]


def beside(write: Callable[[int], Any], read: Callable[[], None], writes: int = 150) -> None:
    """Run `read` over and over in two threads while `write(n)` runs `writes` times."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def reader() -> None:
        try:
            while not stop.is_set():
                read()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=reader) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for n in range(writes):
            write(n)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


@pytest.fixture
def store() -> MemoryVectorStore:
    made = MemoryVectorStore()
    made.upsert(document(0))
    # Enough others that a search takes long enough to be overtaken.
    rng = np.random.default_rng(99)
    made.upsert([VectorRecord(f"z{n}", "", rng.standard_normal(8), None, {"d": False}) for n in range(3000)])
    return made


@pytest.mark.parametrize("how", ["upsert", "replace"])
def test_replacing_is_seen_whole(store: MemoryVectorStore, how: str) -> None:
    query = np.ones(8)

    def write(n: int) -> None:
        if how == "upsert":
            store.upsert(document(n + 1))
        else:
            store.replace_documents(["d"], document(n + 1, CHUNKS - n % 5))

    def read() -> None:
        for filter in ({"d": True}, None):
            found = [p for p in store.search(query, top_k=4000, filter=filter) if p.id.startswith("d#")]
            assert CHUNKS - 4 <= len(found) <= CHUNKS
            assert len({p.text for p in found}) == 1
            assert {(p.metadata or {})["version"] for p in found} == {int(found[0].text[1:])}
        assert store.count({"d": True}) in range(CHUNKS - 4, CHUNKS + 1)

    beside(write, read)


def test_patching_is_seen_whole_and_results_match_their_filter(store: MemoryVectorStore) -> None:
    query = np.ones(8)

    def write(n: int) -> None:
        store.update_metadata("d", {"tenant": "a" if n % 2 else "b"})

    def read() -> None:
        for tenant in ("a", "b"):
            found = store.search(query, top_k=100, filter={"tenant": tenant})
            assert len(found) in (0, CHUNKS)
            assert all((p.metadata or {})["tenant"] == tenant for p in found)
        tenants = {(p.metadata or {}).get("tenant") for p in store.search(query, top_k=100, filter={"d": True})}
        assert len(tenants) == 1

    beside(write, read, writes=1500)


def test_a_search_that_was_overtaken_answers_from_its_moment(store: MemoryVectorStore) -> None:
    query = np.ones(8)
    before = store.search(query, top_k=5000)
    reading = store._begin(None)
    try:
        store.update_metadata("d", {"version": 77, "new": 1})
        store.delete([p.id for p in before[::2]])
        store.upsert(document(5))
        store.update_metadata("d", {"version": 78})
        from agora_core.stores.memory.search import Query, nearest

        found = nearest(reading.searched, Query(query.astype(np.float32)), 5000, reading.rows)
        assert reading.passages(found, None) == before
    finally:
        store._readings.remove(reading)


def test_a_search_that_the_first_write_overtakes_is_refused_by_length(monkeypatch: pytest.MonkeyPatch) -> None:
    for call in ("search", "search_many"):
        store = MemoryVectorStore()
        begin = store._reading

        def late(filter: Any, store: MemoryVectorStore = store, begin: Any = begin) -> Any:
            store.upsert([VectorRecord("a", "", [1.0, 2.0])])
            return begin(filter)

        monkeypatch.setattr(store, "_reading", late)
        with pytest.raises(DimensionMismatchError, match="has 3 numbers where the store takes 2"):
            getattr(store, call)([1.0] * 3 if call == "search" else [[1.0] * 3], top_k=1)


def test_only_one_of_two_racing_dimensions_wins() -> None:
    for _ in range(30):
        store = MemoryVectorStore()
        outcomes: list[Any] = []
        barrier = threading.Barrier(2)

        def write(
            size: int, store: MemoryVectorStore = store, outcomes: list[Any] = outcomes, barrier: Any = barrier
        ) -> None:
            records = [VectorRecord(str(size), "", [1.0] * size)]
            barrier.wait()
            try:
                outcomes.append(store.upsert(records))
            except DimensionMismatchError:
                outcomes.append("refused")

        threads = [threading.Thread(target=write, args=(size,)) for size in (2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(map(str, outcomes)) == ["1", "refused"]
        assert len(store) == 1


def test_no_reading_is_left_behind(store: MemoryVectorStore) -> None:
    store.search(np.ones(8), top_k=3)
    store.search_many([np.ones(8)], top_k=3)
    with pytest.raises(ValueError, match="mapping"):
        store.search(np.ones(8), top_k=3, filter=3)  # type: ignore[arg-type]
    assert store._readings == []


def test_a_patch_beside_searches_is_never_seen_against_their_filter() -> None:
    """Kind: a list that is changed outside its lock. Each search is answered as the rows were when it began."""
    store = MemoryVectorStore()
    store.upsert([VectorRecord(f"d{n}#0", "", [1.0, float(n)], None, {"acl": ["staff"]}) for n in range(40)])
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def write(n: int) -> None:
        store.update_metadata(f"d{n % 40}", {"acl": [("staff", "board")[n // 40 % 2]]})

    def read() -> None:
        for passage in store.search([1.0, 1.0], top_k=40, filter={"acl": ["staff"]}):
            assert passage.metadata == {"acl": ["staff"]}

    try:
        beside(write, read, writes=1500)
    finally:
        sys.setswitchinterval(before)
    assert store._readings == []


def test_readings_are_only_changed_under_the_lock() -> None:
    class Guarded(list[Any]):
        def append(self, value: Any) -> None:
            assert guarded._lock.locked()
            super().append(value)

        def remove(self, value: Any) -> None:
            assert guarded._lock.locked()
            super().remove(value)

    guarded = MemoryVectorStore()
    guarded._readings = Guarded()
    guarded.upsert([VectorRecord("a", "", [1.0])])
    assert len(guarded.search([1.0], top_k=1)) == 1
    assert len(guarded.search_many([[1.0]], top_k=1)[0]) == 1


def test_per_document_is_the_whole_ranking_cut() -> None:
    rng = np.random.default_rng(3)
    store = MemoryVectorStore()
    records = [VectorRecord(f"d{rng.integers(8)}#{n}", "", rng.standard_normal(4)) for n in range(400)]
    store.upsert(records)
    query = rng.standard_normal(4)
    whole = store.search(query, top_k=1000)
    for most in (1, 3):
        counts: Counter[str] = Counter()
        kept = []
        for passage in whole:
            counts[document_id_of(passage.id)] += 1
            if counts[document_id_of(passage.id)] <= most:
                kept.append(passage)
        for top_k in (1, 8, 20):
            assert store.search(query, top_k=top_k, per_document=most) == kept[:top_k]
        floor = kept[4].score
        assert store.search(query, top_k=20, per_document=most, min_score=floor) == kept[:5]


def test_a_copy_shares_nothing() -> None:
    store = MemoryVectorStore()
    store.upsert([VectorRecord("a", "", [1.0], None, {"k": [1]})])
    for again in (copy.deepcopy(store), copy.copy(store), pickle.loads(pickle.dumps(store))):
        again.remove("a")
        assert (len(store), len(again)) == (1, 0)
    assert store.check().ok
    assert store.check().counts == {"records": 1, "documents": 1}

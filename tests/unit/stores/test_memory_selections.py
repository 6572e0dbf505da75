"""What a filter selects is kept and follows the writes: after any history it is what judging every record gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import MemoryVectorStore, VectorRecord, field, matches_filter, not_
from agora_core.stores.memory import reading, rows
from tests.unit import generated as some

WRITES = st.one_of(
    st.tuples(st.just("upsert"), st.lists(some.records(2), max_size=5)),
    st.tuples(st.just("replace_documents"), st.lists(st.sampled_from(some.DOCUMENTS), max_size=2)),
    st.tuples(st.just("remove"), st.sampled_from(some.DOCUMENTS)),
    st.tuples(st.just("delete"), st.lists(some.record_ids, max_size=2)),
    st.tuples(st.just("update_metadata"), st.sampled_from(some.DOCUMENTS), some.patches),
)


def asked(store: MemoryVectorStore, filter: Any) -> list[str]:
    """Return the ids that a filter selects, by every way, each twice: the second may be answered from what was kept."""
    expected = sorted(record.id for record in store.scan() if matches_filter(record.metadata, filter))
    for _ in range(2):
        assert sorted(p.id for p in store.search([1.0, 0.5], top_k=99, filter=filter)) == expected
        assert store.count(filter) == len(expected)
    return expected


@given(
    st.lists(some.records(2), max_size=8), st.lists(WRITES, max_size=6), st.lists(some.filters, min_size=1, max_size=3)
)
def test_selections_follow_any_history(first: Any, writes: Any, filters: Any) -> None:
    store = MemoryVectorStore(dimension=2)
    store.upsert(first)
    for filter in filters:
        asked(store, filter)
    for name, *arguments in writes:
        getattr(store, name)(*arguments, *([[]] if name == "replace_documents" else []))
        for filter in filters:
            asked(store, filter)


@pytest.mark.parametrize("most", [0, 3])
def test_what_is_too_much_to_follow_is_asked_anew(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(reading, "_FOLLOWED", most)
    monkeypatch.setattr(rows, "_PATCHED", 5)
    store = MemoryVectorStore(dimension=2)
    filters: list[Any] = [{"k": 1}, not_({"k": 1}), field("n") >= 10, {"tag": ["x", "y"]}]
    for n in range(60):
        metadata = {"k": n % 3, "n": n, "tag": ["x"] if n % 4 else "y"}
        store.upsert([VectorRecord(f"d{n % 25}#{n % 2}", "", [1.0, float(n)], None, metadata)])
        if n % 5 == 4:
            store.update_metadata(f"d{n % 25}", {"k": 1, "tag": None})
        if n % 7 == 6:
            store.remove(f"d{(n - 2) % 25}")
        for filter in filters:
            asked(store, filter)


def test_a_write_elsewhere_leaves_what_is_kept() -> None:
    """The first query after a write costs what the one before it did: the same rows, and their vectors together."""
    store = MemoryVectorStore(dimension=2)
    store.upsert(VectorRecord(f"d{n}#0", "", [1.0, float(n)], None, {"k": n % 10}) for n in range(400))
    for _ in range(3):
        store.search([1.0, 0.0], top_k=3, filter={"k": 3})
    key = reading.cheap_key({"k": 3})
    kept = store._selections.get(key, store._table)
    assert kept is not None
    assert store._selections.block(store._table, kept) is not None
    store.upsert([VectorRecord("other#0", "", [1.0, 1.0], None, {"k": 4})])
    store.update_metadata("d5", {"k": 6})
    store.remove("d7")
    assert store._selections.get(key, store._table) is kept
    assert store._selections.block(store._table, kept) is not None
    store.update_metadata("d5", {"k": 3})
    assert "d5#0" in asked(store, {"k": 3})

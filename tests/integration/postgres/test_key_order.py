"""Metadata keys come back in the order in which they were written, nested too, through patches as well."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agora_core import MemoryVectorStore, VectorRecord

KEYS = st.sampled_from(["b", "a", "zz", "é", "aaa", "B", "_x", "10", "9", "", "c d", "{}", 'q"\\', "\n", "["])
VALUES = st.recursive(
    st.sampled_from([None, True, 0, 1.5, "t", "[\n"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)
METADATA = st.none() | st.dictionaries(KEYS, VALUES, max_size=6)


def spelled(metadata: Any) -> str:
    return json.dumps(metadata)


def test_the_order_of_keys_is_that_of_the_memory_store(make_store: Any) -> None:
    store = make_store(index=None)

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
    @given(METADATA, st.lists(st.dictionaries(KEYS, VALUES, max_size=4), max_size=3), st.booleans())
    def same(metadata: Any, patches: list[dict[str, Any]], many: bool) -> None:
        model = MemoryVectorStore()
        # A few go as an INSERT, many through COPY.
        records = [VectorRecord(f"d#{n}", "x", [1, 0, 0], None, metadata) for n in range(130 if many else 2)]
        for some in (store, model):
            some.replace_documents(["d"], records)
            for patch in patches:
                some.update_metadata("d", patch)
        expected = spelled(model.get(["d#1"])[0].metadata or {})
        assert spelled(store.get(["d#1"])[0].metadata or {}) == expected
        found = store.search([1, 0, 0], top_k=1)[0]
        assert spelled(found.metadata or {}) == expected
        assert spelled(store.list_documents()[0].metadata or {}) == expected

    same()


def test_a_table_without_the_column_answers_in_jsonb_order(make_store: Any, admin: Any) -> None:
    store = make_store(index=None)
    admin.execute(f"ALTER TABLE {store.table} DROP COLUMN agora_key_order")
    store._recheck()
    store.upsert([VectorRecord("a", "x", [1, 0, 0], None, {"zz": 1, "b": 2})])
    assert store.update_metadata("a", {"a": 1}) == 1
    assert list(store.get(["a"])[0].metadata) == ["a", "b", "zz"]
    store.ensure_schema()
    assert store.update_metadata("a", {"c": 1}) == 1
    assert list(store.get(["a"])[0].metadata) == ["a", "b", "zz", "c"]

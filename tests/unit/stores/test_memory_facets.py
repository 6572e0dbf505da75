"""Facets of the memory store come from the filters' index; after any history they are what counting records gives."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agora_core import MemoryVectorStore, VectorRecord
from agora_core.stores.facets import count_facets, most_frequent
from tests.unit import generated as some

WRITES = st.one_of(
    st.tuples(st.just("upsert"), st.lists(some.records(2), max_size=6)),
    st.tuples(st.just("remove"), st.sampled_from(some.DOCUMENTS)),
    st.tuples(st.just("patch"), st.sampled_from(some.DOCUMENTS), some.patches),
    st.tuples(st.just("ask"), some.keys),
)


@given(
    st.lists(WRITES, max_size=8),
    st.none() | some.filters,
    st.sampled_from([*some.KEYS, "k.x", "o.y"]),
    st.integers(1, 4),
)
def test_facets_after_any_history_are_those_of_the_records(writes: Any, filter: Any, key: str, limit: int) -> None:
    store = MemoryVectorStore(dimension=2)
    for name, *arguments in writes:
        if name == "upsert":
            store.upsert(arguments[0])
        elif name == "remove":
            store.remove(arguments[0])
        elif name == "patch":
            store.update_metadata(*arguments)
        else:
            store.facets([arguments[0]])
    for path in ([key], key.split(".")):
        counted = count_facets((record.metadata for record in store.scan(filter)), tuple(path))
        assert store.facets(path, filter=filter, limit=limit) == most_frequent(counted.items(), limit)


def test_values_that_quotes_and_blanks_order_otherwise() -> None:
    """Ties go by the JSON: `"ab "` stands before `"ab"`, for a blank is below the quotation mark."""
    store = MemoryVectorStore(dimension=1)
    values = ["ab", "ab ", "ab!", 'ab"', "a", "é", "\n", "z"]
    store.upsert(VectorRecord(f"r{n}", "", [1.0], None, {"k": value}) for n, value in enumerate(values))
    expected = ["\n", "a", "ab ", "ab!", "ab", 'ab"', "z", "é"]
    assert [value for value, _ in store.facets("k")] == expected


def test_rows_that_are_gone_do_not_count() -> None:
    """Removed rows stay in the index until the store compacts itself."""
    store = MemoryVectorStore(dimension=1)
    store.upsert(VectorRecord(f"d{n}#0", "", [1.0], None, {"k": ["a", n % 2]}) for n in range(10))
    store.remove("d0")
    store.upsert([VectorRecord("d1#0", "", [1.0], None, {"k": "a"})])
    assert store.facets("k") == [("a", 9), (0, 4), (1, 4)]
    assert store.facets("k", filter={"k": [0]}) == [("a", 4), (0, 4)]

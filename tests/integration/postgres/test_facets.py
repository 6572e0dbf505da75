"""Facets come from one pass of the server over the rows; they are what counting the records gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agora_core import MemoryVectorStore, VectorRecord
from agora_core.steps import Steps
from agora_core.stores.facets import count_facets, most_frequent
from agora_core.stores.postgres.connections import Operation

# Few values, so that lists hold one twice, of every type, equal ones spelled otherwise, and with ties.
SCALARS = st.sampled_from([None, True, 1, 1.0, 1.5, 2**53, "1", "a", "a ", "a!", 'a"', "\n", "é", "x" * 300])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=6) | st.fixed_dictionaries({"in": inner}), max_leaves=9
)
RECORDS = st.lists(st.none() | st.fixed_dictionaries({}, optional={"k": VALUES, "n": st.integers(0, 1)}), max_size=8)


@pytest.mark.parametrize("tokens", [True, False])
def test_facets_are_those_of_the_records(make_store: Any, admin: Any, tokens: bool) -> None:
    """Lists are not looked at member by member where they need not be; the doubtful ones are, and each counts once."""
    store = make_store(index=None)
    if not tokens:
        admin.execute(f"ALTER TABLE {store.table} DROP COLUMN tokens")
        store._recheck()

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
    @given(RECORDS, st.sampled_from([["k"], ["k", "in"], ["k", "in", "in"]]), st.integers(1, 6), st.booleans())
    def same(rows: Any, path: list[str], limit: int, filtered: bool) -> None:
        filter = {"n": 1} if filtered else None
        admin.execute(f"TRUNCATE {store.table}")
        store.upsert([VectorRecord(f"r{place}", "", [1, 0, 0], None, row) for place, row in enumerate(rows)])
        counted = count_facets((row for row in rows if not filtered or (row or {}).get("n") == 1), tuple(path))
        assert store.facets(path, filter=filter, limit=limit) == most_frequent(counted.items(), limit)

    same()


def test_a_member_that_stands_twice_counts_once(make_store: Any) -> None:
    """Short lists are compared in pairs, longer ones through the tokens, which know nothing of what lies deeper."""
    store = make_store(index=None)
    lists = [["a", "b"], [1, 1.0], ["x", "x", "y"], ["x", "y", "x"], ["y", "x", "x"], ["a"] * 9, [{"in": 1}] * 4]
    lists.append([f"{'m' * 240}{n % 4_999}" for n in range(5_000)])
    rows: list[Any] = [{"k": members} for members in lists] + [{"k": {"in": members}} for members in lists]
    store.upsert([VectorRecord(f"r{n}", "", [1, 0, 0], None, row) for n, row in enumerate(rows)])
    for path in (["k"], ["k", "in"]):
        counted = count_facets(rows, tuple(path))
        assert store.facets(path, limit=5_100) == most_frequent(counted.items(), 5_100)


def test_ties_of_many_strings_are_cut_by_the_server(make_store: Any) -> None:
    """Every record with its own title: as many rows come back as are asked for, and not all of the table."""
    store, model = make_store(index=None), MemoryVectorStore(dimension=3)
    records = [VectorRecord(f"r{n}", "", [1, 0, 0], None, {"t": f"title {n * 37 % 500}"}) for n in range(500)]
    for some in (store, model):
        some.upsert(records)
    assert store.facets("t", limit=3) == model.facets("t", limit=3)
    sent: list[int] = []
    teed = store._connections.run
    store._connections.run = lambda operation, actor: teed(_counting(operation, sent), actor)
    assert len(store.facets("t", limit=3)) == 3
    assert max(sent) == 3


def _counting(operation: Operation, sent: list[int]) -> Operation:
    """The same operation, which tells how many rows each of its statements was answered by."""

    def steps() -> Steps[Any]:
        inner = operation.steps()
        answer = None
        while True:
            try:
                request = inner.send(answer)
            except StopIteration as end:
                return end.value
            answer = yield request
            sent.append(len(answer.rows))

    return Operation(steps)

"""What searches return at every selectivity, on 60,000 rows and on few."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import psycopg
import pytest

from agora_core import PgVectorStore, VectorRecord, field
from agora_core.filters import compile_filter
from agora_core.stores.postgres import search
from agora_core.stores.postgres.statements import Target
from tests.integration.postgres.conftest import BIG, BIG_DIMENSION

SHARES: list[float] = [50, 20, 10, 5, 3, 1]


@pytest.fixture(scope="module")
def store(pg_conninfo: str, big_table: str) -> Iterator[PgVectorStore]:
    with PgVectorStore(pg_conninfo, table=big_table, dimension=BIG_DIMENSION) as store:
        yield store


@pytest.fixture(scope="module")
def rows(pg_conninfo: str, big_table: str) -> tuple[list[str], Any, Any]:
    """Ids, numbers and unit vectors of the whole table, for the truth."""
    with psycopg.connect(pg_conninfo) as connection:
        found = connection.execute(
            psycopg.sql.SQL("SELECT id, (metadata->>'n')::int, embedding::text FROM {}").format(
                psycopg.sql.Identifier(big_table)
            )
        ).fetchall()
    vectors = np.array([np.fromstring(row[2][1:-1], sep=",") for row in found])
    return (
        [row[0] for row in found],
        np.array([row[1] for row in found]),
        vectors / np.linalg.norm(vectors, axis=1, keepdims=True),
    )


def truth(rows: tuple[list[str], Any, Any], query: Any, matching: Any, top_k: int) -> list[str]:
    ids, _, vectors = rows
    scores = np.where(matching, vectors @ (query / np.linalg.norm(query)), -2)
    best = np.argsort(-scores, kind="stable")[:top_k]
    return [ids[n] for n in best if scores[n] > -2]


@pytest.mark.parametrize("share", [*SHARES, 0.1])
def test_filtered_searches_are_full_and_right(store: PgVectorStore, rows: Any, share: float) -> None:
    numbers = rows[1]
    filter: dict[str, Any]
    if share == 0.1:
        filter, matching = {"rare": ["yes"]}, numbers % 1_000 == 0
    else:
        filter, matching = {"share": [share]}, numbers * 7919 % 100 < share
    expected = int(matching.sum())
    assert store.count(filter) == expected
    queries = np.random.default_rng(1).standard_normal((20, BIG_DIMENSION))
    found_of_all = 0
    for _ in range(2):
        # Twice: the second time the store knows how wide the filter is.
        found_of_all = 0
        for query in queries:
            found = store.search(query, top_k=10, filter=filter)
            assert len(found) == 10
            assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)
            best = truth(rows, query, matching, 10)
            if expected <= search.EXACT_ROWS:
                assert [p.id for p in found] == best
            found_of_all += len({p.id for p in found} & set(best))
    assert found_of_all / 200 >= 0.99


def test_a_large_top_k_is_full_too(store: PgVectorStore) -> None:
    query = [1.0, -1.0] * (BIG_DIMENSION // 2)
    for filter in (None, {"share": [50]}, {"share": [10]}):
        for top_k in (100, 900, 1_500):
            assert len(store.search(query, top_k=top_k, filter=filter)) == top_k
    assert len(store.search(query, top_k=5_000, filter={"rare": "yes"})) == BIG // 1_000


def test_a_floor_cuts_an_end_off_the_same_rows(store: PgVectorStore) -> None:
    """The proof for cutting first and flooring after: score and order are one expression."""
    for query in np.random.default_rng(2).standard_normal((10, BIG_DIMENSION)):
        for filter in (None, {"share": [50]}, {"share": [10]}, {"share": [1]}, {"rare": "yes"}):
            whole = store.search(query, top_k=20, filter=filter)
            for floor in (whole[0].score, whole[9].score, whole[19].score, -1.0, 2.0):
                floored = store.search(query, top_k=20, filter=filter, min_score=floor)
                assert floored == [passage for passage in whole if passage.score >= floor]


def test_scans_lists_and_searches_leave_no_setting_behind(pg_conninfo: str, big_table: str) -> None:
    with psycopg.connect(pg_conninfo, autocommit=True) as connection:
        with PgVectorStore(connection, table=big_table, dimension=BIG_DIMENSION, ef_search=77) as store:
            assert len(store.search([1.0] * BIG_DIMENSION, top_k=5)) == 5
            assert len(store.search([1.0] * BIG_DIMENSION, top_k=5, filter={"share": [50]})) == 5
            with connection.transaction():
                assert len(store.search([1.0] * BIG_DIMENSION, top_k=5, filter={"share": [50]})) == 5
                row = connection.execute("SHOW hnsw.ef_search").fetchone()
                assert row == ("40",)
        assert connection.execute("SHOW hnsw.iterative_scan").fetchone() == ("off",)
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


def test_an_older_pgvector_is_slower_and_not_wrong(store: PgVectorStore, rows: Any) -> None:
    """Without iterative scans a filtered search scores what matches; a plain one still walks the index."""
    list(store.search([1.0] * BIG_DIMENSION, top_k=1))
    known = store._target
    assert known is not None
    old = Target(known[0].layout, replace(known[0].catalog, pgvector=(0, 7, 4)))
    assert "iterative_scan" not in search.nearest(old, None, None, 10, width=100).text  # type: ignore[arg-type]
    assert not search.is_walkable(old, True, 10, search.Breadth(0.5, BIG))
    assert search.is_walkable(old, False, 10, search.Breadth(1.0, BIG))
    store._target = (old, known[1])
    store._selectivity.forget()
    try:
        query = np.ones(BIG_DIMENSION)
        found = store.search(query, top_k=10, filter={"share": [20]})
        assert [p.id for p in found] == truth(rows, query, rows[1] * 7919 % 100 < 20, 10)
        assert len(store.search(query, top_k=60)) == 60
    finally:
        store._recheck()


@pytest.mark.parametrize("metric", ["cosine", "l2", "inner"])
def test_ties_break_by_id_through_the_cut_of_an_index_walk(make_store: Any, metric: str) -> None:
    store = make_store(metric=metric)
    # Enough rows for the vector index to be walked; 30 of them alike, written in no order. By inner product too these
    # are what every other record is nearest to, so that the graph leads there.
    spread = [VectorRecord(f"far{n}", "", [0.5, (1 + n % 37) / 100, (n % 101) / 500]) for n in range(3_000)]
    alike = [VectorRecord(f"tie{n:02}", "", [1.0, 0.0, 0.0]) for n in np.random.default_rng(3).permutation(30)]
    store.upsert([*spread, *alike])
    for top_k in (1, 7, 29):
        assert [p.id for p in store.search([1.0, 0, 0], top_k=top_k)] == [f"tie{n:02}" for n in range(top_k)]


def test_zero_vectors_are_found_behind_the_index(make_store: Any) -> None:
    store = make_store()
    store.upsert([VectorRecord(f"r{n}", "", [1.0, n / 5_000, 0.0], None, {"n": n}) for n in range(2_000)])
    store.upsert([VectorRecord("zero", "", [0.0, 0.0, 0.0], None, {"n": -1})])
    assert store.count() == 2_001
    against = store.search([-1.0, 0.0, 0.0], top_k=3)
    assert (against[0].id, against[0].score) == ("zero", 0.0)
    assert [p.id for p in store.search([1.0, 0, 0], top_k=2_001)][-1] == "zero"
    assert [p.id for p in store.search([-1.0, 0, 0], top_k=3, filter=field("n") < 0)] == ["zero"]
    assert [p.id for p in store.search([0.0, 0.0, 0.0], top_k=2)] == ["r0", "r1"]
    assert {p.score for p in store.search([0.0, 0.0, 0.0], top_k=2_001)} == {0.0}


def test_removed_rows_do_not_hide_others_from_a_walk(make_store: Any) -> None:
    store = make_store()
    store.upsert([VectorRecord(f"near{n}", "", [1.0, n / 9_999, 0.0], None, {"near": True}) for n in range(1_500)])
    store.upsert([VectorRecord(f"far{n}", "", [-1.0, n / 999, 1.0], None, {"near": False}) for n in range(1_500)])
    assert store.search([1.0, 0.0, 0.0], top_k=1)[0].id == "near0"
    assert store.remove_where({"near": True}) == 1_500
    assert len(store.search([1.0, 0.0, 0.0], top_k=50)) == 50


@pytest.mark.parametrize("options", [{"storage": "halfvec"}, {"index": "ivfflat", "ivfflat_lists": 4}, {"index": None}])
def test_other_storages_and_indexes(make_store: Any, options: Any) -> None:
    store = make_store(**options)
    store.upsert([VectorRecord(f"r{n:04}", "", [1.0, n / 512, 0.5], None, {"n": n}) for n in range(1_500)])
    best = [p.id for p in store.search([0.0, 1.0, 0.0], top_k=3)]
    assert best == ["r1499", "r1498", "r1497"]
    assert [p.id for p in store.search([0.0, 1.0, 0.0], top_k=2, filter=field("n") < 10)] == ["r0009", "r0008"]
    assert store.get(["r0256"])[0].embedding == [1.0, 0.5, 0.5]


def test_many_dimensions_are_indexed_in_half_precision_and_scored_in_full(make_store: Any) -> None:
    dimension = 2_001
    store = make_store(dimension=dimension, hnsw_m=6, hnsw_ef_construction=20)
    vectors = np.random.default_rng(4).standard_normal((1_010, dimension)).astype(np.float32)
    store.upsert([VectorRecord(f"r{n}", "", vector) for n, vector in enumerate(vectors)])
    target = store._target[0]
    assert target.catalog.vector_index is not None
    assert "halfvec_cosine_ops" in target.catalog.vector_index.operators
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found = store.search(vectors[3], top_k=5)
    assert found[0].id == "r3"
    assert found[0].score == pytest.approx(1.0, abs=1e-6)
    for passage in found:
        assert passage.score == pytest.approx(float(unit[int(passage.id[1:])] @ unit[3]), abs=1e-6)


def test_a_deny_reads_nothing(make_store: Any) -> None:
    store = make_store(ensure=False)
    assert store.search([1, 0, 0], top_k=3, filter={"k": []}) == []
    assert store.count({"k": []}) == store.remove_where({"k": []}) == 0
    assert store.list_documents({"k": []}) == store.list_document_ids({"k": []}) == list(store.scan({"k": []})) == []
    assert store._connections._pool is None


@pytest.mark.parametrize(
    ("share", "rows", "walks"),
    [(0.05, 50_000, True), (0.04, 100_000, False), (0.04, 1_000_000, True), (0.019, 10**9, False), (1.0, 0.0, True)],
)
def test_where_walking_and_scoring_meet(store: PgVectorStore, share: float, rows: float, walks: bool) -> None:
    list(store.search([1.0] * BIG_DIMENSION, top_k=1))
    known = store._target
    assert known is not None
    assert search.is_walkable(known[0], True, 10, search.Breadth(share, rows)) is walks


def test_a_filter_that_became_narrow_is_exact_at_once(make_store: Any) -> None:
    store = make_store()
    store.upsert([VectorRecord(f"r{n}", "", [1.0, n / 6_000, 0.1], None, {"g": "a"}) for n in range(5_500)])
    filter = compile_filter({"g": ["a"]})
    store.search([0, 1, 0], top_k=3, filter=filter)
    breadth = store._selectivity.breadth(filter)
    assert breadth is not None
    assert breadth.share == pytest.approx(1.0, abs=0.1)
    store.delete([f"r{n}" for n in range(1_000)])
    assert store._selectivity.breadth(filter) is None
    assert [p.id for p in store.search([0, 1, 0], top_k=2, filter=filter)] == ["r5499", "r5498"]
    assert store._selectivity.breadth(filter) is None

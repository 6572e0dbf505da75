"""`per_document` against a plain cut of the full ranking: exact sets, the walk behind an index, the zero vector."""

from __future__ import annotations

from typing import Any

import pytest

from agora_core import VectorRecord
from agora_core.stores.per_document import cut_per_document
from tests.integration.postgres.conftest import BIG_DIMENSION

ROWS = [
    # One document takes the first sixty places, so that no first round is long enough.
    VectorRecord(f"{'a' if n < 60 else f'd{n % 7}'}#{n}", f"text {n}", [1.0, n / 50, 0.0], None, {"even": n % 2 == 0})
    for n in range(150)
]


@pytest.mark.parametrize("query", [[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
@pytest.mark.parametrize("index", ["hnsw", None])
def test_it_cuts_the_whole_ranking(make_store: Any, index: Any, query: list[float]) -> None:
    store = make_store(index=index)
    store.upsert(ROWS)
    for filter in (None, {"even": True}):
        whole = store.search(query, top_k=150, filter=filter)
        for each in (1, 2, 5):
            for top_k in (1, 5, 8, 100):
                found = store.search(query, top_k=top_k, filter=filter, per_document=each)
                assert found == cut_per_document(whole, each, top_k)
        floor = whole[20].score
        found = store.search(query, top_k=50, filter=filter, per_document=3, min_score=floor)
        assert found == cut_per_document([p for p in whole if p.score >= floor], 3, 50)


def test_behind_a_vector_index_each_document_comes_once(big_table: str, make_store: Any) -> None:
    store = make_store(table=big_table, dimension=BIG_DIMENSION, ensure=False)
    found = store.search([1.0] * BIG_DIMENSION, top_k=20, per_document=1)
    whole = store.search([1.0] * BIG_DIMENSION, top_k=80)
    assert len(found) == 20
    assert [p.id for p in found] == [p.id for p in cut_per_document(whole, 1, 20)]


def test_check_says_what_is_there_and_hides_the_password(make_store: Any, pg_conninfo: str, fresh_name: str) -> None:
    store = make_store(ensure=False)
    assert not (health := store.check()).ok
    assert "does not exist; call ensure_schema() first" in health.detail
    store.ensure_schema()
    health = store.check()
    assert health.ok
    assert set(health.versions) == {"server", "pgvector"}
    away = make_store("postgresql://u:s3cr3t@127.0.0.1:1/x?connect_timeout=2", ensure=False)
    health = away.check()
    assert not health.ok
    assert "s3cr3t" not in repr(health)


async def test_check_from_async_code(make_store: Any) -> None:
    assert (await make_store().acheck()).ok

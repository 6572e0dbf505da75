"""The engine's graph index: a filtered search misses no match for being narrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from agora_core import QdrantStore, VectorRecord, field, matches_filter
from tests.integration.qdrant.edge_client import EdgeClient

pytestmark = [pytest.mark.qdrant, pytest.mark.slow]

COUNT, DIMENSION = 2000, 24


@pytest.fixture(scope="module")
def client() -> Iterator[EdgeClient]:
    with closing(EdgeClient(indexing_threshold=20)) as opened:
        yield opened


@pytest.fixture(scope="module")
def vectors() -> Any:
    rows = np.random.default_rng(4).normal(size=(COUNT, DIMENSION))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def store(client: Any, vectors: Any) -> QdrantStore:
    store = QdrantStore(client, dimension=DIMENSION, upsert_batch_size=500)
    store.ensure_collection()
    store.upsert(VectorRecord(f"d{n:04}", f"text {n}", vectors[n], None, metadata(n)) for n in range(COUNT))
    assert client.optimize("agent_rag_chunks")
    return store


def metadata(n: int) -> dict[str, Any]:
    return {"group": n % 7, "rare": n % 250 == 3, "year": 1900 + n % 120, "name": f"name {n}"}


@pytest.mark.parametrize(
    "filter",
    [
        {},
        {"group": 3},
        {"rare": True},
        field("year") >= 2010,
        field("group") != 3,
        field("name").matches_text("99"),
        {"group": [1, 2], "rare": True},
    ],
    ids=str,
)
def test_filtered_searches_come_back_full(store: QdrantStore, vectors: Any, filter: Any) -> None:
    matching = np.array([matches_filter(metadata(n), filter) for n in range(COUNT)])
    recalled = []
    for query in vectors[:25] + 0.2:
        scores = np.where(matching, vectors @ query, -np.inf)
        wanted = [f"d{n:04}" for n in np.argsort(-scores)[: min(20, matching.sum())]]
        found = [p.id for p in store.search(query, top_k=20, filter=filter)]
        assert len(found) == len(wanted)
        assert all(matching[int(i[1:])] for i in found)
        recalled.append(len(set(wanted) & set(found)) / len(wanted))
    assert np.mean(recalled) > 0.97


def test_only_a_short_answer_is_asked_for_again(store: QdrantStore, client: Any, vectors: Any) -> None:
    client.calls.clear()
    store.search(vectors[0], top_k=5, filter={"group": 3})
    assert client.calls == ["query"]
    store.search(vectors[0], top_k=50, filter={"rare": True})
    assert client.calls == ["query", "query", "exact"]
    client.calls.clear()
    QdrantStore(client, dimension=DIMENSION, exact=True).search(vectors[0], top_k=50, filter={"rare": True})
    QdrantStore(client, dimension=DIMENSION, exact=False).search(vectors[0], top_k=50, filter={"rare": True})
    assert client.calls == ["exact", "query"]

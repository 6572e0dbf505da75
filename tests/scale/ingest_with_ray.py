"""The example of many workers, on two of this machine, into Postgres and Qdrant; run by `make test-scale`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray

from agora_core import IngestDocument, MemoryVectorStore, WordLlamaEmbeddingProvider, ingest_documents
from examples.ingest_with_ray import SHARD, open_store, sync
from tests.integration.qdrant.rest_server import rest_server

# Ray uses settings of its own that it calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:ray")
SHARDS = 6


@pytest.fixture(scope="module")
def workers() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(params=["postgres", "qdrant"])
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "postgres":
        yield request.getfixturevalue("pg_conninfo")
        return
    with rest_server() as server:
        yield server.url


def documents(numbers: range, edited: int = -1) -> list[dict[str, Any]]:
    return [
        {"id": f"d{n}", "text": f"Document {n} tells of {'edits' if n == edited else 'leave'}. " * 30, "source": "s"}
        for n in numbers
    ]


def content(store: Any) -> list[tuple[str, str]]:
    return [(one.id, one.text) for one in store.scan()]


@pytest.mark.parametrize("on", ["ray", "dask"])
def test_many_workers_make_what_one_makes(workers: None, place: str, on: str, tmp_path: Path, fresh_name: str) -> None:
    source = tmp_path / "documents.jsonl"

    def run(rows: list[dict[str, Any]]) -> dict[str, int]:
        source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return sync(str(source), place, fresh_name, shards=SHARDS, on=on)

    assert run(documents(range(40)))["embedded"] == 40
    assert run(documents(range(40)))["unchanged"] == 40
    # One edited, most gone; of the shards some have no document any more.
    done = run(documents(range(3), edited=1))
    assert (done["embedded"], done["unchanged"], done["removed"], done["failed"]) == (1, 2, 37, 0)
    alone = MemoryVectorStore()
    ingest_documents(
        [IngestDocument(**row) for row in documents(range(3), edited=1)],
        embedder=WordLlamaEmbeddingProvider(),
        store=alone,
    )
    with open_store(place, fresh_name) as store:
        assert content(store) == content(alone)
        assert all(SHARD in (one.metadata or {}) for one in store.scan())

"""Collections are created with what was asked for, verified, indexed as needed, and never changed silently."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from agora_core import QdrantLexicalVectorStore, QdrantStore, SchemaError, VectorRecord, chunk_id_to_point_id
from agora_core.stores.qdrant import collection as collections
from agora_core.stores.qdrant.payload import slot_of
from tests.integration.qdrant.rest_server import CLIENT_OPTIONS, RestServer, rest_server

pytestmark = pytest.mark.qdrant


@pytest.fixture
def server() -> Iterator[RestServer]:
    with rest_server() as running:
        yield running


def opened(server: RestServer, **options: Any) -> QdrantStore:
    return QdrantStore(server.url, **{"dimension": 2, "collection": "c", "client_options": CLIENT_OPTIONS, **options})


def indexed(server: RestServer) -> dict[str, Any]:
    return {body["field_name"]: body["field_schema"] for body in server.asked("PUT", "/index")}


def field_name(key: str, part: str = "t") -> str:
    return f"agora.{slot_of(key)}.{part}"


def test_what_is_created(server: RestServer) -> None:
    options = {
        "on_disk": True,
        "shard_number": 3,
        "replication_factor": 2,
        "write_consistency_factor": 2,
        "on_disk_payload": True,
        "hnsw_config": models.HnswConfigDiff(m=32),
        "quantization_config": models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, always_ram=True)
        ),
        "strict_mode_config": models.StrictModeConfig(enabled=True, max_query_limit=1000),
    }
    with opened(server, metric="l2", collection_options=options) as store:
        store.ensure_collection()
        store.ensure_collection()
    (body,) = server.asked("PUT", "/collections/c")
    assert body["vectors"] == {"size": 2, "distance": "Euclid", "on_disk": True}
    assert body["shard_number"] == 3
    assert body["replication_factor"] == body["write_consistency_factor"] == 2
    assert body["hnsw_config"] == {"m": 32}
    assert body["quantization_config"] == {"scalar": {"type": "int8", "always_ram": True}}
    assert body["strict_mode_config"] == {"enabled": True, "max_query_limit": 1000}
    assert indexed(server) == {"documentId": "keyword", "agora.v": "integer", "agora.m": "keyword"}
    assert len(server.asked("PUT", "/index")) == 3


def test_sparse_vectors_are_counts(server: RestServer) -> None:
    with QdrantLexicalVectorStore(server.url, client_options=CLIENT_OPTIONS, dimension=2, collection="c") as store:
        store.ensure_collection()
    (body,) = server.asked("PUT", "/collections/c")
    assert body["sparse_vectors"] == {"text": {}}
    assert indexed(server)["agora.l"] == "integer"
    assert body["metadata"]["agora_text"]["tokenizer"] == "unicode"


def test_a_shard_per_tenant(server: RestServer) -> None:
    with opened(server, shard_key="acme", consistency="majority", ordering="strong") as store:
        store.ensure_collection()
        store.upsert([VectorRecord("a#0", "t", [1, 0], None, {"k": 1})])
        store.search([1, 0], top_k=1)
        store.update_metadata("a", {"k": 2})
        store.remove("a")
    (body,) = server.asked("PUT", "/collections/c")
    assert body["sharding_method"] == "custom"
    assert server.asked("PUT", "/shards") == [{"shard_key": "acme"}]
    for method, path in (
        ("PUT", "/points"),
        ("POST", "/points/query"),
        ("POST", "/points/count"),
        ("POST", "/points/delete"),
    ):
        assert all(body["shard_key"] == "acme" for body in server.asked(method, path)), path
    operations = [one for batch in server.asked("POST", "/points/batch") for one in batch["operations"]]
    assert operations
    assert {change["shard_key"] for one in operations for change in one.values()} == {"acme"}
    flat = [{name: values[0] for name, values in query.items()} for query in server.queries]
    assert {"wait": "true", "ordering": "strong"} in flat
    assert {"consistency": "majority"} in flat


def test_an_existing_collection_is_verified_and_left_as_it_is() -> None:
    client = QdrantClient(":memory:")
    client.create_collection("c", models.VectorParams(size=3, distance=models.Distance.DOT))
    client.create_collection("named", {"x": models.VectorParams(size=2, distance=models.Distance.COSINE)})
    with pytest.raises(SchemaError) as caught:
        QdrantStore(client, collection="c", dimension=2).ensure_collection()
    message = str(caught.value)
    assert "its dimension is 3, the store's 2" in message
    assert "its distance is Dot, the store's metric 'cosine' needs Cosine" in message
    with pytest.raises(SchemaError, match="no unnamed vector"):
        QdrantStore(client, collection="named", dimension=2).ensure_collection()
    QdrantStore(client, collection="c", dimension=3, metric="inner").ensure_collection()
    client.close()


async def test_ensuring_and_dropping_in_async_code(server: RestServer) -> None:
    async with opened(server) as store:
        await store.aensure_collection()
        assert server.local.collection_exists("c")
        assert await store.areindex_filters() == 0
        await store.adrop_collection()
        assert not server.local.collection_exists("c")
    with opened(server) as store:
        store.ensure_collection()
        store.drop_collection()
    assert not server.local.collection_exists("c")


def test_two_that_create_at_once_both_go_on(server: RestServer, monkeypatch: Any) -> None:
    first, second = opened(server), opened(server, metric="l2")
    made = collections.create

    def late(*arguments: Any) -> Any:
        monkeypatch.setattr(collections, "create", made)
        first.ensure_collection()
        return made(*arguments)

    monkeypatch.setattr(collections, "create", late)
    with first, second, pytest.raises(SchemaError, match="its distance is Cosine"):
        second.ensure_collection()


def test_keys_are_indexed_when_they_are_first_written(server: RestServer) -> None:
    with opened(server) as store:
        store.ensure_collection()
        store.upsert([VectorRecord("a#0", "t", [1, 0], None, {"tenant": "acme", "year": 2020, "flag": True})])
        store.upsert([VectorRecord("b#0", "t", [1, 0], None, {"tenant": "beta"})])
        store.update_metadata("a", {"label": "x", "tenant": None})
        store.update_metadata("a", {"tenant": 5})
    assert indexed(server) == {
        "documentId": "keyword",
        "agora.v": "integer",
        "agora.m": "keyword",
        field_name("tenant"): "keyword",
        field_name("tenant", "n.h"): "integer",
        field_name("tenant", "n.l"): "integer",
        field_name("year"): "keyword",
        field_name("year", "n.h"): "integer",
        field_name("year", "n.l"): "integer",
        field_name("flag"): "keyword",
        field_name("label"): "keyword",
    }
    assert len(server.asked("PUT", "/index")) == 11


def test_automatic_indexes_are_bounded(server: RestServer) -> None:
    with opened(server) as store:
        store.ensure_collection()
        store.upsert([VectorRecord(f"d{n}", "t", [1, 0], None, {f"k{n}": "v"}) for n in range(100)])
        assert store.count({"k99": "v"}) == 1
    assert len(server.asked("PUT", "/index")) == 3 + collections.MAX_AUTOMATIC_INDEXES


def test_a_refused_index_stops_no_write(server: RestServer, caplog: pytest.LogCaptureFixture) -> None:
    with opened(server) as store:
        store.ensure_collection()
        server.failures = [400]
        with caplog.at_level(logging.WARNING):
            assert store.upsert([VectorRecord("a#0", "t", [1, 0], None, {"k": "v"})]) == 1
        assert "refused the payload index" in caplog.text
        assert store.count({"k": "v"}) == 1


def test_named_keys_and_the_tenant_are_indexed_at_once(server: RestServer) -> None:
    with opened(server, index_metadata=["year"], tenant_key="tenant") as store:
        store.ensure_collection()
        store.upsert([VectorRecord("a#0", "t", [1, 0], None, {"other": 1})])
        store.ensure_collection()
    made = indexed(server)
    assert made[field_name("year")] == "keyword"
    assert made[field_name("tenant")] == {"type": "keyword", "is_tenant": True}
    assert field_name("other") not in made
    assert len(server.asked("PUT", "/index")) == 9
    with opened(server, collection="d", index_metadata=False) as store:
        store.ensure_collection()
        store.upsert([VectorRecord("a#0", "t", [1, 0], None, {"other": 1})])
    assert len(server.asked("PUT", "/index")) == 12


def test_points_of_another_writer_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    client = QdrantClient(":memory:")
    store = QdrantStore(client, dimension=2)
    store.ensure_collection()
    payload = {"id": "old#0", "documentId": "old", "text": "t", "metadata": {"k": 1}}
    client.upsert(
        "agent_rag_chunks", [models.PointStruct(id=chunk_id_to_point_id("old#0"), vector=[1.0, 0.0], payload=payload)]
    )
    with caplog.at_level(logging.WARNING):
        store.ensure_collection()
    assert "1 points of another writer" in caplog.text
    assert "reindex_filters()" in caplog.text
    store.reindex_filters()
    caplog.clear()
    store.ensure_collection()
    assert caplog.text == ""
    client.close()


def test_the_original_can_read_what_we_write() -> None:
    client = QdrantClient(":memory:")
    store = QdrantStore(client, dimension=2)
    store.ensure_collection()
    store.upsert([VectorRecord("faq#2", "text", [1, 0], "faq.md", {"tenantRef": "acme"})])
    (point,) = client.retrieve("agent_rag_chunks", [chunk_id_to_point_id("faq#2")])
    assert point.payload is not None
    kept = {name: point.payload[name] for name in ("id", "documentId", "text", "source", "metadata")}
    assert kept == {
        "id": "faq#2",
        "documentId": "faq",
        "text": "text",
        "source": "faq.md",
        "metadata": {"tenantRef": "acme"},
    }
    condition = models.FieldCondition(key="metadata.tenantRef", match=models.MatchValue(value="acme"))
    assert client.count("agent_rag_chunks", models.Filter(must=[condition])).count == 1
    client.close()

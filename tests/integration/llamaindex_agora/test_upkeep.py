"""Faults of upkeep and operation in LlamaIndex's own parts and their neighbours, each shown to be absent here.

A test is named after what breaks elsewhere; a number is that of an issue or a pull request of run-llama/llama_index.
Those of filters and of search stand in the files beside this one.
"""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery

from agora_core import (
    PgLexicalVectorStore,
    PgVectorStore,
)
from agora_core.errors import DimensionMismatchError, UnsafeRemovalError
from agora_core.filters import field
from llamaindex_agora import AgoraNodeParser, AgoraVectorStore
from tests.contract.llamaindex.stores import Colour, open_adapter
from tests.integration.llamaindex_agora.asking import TEXT, ask, node, vector
from tests.integration.llamaindex_agora.scripted import DIMENSION, WordEmbedding, documents

# ------------------------------------------------------------------------------------------------ lifecycle


def test_new_metadata_needs_a_new_embedding_and_nodes_show_the_old(store: Colour) -> None:
    """17520, 17313, 10460, 13833: `_node_content` keeps a copy. A null in a patch deletes the key."""
    store.add([node("a", k=1, gone=True)])
    before = store.get_nodes()[0].embedding
    assert store.update_metadata("doc", {"k": 2, "gone": None}) == 1
    (after,) = store.get_nodes()
    assert (after.metadata, after.embedding) == ({"k": 2}, before)
    assert ask(store).nodes[0].metadata == {"k": 2}
    assert ask(store, query_str="text", mode=TEXT).nodes[0].metadata == {"k": 2}


def test_a_patch_reaches_the_nodes_of_another_document(store: Colour) -> None:
    """Nodes whose ids look alike belong to the document of their source relation, in the keyword copy too."""
    store.add([node("x#0", "plum", source="one"), node("x#1", "plum", source="other")])
    assert store.update_metadata("one", {"seen": True}) == 1
    shown = {n.node_id: n.metadata for n in ask(store, query_str="plum", mode=TEXT).nodes}
    assert shown == {"x#0": {"seen": True}, "x#1": {}}


def test_delete_does_nothing(store: Colour) -> None:
    """15529, 13537, 6714, 19277, 9245; and turbovec 302: deleting None takes every node without a parent."""
    store.add(
        [node("a", "plum"), node("b", "plum", source="other"), TextNode(id_="c", text="plum", embedding=vector(1.0))]
    )
    store.delete(None)
    assert len(store.get_nodes()) == 3
    store.delete("doc")
    assert ask(store).ids == ["b", "c"]
    assert sorted(ask(store, query_str="plum", mode=TEXT).ids) == ["b", "c"]
    store.delete_nodes(["b"])
    assert ask(store, query_str="plum", mode=TEXT).ids == ["c"]
    store.clear()
    assert ask(store).ids == []


def test_a_delete_that_is_refused_empties_the_keyword_copy(store: Colour) -> None:
    store.add([node("a", "plum")])
    refused: list[dict[str, Any]] = [{"filters": {}}, {"filters": field("k") != 1}, {}]
    for bad in refused:
        with pytest.raises(UnsafeRemovalError):
            store.delete_nodes(**bad)
    assert ask(store, query_str="plum", mode=TEXT).ids == ["a"]
    store.delete_nodes(["a"], filters={"k": []})
    store.delete_nodes(filters={"k": []})
    assert ask(store, query_str="plum", mode=TEXT).ids == ["a"]


def test_ingesting_again_doubles_the_rows(store: Colour) -> None:
    """13461, 10579, 13595; and PGVectorStore inserts a second row for the same node id."""
    for _ in range(2):
        VectorStoreIndex.from_documents(
            documents(),
            storage_context=StorageContext.from_defaults(vector_store=store.target),
            embed_model=WordEmbedding(),
            transformations=[AgoraNodeParser()],
        )
    assert len(store.get_nodes()) == 4
    assert len(ask(store, query_str="leave", mode=TEXT).ids) == 2


def test_the_old_version_is_gone_before_the_new_one_is_written(store: Colour) -> None:
    """22133, 22710, 22816: an add that is refused changes nothing."""
    store.add([node("a", "old")])
    wrong = TextNode(id_="b", text="new", embedding=[1.0])
    with pytest.raises(DimensionMismatchError):
        store.add([node("a", "new"), wrong])
    assert [n.text for n in store.get_nodes()] == ["old"]


# `update_ref_doc` and the pipeline's upserts delete first and write after: that is LlamaIndex's own order, and no store
# can join the two calls. The core's `ingest_documents` and `sync_documents` change places in one step.


def test_nobody_can_list_what_is_indexed(store: Colour) -> None:
    """13537, 9206, 13103."""
    store.add([node("faq#0", k=1), node("faq#1", k=1), node("terms#0", k=2)])
    assert store.target.store.list_document_ids() == ["faq", "terms"]
    assert store.target.store.list_document_ids({"k": 2}) == ["terms"]
    assert [n.node_id for n in store.get_nodes()] == ["faq#0", "faq#1", "terms#0"]


# ------------------------------------------------------------------------------------------------ operations


def test_secrets_appear_in_what_is_dumped() -> None:
    """PGVectorStore's `to_dict()` holds the password."""
    store = AgoraVectorStore(store=PgVectorStore("postgresql://user:hunter2@localhost/db", dimension=3))
    for shown in (repr(store), str(store), store.to_json(), json.dumps(store.to_dict()), repr(store.client)):
        assert "hunter2" not in shown


def test_async_needs_a_second_client_or_url(kind: str, request: pytest.FixtureRequest) -> None:
    """PGVectorStore wants a second URL, QdrantVectorStore a second client; here one object serves both colours."""
    conninfo = str(request.getfixturevalue("pg_conninfo")) if kind == "postgres" else ""
    with open_adapter(kind, "sync", conninfo, dimension=DIMENSION) as store:
        adapter: AgoraVectorStore = store.target
        adapter.add([node("a")])

        async def both() -> None:
            await adapter.async_add([node("b")])
            query = VectorStoreQuery(query_embedding=vector(1.0), similarity_top_k=5)
            found = await asyncio.gather(*(adapter.aquery(query) for _ in range(20)))
            assert all(result.ids == ["a", "b"] for result in found)

        for _ in range(2):
            asyncio.run(both())
        assert ask(store).ids == ["a", "b"]


def test_threads_share_a_store(store: Colour) -> None:
    """haystack-core-integrations 1356: one connection, and all wait for it or break it."""
    store.add([node("a")])
    adapter, failed = store.target, []

    def work() -> None:
        try:
            for _ in range(5):
                assert adapter.query(VectorStoreQuery(query_embedding=vector(1.0))).ids == ["a"]
        except Exception as error:  # told to the test
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []


def test_two_tables_in_one_schema(pg_conninfo: str, fresh_name: str) -> None:
    """pgvector-haystack names all its indexes alike; 19451: closing one store closes another's sessions."""
    stores = [PgLexicalVectorStore(pg_conninfo, table=f"{fresh_name}_{n}", dimension=DIMENSION) for n in range(2)]
    for n, core in enumerate(stores):
        core.ensure_schema()
        AgoraVectorStore(store=core).add([node(f"in {n}")])
    stores[0].close()
    assert ask(Colour(AgoraVectorStore(store=stores[1]), None)).ids == ["in 1"]
    stores[1].close()


def test_empty_answers_keep_their_connections(pg_conninfo: str, fresh_name: str) -> None:
    """open-webui 30142: more empty reads than there are connections."""
    with PgVectorStore(pg_conninfo, table=fresh_name, dimension=DIMENSION) as core:
        core.ensure_schema()
        store = Colour(AgoraVectorStore(store=core), None)
        for _ in range(40):
            assert ask(store).ids == []
            assert store.get_nodes() == []


def test_a_narrow_filter_finds_a_few_of_many(pg_conninfo: str, fresh_name: str) -> None:
    """pgvector 259, akb 212: PGVectorStore finds 6 of 20 among 400 that match, and 40 of 100 unfiltered."""
    import numpy as np

    vectors = np.random.default_rng(7).standard_normal((1_500, DIMENSION))
    nodes = [
        TextNode(id_=f"n{n:04}", text="x", metadata={"k": n % 15}, embedding=row)
        for n, row in enumerate(vectors.tolist())
    ]
    indexed = f"{pg_conninfo}{'&' if '?' in pg_conninfo else '?'}options=-c%20enable_seqscan%3Doff"
    with PgVectorStore(indexed, table=fresh_name, dimension=DIMENSION) as core:
        core.ensure_schema()
        store = Colour(AgoraVectorStore(store=core), None)
        store.add(nodes)
        assert len(ask(store, similarity_top_k=20, filters={"k": 3}).ids) == 20
        assert len(ask(store, similarity_top_k=100).ids) == 100


# haystack-core-integrations 847 (an idle connection is lost), 18507 and 17085 (a pool of one's own), the scope of
# `hnsw.ef_search` and the operator class of halfvec: parts of the core's Postgres store, and tested with it.
# 1738 (which connection strings are meant) is documentation.

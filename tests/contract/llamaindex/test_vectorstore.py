"""What LlamaIndex and its users demand of a vector store, on every store of the core, sync and async."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core.schema import (
    BaseNode,
    Document,
    ImageDocument,
    ImageNode,
    IndexNode,
    MediaResource,
    Node,
    NodeRelationship,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from agora_core.errors import (
    InvalidArgumentError,
    InvalidFilterError,
    InvalidMetadataError,
    UnsafeRemovalError,
    UnsupportedOperationError,
)
from agora_core.filters import field
from llamaindex_agora import AgoraNodeParser, AgoraVectorStore
from tests.contract.llamaindex.stores import KINDS, Colour, open_adapter


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["sync", "async"])
def store(request: pytest.FixtureRequest, kind: str, pg_conninfo: str) -> Iterator[Colour]:
    with open_adapter(kind, request.param, pg_conninfo) as opened:
        yield opened


def node(id: str, text: str = "", embedding: Any = (1, 0, 0), source: str | None = "doc", **metadata: Any) -> TextNode:
    relations = {} if source is None else {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=source)}
    made = TextNode(id_=id, text=text or f"text of {id}", metadata=metadata, relationships=relations)
    made.embedding = [float(x) for x in embedding]
    return made


def ids(result: Any) -> list[str]:
    return list(result.ids)


def query(store: Colour, **options: Any) -> Any:
    options.setdefault("query_embedding", [1.0, 0.0, 0.0])
    options.setdefault("similarity_top_k", 10)
    return store.query(VectorStoreQuery(**options))


def only(key: str, value: Any, operator: FilterOperator = FilterOperator.EQ) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])


class Custom(TextNode):
    """A node class of a user's own."""

    extra: int = 1

    @classmethod
    def class_name(cls) -> str:
        return "CustomNodeOfTheTests"


NODES: list[BaseNode] = [
    TextNode(id_="text", text="plain", metadata={"k": [1, "x", None]}, excluded_llm_metadata_keys=["k"]),
    Node(id_="node", text_resource=MediaResource(text="media")),
    ImageNode(id_="image", text="caption", image_url="http://example.org/i.png"),
    IndexNode(id_="index", text="entry", index_id="other"),
    Document(id_="document", text="whole"),
    ImageDocument(id_="picture", text="seen"),
    Custom(id_="custom", text="mine", extra=7),
]


@pytest.mark.parametrize("given", NODES, ids=lambda given: type(given).__name__)
def test_every_node_type_round_trips(store: Colour, given: BaseNode) -> None:
    given = given.model_copy(deep=True)
    given.embedding = [0.0, 1.0, 0.0]
    assert store.add([given]) == [given.node_id]
    (found,) = store.get_nodes(node_ids=[given.node_id])
    assert found == given
    assert type(found) is type(given)
    (hit,) = query(store, query_embedding=[0.0, 1.0, 0.0]).nodes
    assert (type(hit), hit.get_content(), hit.metadata) == (type(given), given.get_content(), given.metadata)


def test_user_metadata_under_their_names_stays(store: Colour) -> None:
    """`document_id`, `doc_id` and `ref_doc_id` belong to the user."""
    store.add([node("a", document_id="mine", doc_id=3, ref_doc_id=None)])
    assert store.get_nodes(["a"])[0].metadata == {"document_id": "mine", "doc_id": 3, "ref_doc_id": None}


def test_private_keys_are_refused(store: Colour) -> None:
    with pytest.raises(InvalidMetadataError):
        store.add([node("a", _agora_node="x")])
    store.add([node("a")])
    with pytest.raises(InvalidMetadataError):
        store.update_metadata("doc", {"_agora_ref_doc_id": "other"})


def test_adding_again_replaces(store: Colour) -> None:
    store.add([node("a", "old text", old=1)])
    store.add([node("a", "new text", new=1)])
    (found,) = store.get_nodes()
    assert (found.text, found.metadata) == ("new text", {"new": 1})


def test_a_node_without_embedding_writes_nothing(store: Colour) -> None:
    with pytest.raises(InvalidArgumentError, match="'b'"):
        store.add([node("a"), TextNode(id_="b", text="x")])
    assert store.get_nodes() == []


def test_metadata_that_is_not_json_is_refused(store: Colour) -> None:
    with pytest.raises(InvalidMetadataError, match="when"):
        store.add([node("a", when=object())])


def test_unknown_keywords_are_refused(store: Colour) -> None:
    with pytest.raises(TypeError):
        store.query(VectorStoreQuery(query_embedding=[1.0, 0.0, 0.0]), filter={"k": []})
    with pytest.raises(TypeError):
        store.add([node("a")], fitlers=None)


def test_patch_shows_in_nodes_and_filters(store: Colour) -> None:
    """No stale copy of the metadata, whichever way a node comes back."""
    store.add([node("a#0", audience=["public"]), node("other", source="elsewhere", audience=["public"])])
    assert store.update_metadata("doc", {"audience": ["role:ADMIN"], "seen": True}) == 1
    assert store.get_nodes(["a#0"])[0].metadata == {"audience": ["role:ADMIN"], "seen": True}
    (hit,) = query(store, filters=only("audience", ["role:ADMIN"], FilterOperator.ANY)).nodes
    assert hit.metadata == {"audience": ["role:ADMIN"], "seen": True}
    assert ids(query(store, filters=only("audience", ["public"], FilterOperator.ANY))) == ["other"]
    assert store.update_metadata("nobody", {"x": 1}) == 0


def test_no_relation_keeps_the_old_metadata(store: Colour) -> None:
    """A parser copies the document's metadata into the relations of its nodes; a patch reaches these too."""
    document = Document(id_="d", text="one. two. three.", metadata={"audience": ["public"]})
    nodes = AgoraNodeParser(chunk_size=5, overlap=0).get_nodes_from_documents([document])
    for made in nodes:
        made.embedding = [1.0, 0.0, 0.0]
    store.add(nodes)
    assert {n.node_id: n for n in store.get_nodes()} == {n.node_id: n for n in nodes}
    assert store.update_metadata("d", {"audience": ["admin"]}) == len(nodes)
    for found in store.get_nodes():
        assert "public" not in found.to_json()
        assert found.source_node is not None
        assert found.source_node.metadata == {"audience": ["admin"]}


def test_delete_goes_by_source(store: Colour) -> None:
    store.add([node("a"), node("b"), node("c", source="other"), node("orphan", source=None)])
    store.delete(None)
    store.delete("None")
    assert len(store.get_nodes()) == 4
    store.delete("doc")
    assert {n.node_id for n in store.get_nodes()} == {"c", "orphan"}


def test_delete_nodes(store: Colour) -> None:
    store.add([node("a", k=1), node("b", k=2), node("c", k=1)])
    refused: list[dict[str, Any]] = [
        {},
        {"filters": MetadataFilters(filters=[])},
        {"filters": {}},
        {"filters": field("k") != 1},
    ]
    for bad in refused:
        with pytest.raises(UnsafeRemovalError):
            store.delete_nodes(**bad)
    store.delete_nodes(node_ids=[])
    assert len(store.get_nodes()) == 3
    store.delete_nodes(node_ids=["a", "b", "nobody"], filters=only("k", 2))
    assert {n.node_id for n in store.get_nodes()} == {"a", "c"}
    store.delete_nodes(filters=only("k", 1))
    assert store.get_nodes() == []


def test_clear(store: Colour) -> None:
    store.add([node("a"), node("b", source=None)])
    store.clear()
    assert store.get_nodes() == []
    assert ids(query(store)) == []


def test_get_nodes(store: Colour) -> None:
    store.add([node("a", k=1), node("b", k=2)])
    assert [n.node_id for n in store.get_nodes(["b", "nobody", "a"])] == ["b", "a"]
    assert store.get_nodes(node_ids=[]) == []
    assert [n.node_id for n in store.get_nodes(filters=only("k", 2))] == ["b"]
    assert store.get_nodes(["a"], filters=only("k", 2)) == []
    assert store.get_nodes(["a"])[0].embedding == pytest.approx([1, 0, 0])


def test_query_restrictions(store: Colour) -> None:
    """`doc_ids` and `node_ids` are honoured; an empty list is nothing, but for the node ids of `as_retriever`."""
    store.add([node("a"), node("b", source="other"), node("c", source=None)])
    assert ids(query(store)) == ["a", "b", "c"]
    assert ids(query(store, doc_ids=["other"])) == ["b"]
    assert ids(query(store, doc_ids=[])) == []
    assert ids(query(store, node_ids=["c", "a"])) == ["a", "c"]
    assert ids(query(store, node_ids=[])) == ["a", "b", "c"]
    assert ids(query(store, doc_ids=["doc"], node_ids=["b"])) == []


def test_similarities_are_higher_for_nearer(store: Colour) -> None:
    store.add([node("far", embedding=[-1, 0, 0]), node("near", embedding=[1, 0, 0]), node("zero", embedding=[0, 0, 0])])
    result = query(store)
    assert ids(result) == ["near", "zero", "far"]
    assert result.similarities == pytest.approx([1, 0, -1])


def test_two_conditions_on_one_key_are_both_kept(store: Colour) -> None:
    store.add([node("a", audience=["public", "x"]), node("b", audience=["public"])])
    both = MetadataFilters(
        filters=[
            MetadataFilter(key="audience", value=["public"], operator=FilterOperator.ANY),
            MetadataFilter(key="audience", value=["x"], operator=FilterOperator.ANY),
        ]
    )
    assert ids(query(store, filters=both)) == ["a"]


def test_injection_is_a_value(store: Colour) -> None:
    """A value that would end a statement cannot cancel the condition beside it."""
    store.add([node("a", audience=["public"], name="x"), node("b", audience=["admin"], name="x")])
    for value in ("x' OR '1'='1", "team :b", "100%", "a--", 'q"', "\\"):
        filters = MetadataFilters(
            filters=[
                MetadataFilter(key="audience", value=["public"], operator=FilterOperator.ANY),
                MetadataFilter(key="name", value=value),
            ]
        )
        assert ids(query(store, filters=filters)) == []
        filters.condition = FilterCondition.OR
        assert ids(query(store, filters=filters)) == ["a"]
        key = MetadataFilters(filters=[MetadataFilter(key=value, value=1)])
        assert ids(query(store, filters=key)) == []


def test_empty_groups(store: Colour) -> None:
    store.add([node("a"), node("b")])
    assert ids(query(store, filters=MetadataFilters(filters=[]))) == ["a", "b"]
    nested = MetadataFilters(filters=[MetadataFilters(filters=[])])
    with pytest.raises(InvalidFilterError):
        query(store, filters=nested)


TEXTS = [
    node("d#0", "apples grow on trees", [1, 0, 0], k=1),
    node("d#1", "cherries ripen in june", [0.9, 0.1, 0], k=1),
    node("d#2", "bananas are yellow", [0, 1, 0], k=2),
    node("d#3", "june is warm", [-1, 0, 0], k=2),
]


def test_text_search(store: Colour) -> None:
    store.add(TEXTS)
    mode = VectorStoreQueryMode.TEXT_SEARCH
    found = store.query(VectorStoreQuery(query_str="june cherries", similarity_top_k=5, mode=mode))
    assert ids(found) == ["d#1", "d#3"]
    limited = VectorStoreQuery(query_str="june cherries", similarity_top_k=5, mode=mode, filters=only("k", 2))
    assert ids(store.query(limited)) == ["d#3"]
    assert ids(store.query(VectorStoreQuery(query_str="zzz", similarity_top_k=5, mode=mode))) == []
    # A second query is not answered by the first.
    assert ids(store.query(VectorStoreQuery(query_str="bananas", similarity_top_k=5, mode=mode))) == ["d#2"]


def test_hybrid(store: Colour) -> None:
    """Reciprocal rank fusion by id: `alpha` 1 is the embedding, 0 the text, and `hybrid_top_k` cuts the result."""
    store.add(TEXTS)

    def hybrid(**options: Any) -> list[str]:
        options = {"query_str": "june", "similarity_top_k": 3, "mode": VectorStoreQueryMode.HYBRID, **options}
        return ids(query(store, **options))

    assert hybrid(alpha=1.0) == ["d#0", "d#1", "d#2"]
    assert sorted(hybrid(alpha=0.0)) == ["d#1", "d#3"]
    assert hybrid()[0] == "d#1"
    assert len(hybrid(hybrid_top_k=1)) == 1
    assert hybrid(similarity_top_k=1, sparse_top_k=1, hybrid_top_k=10)[0] in ("d#0", "d#1", "d#3")
    assert set(hybrid(filters=only("k", 2))) == {"d#2", "d#3"}
    with pytest.raises(InvalidArgumentError, match="alpha"):
        hybrid(alpha=1.5)


def test_mmr(store: Colour) -> None:
    store.add(TEXTS)
    mode = VectorStoreQueryMode.MMR
    relevant = query(store, mode=mode, similarity_top_k=2, mmr_threshold=1.0)
    diverse = query(store, mode=mode, similarity_top_k=2, mmr_threshold=0.0)
    assert ids(relevant) == ["d#0", "d#1"]
    assert ids(diverse)[0] == "d#0"
    assert ids(diverse)[1] != "d#1"
    assert all(type(score) is float for score in relevant.similarities)
    by_keyword = store.query(
        VectorStoreQuery(query_embedding=[1.0, 0.0, 0.0], similarity_top_k=2, mode=mode), mmr_threshold=1.0
    )
    assert ids(by_keyword) == ["d#0", "d#1"]


def test_unsupported_modes_are_named(store: Colour) -> None:
    with pytest.raises(UnsupportedOperationError, match="HYBRID"):
        query(store, mode=VectorStoreQueryMode.SVM)


def test_results_are_fresh(store: Colour) -> None:
    store.add([node("a", tags=["x"])])
    query(store).nodes[0].metadata["tags"].append("y")
    assert query(store).nodes[0].metadata == {"tags": ["x"]}


def test_a_store_without_text_search_says_so() -> None:
    from agora_core import MemoryVectorStore

    bare = AgoraVectorStore(store=MemoryVectorStore())
    with pytest.raises(UnsupportedOperationError, match="keyword"):
        bare.query(VectorStoreQuery(query_str="x", mode=VectorStoreQueryMode.TEXT_SEARCH))


async def test_the_legs_of_an_async_hybrid_run_at_the_same_time() -> None:
    from agora_core import KeywordRetriever, MemoryVectorStore

    both = asyncio.Event()
    waiting = 0

    async def meet() -> None:
        nonlocal waiting
        waiting += 1
        if waiting == 2:
            both.set()
        await asyncio.wait_for(both.wait(), timeout=30)

    class Store(MemoryVectorStore):
        async def asearch(self, *args: Any, **options: Any) -> Any:
            await meet()
            return self.search(*args, **options)

    class Keyword(KeywordRetriever):
        async def aretrieve(self, *args: Any, **options: Any) -> Any:
            await meet()
            return self.retrieve(*args, **options)

    adapter = AgoraVectorStore(store=Store(), keyword=Keyword())
    adapter.add(TEXTS)
    asked = VectorStoreQuery(
        query_embedding=[1.0, 0.0, 0.0], query_str="june", similarity_top_k=2, mode=VectorStoreQueryMode.HYBRID
    )
    assert ids(await adapter.aquery(asked)) == ids(adapter.query(asked))


async def test_postgres_never_blocks_the_loop(pg_conninfo: str) -> None:
    """A heartbeat keeps ticking while the database is slow: a lock holds up each call for a while."""
    import uuid

    import psycopg

    from agora_core import PgLexicalVectorStore

    def modes(mode: VectorStoreQueryMode) -> Any:
        asked = VectorStoreQuery(query_embedding=[1.0, 0.0, 0.0], query_str="text", mode=mode)
        return lambda: adapter.aquery(asked)

    table = f"li_beat_{uuid.uuid4().hex[:8]}"
    async with PgLexicalVectorStore(pg_conninfo, table=table, dimension=3) as core:
        core.ensure_schema()
        adapter = AgoraVectorStore(store=core)
        await adapter.async_add([node("a")])
        calls: list[Any] = [
            *map(modes, (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.TEXT_SEARCH)),
            *map(modes, (VectorStoreQueryMode.HYBRID, VectorStoreQueryMode.MMR)),
            lambda: adapter.aget_nodes(["a"]),
            lambda: adapter.aget_nodes(filters=only("k", 1)),
            lambda: adapter.async_add([node("b")]),
            lambda: adapter.aupdate_metadata("doc", {"k": 1}),
            lambda: adapter.adelete_nodes(["b"]),
            lambda: adapter.adelete_nodes(filters=only("k", 1)),
            lambda: adapter.adelete("doc"),
            lambda: adapter.aclear(),
        ]
        for call in calls:
            async with await psycopg.AsyncConnection.connect(pg_conninfo) as blocker:
                await blocker.execute(psycopg.sql.SQL("LOCK TABLE {}").format(psycopg.sql.Identifier(table)))
                running = asyncio.create_task(call())
                # The ticks of the heartbeat: a call that blocked the loop would never let go of the lock.
                for _ in range(5):
                    await asyncio.sleep(0.01)
                assert not running.done()
                await blocker.rollback()
                await running

"""What bounds a LlamaIndex store beside a keyword index, and what a stored record may do to a query."""

from __future__ import annotations

import asyncio
import copy
import datetime as dt
import decimal
import gc
import json
import logging
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llama_index.core import StorageContext, VectorStoreIndex, load_index_from_storage
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.node_parser import HierarchicalNodeParser, get_leaf_nodes
from llama_index.core.postprocessor import PrevNextNodePostprocessor
from llama_index.core.retrievers import AutoMergingRetriever
from llama_index.core.schema import (
    Document,
    ImageNode,
    MetadataMode,
    NodeRelationship,
    NodeWithScore,
    RelatedNodeInfo,
    TextNode,
)
from llama_index.core.vector_stores.types import (
    FilterCondition,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from agora_core import (
    HybridRetriever,
    InvalidFilterError,
    InvalidMetadataError,
    KeywordRetriever,
    MemoryVectorStore,
    UnsupportedOperationError,
    VectorRecord,
    field,
)
from llamaindex_agora import AccessFilterPostprocessor, AgoraVectorStore, LlamaIndexRetriever
from llamaindex_agora.nodes import passage_to_node

# LlamaIndex looks for a bridge to LangChain when it resolves a model.
pytestmark = pytest.mark.filterwarnings("ignore:.*langchain-community.*:DeprecationWarning")

COLOURS = pytest.mark.parametrize("colour", ["sync", "async"])
TEXT, HYBRID = VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.HYBRID


def node(id: str, text: str = "salary", **metadata: Any) -> TextNode:
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="doc")}
    return TextNode(id_=id, text=text, metadata=metadata, embedding=[1.0, 0.0], relationships=source)


def ask(store: AgoraVectorStore, colour: str = "sync", **options: Any) -> list[str]:
    query = VectorStoreQuery(**{"query_embedding": [1.0, 0.0], "query_str": "salary", "similarity_top_k": 5, **options})
    found = store.query(query) if colour == "sync" else asyncio.run(store.aquery(query))
    assert found.ids is not None
    return sorted(found.ids)


def two_tenants() -> tuple[MemoryVectorStore, KeywordRetriever]:
    store, keyword = MemoryVectorStore(), KeywordRetriever()
    whole = AgoraVectorStore(store, keyword=keyword)
    whole.add([node("a", tenant="a", year=2024), node("b", tenant="b", year=2024), node("old", tenant="a", year=1)])
    return store, keyword


class Delegating:
    """Somebody's wrapper around a store: it has what the store has."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


TENANT = "a"
BOUNDS: dict[str, Any] = {
    "stack": lambda store: store.scoped({"tenant": "a"}).scoped({"year": 2024}),
    "one": lambda store: store.scoped({"tenant": "a", "year": 2024}),
    "wrapper": lambda store: Delegating(store.scoped({"tenant": "a"}).scoped({"year": 2024})),
}


@COLOURS
@pytest.mark.parametrize("mode", [TEXT, HYBRID, VectorStoreQueryMode.DEFAULT, "text_search", "hybrid", "mmr"])
@pytest.mark.parametrize("bound", [*BOUNDS, "function", "function on a scope"])
def test_whatever_bounds_the_store_bounds_the_index_beside_it(colour: str, mode: Any, bound: str) -> None:
    """A stack counted only its outermost filter, and what is no view of the core counted as unbounded."""
    store, keyword = two_tenants()
    if bound in BOUNDS:
        view = AgoraVectorStore(BOUNDS[bound](store), keyword=keyword)
    elif bound == "function":
        view = AgoraVectorStore(store, keyword=keyword).scoped(lambda: {"tenant": TENANT, "year": 2024})
    else:
        view = AgoraVectorStore(store.scoped({"year": 2024}), keyword=keyword).scoped(lambda: {"tenant": TENANT})
    assert ask(view, colour, mode=mode) == ["a"]


@COLOURS
def test_removals_and_patches_through_a_view_leave_the_others_in_both(colour: str) -> None:
    store, keyword = two_tenants()
    view = AgoraVectorStore(store, keyword=keyword).scoped(lambda: {"tenant": TENANT})
    if colour == "sync":
        view.update_metadata("doc", {"seen": True})
        view.delete_nodes(["b", "old"])
        view.delete("doc")
    else:
        asyncio.run(view.aupdate_metadata("doc", {"seen": True}))
        asyncio.run(view.adelete_nodes(["b", "old"]))
        asyncio.run(view.adelete("doc"))
    whole = AgoraVectorStore(store, keyword=keyword)
    assert ask(whole, mode=TEXT) == ask(whole) == ["b"]
    assert "seen" not in (store.get(["b"])[0].metadata or {})


@COLOURS
@pytest.mark.parametrize("answer", [None, "all", ["tenant"], {"tenant": {"$ne": ""}}, PermissionError("no")])
def test_a_scope_function_without_a_filter_fails_the_call(colour: str, answer: Any) -> None:
    def scope() -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    store, keyword = two_tenants()
    view = AgoraVectorStore(store, keyword=keyword).scoped(scope)
    for mode in (TEXT, HYBRID, VectorStoreQueryMode.DEFAULT):
        with pytest.raises((InvalidFilterError, PermissionError)):
            ask(view, colour, mode=mode)
    with pytest.raises((InvalidFilterError, PermissionError)):
        view.delete("doc")
    assert store.count() == 3


def test_a_scope_function_may_be_async_and_may_answer_with_their_filters() -> None:
    async def scope() -> MetadataFilters:
        await asyncio.sleep(0)
        return MetadataFilters(filters=[MetadataFilter(key="tenant", value="b")])

    store, keyword = two_tenants()
    view = AgoraVectorStore(store, keyword=keyword).scoped(scope)
    assert ask(view, "async", mode=HYBRID) == ["b"]
    with pytest.raises(UnsupportedOperationError, match="async"):
        ask(view)


def test_a_store_that_does_not_say_what_bounds_it_gets_no_index_beside_it() -> None:
    class Silent:
        def search(self, embedding: Any, *, top_k: int, filter: Any = None) -> list[Any]:
            return []

    with pytest.raises(UnsupportedOperationError, match="no attribute 'scope'"):
        AgoraVectorStore(Silent(), keyword=KeywordRetriever())
    AgoraVectorStore(Silent())


def test_a_label_that_the_store_changed_is_changed_for_the_index_too() -> None:
    store, keyword = two_tenants()
    view = AgoraVectorStore(store, keyword=keyword)
    store.delete(["b"])
    assert ask(view, mode=TEXT) == ["a", "old"]


# ---------------------------------------------------------------- nothing, and values of enums


@pytest.mark.parametrize("condition", ["or", FilterCondition.OR])
def test_or_over_no_filters_is_nothing(condition: Any) -> None:
    """An actor without a single right sees nothing: `[filter for group in groups]` is empty."""
    store, keyword = two_tenants()
    nothing = MetadataFilters(filters=[], condition=condition)
    view = AgoraVectorStore(store, keyword=keyword)
    for mode in (TEXT, HYBRID, VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR):
        assert ask(view, mode=mode, filters=nothing) == []
    assert view.get_nodes(filters=nothing) == []
    guard = AccessFilterPostprocessor(filter=nothing)
    assert guard.postprocess_nodes([passage_to_node(p) for p in store.search([1.0, 0.0], top_k=3)]) == []


@pytest.mark.parametrize("condition", ["and", "not", None])
def test_and_and_not_over_no_filters_restrict_nothing(condition: Any) -> None:
    store, _ = two_tenants()
    assert ask(AgoraVectorStore(store), filters=MetadataFilters(filters=[], condition=condition)) == ["a", "b", "old"]


def test_plain_strings_of_an_enum_are_its_members() -> None:
    """They are equal to the members, and a dictionary of members does not find them."""
    store, keyword = two_tenants()
    view = AgoraVectorStore(store, keyword=keyword)
    one = MetadataFilter(key="tenant", value="b")
    one.operator = "=="  # type: ignore[assignment]
    group = MetadataFilters(filters=[one])
    group.condition = "or"  # type: ignore[assignment]
    assert ask(view, filters=group, mode="mmr") == ask(view, filters=group, mode="hybrid") == ["b"]
    one.operator = "~"  # type: ignore[assignment]
    with pytest.raises(InvalidFilterError, match="'~'"):
        ask(view, filters=group)
    with pytest.raises(UnsupportedOperationError, match="'svmm'"):
        ask(view, mode="svmm")


def test_hybrid_looks_deeper_than_it_answers() -> None:
    """A passage first in text and third in vectors lost to one without any match of text."""
    keyword = KeywordRetriever()
    view = AgoraVectorStore(MemoryVectorStore(), keyword=keyword)
    texts = {"aaa": "nothing", "bbb": "nothing", "best": "plum"}
    for place, (id, text) in enumerate(texts.items()):
        one = node(id, text)
        one.embedding = [1.0, 0.1 * place]
        view.add([one])
    assert ask(view, mode=HYBRID, query_str="plum", similarity_top_k=1) == ["best"]


# ---------------------------------------------------------------- poisoned records


POISON = [
    "not json",
    "[]",
    "7",
    "null",
    '"text"',
    "[" * 100_000,
    '{"class_name": "ImageNode", "image_path": "/etc/passwd"}',
    '{"class_name": "Node", "image_resource": {"path": "/etc/passwd"}}',
    '{"class_name": "TextNode", "text_resource": {}, "text": "forged", "id_": "x", "metadata": {"tenant": "b"}}',
    '{"class_name": "TextNode", "embedding": [9], "relationships": 7}',
    '{"class_name": {}, "relationships": {"1": {"node_id": []}}}',
    '{"class_name": "Document", "text_template": 7}',
]


@COLOURS
@pytest.mark.parametrize("blob", POISON, ids=range(len(POISON)))
def test_a_poisoned_record_neither_breaks_nor_steers_a_query(colour: str, blob: str) -> None:
    store = MemoryVectorStore()
    bad = VectorRecord("bad", "as stored", [1.0, 0.0], None, {"tenant": "a", "_agora_node": blob})
    store.upsert([bad, VectorRecord("good", "good", [1.0, 0.1])])
    view = AgoraVectorStore(store)
    query = VectorStoreQuery(query_embedding=[1.0, 0.0], similarity_top_k=5)
    found = view.query(query) if colour == "sync" else asyncio.run(view.aquery(query))
    assert found.nodes is not None
    for one in [*found.nodes, *view.get_nodes(["bad", "good"])]:
        assert one.get_content() in ("as stored", "tenant: a\n\nas stored", "good")
        assert "/etc/passwd" not in one.model_dump_json()
    assert {one.node_id: one.metadata for one in found.nodes} == {"bad": {"tenant": "a"}, "good": {}}


def test_an_image_of_ones_own_comes_back_without_its_path() -> None:
    view = AgoraVectorStore(MemoryVectorStore())
    view.add(
        [ImageNode(id_="i", text="caption", image_path="i.png", image_url="https://example.com/i", embedding=[1.0])]
    )
    (found,) = view.get_nodes(["i"])
    assert isinstance(found, ImageNode)
    assert (found.image_url, found.image_path) == ("https://example.com/i", None)


# ---------------------------------------------------------------- what is nearly JSON


def odd() -> TextNode:
    return node(
        "odd",
        "be\x00fore",
        day=dt.date(2024, 1, 2),
        at=dt.datetime(2024, 1, 2, 3, 4, tzinfo=dt.timezone.utc),
        path=Path("a/b"),
        price=decimal.Decimal("1.5"),
        count=np.int64(3),
        score=np.float32(0.5),
        flag=np.bool_(True),
        note="x\x00y",
    )


COERCED = {
    "day": "2024-01-02",
    "at": "2024-01-02T03:04:00+00:00",
    "path": "a/b",
    "price": 1.5,
    "count": 3,
    "score": 0.5,
    "flag": True,
    "note": "xy",
}


@COLOURS
def test_what_is_nearly_json_is_stored_as_json_and_told_once(colour: str, caplog: pytest.LogCaptureFixture) -> None:
    """Nodes with dates, paths, decimals, numpy's numbers and U+0000 were refused after all had been embedded."""
    view = AgoraVectorStore(MemoryVectorStore())
    given = odd()
    before = dict(given.metadata)
    with caplog.at_level(logging.WARNING, logger="agora_core.coercion"):
        for _ in range(2):
            assert (view.add([given]) if colour == "sync" else asyncio.run(view.async_add([given]))) == ["odd"]
    assert len({record.getMessage() for record in caplog.records}) == len(caplog.records)
    (found,) = view.get_nodes(["odd"])
    assert (found.get_content(MetadataMode.NONE), found.metadata) == ("before", COERCED)
    assert given.metadata == before
    assert [n.node_id for n in view.get_nodes(filters=field("day") >= "2024-01-01")] == ["odd"]
    view.update_metadata("doc", {"day": dt.date(2025, 1, 1)})
    assert view.get_nodes(["odd"])[0].metadata["day"] == "2025-01-01"


def test_without_coercion_it_is_refused() -> None:
    strict = AgoraVectorStore(MemoryVectorStore(), coerce=False)
    with pytest.raises((InvalidMetadataError, TypeError, ValueError)):
        strict.add([odd()])
    with pytest.raises(InvalidMetadataError):
        AgoraVectorStore(MemoryVectorStore()).add([node("a", bad=object())])


# ---------------------------------------------------------------- files, copies, legs


@pytest.mark.parametrize("with_keyword", [False, True])
def test_persist_writes_the_vectors(tmp_path: Path, with_keyword: bool) -> None:
    """It wrote the documents and no vectors, and said nothing."""
    view = AgoraVectorStore(MemoryVectorStore(), keyword=KeywordRetriever() if with_keyword else None)
    index = VectorStoreIndex(
        [TextNode(id_="a", text="salary")],
        storage_context=StorageContext.from_defaults(vector_store=view),
        embed_model=MockEmbedding(3),
    )
    folder = str(tmp_path / "kept")
    index.storage_context.persist(folder)
    again = AgoraVectorStore.from_persist_dir(folder)
    assert [one.node_id for one in again.get_nodes()] == ["a"]
    loaded: Any = load_index_from_storage(
        StorageContext.from_defaults(vector_store=again, persist_dir=folder), embed_model=MockEmbedding(3)
    )
    assert [hit.node.node_id for hit in loaded.as_retriever().retrieve("salary")] == ["a"]
    if with_keyword:
        assert ask(again, mode=TEXT) == ["a"]


def test_persist_goes_through_a_file_system_of_theirs(tmp_path: Path) -> None:
    import fsspec

    view = AgoraVectorStore(MemoryVectorStore())
    view.add([node("a")])
    files = fsspec.filesystem("memory")
    view.persist("/kept/default__vector_store.json", fs=files)
    files.get("/kept/default__vector_store.json", str(tmp_path / "local"))
    assert [one.node_id for one in AgoraVectorStore.from_persist_path(str(tmp_path / "local")).get_nodes()] == ["a"]


def test_what_cannot_be_persisted_says_so(tmp_path: Path) -> None:
    view = AgoraVectorStore(MemoryVectorStore()).scoped({"tenant": "a"})
    with pytest.raises(UnsupportedOperationError, match="cannot be saved"):
        view.persist(str(tmp_path / "x"))
    assert list(tmp_path.iterdir()) == []


def test_a_deep_copy_is_another_handle_of_the_same_store() -> None:
    view = AgoraVectorStore(MemoryVectorStore(), keyword=KeywordRetriever())
    twin = copy.deepcopy(view)
    twin.add([node("a")])
    assert ask(view, mode=HYBRID) == ["a"]
    assert twin.store is view.store


@COLOURS
def test_a_leg_of_theirs_shows_no_private_keys(colour: str) -> None:
    view = AgoraVectorStore(MemoryVectorStore())
    given = node("a", "salary", tenant="a")
    view.add([given])
    index = VectorStoreIndex.from_vector_store(view, embed_model=MockEmbedding(2))
    leg = LlamaIndexRetriever(index.as_retriever())
    hybrid = HybridRetriever([leg, LlamaIndexRetriever(index.as_retriever(similarity_top_k=1))])
    for retriever in (leg, hybrid):
        found = retriever.retrieve("x") if colour == "sync" else asyncio.run(retriever.aretrieve("x"))
        assert [passage.metadata for passage in found] == [{"tenant": "a"}]
    back = passage_to_node(leg.retrieve("x")[0]).node
    assert back.ref_doc_id == "doc"
    json.dumps(found[0].metadata)


# ---------------------------------------------------------------- the event loop


async def test_many_nodes_do_not_hold_up_the_loop() -> None:
    nodes = [node(f"n{n}", "salary " * 5, tenant="a", number=n) for n in range(4000)]
    view = AgoraVectorStore(MemoryVectorStore())
    worst, done = 0.0, threading.Event()

    async def heartbeat() -> None:
        nonlocal worst
        while not done.is_set():
            begun = time.perf_counter()
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - begun)

    await view.async_add(nodes[:1])
    await view.aget_nodes()
    # A collection stops every thread, whoever made the garbage.
    gc.disable()
    try:
        beating = asyncio.create_task(heartbeat())
        await view.async_add(nodes)
        await view.aget_nodes()
        done.set()
        await beating
    finally:
        gc.enable()
    # 0.02 s on a machine of one's own; other processes share this one.
    assert worst < 0.15


# ---------------------------------------------------------------- neighbours and parents


def test_neighbours_and_parents_come_from_the_store_itself() -> None:
    """PrevNextNodePostprocessor and auto-merging without a second document store, within the bounds of the view."""
    view = AgoraVectorStore(MemoryVectorStore())
    storage = StorageContext.from_defaults(vector_store=view, docstore=view.docstore)
    whole = HierarchicalNodeParser.from_defaults(chunk_sizes=[64, 16], chunk_overlap=0)(
        [Document(id_="d", text="Paid leave is thirty days a year for everybody here. " * 6, metadata={"tenant": "a"})]
    )
    leaves = {leaf.node_id for leaf in get_leaf_nodes(whole)}
    for one in whole:
        one.metadata["leaf"] = "yes" if one.node_id in leaves else "no"
        one.embedding = [1.0, 0.5]
    view.add(whole)
    index = VectorStoreIndex.from_vector_store(view, embed_model=MockEmbedding(2))
    only_leaves = MetadataFilters(filters=[MetadataFilter(key="leaf", value="yes")])
    base: Any = index.as_retriever(similarity_top_k=len(leaves), filters=only_leaves)
    merged = AutoMergingRetriever(base, storage).retrieve("leave")
    assert merged
    assert not {hit.node.node_id for hit in merged} & leaves
    first, second = node("first", tenant="a"), node("second", tenant="a")
    first.relationships[NodeRelationship.NEXT] = RelatedNodeInfo(node_id="second")
    view.add([first, second])
    beside = PrevNextNodePostprocessor(docstore=view.docstore, mode="next", num_nodes=1)
    found = beside.postprocess_nodes([NodeWithScore(node=first)])
    assert [hit.node.node_id for hit in found] == ["first", "second"]
    hidden = view.scoped({"tenant": "b"}).docstore
    assert not hidden.document_exists(first.node_id)
    assert not asyncio.run(hidden.adocument_exists(first.node_id))
    with pytest.raises(ValueError, match="not found"):
        hidden.get_node(first.node_id)
    assert asyncio.run(view.docstore.aget_document(first.node_id)) is not None

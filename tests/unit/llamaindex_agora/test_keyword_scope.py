"""A keyword index beside a scoped store, and removals that are refused: neither may leak or half happen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from agora_core import InvalidArgumentError, KeywordRetriever, MemoryVectorStore, UnsafeRemovalError
from agora_core.filters import field
from llamaindex_agora import AgoraRetriever, AgoraVectorStore

Answer = Callable[[Any, str, Any], Any]


def answer_sync(target: Any, method: str, *arguments: Any, **options: Any) -> Any:
    return getattr(target, method)(*arguments, **options)


def answer_async(target: Any, method: str, *arguments: Any, **options: Any) -> Any:
    names = {"add": "async_add", "delete_nodes": "adelete_nodes", "query": "aquery", "delete": "adelete"}
    return asyncio.run(getattr(target, names[method])(*arguments, **options))


@pytest.fixture(params=[answer_sync, answer_async], ids=["sync", "async"])
def answer(request: pytest.FixtureRequest) -> Any:
    return request.param


def node(id: str, **metadata: Any) -> TextNode:
    made = TextNode(id_=id, text=f"words of {id}", metadata=metadata)
    made.embedding = [1.0, 0.0]
    return made


def words(mode: VectorStoreQueryMode, **options: Any) -> VectorStoreQuery:
    return VectorStoreQuery(
        query_str="words", query_embedding=[1.0, 0.0], similarity_top_k=9, sparse_top_k=9, mode=mode, **options
    )


TEXT_MODES = [VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.SPARSE, VectorStoreQueryMode.HYBRID]


@pytest.mark.parametrize("mode", TEXT_MODES)
@pytest.mark.parametrize("on_write", ["check", "stamp"])
def test_the_scope_of_a_store_holds_in_the_keyword_index_beside_it(answer: Any, mode: Any, on_write: Any) -> None:
    core, keyword = MemoryVectorStore(), KeywordRetriever()
    for tenant in ("a", "b"):
        view = AgoraVectorStore(core.scoped({"tenant": tenant}, on_write=on_write), keyword=keyword)
        own = {} if on_write == "stamp" else {"tenant": tenant}
        answer(view, "add", [node(f"{tenant}1", **own), node(f"{tenant}2", **own)])
    view = AgoraVectorStore(core.scoped({"tenant": "a"}), keyword=keyword)
    everyone = MetadataFilters(filters=[MetadataFilter(key="x", value=1, operator=FilterOperator.NE)])
    for filters in (None, MetadataFilters(filters=[]), everyone):
        found = answer(view, "query", words(mode, filters=filters))
        assert sorted(found.ids) == ["a1", "a2"]
    other = MetadataFilters(filters=[MetadataFilter(key="tenant", value="b")])
    assert answer(view, "query", words(mode, filters=other)).ids == []


def test_a_removal_that_the_store_refuses_removes_nothing_from_the_keyword_index(answer: Any) -> None:
    store = AgoraVectorStore(MemoryVectorStore(), keyword=KeywordRetriever())
    answer(store, "add", [node("a", k=1), node("b", k=2)])
    unbounded = MetadataFilters(filters=[MetadataFilter(key="k", value=9, operator=FilterOperator.NE)])
    refused: list[Any] = [unbounded, field("k") != 9, {}, MetadataFilters(filters=[])]
    for filters in refused:
        with pytest.raises(UnsafeRemovalError):
            answer(store, "delete_nodes", filters=filters)
    assert sorted(answer(store, "query", words(VectorStoreQueryMode.TEXT_SEARCH)).ids) == ["a", "b"]
    answer(store, "delete_nodes", node_ids=["a"], filters=unbounded)
    assert answer(store, "query", words(VectorStoreQueryMode.TEXT_SEARCH)).ids == ["b"]


@pytest.mark.parametrize("ref_doc_id", [["a", "b"], {"a": 1}, 1, []])
def test_what_is_no_document_id_deletes_nothing(answer: Any, ref_doc_id: Any) -> None:
    store = AgoraVectorStore(MemoryVectorStore())
    with pytest.raises(InvalidArgumentError, match="ref_doc_id"):
        answer(store, "delete", ref_doc_id)
    with pytest.raises(InvalidArgumentError, match="ref_doc_id"):
        store.update_metadata(ref_doc_id, {"k": 1})


class Greedy:
    """A retriever that changes the filter it is handed."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def retrieve(self, query: str, *, top_k: int, filter: Any) -> list[Any]:
        self.seen.append(dict(filter))
        filter.clear()
        return []


def test_a_retriever_cannot_change_the_filter_it_was_given() -> None:
    greedy = Greedy()
    retriever = AgoraRetriever(retriever=greedy, filter={"tenant": "a"})
    for _ in range(2):
        retriever.retrieve("words")
    assert greedy.seen == [{"tenant": "a"}, {"tenant": "a"}]

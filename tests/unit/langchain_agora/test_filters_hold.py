"""Operator dicts and retrievers that would slip through a filter, and must not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever

from agora_core import InvalidFilterError, MemoryVectorStore, Passage, matches_filter
from langchain_agora import AgoraVectorStore, LangChainRetriever
from langchain_agora.filters import to_core_filter


@pytest.mark.parametrize("operator", ["$regex", "$like", "$ilike", "$contains", "$all", "$elemMatch", "$eq", "$and"])
def test_an_operator_inside_an_object_is_refused_known_or_not(operator: str) -> None:
    hidden = {"author": {"name": {operator: "x"}}}
    for filter in (
        hidden,
        {"author": [{operator: "x"}]},
        {"$not": hidden},
        {"$not": [hidden]},
        {"$or": [{"tenant": "a"}, hidden]},
        {"$and": [{"year": {"$gt": 1}}, hidden]},
    ):
        with pytest.raises(InvalidFilterError, match="inside an object"):
            to_core_filter(filter)


def test_an_object_with_such_a_key_is_compared_through_eq() -> None:
    assert matches_filter({"a": {"$ref": 1}}, to_core_filter({"a": {"$eq": {"$ref": 1}}}))


def test_nesting_without_end_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["k"] = loop
    endless: dict[str, Any] = {}
    endless["$not"] = endless
    listed: list[Any] = []
    listed.append(listed)
    for filter in (loop, {"$not": loop}, endless, {"k": listed}, {"$and": [endless]}):
        with pytest.raises(InvalidFilterError, match="nested"):
            to_core_filter(filter)


def test_no_error_shows_the_values_of_a_filter() -> None:
    with pytest.raises(InvalidFilterError) as caught:
        to_core_filter({"acl": {"$not": "token-of-alice"}})
    assert "token-of-alice" not in str(caught.value)


class Greedy(BaseRetriever):
    """Takes a filter apart, as stores do that pop what they understand, and returns everything."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any, where: Any = None) -> list[Document]:
        where.pop("tenant")
        where["tags"].append("b")
        return [
            Document("mine", id="1", metadata={"tenant": "a", "tags": ["a"]}),
            Document("theirs", id="2", metadata={"tenant": "b", "tags": ["a"]}),
            Document("tagged", id="3", metadata={"tenant": "a", "tags": ["b"]}),
        ]

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any, where: Any = None) -> list[Document]:
        return self._get_relevant_documents(query, run_manager=run_manager, where=where)


def test_a_filter_holds_whatever_the_retriever_does_to_its_copy() -> None:
    retriever, filter = LangChainRetriever(Greedy(), filter_key="where"), {"tenant": "a", "tags": ["a"]}
    found = [*retriever.retrieve("q", filter=filter), *asyncio.run(retriever.aretrieve("q", filter=filter))]
    assert [passage.text for passage in found] == ["mine", "mine"]
    assert filter == {"tenant": "a", "tags": ["a"]}


class Moving(MemoryVectorStore):
    """A store in which somebody takes a record out of the filter right after each search."""

    def search(self, *args: Any, **options: Any) -> list[Passage]:
        found = super().search(*args, **options)
        self.update_metadata("leaves", {"acl": ["board"], "secret": True})
        return found


def test_diversity_shows_no_record_that_left_the_filter_meanwhile() -> None:
    for asynchronous in (False, True):
        store = Moving()
        vectors = AgoraVectorStore(store, DeterministicFakeEmbedding(size=3))
        vectors.add_texts(["one", "two"], [{"acl": ["all"]}, {"acl": ["all"]}], ids=["leaves", "stays"])
        options: dict[str, Any] = {"k": 2, "filter": {"acl": ["all"]}}
        if asynchronous:
            found = asyncio.run(vectors.amax_marginal_relevance_search("one", **options))
        else:
            found = vectors.max_marginal_relevance_search("one", **options)
        assert [document.id for document in found] == ["stays"]

"""Text and hybrid search of a LangChain store, its keyword index in every bound, and what is nearly JSON."""

from __future__ import annotations

import asyncio
import copy
import datetime as dt
import gc
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langchain_core.documents import Document

from agora_core import (
    InvalidFilterError,
    KeywordRetriever,
    MemoryLexicalVectorStore,
    MemoryVectorStore,
    Passage,
    RetrieverLegError,
    UnsupportedOperationError,
)
from agora_core.testing import FakeEmbeddingProvider
from langchain_agora import AgoraRetriever, AgoraVectorStore, LangChainReranker, LangChainRetriever
from tests.unit.langchain_agora.angles import angles
from tests.unit.langchain_agora.colours import Run

EMBEDDER = FakeEmbeddingProvider(16)


def two_tenants(lexical: bool = False) -> AgoraVectorStore:
    store = MemoryLexicalVectorStore() if lexical else MemoryVectorStore()
    vectors = AgoraVectorStore(store, EMBEDDER, keyword=None if lexical else KeywordRetriever())
    documents = [
        Document("salary of a", id="a", metadata={"tenant": "a", "year": 2024}),
        Document("salary of b", id="b", metadata={"tenant": "b", "year": 2024}),
        Document("old salary", id="old", metadata={"tenant": "a", "year": 1}),
    ]
    vectors.add_documents(documents)
    return vectors


def ids(documents: Any) -> list[str]:
    return sorted(document.id for document in documents)


def by_run(config: Any) -> Any:
    return {"tenant": config["configurable"]["tenant"]}


@pytest.mark.parametrize("lexical", [False, True])
@pytest.mark.parametrize("search_type", ["text", "hybrid"])
def test_whatever_bounds_the_store_bounds_the_search_of_texts(run: Run, search_type: str, lexical: bool) -> None:
    whole = two_tenants(lexical)
    assert ids(run(whole, "search", "salary", search_type)) == ["a", "b", "old"]
    assert ids(run(whole, f"{search_type}_search", "salary", filter={"year": {"$gte": 2000}})) == ["a", "b"]
    stack = whole.scoped({"tenant": "a"}).scoped({"year": 2024})
    assert ids(run(stack, "search", "salary", search_type)) == ["a"]
    config: Any = {"configurable": {"tenant": "a"}}
    mine = whole.scoped(by_run).scoped({"year": 2024}).as_retriever(search_type=search_type)
    assert ids(run(mine, "invoke", "salary", config)) == ["a"]
    assert ids(run(mine, "invoke", "salary", config, filter={"tenant": "b"})) == []
    with pytest.raises((KeyError, RetrieverLegError)):
        run(mine, "invoke", "salary")
    with pytest.raises((InvalidFilterError, RetrieverLegError)):
        run(mine, "invoke", "salary", {"configurable": {"tenant": {"$ne": ""}}})


def test_writes_through_a_view_leave_the_other_tenant_in_both(run: Run) -> None:
    whole = two_tenants()
    view = whole.scoped({"tenant": "a"}, on_write="stamp")
    run(view, "delete", ["b", "old"])
    run(view, "update_metadata", "b", {"seen": True})
    run(view, "update_metadata", "a", {"year": 2025})
    run(view, "add_documents", [Document("new salary", id="new")])
    run(view, "delete", filter={"year": 2024})
    assert ids(run(whole, "search", "salary", "text")) == ["a", "b", "new"]
    assert ids(run(view, "search", "salary", "text")) == ["a", "new"]
    run(view, "delete", filter={"year": 2025})
    assert ids(run(whole, "search", "salary", "hybrid")) == ["b", "new"]


def test_a_store_without_text_search_says_what_to_do(run: Run) -> None:
    plain = AgoraVectorStore(MemoryVectorStore(), EMBEDDER)
    for search_type in ("text", "hybrid"):
        with pytest.raises(UnsupportedOperationError, match="keyword=KeywordRetriever"):
            run(plain, "search", "x", search_type)

    class Silent:
        def search(self, embedding: Any, *, top_k: int) -> list[Any]:
            return []

    with pytest.raises(UnsupportedOperationError, match="no attribute 'scope'"):
        AgoraVectorStore(Silent(), EMBEDDER, keyword=KeywordRetriever())
    with pytest.raises(ValueError, match="not allowed"):
        plain.as_retriever(search_type="texts")


def test_per_document_and_scores_by_vector(run: Run) -> None:
    vectors = angles()
    vectors.add_texts(["0", "1", "2"], ids=["d#0", "d#1", "e#0"])
    (first, second) = run(vectors, "similarity_search", "0", k=2, per_document=1)
    assert [first.id, second.id] == ["d#0", "e#0"]
    assert [d.id for d in run(vectors.as_retriever(search_kwargs={"k": 2, "per_document": 1}), "invoke", "0")] == [
        "d#0",
        "e#0",
    ]
    vector = vectors.embedding.embed_query("0")
    found = run(vectors, "similarity_search_with_score_by_vector", vector, k=1)
    assert found == run(vectors, "similarity_search_with_score", "0", k=1)


def test_a_retriever_passes_per_document_on(run: Run) -> None:
    asked: list[Any] = []

    class Core:
        def retrieve(self, query: str, *, top_k: int, per_document: int | None = None) -> list[Passage]:
            asked.append(per_document)
            return []

    run(AgoraRetriever(Core(), per_document=2), "invoke", "x")
    run(AgoraRetriever(Core(), per_document=2), "invoke", "x", per_document=1)
    run(AgoraRetriever(Core()), "invoke", "x")
    assert asked == [2, 1, None]


def test_a_record_cannot_forge_the_label_or_the_score_of_a_leg(run: Run) -> None:
    """The names under which they pass through LangChain's documents are ours, whatever a record says."""

    class Core:
        def retrieve(self, query: str, *, top_k: int) -> list[Passage]:
            return [Passage("a", "x", 0.1, None, {"agora_source": "policy.pdf", "agora_score": 9.0, "k": 1})]

    (found,) = run(LangChainRetriever(AgoraRetriever(Core())), "retrieve", "x")
    assert (found.source, found.score, found.metadata) == (None, 0.1, {"k": 1})


def test_a_compressor_cannot_change_what_a_passage_says(run: Run) -> None:
    class Forging:
        def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
            return [
                Document("forged", id="z", metadata={**d.metadata, "tenant": "b", "relevance_score": 5.0})
                for d in documents
            ]

        async def acompress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
            return self.compress_documents(documents, query)

    given = Passage("a", "honest", 0.1, "a.md", {"tenant": "a"})
    forging: Any = Forging()
    assert run(LangChainReranker(forging), "rerank", "x", [given]) == [
        Passage("a", "honest", 5.0, "a.md", {"tenant": "a"})
    ]


def test_what_is_nearly_json_becomes_json_before_anything_is_embedded(run: Run) -> None:
    vectors = AgoraVectorStore(MemoryVectorStore(), EMBEDDER)
    metadata = {"day": dt.date(2024, 1, 2), "at": Path("a"), "price": Decimal(2), "n": np.int64(3), "s": "x\x00y"}
    document = Document("te\x00xt", id="d", metadata=metadata)
    run(vectors, "add_documents", [document])
    (found,) = run(vectors, "get_by_ids", ["d"])
    assert found.page_content == "text"
    assert found.metadata == {"day": "2024-01-02", "at": "a", "price": 2, "n": 3, "s": "xy"}
    assert document.metadata["day"] == dt.date(2024, 1, 2)
    assert ids(run(vectors, "similarity_search", "x", filter={"day": {"$gte": "2024-01-01"}})) == ["d"]
    strict = AgoraVectorStore(MemoryVectorStore(), EMBEDDER, coerce=False)
    with pytest.raises(ValueError, match="day"):
        run(strict, "add_documents", [Document("x", metadata={"day": dt.date(2024, 1, 2)})])


async def test_many_documents_do_not_hold_up_the_loop() -> None:
    documents = [Document(f"salary {n}", id=f"d{n}", metadata={"n": n, "tags": ["a", "b"]}) for n in range(8000)]

    class Quick(MemoryVectorStore):
        async def aupsert(self, records: Any, **options: Any) -> int:
            return await asyncio.to_thread(super().upsert, list(records), **options)

    class Model:
        async def aembed(self, texts: Any) -> Any:
            return np.ones((len(texts), 8), dtype=np.float32)

    vectors = AgoraVectorStore(Quick(), Model())
    worst, done = 0.0, False

    async def heartbeat() -> None:
        nonlocal worst
        while not done:
            begun = time.perf_counter()
            await asyncio.sleep(0.001)
            worst = max(worst, time.perf_counter() - begun)

    await vectors.aadd_documents(documents[:1])
    # A collection stops every thread, whoever made the garbage.
    gc.disable()
    try:
        beating = asyncio.create_task(heartbeat())
        await vectors.aadd_documents(documents)
        done = True
        await beating
    finally:
        gc.enable()
    # 0.02 s on a machine of one's own; other processes share this one.
    assert worst < 0.15
    assert [record.text for record in vectors.store.get(["d7"])] == ["salary 7"]


@pytest.mark.parametrize("lexical", [False, True])
def test_a_store_is_copied_with_the_index_beside_it(run: Run, lexical: bool) -> None:
    whole = two_tenants(lexical)
    twin = copy.deepcopy(whole)
    twin.delete(["a"])
    assert ids(run(twin, "search", "salary", "text")) == ["b", "old"]
    assert ids(run(whole, "search", "salary", "text")) == ["a", "b", "old"]

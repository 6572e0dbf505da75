"""Both adapters over every store: hidden records change nothing in a scope, and every one of theirs tells its scope."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from langchain_core.documents import Document
from llama_index.core.schema import QueryBundle, TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode

import langchain_agora as lc
import llamaindex_agora as li
from agora_core import (
    EmbeddingRetriever,
    ExpandingRetriever,
    InvalidFilterError,
    KeywordRetriever,
    MemoryVectorStore,
    UnsupportedOperationError,
    VectorRecord,
    field,
)
from tests.contract.test_walls_of_retrievers import EMBEDDER, SCOPE, some
from tests.contract.test_walls_of_retrievers import stores as stores

pytestmark = pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20")

QUERIES = ("heat pump", "salary board leave")
Ask = Callable[[str], Any]


def langchain_answers(vectors: lc.AgoraVectorStore) -> dict[str, Ask]:
    """Return every way to read a vector store of LangChain's."""
    by_words = {
        kind: vectors.as_retriever(search_type=kind, search_kwargs={"k": 4})
        for kind in ("similarity", "mmr", "text", "hybrid")
    }
    floor = {"k": 4, "score_threshold": 0.1}
    by_words["floor"] = vectors.as_retriever(search_type="similarity_score_threshold", search_kwargs=floor)
    asked: dict[str, Ask] = {kind: retriever.invoke for kind, retriever in by_words.items()}
    scored = vectors.similarity_search_with_score
    return {
        **asked,
        "scores": lambda query: [(doc.id, round(score, 6)) for doc, score in scored(query, k=4)],
        "by id": lambda query: [document.id for document in vectors.get_by_ids(["pa#0", "pb#0", "qb#1"])],
        "core": lambda query: lc.AgoraRetriever(EmbeddingRetriever(EMBEDDER, vectors.store), k=4).invoke(query),
        "refused": lambda query: error_of(lambda: vectors.add_documents([Document("x", metadata={"tenant": "b"})])),
    }


def llamaindex_answers(vectors: li.AgoraVectorStore) -> dict[str, Ask]:
    """Return every way to read a vector store of LlamaIndex's."""

    def ask(mode: VectorStoreQueryMode) -> Ask:
        def asked(query: str) -> Any:
            (vector,) = EMBEDDER.embed([query])
            result = vectors.query(
                VectorStoreQuery(query_embedding=list(vector), query_str=query, similarity_top_k=4, mode=mode)
            )
            return result.ids, [round(score, 6) for score in result.similarities or []]

        return asked

    modes = ("DEFAULT", "TEXT_SEARCH", "HYBRID", "MMR")
    retriever = li.AgoraRetriever(EmbeddingRetriever(EMBEDDER, vectors.store), similarity_top_k=4)
    node = TextNode(text="x", metadata={"tenant": "b"}, embedding=[1.0] * 16)
    return {
        **{mode: ask(VectorStoreQueryMode[mode]) for mode in modes},
        "core": lambda query: [node.node_id for node in retriever.retrieve(QueryBundle(query))],
        "nodes": lambda query: [node.node_id for node in vectors.get_nodes()],
        "refused": lambda query: error_of(lambda: vectors.add([node])),
    }


def error_of(call: Callable[[], Any]) -> str:
    with pytest.raises(ValueError) as told:  # which one it is is what is compared
        call()
    return type(told.value).__name__


def answers(store: Any, keyword: KeywordRetriever | None) -> dict[tuple[str, str], Any]:
    view = store.scoped(SCOPE)
    beside: dict[str, Any] = {} if keyword is None else {"keyword": keyword}
    lc_vectors = [
        lc.AgoraVectorStore(view, EMBEDDER, **beside),
        lc.AgoraVectorStore(store, EMBEDDER, **beside).scoped(SCOPE),
        lc.AgoraVectorStore(store, EMBEDDER, **beside).scoped(lambda config: SCOPE),
    ]
    li_vectors = [
        li.AgoraVectorStore(store=view, **beside),
        li.AgoraVectorStore(store=store, **beside).scoped(SCOPE),
        li.AgoraVectorStore(store=store, **beside).scoped(lambda: SCOPE),
    ]
    asked = {f"langchain {n} {k}": a for n, v in enumerate(lc_vectors) for k, a in langchain_answers(v).items()}
    asked |= {f"llamaindex {n} {k}": a for n, v in enumerate(li_vectors) for k, a in llamaindex_answers(v).items()}
    return {(kind, query): ask(query) for kind, ask in asked.items() for query in QUERIES}


@pytest.mark.parametrize("name", ["memory", "postgres", "qdrant", "memory and an index"])
def test_hidden_records_change_nothing_that_an_adapter_says(stores: dict[str, Callable[[], Any]], name: str) -> None:
    """Kind: a bound that holds in the core and is lost, or told of, in an adapter."""
    beside = name == "memory and an index"
    random, store = Random(3), MemoryVectorStore("cosine", 16) if beside else stores[name]()
    keyword = KeywordRetriever() if beside else None

    def write(records: list[VectorRecord]) -> None:
        store.upsert(records)
        if keyword is not None:
            keyword.add(records)

    write(some(random, 20, "a"))
    before = answers(store, keyword)
    assert any(before.values())
    write(some(random, 30, "b"))
    store.update_metadata("pb", {"tenant": "c"})
    if keyword is not None:
        keyword.update_metadata("pb", {"tenant": "c"})
    after = answers(store, keyword)
    assert {key: (before[key], after[key]) for key in before if before[key] != after[key]} == {}


def test_every_store_and_retriever_of_an_adapter_tells_the_whole_of_its_scope() -> None:
    """Kind: a bound that is enforced and not told, so that what is kept beside it is not bounded."""
    store = MemoryVectorStore("cosine", 16)
    view, year = store.scoped(SCOPE), {"year": 2024}
    whole = view.scoped(year).scope
    dense = EmbeddingRetriever(EMBEDDER, store)
    bounded = EmbeddingRetriever(EMBEDDER, view)
    vectors, nodes = lc.AgoraVectorStore(view, EMBEDDER), li.AgoraVectorStore(store=view)
    told = [
        vectors.scoped(year).scope,
        vectors.scoped(lambda config: year).scope,
        vectors.scoped(year).as_retriever().scope,
        vectors.as_retriever(search_kwargs={"filter": year}).scope,
        lc.AgoraRetriever(bounded, filter=year).scope,
        lc.AgoraRetriever(bounded).scoped(year).scope,
        lc.LangChainRetriever(vectors.as_retriever().scoped(year)).scope,
        lc.LangChainRetriever(lc.AgoraRetriever(bounded, filter=year).bind(k=2)).scope,
        nodes.scoped(year).scope,
        nodes.scoped(lambda: year).scope,
        li.AgoraRetriever(bounded, filter=year).scope,
        li.LlamaIndexRetriever(li.AgoraRetriever(bounded).scoped(year)).scope,
    ]
    assert [scope for scope in told if scope != whole] == []
    unbounded: list[Any] = [
        lc.AgoraVectorStore(store, EMBEDDER),
        lc.AgoraRetriever(dense),
        lc.AgoraVectorStore(store, EMBEDDER).as_retriever(),
        li.AgoraVectorStore(store=store),
        li.AgoraRetriever(dense),
        lc.LangChainRetriever(lc.AgoraRetriever(dense)),
    ]
    assert [one.scope for one in unbounded] == [None] * len(unbounded)
    with pytest.raises(UnsupportedOperationError, match="query"):
        _ = li.AgoraRetriever(dense, filter=lambda bundle: year).scope


@pytest.mark.parametrize("framework", ["langchain", "llamaindex"])
def test_neighbours_of_what_an_adapter_found_lie_in_its_scope(framework: str) -> None:
    store = MemoryVectorStore("cosine", 16)
    texts = ["heat pump", "board salary"]
    store.upsert(
        VectorRecord(f"d#{n}", text, vector, None, {"tenant": tenant})
        for n, (text, vector, tenant) in enumerate(zip(texts, EMBEDDER.embed(texts), "ab", strict=True))
    )
    bounded = EmbeddingRetriever(EMBEDDER, store).scoped(SCOPE)
    theirs: Any = (
        lc.LangChainRetriever(lc.AgoraRetriever(bounded))
        if framework == "langchain"
        else li.LlamaIndexRetriever(li.AgoraRetriever(bounded))
    )
    (found,) = ExpandingRetriever(theirs, store).retrieve("heat")
    assert found.text == "heat pump"


def test_a_fixed_scope_of_langchain_reads_no_operators() -> None:
    """Kind: data read as syntax; what a token says is often bound so, once for each request."""
    store = MemoryVectorStore("cosine", 16)
    vectors = lc.AgoraVectorStore(store, EMBEDDER)
    retriever = lc.AgoraRetriever(EmbeddingRetriever(EMBEDDER, store))
    binds: list[Callable[[Any], Any]] = [vectors.scoped, vectors.as_retriever().scoped, retriever.scoped]
    for claim in ({"$ne": ""}, {"$exists": True}, {"$in": ["b"]}, {"$unknown": 1}, {"a": 1, "$ne": ""}):
        for bind in binds:
            with pytest.raises(InvalidFilterError, match="to_core_filter"):
                bind({"tenant": claim})
    with pytest.raises(InvalidFilterError, match="to_core_filter"):
        vectors.scoped({"$or": [{"tenant": "a"}, {"tenant": "b"}]})
    assert vectors.scoped(lc.to_core_filter({"year": {"$gte": 2020}})).scope == (field("year") >= 2020)

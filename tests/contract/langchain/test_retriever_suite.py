"""LangChain's standard suite for retrievers, whole and unaltered, over every retriever of the core."""

from __future__ import annotations

from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests

from agora_core import (
    EmbeddingRetriever,
    HybridRetriever,
    IngestDocument,
    KeywordRetriever,
    MemoryVectorStore,
    RerankingRetriever,
    ingest_documents,
)
from agora_core.testing import FakeEmbeddingProvider, FakeReranker
from langchain_agora import (
    AgoraEmbeddings,
    AgoraRetriever,
    AgoraVectorStore,
    LangChainRetriever,
)

TEXTS = [
    "Paid leave is thirty days a year.",
    "Leave of directors is forty days a year.",
    "The period of notice is three months.",
    "Leave is asked for in the portal.",
    "Parental leave is twelve months.",
]


def corpus() -> dict[str, Any]:
    embedder, store, keyword = FakeEmbeddingProvider(), MemoryVectorStore(), KeywordRetriever()
    documents = [IngestDocument(f"d{n}", text, f"d{n}.md", {"acl": ["all"]}) for n, text in enumerate(TEXTS)]
    ingest_documents(documents, embedder=embedder, store=store, keyword=keyword)
    dense = EmbeddingRetriever(embedder, store)
    return {"store": store, "embedder": embedder, "dense": dense, "keyword": keyword}


class Suite(RetrieversIntegrationTests):
    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return AgoraRetriever

    @property
    def retriever_query_example(self) -> str:
        return "leave"


class TestEmbedding(Suite):
    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"retriever": corpus()["dense"]}


class TestKeyword(Suite):
    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"retriever": corpus()["keyword"]}


class TestHybrid(Suite):
    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        parts = corpus()
        return {"retriever": HybridRetriever([parts["dense"], parts["keyword"]])}


class TestReranking(Suite):
    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"retriever": RerankingRetriever(corpus()["keyword"], FakeReranker())}


class TestScoped(Suite):
    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"retriever": corpus()["keyword"].scoped({"acl": ["all"]}), "filter": {"acl": ["all"]}}


class TestRoundTrip(Suite):
    """Ours as theirs as ours as theirs."""

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        theirs = AgoraRetriever(retriever=corpus()["keyword"])
        return {"retriever": LangChainRetriever(theirs)}


class TestVectorStoreRetriever(RetrieversIntegrationTests):
    """What `as_retriever` returns takes `k` at the call; in the constructor it stands in `search_kwargs`."""

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        def construct(*, k: int = 4) -> BaseRetriever:
            parts = corpus()
            vectors = AgoraVectorStore(parts["store"], AgoraEmbeddings(parts["embedder"]))
            return vectors.as_retriever(search_kwargs={"k": k})

        return construct  # type: ignore[return-value] # the suite only calls it

    @property
    def retriever_query_example(self) -> str:
        return "leave"


def test_the_corpus_has_what_the_suite_needs() -> None:
    assert sum("leave" in text.lower() for text in TEXTS) >= 3
    found = AgoraRetriever(retriever=corpus()["keyword"]).invoke("leave")
    assert isinstance(found[0], Document)

"""LangChain's standard suite for retrievers, whole and unaltered, over every retriever of the core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests

from agora_core import (
    EmbeddingRetriever,
    HybridRetriever,
    IngestDocument,
    KeywordRetriever,
    LexicalRetriever,
    MemoryVectorStore,
    RerankingRetriever,
    ingest_documents,
    retrievers,
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


def documents() -> list[IngestDocument]:
    return [IngestDocument(f"d{n}", text, f"d{n}.md", {"acl": ["all"]}) for n, text in enumerate(TEXTS)]


def corpus() -> dict[str, Any]:
    embedder, store, keyword = FakeEmbeddingProvider(), MemoryVectorStore(), KeywordRetriever()
    ingest_documents(documents(), embedder=embedder, store=store, keyword=keyword)
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


class TestRelativeScoreFusion(Suite):
    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        parts = corpus()
        legs = [parts["dense"], parts["keyword"]]
        return {"retriever": HybridRetriever(legs, fusion="relative_score", weights=[0.3, 0.7])}


class TestLazyMemory(Suite):
    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"retriever": retrievers.memory(FakeEmbeddingProvider, documents())}


class OverStores(Suite):
    """Over a store with text search, filled anew for each test."""

    store: Any = None

    @pytest.fixture(autouse=True)
    def _fill(self, request: pytest.FixtureRequest) -> Iterator[None]:
        with self.opened(request) as store:
            ingest_documents(documents(), embedder=FakeEmbeddingProvider(), store=store)
            type(self).store = store
            yield

    def opened(self, request: pytest.FixtureRequest) -> Any:
        raise NotImplementedError

    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        lexical = LexicalRetriever(self.store)
        return {"retriever": HybridRetriever([EmbeddingRetriever(FakeEmbeddingProvider(), self.store), lexical])}


class OverPostgres(OverStores):
    def opened(self, request: pytest.FixtureRequest) -> Any:
        from agora_core import PgLexicalVectorStore

        conninfo = request.getfixturevalue("pg_conninfo")
        store = PgLexicalVectorStore(conninfo, table=request.getfixturevalue("fresh_name"), dimension=64)
        store.ensure_schema()
        return store


class OverQdrant(OverStores):
    def opened(self, request: pytest.FixtureRequest) -> Any:
        from agora_core import QdrantLexicalVectorStore

        name = request.getfixturevalue("fresh_name")
        store = QdrantLexicalVectorStore(":memory:", collection=name, dimension=64)
        store.ensure_collection()
        return store


@pytest.mark.postgres
class TestPostgresHybrid(OverPostgres):
    pass


@pytest.mark.postgres
class TestPostgresLexical(OverPostgres):
    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"retriever": LexicalRetriever(self.store)}


@pytest.mark.qdrant
class TestQdrantHybrid(OverQdrant):
    pass


@pytest.mark.qdrant
class TestQdrantLexical(OverQdrant):
    @property
    def retriever_constructor_params(self) -> dict[str, Any]:
        return {"retriever": LexicalRetriever(self.store)}


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

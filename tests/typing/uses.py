"""Right and wrong uses of the public names, for type checkers; nothing here is run.

A wrong use ends in a comment that says so; the checkers must refuse exactly those lines. See test_uses.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.embeddings import Embeddings
from llama_index.core.schema import QueryBundle

from agora_core import (
    ContextInjector,
    EmbeddingRetriever,
    HybridRetriever,
    KeywordRetriever,
    LexicalRetriever,
    MemoryLexicalVectorStore,
    MemoryVectorStore,
    Passage,
    field,
    parse_citations,
    render_context,
    verify_quotes,
)
from agora_core.testing import FakeEmbeddingProvider, FakeReranker
from langchain_agora import AgoraRetriever, AgoraVectorStore, InjectContext, condense_question, create_retrieve_tool
from llamaindex_agora import AgoraRetriever as LlamaRetriever
from llamaindex_agora import AgoraVectorStore as LlamaVectorStore
from llamaindex_agora import InjectContext as LlamaInject


class AsyncOnly:
    async def aembed(self, texts: Sequence[str]) -> list[list[float]]:
        return [[1.0] for _ in texts]


class AsyncStore:
    async def asearch(self, embedding: Any, *, top_k: int, **options: Any) -> list[Passage]:
        return []


class Narrow:
    def retrieve(self, query: str, *, top_k: int) -> list[Passage]:
        return []


def the_core(passages: list[Passage], embedder: FakeEmbeddingProvider) -> None:
    store = MemoryLexicalVectorStore(dimension=3)
    MemoryVectorStore(metric="l2")
    MemoryVectorStore(metric="cosin")  # wrong
    MemoryVectorStore(dimensoin=3)  # wrong
    LexicalRetriever(store.scoped({"tenant": "a"}))
    retriever = HybridRetriever([EmbeddingRetriever(embedder, store), LexicalRetriever(store)], fusion="adaptive")
    HybridRetriever([retriever], fusion="rff")  # wrong
    retriever.retrieve("x", top_k=3, filter=field("year") >= 2020, per_document=1)
    retriever.retrieve("x", 3)  # wrong
    retriever.retrieve("x", topk=3)  # wrong
    store.search("nonsense")  # wrong
    injector = ContextInjector(retriever, query_from=lambda messages: "x", max_chars=10, measure=len)
    ContextInjector(retriever, max_chars="10")  # wrong
    injector.inject("x", actor=None, messages=[]).system.strip()
    injector.inject("x", messages=3)  # wrong
    render_context(passages, max_chars=10).strip()
    render_context("text")  # wrong
    parse_citations("[1]", passages).unknown.sort()
    str(verify_quotes("x", passages)[0].passage.text)  # wrong


def langchain(embeddings: Embeddings, embedder: FakeEmbeddingProvider, store: MemoryVectorStore, model: Any) -> None:
    vectors = AgoraVectorStore(store, embeddings, keyword=KeywordRetriever())
    AgoraVectorStore(store.scoped({"tenant": "a"}), embedder)
    AgoraVectorStore(AsyncStore(), AsyncOnly())
    AgoraVectorStore(3, embeddings)  # wrong
    AgoraVectorStore(store, 3)  # wrong
    AgoraVectorStore(store, embeddings, keyword=3)  # wrong
    vectors.hybrid_search("x", fusion="adaptive", per_document=1)
    vectors.hybrid_search("x", fusion="adapt")  # wrong
    vectors.similarity_search("x", filter={"year": {"$gte": 2020}})
    vectors.similarity_search("x", filtre={})  # wrong
    vectors.as_retriever(search_type="hybrid")
    core = EmbeddingRetriever(embedder, store)
    AgoraRetriever(core, k=3)
    AgoraRetriever(retriever=Narrow())
    AgoraRetriever(3)  # wrong
    AgoraRetriever(core, k="3")  # wrong
    InjectContext(core, query_from=condense_question(model), max_chars=100)
    InjectContext(core, top_k="5")  # wrong
    create_retrieve_tool(core, max_chars=100)


def llamaindex(store: MemoryVectorStore, embedder: FakeEmbeddingProvider) -> None:
    core = EmbeddingRetriever(embedder, store)
    LlamaVectorStore(store, keyword=KeywordRetriever()).scoped(lambda: {"tenant": "a"})
    LlamaVectorStore(3)  # wrong
    LlamaVectorStore(store, keyword=FakeReranker())  # wrong
    LlamaRetriever(core, similarity_top_k=3, per_document=1).retrieve(QueryBundle("x"))
    LlamaRetriever("core")  # wrong
    LlamaInject(core, max_chars="9")  # wrong

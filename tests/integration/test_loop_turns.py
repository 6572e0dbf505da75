"""No async method holds the event loop for the time that its records take: counted by turns and not by a clock.

The kind of fault: work in proportion to what was given, done on the event loop. In each turn of the loop the calls of
its thread are counted. A method whose work is done beside the loop makes about as many in one turn for many records as
for few, on any machine.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

from agora_core import (
    IngestDocument,
    KeywordRetriever,
    MemoryLexicalVectorStore,
    MemoryVectorStore,
    PgLexicalVectorStore,
    PgVectorStore,
    QdrantLexicalVectorStore,
    QdrantStore,
    VectorRecord,
    aingest_documents,
)
from agora_core.testing import FakeEmbeddingProvider
from langchain_agora import AgoraVectorStore as LangChainStore
from llamaindex_agora import AgoraVectorStore as LlamaIndexStore
from tests.integration.qdrant.rest_server import CLIENT_OPTIONS, rest_server

MANY = 1_000
DIMENSION = 4
MOST = 800
"""Calls of one turn: fewer than there are records, so that not even one each is made on the loop."""

Work = Callable[[], Awaitable[Any]]


class Turns:
    """Counts what the running thread calls in each turn of its event loop."""

    def __init__(self) -> None:
        self.most = self._now = 0

    def __enter__(self) -> Turns:
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    def _seen(self, frame: Any, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            self._now += 1
            self.most = max(self.most, self._now)
            if event == "call" and frame.f_code.co_name == "_run_once":
                self._now = 0


def records(first: int = 0) -> list[VectorRecord]:
    numbers = range(first, first + MANY)
    return [VectorRecord(f"d{n // 10}#{n % 10}", f"text {n}", [1.0, n, 2.0, 0.5], None, {"n": n}) for n in numbers]


@pytest.fixture(scope="module")
def opened(pg_conninfo: str) -> Iterator[Callable[[str], Any]]:
    stores: list[Any] = []
    with rest_server() as server:

        def make(kind: str) -> Any:
            name = f"turns_{len(stores)}"
            lexical = "text" in kind
            if "Postgres" in kind:
                store: Any = (PgLexicalVectorStore if lexical else PgVectorStore)(
                    pg_conninfo, table=name, dimension=DIMENSION, index=None
                )
                store.ensure_schema()
            elif "Qdrant" in kind:
                place = ":memory:" if "local" in kind else server.url
                options = None if "local" in kind else CLIENT_OPTIONS
                store = (QdrantLexicalVectorStore if lexical else QdrantStore)(
                    place, collection=name, dimension=DIMENSION, client_options=options
                )
                store.ensure_collection()
            else:
                store = (MemoryLexicalVectorStore if lexical else MemoryVectorStore)(dimension=DIMENSION)
            stores.append(store)
            return store

        yield make
        for store in stores:
            if hasattr(store, "close"):
                store.close()


async def turns_of(calls: dict[str, Work]) -> dict[str, int]:
    found = {}
    for name, work in calls.items():
        with Turns() as turns:
            await work()
        found[name] = turns.most
    return found


async def _all(pages: Any) -> list[Any]:
    return [page async for page in pages]


KINDS = ["memory", "memory text", "Postgres", "Postgres text", "Qdrant", "Qdrant text", "Qdrant local"]


@pytest.mark.parametrize("kind", KINDS)
async def test_of_a_store(opened: Callable[[str], Any], kind: str) -> None:
    store, many = opened(kind), records()
    ids, documents = [record.id for record in many], [f"d{n}" for n in range(MANY // 10)]
    # What is loaded and connected once is no work of a call.
    await store.aupsert(many[:20])
    await store.asearch([1.0, 2.0, 3.0, 4.0], top_k=2)
    calls: dict[str, Work] = {
        "upsert": lambda: store.aupsert(many),
        "stream": lambda: store.aupsert(iter(many)),
        "replace": lambda: store.areplace_documents(documents, many),
        "search": lambda: store.asearch([1.0, 2.0, 3.0, 4.0], top_k=MANY),
        "filtered": lambda: store.asearch([1.0, 2.0, 3.0, 4.0], top_k=MANY, filter={"n": list(range(MANY))}),
        "get": lambda: store.aget(ids),
        "scan": lambda: _all(store.ascan()),
        "list": lambda: store.alist_documents(),
        "ids": lambda: store.alist_document_ids(),
        "count": lambda: store.acount({"n": list(range(MANY))}),
        "facets": lambda: store.afacets("n", limit=MANY),
        "fingerprints": lambda: store.afingerprints(documents),
        "remove_where": lambda: store.aremove_where({"n": list(range(500))}),
        "delete": lambda: store.adelete(ids[500:]),
    }
    if "text" in kind:
        calls = {"text": lambda: store.asearch_text("text 7", top_k=MANY), **calls}
        calls = {"upsert": calls.pop("upsert"), **calls}
    assert {name: most for name, most in (await turns_of(calls)).items() if most > MOST} == {}


@pytest.mark.parametrize("kind", ["memory", "Postgres", "Qdrant"])
async def test_of_the_adapters(opened: Callable[[str], Any], kind: str) -> None:
    model = DeterministicFakeEmbedding(size=DIMENSION)
    documents = [Document(f"text {n}", id=f"d{n}", metadata={"n": n}) for n in range(MANY)]
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="source")}
    nodes = [TextNode(id_=f"n{n}", text=f"text {n}", metadata={"n": n}, relationships=source) for n in range(MANY)]
    for n, node in enumerate(nodes):
        node.embedding = [1.0, n, 2.0, 0.5]
    chain, index = LangChainStore(opened(kind), model), LlamaIndexStore(store=opened(kind))
    await chain.aadd_documents(documents[:20])
    await chain.asimilarity_search("text")
    await index.async_add(nodes[:20])
    await index.aget_nodes()
    calls: dict[str, Work] = {
        "LangChain add": lambda: chain.aadd_documents(documents),
        "LangChain search": lambda: chain.asimilarity_search("text", k=MANY),
        "LangChain get": lambda: chain.aget_by_ids([f"d{n}" for n in range(MANY)]),
        "LangChain delete": lambda: chain.adelete([f"d{n}" for n in range(MANY)]),
        "LlamaIndex add": lambda: index.async_add(nodes),
        "LlamaIndex get": lambda: index.aget_nodes(),
        "LlamaIndex patch": lambda: index.aupdate_metadata("source", {"k": 1}),
        "LlamaIndex delete": lambda: index.adelete("source"),
    }
    assert {name: most for name, most in (await turns_of(calls)).items() if most > MOST} == {}


@pytest.mark.parametrize("kind", ["memory", "Postgres"])
async def test_of_an_ingestion(opened: Callable[[str], Any], kind: str) -> None:
    store, keyword = opened(kind), KeywordRetriever()
    one = IngestDocument("one", "a sentence of words. " * 3_000, None, {"n": 1})
    embedder = FakeEmbeddingProvider(DIMENSION)
    options: dict[str, Any] = {"embedder": embedder, "store": store, "keyword": keyword, "chunk_size": 40}
    await aingest_documents([IngestDocument("two", "text", None, None)], **options)
    calls: dict[str, Work] = {"ingest": lambda: aingest_documents([one], **options)}
    assert {name: most for name, most in (await turns_of(calls)).items() if most > MOST} == {}

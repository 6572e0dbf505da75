"""Whatever is stored, asked and refused, on any store and through any adapter: no event holds any of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from langchain_core.documents import Document
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode

import langchain_agora as lc
import llamaindex_agora as li
from agora_core import (
    AgoraError,
    BoostingReranker,
    ContextInjector,
    EmbeddingRetriever,
    Event,
    ExpandingRetriever,
    HybridRetriever,
    IngestDocument,
    LexicalRetriever,
    MemoryLexicalVectorStore,
    PgLexicalVectorStore,
    QdrantLexicalVectorStore,
    RerankingRetriever,
    field,
    ingest_documents,
    on_event,
    sync_documents,
)
from agora_core.testing import FakeEmbeddingProvider

SECRET = "hunter2 <b>\u202eDROP TABLE</b> {0} %s"
HIDDEN = ("hunter2", "DROP", "{0}", "%s")
EMBEDDER = FakeEmbeddingProvider(8)
FILTERS: list[Any] = [{"acl": [SECRET]}, {"acl": SECRET}, field("acl") == SECRET, {"acl": {SECRET: [SECRET]}}]


@pytest.fixture(params=["memory", pytest.param("postgres", marks=pytest.mark.postgres), "qdrant"])
def store(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "memory":
        made: Any = MemoryLexicalVectorStore(dimension=8)
    elif request.param == "qdrant":
        made = QdrantLexicalVectorStore(":memory:", dimension=8)
        made.ensure_collection()
    else:
        table = request.getfixturevalue("fresh_name")
        made = PgLexicalVectorStore(request.getfixturevalue("pg_conninfo"), table=table, dimension=8)
        made.ensure_schema()
    with made:
        yield made


@pytest.fixture
def events() -> Iterator[list[Event]]:
    seen: list[Event] = []
    stop = on_event(seen.append)
    yield seen
    stop()


def documents() -> list[IngestDocument]:
    return [IngestDocument(f"{SECRET}{n}", f"{SECRET} {n}", SECRET, {"acl": [SECRET], "n": n}) for n in range(4)]


def try_all(calls: list[Callable[[], Any]]) -> None:
    """Make each call, in sync code or in a loop; errors are part of what is looked at."""
    for call in calls:
        with contextlib.suppress(AgoraError, ValueError):
            result = call()
            if asyncio.iscoroutine(result):
                asyncio.run(result)


def test_the_core(store: Any, events: list[Event]) -> None:
    ingest_documents(documents(), embedder=EMBEDDER, store=store)
    sync_documents(documents()[:3], embedder=EMBEDDER, store=store)
    dense, words = EmbeddingRetriever(EMBEDDER, store), LexicalRetriever(store)
    hybrid = HybridRetriever([dense, words])
    made: list[Any] = [dense, words, hybrid, hybrid.scoped({"acl": [SECRET]}), ExpandingRetriever(hybrid, store)]
    made.append(RerankingRetriever(hybrid, BoostingReranker(half_life=1.0, field=SECRET)))
    calls: list[Callable[[], Any]] = []
    for one in made:
        for bound in (None, *FILTERS):
            calls += [
                partial(one.retrieve, SECRET, filter=bound),
                partial(one.aretrieve, SECRET, filter=bound),
                partial(one.explain, SECRET, filter=bound),
            ]
        calls.append(partial(one.retrieve, SECRET, top_k=0))
    calls.append(partial(store.search_text, SECRET, top_k=1, filter={"acl": {"$in": SECRET}}))
    calls.append(partial(store.search, [SECRET], top_k=1))
    calls.append(
        lambda: ContextInjector(hybrid, retrieval_filter=lambda actor: {"acl": [actor]}).inject(SECRET, actor=SECRET)
    )
    try_all(calls)
    assert_nothing_is_told(events, {"retrieve", "search", "embed", "upsert", "sync", "rerank"})


def test_langchain(store: Any, events: list[Event]) -> None:
    vectors = lc.AgoraVectorStore(store, EMBEDDER)
    vectors.add_documents(
        [Document(id=d.id, page_content=d.text, metadata=dict(d.metadata or {})) for d in documents()]
    )
    core = HybridRetriever([EmbeddingRetriever(EMBEDDER, store), LexicalRetriever(store)])
    calls: list[Callable[[], Any]] = []
    for kind in ("similarity", "text", "hybrid", "mmr"):
        for bound in FILTERS:
            found = vectors.as_retriever(search_type=kind, search_kwargs={"filter": bound})
            calls += [partial(found.invoke, SECRET), partial(found.ainvoke, SECRET)]
    calls += [lambda: lc.AgoraRetriever(core).invoke(SECRET, filter=FILTERS[0])]
    calls += [lambda: lc.InjectContext(core).invoke(SECRET), lambda: lc.create_retrieve_tool(core).invoke(SECRET)]
    try_all(calls)
    assert_nothing_is_told(events, {"retrieve", "search", "embed", "upsert"})


def test_llamaindex(store: Any, events: list[Event]) -> None:
    vectors = li.AgoraVectorStore(store=store)
    embedded = [list(map(float, EMBEDDER.embed([d.text])[0])) for d in documents()]
    vectors.add(
        [
            TextNode(id_=d.id, text=d.text, metadata=dict(d.metadata or {}), embedding=vector)
            for d, vector in zip(documents(), embedded, strict=True)
        ]
    )
    core = HybridRetriever([EmbeddingRetriever(EMBEDDER, store), LexicalRetriever(store)])
    modes = (VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.HYBRID)
    queries = [VectorStoreQuery(embedded[0], query_str=SECRET, mode=mode, doc_ids=[SECRET]) for mode in modes]
    calls: list[Callable[[], Any]] = [partial(vectors.query, query) for query in queries]
    calls += [lambda: li.AgoraRetriever(retriever=core, filter=FILTERS[0]).retrieve(SECRET)]
    try_all(calls)
    assert_nothing_is_told(events, {"retrieve", "search", "embed", "upsert"})


def assert_nothing_is_told(events: list[Event], names: set[str]) -> None:
    assert {event.name for event in events} >= names
    told = repr(events)
    assert [word for word in HIDDEN if word in told] == []

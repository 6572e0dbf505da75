"""Events and spans: one per retrieval with its legs below it, no content in any, nothing measured for nobody."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from agora_core import (
    Event,
    HybridRetriever,
    IngestDocument,
    InvalidArgumentError,
    KeywordRetriever,
    MemoryLexicalVectorStore,
    MemoryVectorStore,
    PgLexicalVectorStore,
    QdrantLexicalVectorStore,
    field,
    on_event,
)
from agora_core import ingest_documents as ingest
from agora_core.events import filter_keys, listening
from agora_core.retrievers import EmbeddingRetriever
from agora_core.testing import FakeEmbeddingProvider

SECRET = "hunter2-in-everything"
CORPUS = [IngestDocument(f"{SECRET}-{n}", f"{SECRET} text {n}", SECRET, {"acl": SECRET, "n": n}) for n in range(4)]


@pytest.fixture
def events() -> Iterator[list[Event]]:
    seen: list[Event] = []
    stop = on_event(seen.append)
    yield seen
    stop()
    assert not listening()


def hybrid() -> HybridRetriever:
    embedder, store, keyword = FakeEmbeddingProvider(8), MemoryVectorStore(), KeywordRetriever()
    ingest(CORPUS, embedder=embedder, store=store, keyword=keyword)
    return HybridRetriever([EmbeddingRetriever(embedder, store), keyword])


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_retrieval_tells_its_legs_and_then_itself(events: list[Event], is_async: bool) -> None:
    retriever = hybrid()
    events.clear()
    view = retriever.scoped({"acl": SECRET})
    bound = field("n") >= 1
    if is_async:
        await view.aretrieve(SECRET, top_k=2, filter=bound)
    else:
        view.retrieve(SECRET, top_k=2, filter=bound)
    names = [(event.name, event.attributes.get("by")) for event in events]
    assert sorted(names[:-2]) == [
        ("embed", "FakeEmbeddingProvider"),
        ("retrieve", "EmbeddingRetriever"),
        ("retrieve", "KeywordRetriever"),
        ("search", "MemoryVectorStore"),
    ]
    assert names[-2:] == [("retrieve", "HybridRetriever"), ("retrieve", "ScopedRetriever")]
    last = events[-1]
    assert last.seconds > 0
    assert dict(last.attributes) == {"by": "ScopedRetriever", "top_k": 2, "filter_keys": ["n"], "returned": 2}
    assert dict(events[-2].attributes)["filter_keys"] == ["acl", "n"]


async def test_no_text_value_or_token_is_in_any_event(events: list[Event]) -> None:
    retriever = hybrid()
    retriever.retrieve(SECRET, filter={"acl": [SECRET], "n": [1]})
    store = MemoryVectorStore()
    view = store.scoped({"acl": SECRET})
    await view.aupsert([])
    with pytest.raises(InvalidArgumentError, match="top_k"):
        await store.asearch([1.0], top_k=0, filter={"acl": SECRET})
    assert {event.name for event in events} >= {"embed", "upsert", "retrieve", "search"}
    assert any("error" in event.attributes for event in events)
    assert SECRET not in repr(events)


def test_a_handler_may_ask_for_the_query(events: list[Event]) -> None:
    told: list[Event] = []
    stop = on_event(told.append, record_content=True)
    hybrid().retrieve(SECRET)
    stop()
    assert [event.attributes["query"] for event in told if event.name == "retrieve"] == [SECRET] * 3
    assert all("query" not in event.attributes for event in events)


def test_a_view_of_a_store_is_no_second_search(events: list[Event]) -> None:
    store = MemoryVectorStore(dimension=2)
    store.scoped({"a": 1}).scoped({"b": 2}).search([1, 0], top_k=1)
    assert [event.name for event in events] == ["search"]


@pytest.mark.parametrize("method", ["search_text", "search_hybrid"])
@pytest.mark.parametrize("is_async", [False, True])
async def test_methods_from_a_mixin_tell_as_the_others(events: list[Event], method: str, is_async: bool) -> None:
    """Kind: what is attached to the methods a class defines misses those that it inherits from beside."""
    store = MemoryLexicalVectorStore()
    ingest(CORPUS, embedder=FakeEmbeddingProvider(8), store=store)
    events.clear()
    query: tuple[Any, ...] = (SECRET,) if method == "search_text" else (SECRET, [1.0] * 8)
    found = getattr(store, f"a{method}" if is_async else method)(*query, top_k=2)
    await found if is_async else found
    assert [(event.name, event.attributes["returned"]) for event in events] == [("search", 2)]


def test_every_searching_method_of_every_store_tells() -> None:
    stores = (MemoryLexicalVectorStore, PgLexicalVectorStore, QdrantLexicalVectorStore)
    methods = ("search", "search_text", "search_hybrid", "upsert", "replace_documents")
    silent = [(one, name) for one in stores for name in methods if not hasattr(getattr(one, name), "__wrapped__")]
    assert silent == []


def test_a_handler_that_fails_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def fails(event: Event) -> None:
        raise RuntimeError("broken handler")

    retriever = hybrid()
    stop = on_event(fails)
    with caplog.at_level(logging.ERROR, logger="agora_core"):
        assert retriever.retrieve("text")
    stop()
    assert "a handler of events failed" in caplog.text
    with pytest.raises(TypeError, match="handler must be a function"):
        on_event(3)  # type: ignore[arg-type]


async def test_events_of_tasks_do_not_mix(events: list[Event]) -> None:
    retriever = hybrid()
    events.clear()
    await asyncio.gather(*(retriever.aretrieve("text") for _ in range(8)))
    assert sum(event.attributes.get("by") == "HybridRetriever" for event in events) == 8
    assert sum(event.name == "embed" for event in events) == 8


def test_keys_of_filters() -> None:
    assert filter_keys(None) == []
    assert filter_keys({"b": 1, "a": [2]}) == ["a", "b"]
    assert filter_keys((field("x") == 1) & ~((field(["y", "z"]) == SECRET) | (field("w") > 2))) == ["w", "x", "y"]


def test_spans_hang_together_and_hold_no_content() -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    retriever = hybrid()
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    before: Any = trace._TRACER_PROVIDER
    trace._TRACER_PROVIDER = provider
    try:
        retriever.retrieve(SECRET, filter={"acl": SECRET})
    finally:
        trace._TRACER_PROVIDER = before
    spans = {span.attributes["agora.by"]: span for span in exporter.get_finished_spans() if span.attributes}
    outer = spans["HybridRetriever"]
    assert outer.parent is None
    assert (outer.name, outer.attributes["gen_ai.operation.name"]) == ("retrieval", "retrieval")  # type: ignore[index]
    for leg in ("EmbeddingRetriever", "KeywordRetriever"):
        parent = spans[leg].parent
        assert parent is not None
        assert parent.span_id == outer.context.span_id
    assert spans["FakeEmbeddingProvider"].name == "embeddings"
    assert SECRET not in "".join(span.to_json() for span in exporter.get_finished_spans())
    assert not listening()

"""Query engines and chat engines of LlamaIndex over every store, and the inject mode in each of them."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.chat_engine import ContextChatEngine
from llama_index.core.chat_engine.types import ChatMode
from llama_index.core.instrumentation import get_dispatcher
from llama_index.core.instrumentation.event_handlers import BaseEventHandler
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters

from agora_core.errors import InvalidFilterError
from agora_core.testing import FakeReranker, in_memory_retriever
from llamaindex_agora import (
    AccessFilterPostprocessor,
    AgoraNodeParser,
    AgoraReranker,
    AgoraRetriever,
    InjectContextPostprocessor,
)
from tests.contract.llamaindex.stores import Colour
from tests.integration.llamaindex_agora.scripted import Counted, ScriptedLLM, WordEmbedding, documents, llm, tenants

ACTOR: contextvars.ContextVar[str] = contextvars.ContextVar("actor")


@pytest.fixture
def index(store: Colour) -> VectorStoreIndex:
    return VectorStoreIndex.from_documents(
        documents(),
        storage_context=StorageContext.from_defaults(vector_store=store.target),
        embed_model=WordEmbedding(),
        transformations=[AgoraNodeParser()],
    )


def memory() -> ChatMemoryBuffer:
    """Return a memory that opens nothing: their default leaves a SQLite connection open."""
    return ChatMemoryBuffer.from_defaults()


def ids(found: Any) -> list[str]:
    return [node.node.node_id for node in found]


def test_query_engine(store: Colour, index: VectorStoreIndex) -> None:
    model = llm("thirty")
    answer = store.of(index.as_query_engine(llm=model, similarity_top_k=1)).query("30 days of paid leave")
    assert str(answer) == "thirty"
    assert ids(answer.source_nodes) == ["leave#0"]
    assert "Everyone has 30 days of paid leave." in model.whole(0)


@pytest.mark.parametrize("mode", [ChatMode.CONTEXT, ChatMode.CONDENSE_PLUS_CONTEXT])
def test_chat_engine(store: Colour, index: VectorStoreIndex, mode: ChatMode) -> None:
    model = llm("thirty", "three", "three")
    engine = store.of(index.as_chat_engine(chat_mode=mode, llm=model, similarity_top_k=1, memory=memory()))
    first = engine.chat("30 days of paid leave")
    assert (str(first), ids(first.source_nodes)) == ("thirty", ["leave#0"])
    assert str(engine.chat("three months notice")) == "three"
    assert [m.content for m in engine.target.chat_history] == [
        "30 days of paid leave",
        "thirty",
        "three months notice",
        "three",
    ]


class Seen(BaseEventHandler):
    events: list[Any] = []  # noqa: RUF012 # a field of a pydantic model

    @classmethod
    def class_name(cls) -> str:
        return "Seen"

    def handle(self, event: Any, **_: Any) -> None:
        self.events.append(event)

    def named(self, *names: str) -> list[Any]:
        return [event for event in self.events if event.class_name() in names]


@pytest.fixture
def seen() -> Iterator[Seen]:
    """The events of LlamaIndex's instrumentation."""
    root, handler = get_dispatcher(), Seen()
    root.add_event_handler(handler)
    yield handler
    root.event_handlers.remove(handler)


def test_our_retriever_emits_their_events(store: Colour, index: VectorStoreIndex, seen: Seen) -> None:
    for retriever in (index.as_retriever(similarity_top_k=1), AgoraRetriever(retriever=tenants(), similarity_top_k=1)):
        seen.events.clear()
        found = store.of(retriever).retrieve("paid leave")
        start, end = seen.named("RetrievalStartEvent", "RetrievalEndEvent")
        assert start.str_or_query_bundle in ("paid leave", QueryBundle("paid leave"))
        assert ids(end.nodes) == ids(found)


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_our_reranker_emits_their_events(seen: Seen, colour: str) -> None:
    nodes = [NodeWithScore(node=TextNode(id_=id, text=text), score=0.1) for id, text in (("a", "x"), ("b", "red fox"))]
    reranker = AgoraReranker(reranker=FakeReranker(), top_n=1)
    if colour == "sync":
        found = reranker.postprocess_nodes(nodes, query_str="red fox")
    else:
        found = asyncio.run(reranker.apostprocess_nodes(nodes, query_str="red fox"))
    start, end = seen.named("ReRankStartEvent", "ReRankEndEvent")
    assert (start.query, start.top_n, start.model_name, ids(start.nodes)) == (
        QueryBundle("red fox"),
        1,
        "FakeReranker",
        ["a", "b"],
    )
    assert ids(end.nodes) == ids(found) == ["b"]
    assert found[0].score == 2.0
    assert [node.score for node in nodes] == [0.1, 0.1]


def test_reranker_in_a_query_engine(store: Colour, index: VectorStoreIndex) -> None:
    engine = index.as_query_engine(
        llm=llm(), similarity_top_k=4, node_postprocessors=[AgoraReranker(reranker=FakeReranker(), top_n=2)]
    )
    answer = store.of(engine).query("paid leave of directors")
    assert ids(answer.source_nodes) == ["board#0", "leave#0"]


def test_access_filter_drops_counts_and_logs(
    store: Colour, index: VectorStoreIndex, caplog: pytest.LogCaptureFixture
) -> None:
    guard = AccessFilterPostprocessor(filter={"acl": ["all"]})
    engine = store.of(index.as_query_engine(llm=llm(), similarity_top_k=4, node_postprocessors=[guard]))
    with caplog.at_level(logging.WARNING, logger="llamaindex_agora.access"):
        answer = engine.query("paid leave")
    assert set(ids(answer.source_nodes)) == {"leave#0", "notice#0", "office#0"}
    assert guard.dropped == 1
    (record,) = caplog.records
    assert "'board#0'" in record.getMessage()
    assert "1 of 4" in record.getMessage()
    assert "Directors" not in record.getMessage()
    engine.query("paid leave")
    assert guard.dropped == 2


def test_access_filter_takes_every_form_and_none_is_refused() -> None:
    nodes = [NodeWithScore(node=TextNode(id_=acl, metadata={"acl": [acl]})) for acl in ("all", "board")]
    theirs = MetadataFilters(filters=[MetadataFilter(key="acl", value=["all"], operator=FilterOperator.ANY)])
    for filter in ({"acl": ["all"]}, theirs, lambda: {"acl": ["all"]}):
        assert ids(AccessFilterPostprocessor(filter=filter).postprocess_nodes(nodes)) == ["all"]
    assert AccessFilterPostprocessor(filter={"acl": []}).postprocess_nodes(nodes) == []
    with pytest.raises(InvalidFilterError):
        AccessFilterPostprocessor(filter=None)  # type: ignore[arg-type]
    with pytest.raises(InvalidFilterError):
        AccessFilterPostprocessor(filter=lambda: None).postprocess_nodes(nodes)  # type: ignore[arg-type,return-value]
    mapping = {"acl": ["all"]}
    guard = AccessFilterPostprocessor(filter=mapping)
    mapping["acl"].append("board")
    assert ids(guard.postprocess_nodes(nodes)) == ["all"]


def own_tenant(actor: Any) -> dict[str, Any]:
    if actor is None:
        raise PermissionError("nobody asks")
    return {"tenant": actor}


@pytest.mark.parametrize("source", ["callable", "variable"])
def test_injected_nodes_come_beside_the_engines_own(store: Colour, index: VectorStoreIndex, source: str) -> None:
    retriever, model = tenants(), llm("ok")
    inject = InjectContextPostprocessor(
        retriever=retriever,
        top_k=2,
        retrieval_filter=own_tenant,
        actor=ACTOR if source == "variable" else (lambda: "a"),
    )
    engine = store.of(index.as_query_engine(llm=model, similarity_top_k=1, node_postprocessors=[inject]))
    token = ACTOR.set("a")
    try:
        answer = engine.query("paid leave")
    finally:
        ACTOR.reset(token)
    assert ids(answer.source_nodes) in (["leave#0", "leave-a#0"], ["board#0", "leave-a#0"])
    assert retriever.asked == [{"tenant": "a"}]
    assert "at A" in model.whole(0)


def test_each_node_once(store: Colour, index: VectorStoreIndex) -> None:
    """The injected passages are partly those the engine found; a node that both found keeps the engine's score."""
    inject = InjectContextPostprocessor(retriever=Counted(store.target.store), top_k=4)
    engine = index.as_query_engine(llm=llm(), similarity_top_k=2, node_postprocessors=[inject, inject])
    found = ids(store.of(engine).query("paid leave").source_nodes)
    assert sorted(found) == ["board#0", "leave#0", "notice#0", "office#0"]


def test_a_hook_that_raises_fails_the_query_before_the_model(store: Colour, index: VectorStoreIndex) -> None:
    retriever, model = tenants(), llm()
    hooks: list[Any] = [own_tenant, lambda _: None, lambda _: "all"]
    for hook in hooks:
        inject = InjectContextPostprocessor(retriever=retriever, retrieval_filter=hook)
        options: dict[str, Any] = {"llm": model, "node_postprocessors": [inject]}
        engines: list[tuple[Any, str]] = [
            (index.as_query_engine(**options), "query"),
            (index.as_chat_engine(chat_mode=ChatMode.CONTEXT, memory=memory(), **options), "chat"),
        ]
        for engine, method in engines:
            with pytest.raises((PermissionError, InvalidFilterError)):
                getattr(store.of(engine), method)("paid leave")
    assert model.seen == []
    assert retriever.asked == []


def test_an_empty_index_still_reaches_the_model_through_an_injected_passage(store: Colour) -> None:
    empty = VectorStoreIndex.from_vector_store(store.target, embed_model=WordEmbedding())
    model = llm("ok")
    inject = InjectContextPostprocessor(retriever=tenants(), top_k=1)
    assert str(store.of(empty.as_query_engine(llm=model, node_postprocessors=[inject])).query("paid leave")) == "ok"
    assert len(model.seen) == 1


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_context_chat_engine_takes_our_retriever(colour: str) -> None:
    model = llm("ok")
    engine = ContextChatEngine.from_defaults(
        retriever=AgoraRetriever(retriever=tenants(), similarity_top_k=1), llm=model, memory=memory()
    )
    said = engine.chat("leave at A") if colour == "sync" else asyncio.run(engine.achat("leave at A"))
    assert (str(said), ids(said.source_nodes)) == ("ok", ["leave-a#0"])
    assert "at A" in model.system(0)


def test_a_query_engine_of_our_retriever_shows_no_private_metadata() -> None:
    retriever = AgoraRetriever(retriever=in_memory_retriever(["red fox"]), similarity_top_k=1)
    model: ScriptedLLM = llm("ok")
    answer = RetrieverQueryEngine.from_args(retriever, llm=model).query("red fox")
    assert "_agora" not in answer.source_nodes[0].node.get_content(metadata_mode=MetadataMode.LLM)
    assert "_agora" not in model.whole(0)

"""Inject mode for chat messages and for the chat engine of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, MessageRole, TextBlock
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

from agora_core.errors import InvalidArgumentError, InvalidFilterError, UnsupportedOperationError
from agora_core.inject import render_context
from agora_core.records import Passage
from agora_core.testing import in_memory_retriever
from llamaindex_agora import AgoraContextChatEngine, InjectContext, InjectContextPostprocessor, condense_question
from tests.integration.llamaindex_agora.scripted import llm, tenants

COLOURS = pytest.mark.parametrize("colour", ["sync", "async"])
SYSTEM, USER, ASSISTANT = MessageRole.SYSTEM, MessageRole.USER, MessageRole.ASSISTANT


def call(target: Any, method: str, colour: str, /, *args: Any, **options: Any) -> Any:
    if colour == "sync":
        return getattr(target, method)(*args, **options)
    return asyncio.run(getattr(target, f"a{method}")(*args, **options))


def turn(*system: ChatMessage) -> list[ChatMessage]:
    return [
        *system,
        ChatMessage(role=USER, content="hello"),
        ChatMessage(role=ASSISTANT, content="hello too"),
        ChatMessage(role=USER, content="paid leave at A"),
    ]


@COLOURS
def test_the_block_goes_into_the_system_message_and_the_given_ones_stay(colour: str) -> None:
    given = turn(ChatMessage(role=SYSTEM, content="You help."))
    before = [message.model_dump() for message in given]
    retriever = tenants()
    found = call(InjectContext(retriever=retriever, top_k=1), "inject", colour, given)
    passages = retriever.retrieve("paid leave at A", top_k=1)
    assert found[0].content == f"You help.\n\n{render_context(passages)}"
    assert [m.model_dump() for m in found[1:]] == before[1:]
    assert [message.model_dump() for message in given] == before
    found[1].blocks.clear()
    assert [message.model_dump() for message in given] == before
    assert retriever.asked == [None, None]


@COLOURS
def test_a_turn_without_a_system_message_gets_one(colour: str) -> None:
    found = call(InjectContext(retriever=tenants(), top_k=1), "inject", colour, turn())
    assert [m.role for m in found] == [SYSTEM, USER, ASSISTANT, USER]
    assert found[0].content.startswith("<retrieved_context>\n[1] ")


@COLOURS
def test_a_system_message_of_several_blocks_keeps_them(colour: str) -> None:
    blocks = [TextBlock(text="You help."), ImageBlock(url="http://example.org/x.png"), TextBlock(text="Be brief.")]
    given = turn(ChatMessage(role=SYSTEM, blocks=blocks))
    found = call(InjectContext(retriever=tenants(), top_k=1), "inject", colour, given)
    assert found[0].blocks[:3] == blocks
    assert len(found[0].blocks) == 4
    assert found[0].blocks[3].text.startswith("<retrieved_context>")
    assert len(given[0].blocks) == 3


def test_a_developer_message_is_a_system_message() -> None:
    found = InjectContext(retriever=tenants(), top_k=1).inject(
        turn(ChatMessage(role=MessageRole.DEVELOPER, content="You help."))
    )
    assert [m.role for m in found] == [MessageRole.DEVELOPER, USER, ASSISTANT, USER]
    assert "<retrieved_context>" in (found[0].content or "")


@COLOURS
def test_without_passages_the_messages_are_unchanged(colour: str) -> None:
    given = turn(ChatMessage(role=SYSTEM, content="You help."))
    found = call(InjectContext(retriever=in_memory_retriever([])), "inject", colour, given)
    assert found == given
    assert call(InjectContext(retriever=tenants()), "inject", colour, []) == []


@COLOURS
def test_the_hook_bounds_the_retrieval(colour: str) -> None:
    retriever = tenants()
    theirs = MetadataFilters(filters=[MetadataFilter(key="tenant", value="b")])
    hooks: list[Callable[[Any], Any]] = [lambda actor: {"tenant": actor}, lambda _: theirs]
    for hook in hooks:
        found = call(InjectContext(retriever=retriever, retrieval_filter=hook), "inject", colour, turn(), actor="b")
        assert "at B" in found[0].content
        assert "at A" not in found[0].content


@COLOURS
@pytest.mark.parametrize("answer", [None, "all", 3, [], PermissionError("no")])
def test_a_hook_that_gives_no_filter_fails_the_turn(colour: str, answer: Any) -> None:
    retriever = tenants()

    def hook(actor: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises((InvalidFilterError, PermissionError)):
        call(InjectContext(retriever=retriever, retrieval_filter=hook), "inject", colour, turn())
    assert retriever.asked == []


def test_an_async_hook() -> None:
    async def hook(actor: Any) -> Any:
        return MetadataFilters(filters=[MetadataFilter(key="tenant", value=actor)])

    inject = InjectContext(retriever=tenants(), retrieval_filter=hook)
    found = asyncio.run(inject.ainject(turn(), actor="b"))
    assert "at A" not in (found[0].content or "")
    with pytest.raises(UnsupportedOperationError, match="retrieval_filter"):
        inject.inject(turn(), actor="b")


def test_a_hook_that_is_no_function_is_refused_at_once() -> None:
    with pytest.raises(InvalidArgumentError, match="retrieval_filter"):
        InjectContext(retriever=tenants(), retrieval_filter={"tenant": "a"})  # type: ignore[arg-type]


@COLOURS
def test_a_step_keeps_a_turn(colour: str) -> None:
    kept: dict[str, Any] = {}
    retriever = tenants()

    def step(name: str, fn: Callable[[], Any]) -> Any:
        if name not in kept:
            kept[name] = fn()
        return kept[name]

    inject = InjectContext(retriever=retriever, step=step)
    first = call(inject, "inject", colour, turn())
    assert call(inject, "inject", colour, turn()) == first
    assert len(retriever.asked) == 1


# ------------------------------------------------------------------------------------------------ the chat engine


def chat_engine(model: Any, retriever: Any = None, **options: Any) -> AgoraContextChatEngine:
    return AgoraContextChatEngine(retriever=tenants() if retriever is None else retriever, llm=model, **options)


@COLOURS
def test_chat(colour: str) -> None:
    model = llm("thirty", "twenty")
    engine = chat_engine(model, system_prompt="You help.", top_k=1)
    first = call(engine, "chat", colour, "paid leave at A")
    assert str(first) == "thirty"
    assert [n.node.node_id for n in first.source_nodes] == ["leave-a#0"]
    (source,) = first.sources
    assert (source.tool_name, source.raw_input) == ("retrieve", {"query": "paid leave at A"})
    assert source.raw_output[0]["id"] == "leave-a#0"
    call(engine, "chat", colour, "and at B")
    assert model.system(1).startswith("You help.\n\n<retrieved_context>\n[1] ")
    assert "at A" not in model.system(1)
    assert model.told(1) == [("user", "paid leave at A"), ("assistant", "thirty"), ("user", "and at B")]
    assert [m.content for m in engine.chat_history] == ["paid leave at A", "thirty", "and at B", "twenty"]
    engine.reset()
    assert engine.chat_history == []


@COLOURS
def test_chat_without_passages_still_asks_the_model(colour: str) -> None:
    model = llm("hello")
    engine = chat_engine(model, in_memory_retriever([]), system_prompt="You help.")
    said = call(engine, "chat", colour, "hi")
    assert (str(said), said.source_nodes, said.sources) == ("hello", [], [])
    assert model.system(0) == "You help."


@COLOURS
def test_braces_stay_as_they_were_typed(colour: str) -> None:
    model = llm("one", "two")
    engine = chat_engine(model, system_prompt="Answer as {json}.")
    call(engine, "chat", colour, "{context_str} {0} {} paid leave")
    call(engine, "chat", colour, "{query_str}")
    assert model.system(1).startswith("Answer as {json}.\n\n")
    assert model.told(1)[0] == ("user", "{context_str} {0} {} paid leave")
    assert model.told(1)[2] == ("user", "{query_str}")


@COLOURS
@pytest.mark.parametrize("method", ["chat", "stream_chat"])
def test_a_hook_that_raises_leaves_the_conversation(colour: str, method: str) -> None:
    def hook(actor: Any) -> Any:
        raise PermissionError("no")

    model, retriever = llm(), tenants()
    memory = ChatMemoryBuffer.from_defaults(chat_history=[ChatMessage(role=USER, content="before")])
    engine = chat_engine(model, retriever, memory=memory, retrieval_filter=hook, actor=lambda: None)
    with pytest.raises(PermissionError):
        call(engine, method, colour, "paid leave", [ChatMessage(role=USER, content="other")])
    assert [m.content for m in memory.get_all()] == ["before"]
    assert model.seen == []
    assert retriever.asked == []


@COLOURS
def test_a_model_that_fails_leaves_no_question_without_answer(colour: str) -> None:
    engine = chat_engine(llm(RuntimeError("down"), "ok"))
    with pytest.raises(RuntimeError):
        call(engine, "chat", colour, "paid leave")
    assert engine.chat_history == []
    assert str(call(engine, "chat", colour, "paid leave")) == "ok"
    assert [m.content for m in engine.chat_history] == ["paid leave", "ok"]


@COLOURS
def test_a_given_history_replaces_the_conversation(colour: str) -> None:
    model = llm("one", "two")
    engine = chat_engine(model)
    call(engine, "chat", colour, "first")
    call(engine, "chat", colour, "second", [ChatMessage(role=USER, content="other")])
    assert [text for _, text in model.told(1)] == ["other", "second"]


def test_streaming() -> None:
    model = llm("thirty days")
    engine = chat_engine(model, top_k=1)
    response = engine.stream_chat("paid leave at A")
    assert "".join(response.response_gen) == "thirty days"
    assert [n.node.node_id for n in response.source_nodes] == ["leave-a#0"]
    assert [m.content for m in engine.chat_history] == ["paid leave at A", "thirty days"]


async def test_streaming_async() -> None:
    model = llm("thirty days")
    engine = chat_engine(model, top_k=1)
    response = await engine.astream_chat("paid leave at A")
    assert "".join([piece async for piece in response.async_response_gen()]) == "thirty days"
    assert [n.node.node_id for n in response.source_nodes] == ["leave-a#0"]
    assert [m.content for m in engine.chat_history] == ["paid leave at A", "thirty days"]


@COLOURS
def test_who_asks_is_read_at_each_message(colour: str) -> None:
    asking = ["a", "b"]
    model = llm("one", "two")
    engine = chat_engine(model, retrieval_filter=lambda actor: {"tenant": actor}, actor=lambda: asking.pop(0))
    call(engine, "chat", colour, "paid leave")
    call(engine, "chat", colour, "paid leave")
    assert "at A" in model.system(0)
    assert "at B" not in model.system(0)
    assert "at B" in model.system(1)
    assert "at A" not in model.system(1)


# ---------------------------------------------------------------- who asks, and what


@COLOURS
@pytest.mark.parametrize("method", ["chat", "stream_chat"])
def test_a_follow_up_is_asked_with_its_conversation(colour: str, method: str) -> None:
    model, retriever = llm("paid leave at B", "answer"), Queries()
    memory = ChatMemoryBuffer.from_defaults(chat_history=[ChatMessage(role=USER, content="paid leave at A?")])
    engine = chat_engine(model, retriever, memory=memory, query_from=condense_question(model), max_chars=30)
    answer = call(engine, method, colour, "and at B?")
    assert retriever.queries == ["paid leave at B"]
    if method == "chat":
        assert answer.sources[0].raw_input == {"query": "paid leave at B"}
        assert len(answer.source_nodes) == 1
    first = chat_engine(llm("answer"), retriever, query_from=condense_question(llm()))
    call(first, "chat", colour, "paid leave?")
    assert retriever.queries[-1] == "paid leave?"


@COLOURS
def test_a_query_that_cannot_be_made_fails_the_message(colour: str) -> None:
    retriever = Queries()
    for query_from in (lambda messages: None, condense_question(llm(RuntimeError("down")))):
        memory = ChatMemoryBuffer.from_defaults(chat_history=[ChatMessage(role=USER, content="before")])
        engine = chat_engine(llm(), retriever, memory=memory, query_from=query_from)
        with pytest.raises((RuntimeError, InvalidArgumentError)):
            call(engine, "chat", colour, "and at B?")
        assert [m.content for m in memory.get_all()] == ["before"]
    assert retriever.queries == []


@COLOURS
def test_a_missing_actor_fails_everywhere_and_a_given_none_is_passed_on(colour: str) -> None:
    def hook(actor: Any) -> Any:
        return {"acl": actor}

    retriever = Queries()
    step = InjectContext(retriever, retrieval_filter=hook)
    message = ChatMessage(role=USER, content="x")
    post = InjectContextPostprocessor(retriever, retrieval_filter=hook)
    for act in (
        lambda: call(step, "inject", colour, [message]),
        lambda: call(chat_engine(llm(), retriever, retrieval_filter=hook), "chat", colour, "x"),
        lambda: post.postprocess_nodes([], query_str="x"),
    ):
        with pytest.raises(InvalidFilterError, match="no actor"):
            act()
    assert retriever.queries == []
    call(step, "inject", colour, [message], actor=None)
    assert retriever.queries == ["x"]


class Queries:
    """A retriever that remembers its queries."""

    def __init__(self) -> None:
        self.queries: list[str] = []

    def retrieve(self, query: str, **options: Any) -> list[Passage]:
        self.queries.append(query)
        return [Passage("a#0", "Paid leave at A is 30 days.", 0.9), Passage("b#0", "Paid leave at B is 20.", 0.8)]

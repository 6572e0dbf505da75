"""`InjectContext` as a step of a chain: every shape comes out as the shape it was, with the block in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompt_values import ChatPromptValue, StringPromptValue
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough
from pydantic import Field

from agora_core import InvalidArgumentError, InvalidFilterError, Passage, field, render_context
from langchain_agora import InjectContext
from tests.unit.langchain_agora.colours import Run

PASSAGES = [Passage("leave#0", "Leave is 30 days.", 0.9, "leave.md"), Passage("x#0", "{braces} and {{more}}", 0.4)]
BLOCK = render_context(PASSAGES)


class Fixed:
    """Gives its passages, remembers the calls."""

    def __init__(self, *passages: Passage) -> None:
        self.passages = passages
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def retrieve(self, query: str, **options: Any) -> list[Passage]:
        self.calls.append((query, options))
        return list(self.passages)


def inject(**options: Any) -> InjectContext:
    return InjectContext(Fixed(*PASSAGES), **options)


HUMAN, SYSTEM = HumanMessage("how much leave?"), SystemMessage("You help.", name="rules")
FOLDED = SystemMessage(f"You help.\n\n{BLOCK}", name="rules")

SHAPES: list[tuple[str, Any, Any]] = [
    ("text", "how much leave?", f"{BLOCK}\n\nhow much leave?"),
    ("messages", [SYSTEM, HUMAN], [FOLDED, HUMAN]),
    ("messages without a system message", [HUMAN], [SystemMessage(BLOCK), HUMAN]),
    (
        "system message that is not the first",
        [HUMAN, AIMessage("?"), SYSTEM, HUMAN],
        [HUMAN, AIMessage("?"), FOLDED, HUMAN],
    ),
    (
        "tuples",
        [("system", "You help."), ("human", "how much leave?")],
        [SystemMessage(f"You help.\n\n{BLOCK}"), HUMAN],
    ),
    ("prompt value", ChatPromptValue(messages=[SYSTEM, HUMAN]), ChatPromptValue(messages=[FOLDED, HUMAN])),
    ("string prompt value", StringPromptValue(text="leave?"), StringPromptValue(text=f"{BLOCK}\n\nleave?")),
    ("dict", {"messages": [HUMAN], "other": 1}, {"messages": [SystemMessage(BLOCK), HUMAN], "other": 1}),
    ("dict of text", {"messages": "leave?"}, {"messages": f"{BLOCK}\n\nleave?"}),
]


@pytest.mark.parametrize(("given", "folded"), [row[1:] for row in SHAPES], ids=[row[0] for row in SHAPES])
def test_the_shape_stays(run: Run, given: Any, folded: Any) -> None:
    result = run(inject(), "invoke", given)
    assert result == folded
    assert type(result) is type(folded)


@pytest.mark.parametrize("given", [row[1] for row in SHAPES], ids=[row[0] for row in SHAPES])
def test_without_passages_nothing_changes(run: Run, given: Any) -> None:
    assert run(InjectContext(Fixed()), "invoke", given) == given


def test_what_was_given_is_not_changed(run: Run) -> None:
    messages, asked = [SystemMessage("You help."), HumanMessage("leave?")], {"messages": [HUMAN]}
    run(inject(), "invoke", messages)
    run(inject(), "invoke", asked)
    assert messages == [SystemMessage("You help."), HumanMessage("leave?")]
    assert asked == {"messages": [HUMAN]}


def test_content_blocks_stay_as_they_are(run: Run) -> None:
    blocks: list[Any] = [{"type": "text", "text": "Rules.", "cache_control": {"type": "ephemeral"}}]
    image = {"type": "image", "url": "https://example.org/a.png"}
    human = HumanMessage([{"type": "text", "text": "how much leave?"}, image])
    retriever = Fixed(*PASSAGES)
    system, same = run(InjectContext(retriever), "invoke", [SystemMessage(blocks), human])
    assert system.content == [*blocks, {"type": "text", "text": f"\n\n{BLOCK}"}]
    assert same == human
    assert retriever.calls == [("how much leave?", {"top_k": 5})]


def test_the_latest_question_is_asked_once(run: Run) -> None:
    retriever = Fixed(*PASSAGES)
    conversation = [HumanMessage("first"), AIMessage("answer"), HumanMessage("second")]
    run(InjectContext(retriever, top_k=2, min_score=0.1), "invoke", conversation)
    assert retriever.calls == [("second", {"top_k": 2, "min_score": 0.1})]


@pytest.mark.parametrize("given", ["  ", [], [SYSTEM], [HumanMessage("")], {"messages": []}])
def test_without_a_question_nothing_is_retrieved(run: Run, given: Any) -> None:
    retriever = Fixed(*PASSAGES)
    assert run(InjectContext(retriever), "invoke", given) == given
    assert retriever.calls == []


def test_a_key_of_ones_own_and_a_place_of_ones_own(run: Run) -> None:
    asked = {"question": "leave?", "lang": "en"}
    assert run(inject(key="question"), "invoke", asked) == {"question": f"{BLOCK}\n\nleave?", "lang": "en"}
    placed = run(inject(key="question", output_key="context"), "invoke", asked)
    assert placed == {**asked, "context": BLOCK}
    empty = run(InjectContext(Fixed(), key="question", output_key="context"), "invoke", asked)
    assert empty == {**asked, "context": ""}
    prompt = ChatPromptTemplate.from_messages([("system", "Help.\n{context}"), ("human", "{question}")])
    messages = run(inject(key="question", output_key="context") | prompt, "invoke", asked).to_messages()
    assert messages[0].content == f"Help.\n{BLOCK}"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"question": "x"}, r"key 'messages' in a dict and got one with \['question'\].*key=\.\.\."),
        (5, "takes a str, a list of messages, a prompt value or a dict with one of them, got int"),
        (None, "got NoneType"),
        (HumanMessage("x"), "got HumanMessage"),
        ({"messages": None}, "got NoneType"),
    ],
)
def test_what_cannot_be_read_is_refused(run: Run, given: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        run(inject(), "invoke", given)


# -- who asks ----------------------------------------------------------------------------------------------------------


def test_the_actor_comes_from_the_call_or_the_config(run: Run) -> None:
    retriever = Fixed(*PASSAGES)
    step = InjectContext(retriever, retrieval_filter=lambda actor: field("tenant").in_([actor]))
    config: Any = {"configurable": {"actor": "a"}}
    run(step, "invoke", "x", config)
    run(step, "invoke", "x", config, actor="b")
    run(step.bind(actor="c"), "invoke", "x")
    run(RunnablePassthrough() | step, "invoke", "x", config)
    filters = [options["filter"] for _, options in retriever.calls]
    assert filters == [field("tenant").in_([tenant]) for tenant in "abca"]


def raising(actor: Any) -> Any:
    raise PermissionError("nobody asked")


@pytest.mark.parametrize("hook", [raising, lambda actor: None, lambda actor: {"t": {"$ne": ""}}])
def test_a_hook_that_gives_no_filter_fails_the_chain(run: Run, hook: Any) -> None:
    retriever = Fixed(*PASSAGES)
    asked: list[Any] = []
    chain = InjectContext(retriever, retrieval_filter=hook) | RunnableLambda(asked.append)
    with pytest.raises((PermissionError, InvalidFilterError)):
        run(chain, "invoke", "x", {"configurable": {"actor": "a"}})
    assert retriever.calls == asked == []


def test_an_async_hook_in_either_form() -> None:
    async def hook(actor: Any) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"tenant": actor}

    for function in (hook, lambda actor: hook(actor)):
        retriever = Fixed(*PASSAGES)
        asyncio.run(InjectContext(retriever, retrieval_filter=function).ainvoke("x", actor="a"))
        assert retriever.calls == [("x", {"top_k": 5, "filter": {"tenant": "a"}})]


def test_a_step_of_ones_own_makes_it_durable() -> None:
    memory: dict[str, Any] = {}
    retriever = Fixed(*PASSAGES)

    async def astep(name: str, fn: Any) -> Any:
        if name not in memory:
            memory[name] = await fn()
        return memory[name]

    def step(name: str, fn: Any) -> Any:
        if name not in memory:
            memory[name] = fn()
        return memory[name]

    for each in (step, astep):
        memory.clear()
        retriever.calls.clear()
        durable = InjectContext(retriever, step=each)
        asyncio.run(durable.ainvoke("x"))
        asyncio.run(durable.ainvoke("x"))
        assert len(retriever.calls) == 1
    memory.clear()
    durable = InjectContext(retriever, step=step)
    assert durable.invoke("x") == durable.invoke("x")
    assert len(retriever.calls) == 2


# -- in a chain --------------------------------------------------------------------------------------------------------


class Model(GenericFakeChatModel):
    seen: list[Any] = Field(default_factory=list)

    def _generate(self, messages: Any, *args: Any, **options: Any) -> Any:
        self.seen.append(messages)
        return super()._generate(messages, *args, **options)


def model(*answers: str) -> Model:
    return Model(messages=iter([AIMessage(answer) for answer in answers]))


PROMPT = ChatPromptTemplate.from_messages([("system", "You help."), ("human", "{question}")])


def test_a_chain_of_prompt_context_and_model(run: Run) -> None:
    chat = model("thirty days")
    chain = PROMPT | inject() | chat | StrOutputParser()
    assert run(chain, "invoke", {"question": "leave?"}) == "thirty days"
    assert chat.seen == [[SystemMessage(f"You help.\n\n{BLOCK}"), HumanMessage("leave?")]]


def test_tokens_stream_through() -> None:
    chain = PROMPT | inject() | model("thirty days a year")
    chunks = list(chain.stream({"question": "leave?"}))
    assert all(isinstance(chunk, AIMessageChunk) for chunk in chunks)
    assert len([chunk for chunk in chunks if chunk.content]) > 3

    async def astream() -> list[Any]:
        chain = PROMPT | inject() | model("thirty days a year")
        return [chunk async for chunk in chain.astream({"question": "leave?"})]

    assert len(asyncio.run(astream())) > 3


def test_an_input_that_streams_is_gathered() -> None:
    def words(_: Any) -> Iterator[str]:
        yield from ("how much ", "leave?")

    retriever = Fixed(*PASSAGES)
    chain = RunnableLambda(words) | InjectContext(retriever)
    assert "".join(chain.stream("x")) == f"{BLOCK}\n\nhow much leave?"
    assert retriever.calls == [("how much leave?", {"top_k": 5})]


def test_batches_pass_through(run: Run) -> None:
    retriever = Fixed(*PASSAGES)
    chain = PromptTemplate.from_template("{q}?") | InjectContext(retriever)
    results = run(chain, "batch", [{"q": str(n)} for n in range(5)])
    assert [value.text for value in results] == [f"{BLOCK}\n\n{n}?" for n in range(5)]
    assert sorted(query for query, _ in retriever.calls) == [f"{n}?" for n in range(5)]


def test_a_chain_with_it_can_be_drawn_and_described() -> None:
    chain = PROMPT | inject() | model("x") | StrOutputParser()
    assert "InjectContext" in [node.name for node in chain.get_graph().nodes.values()]
    assert chain.get_input_jsonschema()["required"] == ["question"]


def test_it_has_a_name_in_traces_and_a_repr() -> None:
    assert inject().get_name() == "InjectContext"
    assert inject(name="context").get_name() == "context"
    assert repr(InjectContext(Fixed(), top_k=2)).endswith("top_k=2)")


def test_a_wrong_argument_is_refused() -> None:
    with pytest.raises(TypeError):
        inject(k=3)
    with pytest.raises(ValueError, match="top_k"):
        inject(top_k=0)
    with pytest.raises(TypeError, match="atcor"):
        inject().invoke("x", atcor="a")

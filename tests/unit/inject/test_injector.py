"""Inject mode: one retrieval a turn, under the actor's filter, in a block that no passage can leave."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from agora_core import (
    ContextInjector,
    Injection,
    InvalidArgumentError,
    InvalidFilterError,
    InvalidMetadataError,
    Passage,
    UnsupportedOperationError,
    field,
    passage_from_dict,
    passage_to_dict,
    render_context,
)

FAQ = Passage("faq#0", "Refunds take five days.", 0.9, "faq.md", {"audience": ["public"]})
BARE = Passage("x#1", "No source here.", 0.5)


class Recorder:
    """A retriever that returns what it is told, and records what it was asked."""

    def __init__(self, *passages: Passage) -> None:
        self.passages = list(passages)
        self.calls: list[dict[str, Any]] = []

    def retrieve(self, query: str, **options: Any) -> list[Passage]:
        self.calls.append({"query": query, **options})
        return self.passages


class AsyncRecorder(Recorder):
    retrieve = None  # type: ignore[assignment] # it has the async method only

    async def aretrieve(self, query: str, **options: Any) -> list[Passage]:
        await asyncio.sleep(0)
        return Recorder.retrieve(self, query, **options)


def injector(retriever: Any, **options: Any) -> ContextInjector:
    return ContextInjector(retriever, **options)


def test_folds_the_block_into_the_prompt() -> None:
    retriever = Recorder(FAQ, BARE)
    injection = injector(retriever).inject("How long do refunds take?", system="Be brief.")
    assert injection.system == "Be brief.\n\n" + render_context([FAQ, BARE])
    assert injection.passages == [FAQ, BARE]
    assert retriever.calls == [{"query": "How long do refunds take?", "top_k": 5}]
    assert injector(retriever).inject("q").system == render_context([FAQ, BARE])


def test_records_the_retrieval_as_an_executed_call() -> None:
    call = injector(Recorder(FAQ)).inject("q").tool_call
    assert call is not None
    assert call.keys() == {"id", "name", "args", "status", "result"}
    assert (call["name"], call["args"], call["status"]) == ("retrieve", {"query": "q"}, "auto_executed")
    assert call["result"] == [passage_to_dict(FAQ)]
    assert json.loads(json.dumps(call)) == call
    assert injector(Recorder(FAQ)).inject("q").tool_call != call


def test_without_passages_nothing_changes() -> None:
    assert injector(Recorder()).inject("q", system="Be brief.") == Injection("Be brief.", [], None)
    retriever = Recorder(FAQ)
    assert injector(retriever).inject(" \n", system="Be brief.") == Injection("Be brief.", [], None)
    assert retriever.calls == []


def test_options_reach_the_retriever_only_where_given() -> None:
    retriever = Recorder()
    made = injector(retriever, top_k=3, min_score=0.25, retrieval_filter=lambda actor: {"tenant": actor})
    made.inject("q", actor="acme")
    assert retriever.calls == [{"query": "q", "top_k": 3, "min_score": 0.25, "filter": {"tenant": "acme"}}]


@pytest.mark.parametrize("bound", [{}, {"a": []}, field("year") >= 2020])
def test_a_mapping_or_an_expression_is_a_filter(bound: Any) -> None:
    retriever = Recorder()
    injector(retriever, retrieval_filter=lambda actor: bound).inject("q", actor="a")
    assert retriever.calls[0]["filter"] == bound


@pytest.mark.parametrize("bound", [None, [], "tenant", 0, False, [("a", 1)], {"a": object()}, {1: "a"}])
async def test_anything_else_fails_the_turn(bound: Any) -> None:
    retriever = Recorder(FAQ)
    made = injector(retriever, retrieval_filter=lambda actor: bound)
    with pytest.raises(InvalidFilterError, match="retrieval_filter returned no usable filter, so nothing is retrieved"):
        made.inject("q", actor="a")
    with pytest.raises(InvalidFilterError):
        await made.ainject("q", actor="a")
    assert retriever.calls == []


async def test_a_hook_that_raises_fails_the_turn() -> None:
    def hook(actor: Any) -> Any:
        raise LookupError("no such actor")

    retriever = Recorder(FAQ)
    with pytest.raises(LookupError):
        injector(retriever, retrieval_filter=hook).inject("q", actor="a")
    with pytest.raises(LookupError):
        await injector(retriever, retrieval_filter=hook).ainject("q", actor="a")
    assert retriever.calls == []


class Memory:
    """A durable engine's memory of one turn: plain JSON, kept as text."""

    def __init__(self) -> None:
        self.kept: dict[str, str] = {}

    def step(self, name: str, fn: Callable[[], Any]) -> Any:
        if name not in self.kept:
            self.kept[name] = json.dumps(fn())
        return json.loads(self.kept[name])

    async def astep(self, name: str, fn: Callable[[], Any]) -> Any:
        if name not in self.kept:
            self.kept[name] = json.dumps(await fn())
        return json.loads(self.kept[name])


def test_a_turn_run_again_does_not_retrieve_again() -> None:
    retriever, memory, asked = Recorder(FAQ, BARE), Memory(), []

    def hook(actor: Any) -> Any:
        asked.append(actor)
        return {}

    made = injector(retriever, retrieval_filter=hook, step=memory.step)
    first = made.inject("q", actor="a")
    assert made.inject("q", actor="a") == first
    assert first.passages == [FAQ, BARE]
    assert len(retriever.calls) == len(asked) == 1
    assert list(memory.kept) == ["retrieve"]


@pytest.mark.parametrize("retriever_class", [Recorder, AsyncRecorder])
@pytest.mark.parametrize("colour", ["step", "astep"])
async def test_async_takes_a_step_and_a_hook_of_either_colour(retriever_class: Any, colour: str) -> None:
    async def hook(actor: Any) -> Any:
        await asyncio.sleep(0)
        return {"tenant": actor}

    for one in (hook, lambda actor: {"tenant": actor}):
        retriever, memory = retriever_class(FAQ), Memory()
        made = injector(retriever, retrieval_filter=one, step=getattr(memory, colour))
        first = await made.ainject("q", system="s", actor="acme")
        assert await made.ainject("q", system="s", actor="acme") == first
        assert first.passages == [FAQ]
        assert retriever.calls == [{"query": "q", "top_k": 5, "filter": {"tenant": "acme"}}]


async def test_a_plain_step_may_hand_back_the_awaitable() -> None:
    made = injector(AsyncRecorder(FAQ), step=lambda name, fn: Memory().astep(name, fn))
    assert (await made.ainject("q")).passages == [FAQ]


async def test_async_works_without_a_step() -> None:
    for retriever in (Recorder(FAQ), AsyncRecorder(FAQ)):
        injection = await injector(retriever).ainject("q", system="s")
        assert injection.system == "s\n\n" + render_context([FAQ])
    assert await injector(Recorder()).ainject("q", system="s") == Injection("s", [], None)
    assert await injector(Recorder(FAQ)).ainject("", system="s") == Injection("s", [], None)


async def test_a_hook_that_waits_does_not_hold_up_the_loop() -> None:
    release = threading.Event()

    def hook(actor: Any) -> Any:
        assert release.wait(5)
        return {}

    task = asyncio.create_task(injector(Recorder(FAQ), retrieval_filter=hook).ainject("q", actor="a"))
    await asyncio.sleep(0.01)
    release.set()
    assert (await task).passages == [FAQ]


def test_sync_refuses_async_parts_clearly() -> None:
    async def hook(actor: Any) -> Any:
        return {}

    async def step(name: str, fn: Any) -> Any:
        return await fn()

    with pytest.raises(UnsupportedOperationError, match="retrieval_filter is async and was used from sync code"):
        injector(Recorder(FAQ), retrieval_filter=hook).inject("q", actor="a")
    with pytest.raises(UnsupportedOperationError, match="step is async and was used from sync code"):
        injector(Recorder(FAQ), step=step).inject("q")
    with pytest.raises(UnsupportedOperationError, match=r"AsyncRecorder.aretrieve is async"):
        injector(AsyncRecorder(FAQ)).inject("q")


@pytest.mark.parametrize("found", [None, "text", {"id": "a"}, 7, [None], [{"id": "a"}], [FAQ]])
def test_a_step_that_returns_something_else_fails_the_turn(found: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        injector(Recorder(FAQ), step=lambda name, fn: found).inject("q")


def test_refuses_bad_options() -> None:
    for top_k in (0, -1, 2.5, True, None):
        with pytest.raises(InvalidArgumentError, match="top_k must be"):
            injector(Recorder(), top_k=top_k)
    with pytest.raises(InvalidArgumentError, match="min_score is NaN"):
        injector(Recorder(), min_score=float("nan"))
    with pytest.raises(InvalidArgumentError, match="retrieval_filter must be callable or None, got dict"):
        injector(Recorder(), retrieval_filter={})
    with pytest.raises(InvalidArgumentError, match="query must be a str, got NoneType"):
        injector(Recorder()).inject(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        injector(Recorder(), retrieval_fitler=None)


def test_a_passage_survives_the_journey_through_json() -> None:
    for passage in (FAQ, BARE, Passage("a", "", -0.5, "", {})):
        assert passage_from_dict(json.loads(json.dumps(passage_to_dict(passage)))) == passage
    assert passage_to_dict(BARE) == {"id": "x#1", "text": "No source here.", "score": 0.5}
    plain = passage_to_dict(FAQ)
    plain["metadata"]["audience"].append("staff")
    assert FAQ.metadata == {"audience": ["public"]}
    with pytest.raises(InvalidMetadataError):
        passage_to_dict(Passage("a", "", 1.0, None, {"when": object()}))


@pytest.mark.parametrize(
    ("change", "named"),
    [({"id": 1}, "'id'"), ({"text": None}, "'text'"), ({"score": "1"}, "'score'"), ({"score": True}, "'score'"),
     ({"source": 1}, "'source'"), ({"metadata": []}, "'metadata'")],
)  # fmt: skip
def test_refuses_what_is_no_passage(change: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgumentError, match=named):
        passage_from_dict({**passage_to_dict(FAQ), **change})


# ---------------------------------------------------------------- who asks, and what


async def test_a_hook_without_an_actor_fails_the_turn_and_a_given_none_is_passed_on() -> None:
    """A missing actor read as None matched records whose acl is null."""
    retriever = Recorder(FAQ)
    made = injector(retriever, retrieval_filter=lambda actor: {"acl": actor})
    with pytest.raises(InvalidFilterError, match="no actor was given"):
        made.inject("q")
    with pytest.raises(InvalidFilterError, match="no actor was given"):
        await made.ainject("q")
    assert retriever.calls == []
    made.inject("q", actor=None)
    assert retriever.calls[0]["filter"] == {"acl": None}


async def test_the_query_comes_from_the_conversation_once_a_turn() -> None:
    """It is made inside the step: a turn that is run again asks no model, and records what was asked."""
    made_of: list[Any] = []

    def query_from(messages: Any) -> str:
        made_of.append(messages)
        return "refunds for visitors"

    async def aquery_from(messages: Any) -> str:
        return query_from(messages)

    history = [{"role": "user", "content": "refunds?"}, {"role": "user", "content": "and visitors?"}]
    retriever, memory = Recorder(FAQ), Memory()
    made = injector(retriever, query_from=query_from, step=memory.step)
    first = made.inject("and visitors?", messages=history)
    assert made.inject("and visitors?", messages=history) == first
    assert made_of == [history]
    assert first.tool_call is not None
    assert first.tool_call["args"] == {"query": "refunds for visitors"}
    assert first.passages == [FAQ]
    assert retriever.calls == [{"query": "refunds for visitors", "top_k": 5}]
    other = await injector(Recorder(FAQ), query_from=aquery_from, step=Memory().astep).ainject("x")
    assert other.tool_call is not None
    assert other.tool_call["args"] == {"query": "refunds for visitors"}
    assert made_of[-1] == [{"role": "user", "content": "x"}]


@pytest.mark.parametrize("made", [None, 7, b"q", ["q"], RuntimeError("model down")])
async def test_a_query_that_is_not_text_fails_the_turn(made: Any) -> None:
    def query_from(messages: Any) -> Any:
        if isinstance(made, Exception):
            raise made
        return made

    retriever = Recorder(FAQ)
    for run in (lambda one: one.inject("q"), lambda one: asyncio.run(one.ainject("q"))):
        with pytest.raises((InvalidArgumentError, RuntimeError)):
            await asyncio.to_thread(run, injector(retriever, query_from=query_from))
    assert retriever.calls == []


def test_a_conversation_that_asks_nothing_retrieves_nothing() -> None:
    retriever = Recorder(FAQ)
    assert injector(retriever, query_from=lambda messages: " ").inject("q", system="s") == Injection("s", [], None)
    assert retriever.calls == []
    assert injector(retriever, query_from=lambda messages: "q").inject("").passages == [FAQ]


def test_the_room_bounds_the_passages_of_a_turn() -> None:
    made = injector(Recorder(FAQ, BARE), max_chars=40).inject("q")
    assert made.passages == [FAQ]
    assert made.tool_call is not None
    assert [passage["id"] for passage in made.tool_call["result"]] == ["faq#0"]
    assert BARE.text not in made.system
    with pytest.raises(InvalidArgumentError, match="max_chars must be"):
        injector(Recorder(), max_chars=0)
    with pytest.raises(InvalidArgumentError, match="measure must be callable"):
        injector(Recorder(), measure=None)

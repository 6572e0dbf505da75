"""Inject mode in agents and agent workflows: one retrieval a turn, in the stream and in the tool calls."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
from typing import Any

import pytest
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent, ToolCallResult
from llama_index.core.base.llms.types import ChatResponse
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.workflow import Context
from workflows.errors import WorkflowCancelledByUser

from agora_core.errors import InvalidFilterError
from agora_core.testing import in_memory_retriever
from llamaindex_agora import InjectingFunctionAgent
from llamaindex_agora.agent import STATE_KEY
from tests.integration.llamaindex_agora.scripted import ScriptedLLM, llm, tenants

pytestmark = [
    # LlamaIndex says this of its own memory whenever a context is used again.
    pytest.mark.filterwarnings("ignore:Skipping serialization of known unserializable key"),
    # A workflow looks at all of its members, and pydantic warns of those that are old.
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]

ACTOR: contextvars.ContextVar[str] = contextvars.ContextVar("actor")


def add_one(number: int) -> int:
    """Add one."""
    return number + 1


ADD = [("add_one", {"number": 1})]


def own_tenant(actor: Any) -> dict[str, Any]:
    return {"tenant": actor}


def agent(model: Any, retriever: Any = None, **options: Any) -> InjectingFunctionAgent:
    options = {"system_prompt": "You help.", "tools": [add_one], "top_k": 1, **options}
    return InjectingFunctionAgent(retriever=tenants() if retriever is None else retriever, llm=model, **options)


@pytest.mark.parametrize("streaming", [True, False])
async def test_one_retrieval_over_the_model_calls_of_a_turn(streaming: bool) -> None:
    model, retriever = llm(ADD, ADD, "done"), tenants()
    made = agent(model, retriever, streaming=streaming)
    handler = made.run("paid leave at A")
    results = [event async for event in handler.stream_events() if isinstance(event, ToolCallResult)]
    output: Any = await handler
    assert str(output) == "done"
    assert len(model.seen) == 3
    assert len(retriever.asked) == 1
    for call in range(3):
        assert model.system(call).startswith("You help.\n\n<retrieved_context>\n[1] ")
        assert "at A" in model.system(call)
    assert [event.tool_name for event in results] == ["retrieve", "add_one", "add_one"]
    assert [call.tool_name for call in output.tool_calls] == ["retrieve", "add_one", "add_one"]
    told = results[0]
    assert told.tool_kwargs == {"query": "paid leave at A"}
    assert told.tool_output.raw_output[0]["id"] == "leave-a#0"
    json.dumps(told.tool_output.raw_output)


async def test_without_passages_the_model_is_called_all_the_same() -> None:
    model = llm(ADD, "done")
    output: Any = await agent(model, in_memory_retriever([])).run("paid leave")
    assert str(output) == "done"
    assert [call.tool_name for call in output.tool_calls] == ["add_one"]
    assert model.system() == "You help."


async def test_an_agent_without_a_system_prompt() -> None:
    model = llm("done")
    await agent(model, system_prompt=None).run("paid leave at A")
    assert model.system().startswith("<retrieved_context>")


async def test_the_block_does_not_stay_in_the_memory() -> None:
    memory = ChatMemoryBuffer.from_defaults()
    await agent(llm(ADD, "done")).run("paid leave at A", memory=memory)
    assert all("retrieved_context" not in (message.content or "") for message in memory.get_all())


@pytest.mark.parametrize("second", ["paid leave", "something else"])
async def test_two_turns_of_one_context_never_mix(second: str) -> None:
    """The second turn retrieves anew, for whoever asks then, be its message the same or not."""
    model, retriever = llm(ADD, "done", ADD, "done"), tenants()
    made = agent(model, retriever, retrieval_filter=own_tenant, actor=ACTOR)
    context = Context(made)
    for tenant, message in (("a", "paid leave"), ("b", second)):
        ACTOR.set(tenant)
        output: Any = await made.run(message, ctx=context, memory=ChatMemoryBuffer.from_defaults())
        assert [call.tool_name for call in output.tool_calls] == ["retrieve", "add_one"]
        assert await context.store.get(STATE_KEY) is None
    assert retriever.asked == [{"tenant": "a"}, {"tenant": "b"}]
    assert ["at A" in model.system(call) for call in range(4)] == [True, True, False, False]
    assert ["at B" in model.system(call) for call in range(4)] == [False, False, True, True]


async def test_a_turn_that_failed_goes_on_and_one_with_another_message_begins_anew() -> None:
    model, retriever = llm(RuntimeError("down"), RuntimeError("down"), "done"), tenants()
    made = agent(model, retriever)
    context = Context(made)
    for message in ("paid leave at A", "paid leave at A"):
        with pytest.raises(RuntimeError, match="down"):
            await made.run(message, ctx=context, memory=ChatMemoryBuffer.from_defaults())
    assert len(retriever.asked) == 1
    output: Any = await made.run("paid leave at B", ctx=context, memory=ChatMemoryBuffer.from_defaults())
    assert len(retriever.asked) == 2
    assert "at B" in model.system()
    assert [call.tool_kwargs for call in output.tool_calls] == [{"query": "paid leave at B"}]


@pytest.mark.parametrize("failing", ["first call", "second call", "cancelled"])
@pytest.mark.parametrize("opaque", [False, True])
@pytest.mark.parametrize("around", [False, True])
async def test_what_a_failed_turn_retrieved_is_shown_to_no_other_actor(
    failing: str, opaque: bool, around: bool
) -> None:
    """A cache whose key lacks the identity that it was filtered by: A fails, B asks the same words, and sees A's."""
    down = RuntimeError("down")
    script: dict[str, list[Any]] = {"first call": [down], "second call": [ADD, down], "cancelled": [ADD, ADD]}
    model, retriever = llm(*script[failing], *["done"] * 9), tenants()
    who = {"now": "a"}

    class Actor:
        def __init__(self, tenant: str) -> None:
            self.tenant = tenant

    made = agent(
        model,
        retriever,
        name="agent",
        description="helps",
        retrieval_filter=lambda actor: {"tenant": actor.tenant if opaque else actor},
        actor=lambda: Actor(who["now"]) if opaque else who["now"],
    )
    workflow: Any = AgentWorkflow(agents=[made]) if around else made
    context = Context(workflow)
    handler = workflow.run("paid leave", ctx=context, memory=ChatMemoryBuffer.from_defaults())
    if failing == "cancelled":
        async for event in handler.stream_events():
            if isinstance(event, ToolCallResult) and event.tool_name == "add_one":
                await handler.cancel_run()
                break
    with contextlib.suppress(RuntimeError, asyncio.CancelledError, WorkflowCancelledByUser):
        await handler
    before = len(model.seen)
    who["now"] = "b"
    # LlamaIndex does not keep its own memory where a run was cancelled.
    await context.store.set("memory", ChatMemoryBuffer.from_defaults())
    await workflow.run("paid leave", ctx=context, memory=ChatMemoryBuffer.from_defaults())
    assert len(model.seen) > before
    for call in range(before, len(model.seen)):
        assert "at B" in model.system(call)
        assert "at A" not in model.system(call)
    assert retriever.asked[:2] == [{"tenant": "a"}, {"tenant": "b"}]


@pytest.mark.parametrize("opaque", [False, True])
async def test_who_asks_counts_where_a_retriever_does_not_tell_what_bounds_it(opaque: bool) -> None:
    """One that is bounded by a context variable of its own, say, without a hook and without a `scope`."""
    model, inner = llm(RuntimeError("down"), "done"), tenants()

    class BoundByHand:
        def retrieve(self, query: str, *, top_k: int = 5) -> Any:
            return inner.retrieve(query, top_k=top_k, filter={"tenant": ACTOR.get()})

    made = agent(model, BoundByHand(), actor=(lambda: {ACTOR.get()}) if opaque else ACTOR)
    context = Context(made)
    ACTOR.set("a")
    with pytest.raises(RuntimeError, match="down"):
        await made.run("paid leave", ctx=context, memory=ChatMemoryBuffer.from_defaults())
    ACTOR.set("b")
    await made.run("paid leave", ctx=context, memory=ChatMemoryBuffer.from_defaults())
    assert ["at A" in model.system(call) for call in range(2)] == [True, False]


class HangingOnce(ScriptedLLM):
    """Its first call never answers."""

    _called: asyncio.Event = PrivateAttr(default_factory=asyncio.Event)

    async def achat_with_tools(self, *args: Any, **kwargs: Any) -> ChatResponse:
        answer = self._next(kwargs["chat_history"])
        if not self._called.is_set():
            self._called.set()
            await asyncio.Event().wait()
        return answer


@pytest.mark.parametrize("second", ["paid leave", "something else"])
@pytest.mark.parametrize("around", [False, True])
async def test_a_model_call_that_was_cancelled_is_taken_up_for_no_other_actor(around: bool, second: str) -> None:
    """A mark of the run in place of who asks: a cancelled step is run again before the next run is marked."""
    model, retriever = HangingOnce(), tenants()
    options = {"name": "agent", "description": "helps", "streaming": False}
    made = agent(model, retriever, retrieval_filter=own_tenant, actor=ACTOR, **options)
    workflow: Any = AgentWorkflow(agents=[made]) if around else made
    context = Context(workflow)
    ACTOR.set("a")
    handler = workflow.run("paid leave", ctx=context, memory=ChatMemoryBuffer.from_defaults())
    await model._called.wait()
    await handler.cancel_run()
    with contextlib.suppress(asyncio.CancelledError, WorkflowCancelledByUser):
        await handler
    assert "at A" in model.system(0)
    ACTOR.set("b")
    # LlamaIndex does not keep its own memory where a run was cancelled.
    await context.store.set("memory", ChatMemoryBuffer.from_defaults())
    await workflow.run(second, ctx=context, memory=ChatMemoryBuffer.from_defaults())
    assert len(model.seen) > 1
    assert all("at B" in model.system(call) and "at A" not in model.system(call) for call in range(1, len(model.seen)))


async def test_a_workflow_on_the_context_of_an_agent_that_failed_alone_shows_nothing_of_it() -> None:
    """The same kind: a workflow around the agent marks no run, so that the mark of the failed one still stands."""
    model, retriever = llm(RuntimeError("down"), "done"), tenants()
    made = agent(model, retriever, name="agent", description="helps", retrieval_filter=own_tenant, actor=ACTOR)
    context = Context(made)
    ACTOR.set("a")
    with pytest.raises(RuntimeError, match="down"):
        await made.run("paid leave", ctx=context, memory=ChatMemoryBuffer.from_defaults())
    ACTOR.set("b")
    workflow = AgentWorkflow(agents=[made])
    moved = Context.from_dict(workflow, context.to_dict())
    await workflow.run("paid leave", ctx=moved, memory=ChatMemoryBuffer.from_defaults())
    assert "at B" in model.system()
    assert "at A" not in model.system()


async def test_a_turn_that_ran_out_of_steps_leaves_nothing_to_the_next() -> None:
    model, retriever = llm(ADD, "that is all", "done"), tenants()
    made = agent(model, retriever, early_stopping_method="generate", streaming=False)
    context = Context(made)
    await made.run("paid leave", ctx=context, memory=ChatMemoryBuffer.from_defaults(), max_iterations=1)
    await context.store.set("max_iterations", 10)
    await made.run("paid leave", ctx=context, memory=ChatMemoryBuffer.from_defaults())
    assert len(retriever.asked) == 2


@pytest.mark.parametrize("answer", [None, "all", PermissionError("no")])
async def test_a_hook_that_gives_no_filter_fails_the_turn_before_the_model(answer: Any) -> None:
    def hook(actor: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    model, retriever = llm(), tenants()
    with pytest.raises((PermissionError, InvalidFilterError)):
        await agent(model, retriever, retrieval_filter=hook).run("paid leave")
    assert model.seen == []
    assert retriever.asked == []


async def test_an_actor_that_was_never_set_fails_the_turn() -> None:
    model = llm()

    async def nobody() -> None:
        await agent(model, retrieval_filter=own_tenant, actor=contextvars.ContextVar("unset")).run("paid leave")

    with pytest.raises(LookupError):
        await nobody()
    assert model.seen == []


async def test_parallel_tenants_never_cross() -> None:
    """One agent serves many requests at once; who asks stands in a context variable of each."""
    model, retriever = llm(*[ADD] * 20), tenants()
    made = agent(model, retriever, retrieval_filter=own_tenant, actor=ACTOR, top_k=5)

    async def request(number: int) -> None:
        ACTOR.set("ab"[number % 2])
        await made.run(f"paid leave for {'ab'[number % 2]}")

    await asyncio.gather(*(request(number) for number in range(20)))
    assert len(model.seen) == 40
    assert len(retriever.asked) == 20
    for call in range(40):
        tenant = model.told(call)[0][1][-1].upper()
        other = "A" if tenant == "B" else "B"
        assert f"at {tenant}" in model.system(call)
        assert f"at {other}" not in model.system(call)


def over_to(name: str) -> list[tuple[str, dict[str, str]]]:
    return [("handoff", {"to_agent": name, "reason": "x"})]


def two_agents(first: Any, second: Any, retriever: Any) -> AgentWorkflow:
    options: dict[str, Any] = {"retriever": retriever, "top_k": 5, "tools": [add_one], "actor": lambda: "anybody"}
    return AgentWorkflow(
        agents=[
            InjectingFunctionAgent(
                name="first",
                description="begins",
                llm=first,
                retrieval_filter=lambda _: {"tenant": "a"},
                **options,
            ),
            InjectingFunctionAgent(
                name="second",
                description="ends",
                llm=second,
                retrieval_filter=lambda _: {"tenant": "b"},
                **options,
            ),
        ],
        root_agent="first",
    )


async def test_agent_workflow() -> None:
    """Each agent retrieves once a turn, by its own filter; handing over and back does not retrieve again."""
    first = llm(
        ADD, [("handoff", {"to_agent": "second", "reason": "x"})], [("handoff", {"to_agent": "second", "reason": "y"})]
    )
    second = llm(ADD, [("handoff", {"to_agent": "first", "reason": "x"})], "done")
    retriever = tenants()
    workflow = two_agents(first, second, retriever)
    context = Context(workflow)
    output: Any = await workflow.run("paid leave", ctx=context)
    assert str(output) == "done"
    assert (len(first.seen), len(second.seen)) == (3, 3)
    assert retriever.asked == [{"tenant": "a"}, {"tenant": "b"}]
    assert all("at A" in first.system(call) and "at B" not in first.system(call) for call in range(3))
    assert all("at B" in second.system(call) and "at A" not in second.system(call) for call in range(3))
    names = [call.tool_name for call in output.tool_calls]
    assert names.count("retrieve") == 2
    assert names[0] == "retrieve"
    assert await context.store.get(STATE_KEY) is None


async def test_agent_workflow_with_an_agent_of_theirs() -> None:
    theirs = llm(over_to("ours"))
    ours = llm("done")
    workflow = AgentWorkflow(
        agents=[
            FunctionAgent(name="theirs", description="begins", llm=theirs),
            InjectingFunctionAgent(name="ours", description="ends", llm=ours, retriever=tenants(), top_k=1),
        ],
        root_agent="theirs",
    )
    output: Any = await workflow.run("paid leave at A")
    assert [call.tool_name for call in output.tool_calls] == ["handoff", "retrieve"]
    assert "retrieved_context" not in theirs.system()
    assert "at A" in ours.system()


def test_an_unknown_keyword_is_refused() -> None:
    """A misspelt hook would be no hook."""
    with pytest.raises(TypeError, match="retreival_filter"):
        agent(llm(), retreival_filter=own_tenant)
    assert agent(llm(), timeout=5, verbose=False, name="named").name == "named"

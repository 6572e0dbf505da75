"""Retrieval in graphs of one's own: tasks whose results are kept, and scopes that read the context of the run."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_config
from langgraph.func import entrypoint
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt
from typing_extensions import TypedDict

from agora_core import ContextInjector, InvalidFilterError, passage_from_dict
from agora_core.testing import FakeEmbeddingProvider
from langchain_agora import (
    AgoraRetriever,
    AgoraVectorStore,
    InjectContext,
    InjectContextMiddleware,
    aretrieve_task,
    atask_step,
    create_retrieve_tool,
    retrieve_task,
    task_step,
)
from tests.integration.langchain_agora.scripted import ScriptedModel, calls_tool, tenants

CONFIG: RunnableConfig = {"configurable": {"thread_id": "one"}}
needs_async_tasks = pytest.mark.skipif(sys.version_info < (3, 11), reason="LangGraph's async tasks need Python 3.11")


class Hook:
    """A hook that counts how often the filter was derived."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, tenant: str) -> dict[str, Any]:
        self.calls += 1
        return {"tenant": tenant}


# -- tasks -------------------------------------------------------------------------------------------------------------


def test_a_task_runs_once_and_derives_its_filter_inside() -> None:
    retriever, hook = tenants(), Hook()
    retrieve = retrieve_task(retriever, top_k=1, retrieval_filter=hook)

    @entrypoint(checkpointer=InMemorySaver())
    def turn(tenant: str) -> str:
        (found,) = retrieve("paid leave", tenant).result()
        return f"{interrupt('may I?')}: {passage_from_dict(found).text}"

    turn.invoke("a", CONFIG)
    assert turn.invoke(Command(resume="yes"), CONFIG) == "yes: Paid leave at A is thirty days."
    assert hook.calls == len(retriever.calls) == 1
    # The next turn of the thread is another run, and retrieves.
    turn.invoke("b", CONFIG)
    assert turn.invoke(Command(resume="yes"), CONFIG) == "yes: Paid leave at B is forty days."
    assert hook.calls == len(retriever.calls) == 2


@needs_async_tasks
async def test_an_async_task_runs_once() -> None:
    retriever, hook = tenants(), Hook()
    retrieve = aretrieve_task(retriever, top_k=1, retrieval_filter=hook)

    @entrypoint(checkpointer=InMemorySaver())
    async def turn(tenant: str) -> str:
        (found,) = await retrieve("paid leave", tenant)
        return f"{interrupt('may I?')}: {found['text']}"

    await turn.ainvoke("a", CONFIG)
    assert await turn.ainvoke(Command(resume="yes"), CONFIG) == "yes: Paid leave at A is thirty days."
    assert hook.calls == len(retriever.calls) == 1


@pytest.mark.parametrize("through", ["task", "step", "scope"])
def test_what_a_task_retrieved_for_one_actor_is_reused_for_no_other_who_resumes(through: str) -> None:
    """LangGraph knows a task by its name and place, whatever it is called with."""
    retriever = tenants()
    retrieve = retrieve_task(retriever, top_k=1, retrieval_filter=Hook())
    injector = ContextInjector(retriever, top_k=1, retrieval_filter=Hook(), step=task_step)
    scoped = AgoraRetriever(retriever).scoped(lambda config: {"tenant": config["configurable"]["tenant"]})
    anybody = retrieve_task(scoped, top_k=1)

    @entrypoint(checkpointer=InMemorySaver())
    def turn(query: str) -> str:
        tenant = get_config()["configurable"]["tenant"]
        if through == "step":
            text = injector.inject(query, actor=tenant).passages[0].text
        else:
            (found,) = (retrieve(query, tenant) if through == "task" else anybody(query)).result()
            text = found["text"]
        return f"{interrupt('may I?')}: {text}"

    def config(tenant: str) -> Any:
        return {"configurable": {"thread_id": "one", "tenant": tenant}}

    turn.invoke("paid leave", config("a"))
    assert turn.invoke(Command(resume="yes"), config("b")) == "yes: Paid leave at B is forty days."
    assert len(retriever.calls) == 2
    turn.invoke("paid leave", config("a"))
    assert turn.invoke(Command(resume="yes"), config("a")) == "yes: Paid leave at A is thirty days."
    assert len(retriever.calls) == 3


@needs_async_tasks
@pytest.mark.parametrize("through", ["task", "step"])
async def test_what_an_async_task_retrieved_for_one_actor_is_reused_for_no_other(through: str) -> None:
    retriever = tenants()
    retrieve = aretrieve_task(retriever, top_k=1, retrieval_filter=Hook())
    injector = ContextInjector(retriever, top_k=1, retrieval_filter=Hook(), step=atask_step)

    @entrypoint(checkpointer=InMemorySaver())
    async def turn(query: str) -> str:
        tenant = get_config()["configurable"]["tenant"]
        if through == "step":
            text = (await injector.ainject(query, actor=tenant)).passages[0].text
        else:
            text = (await retrieve(query, tenant))[0]["text"]
        return f"{interrupt('may I?')}: {text}"

    def config(tenant: str) -> Any:
        return {"configurable": {"thread_id": "one", "tenant": tenant}}

    await turn.ainvoke("paid leave", config("a"))
    assert await turn.ainvoke(Command(resume="yes"), config("b")) == "yes: Paid leave at B is forty days."
    assert len(retriever.calls) == 2


def test_a_task_survives_a_crash_of_what_follows() -> None:
    retriever, failures = tenants(), [RuntimeError("down")]
    retrieve = retrieve_task(retriever, top_k=1)

    @entrypoint(checkpointer=InMemorySaver())
    def turn(query: str) -> int:
        found = retrieve(query).result()
        if failures:
            raise failures.pop()
        return len(found)

    with pytest.raises(RuntimeError, match="down"):
        turn.invoke("paid leave", CONFIG)
    assert turn.invoke(None, CONFIG) == 1
    assert len(retriever.calls) == 1


@pytest.mark.parametrize("hook", [lambda actor: None, lambda actor: {"tenant": {"$ne": actor}}])
def test_a_hook_that_gives_no_filter_fails_the_task(hook: Any) -> None:
    retriever = tenants()
    retrieve = retrieve_task(retriever, retrieval_filter=hook)

    @entrypoint(checkpointer=InMemorySaver())
    def turn(query: str) -> Any:
        return retrieve(query, "a").result()

    with pytest.raises(InvalidFilterError):
        turn.invoke("paid leave", CONFIG)
    assert retriever.calls == []


def test_an_injector_is_durable_through_task_step() -> None:
    retriever, hook = tenants(), Hook()
    injector = ContextInjector(retriever, top_k=1, retrieval_filter=hook, step=task_step)

    @entrypoint(checkpointer=InMemorySaver())
    def turn(tenant: str) -> dict[str, Any]:
        injection = injector.inject("paid leave", system="You help.", actor=tenant)
        interrupt("may I?")
        return {"system": injection.system, "call": injection.tool_call}

    turn.invoke("a", CONFIG)
    result = turn.invoke(Command(resume="yes"), CONFIG)
    assert result["system"].startswith("You help.\n\n<retrieved_context>\n[1] (a/leave.md)")
    assert result["call"]["status"] == "auto_executed"
    assert hook.calls == len(retriever.calls) == 1


@needs_async_tasks
async def test_an_injector_is_durable_through_atask_step() -> None:
    retriever = tenants()
    injector = ContextInjector(retriever, top_k=1, step=atask_step)

    @entrypoint(checkpointer=InMemorySaver())
    async def turn(query: str) -> str:
        injection = await injector.ainject(query)
        interrupt("may I?")
        return injection.system

    await turn.ainvoke("paid leave", CONFIG)
    assert "<retrieved_context>" in await turn.ainvoke(Command(resume="yes"), CONFIG)
    assert len(retriever.calls) == 1


def test_a_task_in_a_node_that_interrupts_runs_once() -> None:
    class State(TypedDict, total=False):
        query: str
        texts: list[str]

    retriever = tenants()
    retrieve = retrieve_task(retriever, top_k=2, retrieval_filter=Hook())

    def node(state: State) -> State:
        found = retrieve(state["query"], "a").result()
        interrupt("may I?")
        return {"texts": [passage["text"] for passage in found]}

    graph = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    app = graph.compile(checkpointer=InMemorySaver())
    app.invoke({"query": "paid leave"}, CONFIG)
    result = app.invoke(Command(resume="yes"), CONFIG)
    assert all("at A" in text for text in result["texts"])
    assert len(retriever.calls) == 1


# -- scopes that read the run's context --------------------------------------------------------------------------------


@dataclass
class Actor:
    tenant: str


def by_context(config: dict[str, Any]) -> dict[str, str]:
    return {"tenant": config["context"].tenant}


def vector_store() -> AgoraVectorStore:
    texts = ["Paid leave at A.", "Paid leave at B."]
    tenant = [{"tenant": "a"}, {"tenant": "b"}]
    return AgoraVectorStore.from_texts(texts, FakeEmbeddingProvider(), tenant, ids=["a", "b"])


class Found(TypedDict, total=False):
    query: str
    ids: list[str]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_one_retriever_in_a_graph_serves_the_tenant_of_each_run(colour: str) -> None:
    scoped = vector_store().scoped(by_context)
    core: Any = tenants().retriever
    retriever = AgoraRetriever(retriever=core).scoped(by_context)
    context_step = InjectContext(core, top_k=5, retrieval_filter=lambda actor: {"tenant": actor.tenant})

    def node(state: Found, runtime: Runtime[Actor]) -> Found:
        found = [*scoped.similarity_search(state["query"]), *scoped.as_retriever().invoke(state["query"])]
        found += retriever.invoke(state["query"])
        block = context_step.invoke(state["query"])
        return {"ids": [str(document.id) for document in found] + ["block a" if "at A" in block else "block b"]}

    async def anode(state: Found, runtime: Runtime[Actor]) -> Found:
        found = [*await scoped.asimilarity_search(state["query"])]
        found += await scoped.as_retriever().ainvoke(state["query"])
        found += await retriever.ainvoke(state["query"])
        block = await context_step.ainvoke(state["query"])
        return {"ids": [str(document.id) for document in found] + ["block a" if "at A" in block else "block b"]}

    if colour == "async" and sys.version_info < (3, 11):
        pytest.skip("LangGraph hands the config of a run on to async nodes from Python 3.11 on")
    graph = StateGraph(Found, context_schema=Actor)
    graph.add_node("node", node if colour == "sync" else anode)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    app: Any = graph.compile()
    for tenant, own in (("a", ["a-leave#0", "a-notice#0"]), ("b", ["b-leave#0"])):
        if colour == "sync":
            result = app.invoke({"query": "paid leave"}, context=Actor(tenant))
        else:
            result = asyncio.run(app.ainvoke({"query": "paid leave"}, context=Actor(tenant)))
        assert result["ids"] == [tenant, tenant, *own, f"block {tenant}"]
    with pytest.raises(AttributeError):
        app.invoke({"query": "x"}) if colour == "sync" else asyncio.run(app.ainvoke({"query": "x"}))


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_an_agent_that_retrieves_by_itself_sees_its_own_tenant(colour: str) -> None:
    """The tool and the retriever inside it are scoped by the context of the run, not by what the model writes."""
    if colour == "async" and sys.version_info < (3, 11):
        pytest.skip("LangGraph hands the config of a run on to async tools from Python 3.11 on")
    hooked = create_retrieve_tool(tenants(), retrieval_filter=lambda actor: {"tenant": actor.tenant})
    inside = create_retrieve_tool(vector_store().scoped(by_context).as_retriever(), name="look_up")
    for tenant, own in (("a", ["a-leave#0", "a-notice#0"]), ("b", ["b-leave#0"])):
        script = [
            calls_tool("retrieve", query="paid leave"),
            calls_tool("look_up", "call-2", query="paid leave"),
            "done",
        ]
        model = ScriptedModel(script=script)
        agent: Any = create_agent(model, [hooked, inside], context_schema=Actor)
        question = {"messages": [HumanMessage("paid leave?")]}
        if colour == "sync":
            result = agent.invoke(question, context=Actor(tenant))
        else:
            result = asyncio.run(agent.ainvoke(question, context=Actor(tenant)))
        first, second = (message for message in result["messages"] if message.type == "tool")
        assert [document.id for document in first.artifact] == own
        assert [document.id for document in second.artifact] == [tenant]


@pytest.mark.parametrize("hook", [lambda actor: None, lambda actor: {"tenant": actor.nobody}])
def test_a_hook_that_gives_no_filter_fails_the_agent(hook: Any) -> None:
    """The error is not handed to the model as a result of the tool, to be worked around."""
    retriever = tenants()
    model = ScriptedModel(script=[calls_tool("retrieve", query="paid leave"), "never"])
    agent: Any = create_agent(model, [create_retrieve_tool(retriever, retrieval_filter=hook)], context_schema=Actor)
    with pytest.raises((InvalidFilterError, AttributeError)):
        agent.invoke({"messages": [HumanMessage("paid leave?")]}, context=Actor("a"))
    assert retriever.calls == []
    assert len(model.seen) == 1


def test_a_retriever_of_langchain_serves_wherever_one_of_the_core_does() -> None:
    scoped = vector_store().scoped({"tenant": "b"}).as_retriever()
    block = InjectContext(scoped).invoke("paid leave")
    assert "[1] Paid leave at B.\n" in block
    model = ScriptedModel(script=["done"])
    agent: Any = create_agent(model, [], middleware=[InjectContextMiddleware(scoped)])
    agent.invoke({"messages": [HumanMessage("paid leave?")]})
    assert "[1] Paid leave at B.\n" in model.system()

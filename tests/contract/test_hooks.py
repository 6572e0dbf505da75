"""Data is never syntax: every operator dictionary of both frameworks, given as a claim to every hook, sees nothing.

A hook builds a core mapping from what an actor's token, session or config claims: `lambda actor: {"tenant": actor}`.
Whatever the claim is, only a tenant's own name may show that tenant's records.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.vector_stores.types import FilterCondition, FilterOperator, MetadataFilter, MetadataFilters

import langchain_agora as lc
import llamaindex_agora as li
from agora_core import AgoraError, ContextInjector, EmbeddingRetriever, MemoryVectorStore, Passage, VectorRecord
from agora_core.stores.run_scope import RunScopedStore
from agora_core.testing import FakeEmbeddingProvider
from tests.integration.langchain_agora.scripted import ScriptedModel
from tests.integration.llamaindex_agora.scripted import ScriptedLLM

pytestmark = [
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince211"),
]

EMBEDDER = FakeEmbeddingProvider(16)
VALUES: tuple[Any, ...] = ("", "a", 0, None, True, [], ["a", "b"], [0, "z"], "%", {"$in": ["a"]})
NAMES = (
    "$eq", "$ne", "$lt", "$lte", "$gt", "$gte", "$in", "$nin", "$between", "$exists", "$like", "$ilike", "$and", "$or",
    "$not", "$nor", "$contains", "$not_contains", "$all", "$regex", "$elemMatch",
)  # fmt: skip


def claims() -> list[Any]:
    """Operator dictionaries of both frameworks: alone, together, in lists and in objects; and their own objects."""
    theirs = [{name: value} for name in NAMES for value in VALUES]
    both: list[Any] = [{"$ne": "", "$exists": True}, {"$not": {"$in": []}}, {"$or": [{"$eq": "a"}, {"$ne": "a"}]}]
    for operator in FilterOperator:
        for value in VALUES:
            both.append({"key": "tenant", "value": value, "operator": operator.value})
            both.append({operator.value: value})
    both += [{"filters": [], "condition": condition.value} for condition in FilterCondition]
    both += [
        MetadataFilters(filters=[]),
        MetadataFilters(filters=[MetadataFilter(key="tenant", value="", operator=FilterOperator.NE)]),
    ]
    nested = [[claim] for claim in theirs[::7]] + [{"inner": claim} for claim in theirs[::7]] + [["z", theirs[20]]]
    return [*theirs, *both, *nested, {}, [], None, True, 0, ["%"], "", "z"]


class Watched:
    """A retriever that remembers the ids it gave out."""

    def __init__(self) -> None:
        self.store = MemoryVectorStore(dimension=16)
        texts = {"a#0": "paid leave at a", "b#0": "paid leave at b"}
        vectors = EMBEDDER.embed(list(texts.values()))
        self.store.upsert(
            VectorRecord(key, text, vector, None, {"tenant": key[0]})
            for (key, text), vector in zip(texts.items(), vectors, strict=True)
        )
        self._inner = EmbeddingRetriever(EMBEDDER, self.store)
        self.scope = None
        self.gave: list[str] = []

    def retrieve(self, query: str, **options: Any) -> list[Passage]:
        found = self._inner.retrieve(query, **options)
        self.gave += [passage.id for passage in found]
        return found

    async def aretrieve(self, query: str, **options: Any) -> list[Passage]:
        return self.retrieve(query, **options)


def own_tenant(actor: Any) -> dict[str, Any]:
    return {"tenant": actor}


def by_config(config: Any) -> dict[str, Any]:
    return {"tenant": config["configurable"]["actor"]}


def config(claim: Any) -> Any:
    return {"configurable": {"actor": claim, "thread_id": "t"}}


def inject(watched: Watched, claim: Any) -> None:
    ContextInjector(watched, retrieval_filter=own_tenant).inject("leave", actor=claim)


def ainject(watched: Watched, claim: Any) -> None:
    asyncio.run(ContextInjector(watched, retrieval_filter=own_tenant).ainject("leave", actor=claim))


def view(watched: Watched, claim: Any) -> None:
    watched.gave += watched.store.scoped(own_tenant(claim)).list_document_ids()


def run_scope(watched: Watched, claim: Any) -> None:
    store: Any = RunScopedStore(watched.store, lambda: own_tenant(claim))
    watched.gave += store.list_document_ids()


def langchain_vectorstore(watched: Watched, claim: Any) -> None:
    vectors = lc.AgoraVectorStore(watched.store, lc.AgoraEmbeddings(EMBEDDER)).scoped(by_config)
    found = vectors.as_retriever().invoke("leave", config(claim))
    watched.gave += [str(document.id) for document in found]


def langchain_retriever(watched: Watched, claim: Any) -> None:
    lc.AgoraRetriever(retriever=watched).scoped(by_config).invoke("leave", config(claim))


def langchain_fixed(watched: Watched, claim: Any) -> None:
    vectors = lc.AgoraVectorStore(watched.store, lc.AgoraEmbeddings(EMBEDDER)).scoped(own_tenant(claim))
    watched.gave += [str(document.id) for document in vectors.similarity_search("leave")]


def langchain_fixed_retriever(watched: Watched, claim: Any) -> None:
    lc.AgoraRetriever(retriever=watched).scoped(own_tenant(claim)).invoke("leave")


def langchain_inject(watched: Watched, claim: Any) -> None:
    lc.InjectContext(watched, retrieval_filter=own_tenant).invoke("leave", config(claim))


def langchain_tool(watched: Watched, claim: Any) -> None:
    lc.create_retrieve_tool(watched, retrieval_filter=own_tenant).invoke({"query": "leave"}, config(claim))


def langchain_middleware(watched: Watched, claim: Any) -> None:
    middleware = lc.InjectContextMiddleware(watched, retrieval_filter=lambda context: own_tenant(context["actor"]))
    agent: Any = create_agent(ScriptedModel(script=["done"]), [], middleware=[middleware], context_schema=dict)
    agent.invoke({"messages": [HumanMessage("leave")]}, context={"actor": claim})


def langchain_task(watched: Watched, claim: Any) -> None:
    task = lc.retrieve_task(watched, retrieval_filter=own_tenant)

    @entrypoint(checkpointer=InMemorySaver())
    def turn(query: str) -> int:
        return len(task(query, claim).result())

    turn.invoke("leave", config("t"))


def llamaindex_inject(watched: Watched, claim: Any) -> None:
    li.InjectContext(watched, retrieval_filter=own_tenant).retrieve([ChatMessage(content="leave")], actor=claim)


def llamaindex_postprocessor(watched: Watched, claim: Any) -> None:
    step = li.InjectContextPostprocessor(watched, retrieval_filter=own_tenant, actor=lambda: claim)
    step.postprocess_nodes([], query_str="leave")


def llamaindex_access(watched: Watched, claim: Any) -> None:
    nodes = [NodeWithScore(node=TextNode(id_=key, text=key, metadata={"tenant": key[0]})) for key in ("a", "b")]
    kept = li.AccessFilterPostprocessor(lambda: own_tenant(claim)).postprocess_nodes(nodes, QueryBundle("leave"))
    watched.gave += [node.node.node_id for node in kept]


def llamaindex_chat(watched: Watched, claim: Any) -> None:
    engine = li.AgoraContextChatEngine(
        retriever=watched, llm=ScriptedLLM(script=["done"]), retrieval_filter=own_tenant, actor=lambda: claim
    )
    engine.chat("leave")


def llamaindex_agent(watched: Watched, claim: Any) -> None:
    agent = li.InjectingFunctionAgent(
        retriever=watched,
        llm=ScriptedLLM(script=["done"]),
        tools=[],
        retrieval_filter=own_tenant,
        actor=lambda: claim,
        streaming=False,
    )

    async def turn() -> None:
        await agent.run("leave")

    asyncio.run(turn())


Hook = Callable[[Watched, Any], None]
QUICK: tuple[Hook, ...] = (
    inject, ainject, view, run_scope, langchain_vectorstore, langchain_retriever, langchain_fixed,
    langchain_fixed_retriever, langchain_inject, langchain_tool, llamaindex_inject,
    llamaindex_postprocessor, llamaindex_access,
)  # fmt: skip
# A turn of an agent takes some milliseconds: these are given every seventh claim.
SLOW: tuple[Hook, ...] = (langchain_middleware, langchain_task, llamaindex_chat, llamaindex_agent)


@pytest.mark.parametrize("hook", [*QUICK, *SLOW], ids=lambda hook: hook.__name__)
def test_no_claim_but_a_tenants_name_sees_anything(hook: Hook) -> None:
    watched = Watched()
    for claim in claims() if hook in QUICK else claims()[::7]:
        # Refused is as good as seen nothing.
        with contextlib.suppress(AgoraError, TypeError, ValueError):
            hook(watched, claim)
        # A list is match-any in a mapping, written by nobody but the hook's author.
        expected = {f"{one}#0" for one in claim if one in ("a", "b")} if isinstance(claim, list) else set()
        assert set(watched.gave) <= expected, claim
        watched.gave.clear()


@pytest.mark.parametrize("hook", [*QUICK, *SLOW], ids=lambda hook: hook.__name__)
def test_a_tenants_name_sees_that_tenant(hook: Hook) -> None:
    """Without this the fuzz would be passed by a hook that finds nothing at all."""
    watched = Watched()
    hook(watched, "b")
    assert {key[0] for key in watched.gave} == {"b"}

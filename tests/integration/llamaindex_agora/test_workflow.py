"""Inject mode in a workflow of one's own: the retrieval is a step's result, kept in the context as plain JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.workflow import Context, Event, StartEvent, StopEvent, Workflow, step

from llamaindex_agora import InjectContext
from tests.integration.llamaindex_agora.scripted import Counted, ScriptedLLM, llm, tenants


class Retrieved(Event):
    """The passages are in the context."""


class Answering(Workflow):
    """Retrieves in one step and answers in the next."""

    def __init__(self, retriever: Counted, model: ScriptedLLM, actor: str) -> None:
        super().__init__(timeout=30)
        self.retriever, self.model, self.actor = retriever, model, actor

    def inject(self, ctx: Context) -> InjectContext:
        async def durable(name: str, fn: Callable[[], Any]) -> Any:
            kept = await ctx.store.get(name, default=None)
            if kept is None:
                kept = await fn()
                await ctx.store.set(name, kept)
            return kept

        return InjectContext(self.retriever, top_k=5, retrieval_filter=lambda actor: {"tenant": actor}, step=durable)

    @step
    async def retrieve(self, ctx: Context, ev: StartEvent) -> Retrieved:
        await self.inject(ctx).aretrieve(turn(), actor=self.actor)
        return Retrieved()

    @step
    async def answer(self, ctx: Context, ev: Retrieved) -> StopEvent:
        messages = await self.inject(ctx).ainject(turn(), actor=self.actor)
        return StopEvent(result=(await self.model.achat(messages)).message.content)


def turn() -> list[ChatMessage]:
    return [ChatMessage(role=MessageRole.USER, content="paid leave")]


async def test_a_workflow_that_failed_goes_on_without_retrieving_again() -> None:
    retriever, broken, model = tenants(), llm(RuntimeError("down")), llm("thirty")
    first = Answering(retriever, broken, "a")
    context = Context(first)
    with pytest.raises(RuntimeError, match="down"):
        await first.run(ctx=context)
    saved = json.dumps(context.to_dict())

    second = Answering(retriever, model, "b")
    answer = await second.run(ctx=Context.from_dict(second, json.loads(saved)))
    assert answer == "thirty"
    assert retriever.asked == [{"tenant": "a"}]
    for asked in (broken, model):
        assert "at A" in asked.system()
        assert "at B" not in asked.system()

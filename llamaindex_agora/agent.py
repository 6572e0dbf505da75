"""Inject mode for agents: one retrieval a turn, kept in the workflow's store, folded into each model call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from llama_index.core.agent.workflow import AgentOutput, FunctionAgent, ToolCallResult
from llama_index.core.agent.workflow.base_agent import WORKFLOW_KWARGS
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.memory import BaseMemory
from llama_index.core.tools import AsyncBaseTool, ToolOutput
from llama_index.core.workflow import Context

from agora_core.inject import Measure, QueryFrom, RetrievalFilter, passages_from_step
from agora_core.protocols import AsyncRetriever, SyncRetriever
from agora_core.steps import arun
from llamaindex_agora.arguments import refuse_unknown
from llamaindex_agora.inject import InjectContext, last_user_text
from llamaindex_agora.postprocessor import ActorSource, read_actor

if TYPE_CHECKING:
    # Not in all releases that this package admits.
    from llama_index.core.agent.workflow.agent_context import AgentContext

STATE_KEY: Final = "agora_retrieval"
"""The key of the workflow's store under which a turn's retrieval lives, as plain JSON."""

_TOOL_CALLS: Final = "current_tool_calls"


class InjectingFunctionAgent(FunctionAgent):
    """A function agent that retrieves once for each turn, before its first model call, alone or in an AgentWorkflow.

    The filter is derived and the passages are fetched in one step, whose result is kept in `ctx.store`. So the model
    calls of a turn, and a context that was saved, loaded in another process and resumed, see the same passages and do
    not retrieve again: nor does a turn that failed and is run again on its context with the same message by the same
    actor. What was retrieved for one actor is shown to no other: where another takes a turn up, for instance to answer
    what it waits for, that one's filter is derived and the passages are fetched anew. A turn that ended leaves nothing
    to the next. The agents of an AgentWorkflow retrieve each for itself, by its own filter. The retrieval appears in
    the stream and among the turn's tool calls; the model sees the block only.

    Args:
        retriever: any core retriever.
        top_k: passages per turn, 1 or more.
        retrieval_filter: called with the actor of the turn; a raise, or anything but a filter, fails the turn before
            the model is called. None retrieves without a filter.
        min_score: a floor on the retriever's scores; None keeps all.
        actor: who asks: a function without arguments or a context variable, read when a turn begins or is run again.
            A hook without one fails the turn.
        query_from: called with the messages, returns the query, for instance `condense_question(llm)`; None asks with
            the last message of the user.
        max_chars: the room for the passages in the prompt, see `agora_core.render_context`; None for no bound.
        measure: the unit of `max_chars`: characters, or a model's token counter.
        kwargs: what `FunctionAgent` takes.

    Examples:
        >>> agent = InjectingFunctionAgent(
        ...     retriever=retriever, retrieval_filter=lambda actor: {"acl": actor}, llm=MockFunctionCallingLLM()
        ... )
    """

    _inject: Any = PrivateAttr()
    _actor: Any = PrivateAttr()

    def __init__(
        self,
        *,
        retriever: SyncRetriever | AsyncRetriever,
        top_k: int = 5,
        retrieval_filter: RetrievalFilter | None = None,
        min_score: float | None = None,
        actor: ActorSource | None = None,
        query_from: QueryFrom | None = None,
        max_chars: int | None = None,
        measure: Measure = len,
        **kwargs: Any,
    ) -> None:
        """Check the arguments; nothing is retrieved yet.

        Raises:
            InvalidArgumentError: `top_k` is below 1, or `min_score` is NaN.
            TypeError: an unknown keyword.
        """
        refuse_unknown(type(self), kwargs, also=WORKFLOW_KWARGS)
        super().__init__(**kwargs)
        self._inject = InjectContext(
            retriever,
            top_k=top_k,
            retrieval_filter=retrieval_filter,
            min_score=min_score,
            query_from=query_from,
            max_chars=max_chars,
            measure=measure,
        )
        self._actor = actor

    async def take_step(
        self, ctx: AgentContext, llm_input: list[ChatMessage], tools: Sequence[AsyncBaseTool], memory: BaseMemory
    ) -> AgentOutput:
        """Retrieve unless this turn already has, and call the model with the passages in the system message."""
        passages = passages_from_step(await self._retrieved(ctx, llm_input))
        return await super().take_step(ctx, self._inject.fold(llm_input, passages), tools, memory)

    async def finalize(self, ctx: Context, output: AgentOutput, memory: BaseMemory) -> AgentOutput:
        """End a turn: the next one retrieves anew. Where the agent hands over to another, the turn goes on."""
        output = await super().finalize(ctx, output, memory)
        if await ctx.store.get("current_agent_name", default=self.name) == self.name:
            await ctx.store.set(STATE_KEY, None)
        return output

    async def _retrieved(self, ctx: AgentContext, llm_input: list[ChatMessage]) -> list[dict[str, Any]]:
        query = await ctx.store.get("user_msg_str", default=None) or last_user_text(llm_input)
        turn: dict[str, Any] = await ctx.store.get(STATE_KEY, default=None) or {}
        calls = list(await ctx.store.get(_TOOL_CALLS, default=None) or [])
        kept = turn.get(self.name)
        asker = self._inject.asker(read_actor(self._actor))
        if kept is not None and kept["query"] == query and _goes_on(kept, calls):
            result: list[dict[str, Any]] = kept["passages"]
            # Who asks decides, no mark of a run: LlamaIndex takes up a cancelled run's step within the next one.
            if kept.get("asker") == await arun(asker.identity()):
                return result
        messages = llm_input if last_user_text(llm_input) == query else [*llm_input, _user(query)]
        found = await self._inject.aretrieve(messages, actor=asker)
        call = found.tool_call
        passages = [] if call is None else call["result"]
        event = None if call is None else _as_event(call)
        # What a turn left that failed, and that this one is not, stays out of this one's tool calls.
        stale = None if kept is None else kept["call_id"]
        calls = [item for item in calls if stale is None or item.tool_id != stale]
        await ctx.store.set(_TOOL_CALLS, calls if event is None else [*calls, event])
        mine = {"query": query, "passages": passages, "call_id": None if event is None else event.tool_id}
        mine["asker"] = await arun(asker.identity())
        await ctx.store.set(STATE_KEY, {**turn, self.name: mine})
        if event is not None:
            ctx.write_event_to_stream(event)
        return passages


def _user(text: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.USER, content=text)


def _goes_on(kept: dict[str, Any], calls: list[Any]) -> bool:
    """Say whether the turn of a retrieval goes on: LlamaIndex forgets a turn's tool calls however it ends."""
    return kept["call_id"] is None or any(item.tool_id == kept["call_id"] for item in calls)


def _as_event(call: dict[str, Any]) -> ToolCallResult:
    ids = ", ".join(passage["id"] for passage in call["result"])
    return ToolCallResult(
        tool_name=call["name"],
        tool_kwargs=call["args"],
        tool_id=call["id"],
        tool_output=ToolOutput(
            tool_name=call["name"],
            content=f"{len(call['result'])} passages: {ids}",
            raw_input=call["args"],
            raw_output=call["result"],
        ),
        return_direct=False,
    )

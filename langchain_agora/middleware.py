"""`InjectContextMiddleware`: inject mode for `create_agent`, with the passages in the agent's checkpointed state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.runnables import Runnable
from langgraph.runtime import Runtime
from typing_extensions import NotRequired

from agora_core.errors import InvalidArgumentError, InvalidFilterError
from agora_core.inject import (
    ContextInjector,
    Injection,
    Measure,
    QueryFrom,
    RetrievalFilter,
    passage_to_dict,
    passages_from_step,
)
from agora_core.protocols import AsyncRetriever, Step, SyncRetriever
from langchain_agora.messages import (
    call_messages,
    fold_into_system,
    question_in,
    recorded_call,
    text_of,
    without_recorded_calls,
)
from langchain_agora.retriever import as_core_retriever

Record = Literal["state", "message", "off"]
_RECORDS: Final = ("state", "message", "off")


class InjectContextState(AgentState[Any]):
    """What the middleware keeps in the checkpoint. Callers can neither set nor read it through the agent."""

    agora_passages: NotRequired[Annotated[list[dict[str, Any]], PrivateStateAttr]]
    """The passages of the turn as plain JSON objects, [] where nothing was found."""

    agora_tool_call: NotRequired[Annotated[dict[str, Any] | None, PrivateStateAttr]]
    """The retrieval of the turn as an executed tool call, with `record="state"`."""


class InjectContextMiddleware(AgentMiddleware[InjectContextState, Any, Any]):
    """Retrieves once a turn and shows the passages to every model call of that turn.

    The retrieval is a node of the agent's graph. With a checkpointer its passages survive an interrupt, a crash and a
    restart: a run that goes on reads them from the checkpoint and does not retrieve again, whoever resumes it. A fork
    from a checkpoint before that node retrieves anew.

    ```python
    agent = create_agent(
        model,
        tools,
        middleware=[InjectContextMiddleware(retriever, retrieval_filter=lambda user: {"acl": user.groups})],
        context_schema=User,
        checkpointer=checkpointer,
    )
    agent.invoke({"messages": [("human", "...")]}, config, context=User(...))
    ```

    Examples:
        >>> from langchain.agents import create_agent
        >>> agent = create_agent(
        ...     FakeListChatModel(responses=["30 days [1]."]), middleware=[InjectContextMiddleware(retriever)]
        ... )
        >>> agent.invoke({"messages": [("human", "How much leave?")]})["messages"][-1].content
        '30 days [1].'
    """

    state_schema = InjectContextState

    def __init__(
        self,
        retriever: SyncRetriever | AsyncRetriever | Runnable[str, Any],
        *,
        top_k: int = 5,
        retrieval_filter: RetrievalFilter | None = None,
        min_score: float | None = None,
        step: Step | None = None,
        query_from: QueryFrom | None = None,
        max_chars: int | None = None,
        measure: Measure = len,
        record: Record = "state",
    ) -> None:
        """Take the arguments of `ContextInjector`, and where to record the retrieval.

        Args:
            retriever: any retriever of the core or of LangChain.
            top_k: passages per turn, 1 or more.
            retrieval_filter: called with the `context` of the run, returns the filter of what that context may see. A
                raise, None or anything that is no filter fails the turn before the model is called; so does a run
                without a context.
            min_score: a floor on the retriever's scores.
            step: a durable seam beside the checkpoint, see `ContextInjector`.
            query_from: called with the messages, returns the query, for instance `condense_question(model)`; None asks
                with the latest human message.
            max_chars: the room for the passages, see `agora_core.render_context`; None for no bound.
            measure: the unit of `max_chars`: characters, or a model's token counter.
            record: `state` keeps the call in the checkpoint, `message` as a pair of messages in the transcript, which
                no model is shown, and `off` nowhere.
        """
        super().__init__()
        if record not in _RECORDS:
            raise InvalidArgumentError(f"record must be one of {', '.join(map(repr, _RECORDS))}, got {record!r}")
        self.record = record
        self.tools = []
        self._injector = ContextInjector(
            as_core_retriever(retriever),
            top_k=top_k,
            retrieval_filter=retrieval_filter,
            min_score=min_score,
            step=step,
            query_from=query_from,
            max_chars=max_chars,
            measure=measure,
        )

    def before_agent(self, state: InjectContextState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Retrieve for the latest human message."""
        return self._update(state, self._injector.inject(**self._asked(state, runtime)))

    async def abefore_agent(self, state: InjectContextState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Async twin of `before_agent`."""
        return self._update(state, await self._injector.ainject(**self._asked(state, runtime)))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Show the passages of the turn to the model, after the prompt that is there."""
        return handler(self._with_context(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Async twin of `wrap_model_call`."""
        return await handler(self._with_context(request))

    def _asked(self, state: InjectContextState, runtime: Runtime[Any]) -> dict[str, Any]:
        if self._injector.retrieval_filter is not None and runtime.context is None:
            raise InvalidFilterError(
                "retrieval_filter is set and the run has no context to derive a filter from, so nothing is retrieved; "
                "give one with invoke(..., context=...) and a context_schema"
            )
        messages = without_recorded_calls(state["messages"])
        return {"query": text_of(question_in(messages)), "actor": runtime.context, "messages": messages}

    def _update(self, state: InjectContextState, injection: Injection) -> dict[str, Any]:
        call = recorded_call(question_in(state["messages"]), injection)
        # Written in every turn, empty too: what is left out of an update keeps its value from the turn before.
        update: dict[str, Any] = {
            "agora_passages": [passage_to_dict(passage) for passage in injection.passages],
            "agora_tool_call": call if self.record == "state" else None,
        }
        if call is not None and self.record == "message":
            update["messages"] = call_messages(call, injection.passages)
        return update

    def _with_context(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        kept: Any = request.state
        block = self._injector.render(passages_from_step(kept.get("agora_passages") or []))
        return request.override(
            system_message=fold_into_system(request.system_message, block),
            messages=without_recorded_calls(request.messages),
        )

"""`InjectContextMiddleware`: inject mode for `create_agent`, with the passages in the agent's checkpointed state."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final, Literal

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse, PrivateStateAttr
from langchain_core.messages import RemoveMessage
from langchain_core.runnables import Runnable
from langgraph.runtime import Runtime
from langgraph.types import Command
from typing_extensions import NotRequired

from agora_core.errors import InvalidArgumentError, InvalidFilterError
from agora_core.inject import (
    Asker,
    ContextInjector,
    Injection,
    Measure,
    QueryFrom,
    RetrievalFilter,
    passage_to_dict,
    passages_from_step,
)
from agora_core.metadata import UNSET
from agora_core.protocols import AsyncRetriever, Step, SyncRetriever
from agora_core.steps import Call, Steps, arun, run
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

    agora_asker: NotRequired[Annotated[str, PrivateStateAttr]]
    """A digest of who they were retrieved for: they are shown to no other."""

    agora_tool_call: NotRequired[Annotated[dict[str, Any] | None, PrivateStateAttr]]
    """The retrieval of the turn as an executed tool call, with `record="state"`."""


class InjectContextMiddleware(AgentMiddleware[InjectContextState, Any, Any]):
    """Retrieves once a turn and shows the passages to every model call of that turn.

    The retrieval is a node of the agent's graph. With a checkpointer its passages survive an interrupt, a crash and a
    restart: a run that the same actor goes on with reads them from the checkpoint and does not retrieve again. What was
    retrieved for one actor is shown to no other: where another goes on with the run, the filter is derived for that one
    and the passages are fetched anew, before the model is called. Who asks is told by the run's `context` where that is
    JSON or a dataclass of JSON, else by the filter that is derived for it, and by the retriever's scope. A fork from a
    checkpoint before that node retrieves anew.

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
                without a context, a resumed one too.
            min_score: a floor on the retriever's scores.
            step: a durable seam beside the checkpoint, see `ContextInjector`. It is not asked where another actor goes
                on with a run: what it remembers is the first one's.
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
        core = as_core_retriever(retriever)
        options: dict[str, Any] = {"top_k": top_k, "retrieval_filter": retrieval_filter, "min_score": min_score}
        options |= {"query_from": query_from, "max_chars": max_chars, "measure": measure}
        self._injector, self._anew = ContextInjector(core, step=step, **options), ContextInjector(core, **options)

    def before_agent(self, state: InjectContextState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Retrieve for the latest human message."""
        return run(self._begun(state, runtime))

    async def abefore_agent(self, state: InjectContextState, runtime: Runtime[Any]) -> dict[str, Any]:
        """Async twin of `before_agent`."""
        return await arun(self._begun(state, runtime))

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Show the passages of the turn to the model, after the prompt that is there; another actor's are replaced."""
        shown, update = run(self._with_context(request))
        return _updating(handler(shown), update)

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        """Async twin of `wrap_model_call`."""
        shown, update = await arun(self._with_context(request))
        return _updating(await handler(shown), update)

    def _begun(self, state: Any, runtime: Runtime[Any]) -> Steps[dict[str, Any]]:
        asker = self._asker(runtime)
        injection = yield from self._retrieved(self._injector, state, asker)
        return {**self._update(state, injection), "agora_asker": (yield from asker.identity())}

    def _asker(self, runtime: Runtime[Any]) -> Asker:
        if self._injector.retrieval_filter is not None and runtime.context is None:
            raise InvalidFilterError(
                "retrieval_filter is set and the run has no context to derive a filter from, so nothing is retrieved; "
                "give one with invoke(..., context=...) and a context_schema, where a run is resumed too"
            )
        return self._injector.asker(UNSET if runtime.context is None else runtime.context)

    def _retrieved(self, injector: ContextInjector, state: Any, asker: Asker) -> Steps[Injection]:
        messages = without_recorded_calls(state["messages"])
        query = text_of(question_in(messages))
        injection: Injection = yield Call(
            lambda: injector.inject(query, actor=asker, messages=messages),
            lambda: injector.ainject(query, actor=asker, messages=messages),
        )
        return injection

    def _update(self, state: Any, injection: Injection) -> dict[str, Any]:
        call = recorded_call(question_in(state["messages"]), injection)
        # Written in every turn, empty too: what is left out of an update keeps its value from the turn before.
        update: dict[str, Any] = {
            "agora_passages": [passage_to_dict(passage) for passage in injection.passages],
            "agora_tool_call": call if self.record == "state" else None,
        }
        if call is not None and self.record == "message":
            update["messages"] = call_messages(call, injection.passages)
        return update

    def _with_context(self, request: ModelRequest[Any]) -> Steps[tuple[ModelRequest[Any], dict[str, Any] | None]]:
        """Return the request with the passages of who asks, and what of the state is to change."""
        state: Any = request.state
        asker, update = self._asker(request.runtime), None
        identity = yield from asker.identity()
        if state.get("agora_asker") != identity:
            injection = yield from self._retrieved(self._anew, state, asker)
            update = {**self._update(state, injection), "agora_asker": identity}
            update["messages"] = _replacing(state["messages"], update.get("messages", []))
        kept = state if update is None else update
        block = self._injector.render(passages_from_step(kept["agora_passages"]))
        shown = request.override(
            system_message=fold_into_system(request.system_message, block),
            messages=without_recorded_calls(request.messages),
        )
        return shown, update


def _replacing(transcript: list[Any], pair: list[Any]) -> list[Any]:
    """Return what puts a recorded retrieval in the place of this turn's first, and nothing after the model's answer."""
    question = question_in(transcript)
    after = transcript[transcript.index(question) + 1 :] if question in transcript else []
    stale = {str(message.id) for message in after} - {str(message.id) for message in without_recorded_calls(after)}
    replaced = [message for message in pair if message.id in stale]
    return [*replaced, *(RemoveMessage(id=key) for key in stale - {message.id for message in replaced})]


def _updating(
    response: ModelResponse[Any], update: dict[str, Any] | None
) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
    return response if update is None else ExtendedModelResponse(response, Command(update=update))

"""One retrieval a turn, under the filter of who asks, folded into the system prompt."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from agora_core.calling import acall, acall_function, call, call_function, given
from agora_core.embedding import check_query
from agora_core.errors import InvalidArgumentError, InvalidFilterError
from agora_core.filters import frozen_filter
from agora_core.inject.asking import Asker
from agora_core.inject.block import Measure, check_budget, fitting, fold_block, render_context
from agora_core.inject.calls import QUERY_KEY, passage_to_dict, passages_from_step, retrieval_call, stable_id
from agora_core.metadata import UNSET
from agora_core.protocols import AnyFilter, AsyncRetriever, Step, SyncRetriever
from agora_core.records import JSON, Passage
from agora_core.steps import Call, Steps, arun, run
from agora_core.validation import check_min_score, check_top_k

STEP_NAME: Final = "retrieve"
"""The name under which a step is told to run the retrieval."""

RetrievalFilter = Callable[[Any], Any]
"""Called with the actor of a turn; returns the filter of what that actor may see, now or as an awaitable."""

QueryFrom = Callable[[Sequence[Any]], Any]
"""Called with the messages of a conversation; returns the query that they ask, now or as an awaitable."""


@dataclass(frozen=True, slots=True)
class Injection:
    """A turn with its context: the prompt to use, the passages in it, and the retrieval as a tool call.

    `passages` are those that stand in the block, each whole, even where the block shows the last one cut. `tool_call`
    is None where nothing was found, else a JSON object with the keys `id`, `name` (`retrieve`), `args` (the query that
    was asked), `status` (`auto_executed`) and `result` (the passages as JSON objects).

    Examples:
        >>> turn = ContextInjector(retriever, top_k=1).inject("days of leave", system="You help staff.")
        >>> turn.system.splitlines()[2], turn.tool_call["status"]
        ('<retrieved_context>', 'auto_executed')
    """

    system: str
    passages: list[Passage]
    tool_call: dict[str, JSON] | None


class ContextInjector:
    """Retrieves once a turn and folds the passages into the system prompt.

    Who may see what is decided by `retrieval_filter`. When it raises, or returns anything but a mapping or an
    expression, the turn fails: there is never a retrieval without the filter that was asked for. What it returns is a
    filter of the core: values are compared as JSON, and an object of operators is refused.

    Examples:
        >>> injector = ContextInjector(retriever, top_k=1, retrieval_filter=lambda actor: {"acl": actor})
        >>> injector.inject("days of leave", actor=["board"]).passages[0].id
        'board#0'
    """

    def __init__(
        self,
        retriever: SyncRetriever | AsyncRetriever,
        *,
        top_k: int = 5,
        retrieval_filter: RetrievalFilter | None = None,
        min_score: float | None = None,
        step: Step | None = None,
        query_from: QueryFrom | None = None,
        max_chars: int | None = None,
        measure: Measure = len,
    ) -> None:
        """Take any object with `retrieve` or `aretrieve`.

        Args:
            retriever: asked once a turn.
            top_k: passages per turn, 1 or more.
            retrieval_filter: called with the actor of the turn, inside the step; None retrieves without a filter.
            min_score: a floor on the retriever's scores; None keeps all.
            step: the durable seam. `step("retrieve", fn)` returns what `fn()` returned, now or in an earlier run of
                the same turn: a list of plain JSON objects, see `passage_to_dict`. Its memory must not outlive a
                turn of one actor; `fn.asker.identity()` gives the steps that tell one from another.
            query_from: makes the query from the conversation, inside the step; None asks what `inject` is given.
            max_chars: the room for the passages in the prompt, see `render_context`; None for no bound.
            measure: the unit of `max_chars`.
        """
        self.retriever = retriever
        self.top_k = check_top_k(top_k)
        self.min_score = check_min_score(min_score)
        self.retrieval_filter = _check_callable(retrieval_filter, "retrieval_filter")
        self.step = _check_callable(step, "step")
        self.query_from = _check_callable(query_from, "query_from")
        self.max_chars, self.measure = check_budget(max_chars, measure), measure

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.retriever!r}, top_k={self.top_k})"

    def inject(
        self, query: str, *, system: str = "", actor: Any = UNSET, messages: Sequence[Any] | None = None
    ) -> Injection:
        """Retrieve for `query` and fold the passages into `system`.

        A blank query retrieves nothing. Without passages the prompt is `system`, unchanged.

        Args:
            query: what is asked; `query_from` may make another of the conversation.
            system: the prompt so far.
            actor: who asks, handed to `retrieval_filter`, None too. Left out where there is a hook, the turn fails.
            messages: the conversation for `query_from`; None is one user message that says `query`.

        Raises:
            InvalidFilterError: there is a `retrieval_filter` and no actor, or it returned neither a mapping nor an
                expression.
            InvalidArgumentError: `query_from` returned something that is not a str.
            UnsupportedOperationError: the retriever, a hook or the step is async.
        """
        if self._asks_nothing(query):
            return Injection(system, [], None)

        asker = self.asker(actor)

        def fn() -> list[dict[str, JSON]]:
            return run(self._retrieval(query, messages, asker))

        fn.asker = asker  # type: ignore[attr-defined] # a step that outlives its caller keeps apart who asks
        if self.step is None:
            return self._folded(query, system, fn())
        return self._folded(query, system, call_function(self.step, STEP_NAME, fn, what="step"))

    async def ainject(
        self, query: str, *, system: str = "", actor: Any = UNSET, messages: Sequence[Any] | None = None
    ) -> Injection:
        """Async twin of `inject`. The hooks and the step may be async or not.

        An async step awaits `fn()`. A sync step runs in a worker thread, where `fn()` returns the passages themselves.
        """
        if self._asks_nothing(query):
            return Injection(system, [], None)
        if self.step is None:
            return self._folded(query, system, await arun(self._retrieval(query, messages, self.asker(actor))))
        loop, asker = asyncio.get_running_loop(), self.asker(actor)

        def fn() -> Any:
            retrieval = arun(self._retrieval(query, messages, asker))
            if _running_loop() is loop:
                return retrieval
            return asyncio.run_coroutine_threadsafe(retrieval, loop).result()

        fn.asker = asker  # type: ignore[attr-defined]
        return self._folded(query, system, await acall_function(self.step, STEP_NAME, fn))

    def asker(self, actor: Any = UNSET) -> Asker:
        """Return who asks, which tells one actor from another; `inject` takes it in the place of the actor."""
        return actor if isinstance(actor, Asker) else Asker(actor, self.retrieval_filter, self.retriever)

    def render(self, passages: Sequence[Passage]) -> str:
        """Return the block of passages in the room that this injector gives them; "" without passages."""
        return render_context(passages, max_chars=self.max_chars, measure=self.measure)

    def _asks_nothing(self, query: str) -> bool:
        # What `query_from` makes of the conversation is known inside the step only.
        return not check_query(query).strip() and self.query_from is None

    def _retrieval(self, query: str, messages: Sequence[Any] | None, asker: Asker) -> Steps[list[dict[str, JSON]]]:
        """Make the query, derive the filter, retrieve: what a step runs once and remembers."""
        made: dict[str, JSON] = {}
        if self.query_from is not None:
            conversation = [{"role": "user", "content": query}] if messages is None else messages
            query = _check_made((yield _function_call(self.query_from, conversation, what="query_from")))
            # In the result, so that a turn that is run again records the query that was asked.
            made[QUERY_KEY] = query
        if not query.strip():
            return []
        options: dict[str, Any] = {"top_k": self.top_k, **given(min_score=self.min_score)}
        if self.retrieval_filter is not None:
            if asker.actor is UNSET:
                raise InvalidFilterError(
                    "retrieval_filter is set and no actor was given to derive a filter from, so nothing is retrieved; "
                    "pass actor=..., None where the hook takes None for somebody"
                )
            options["filter"] = _check_filter((yield from asker.bound()))
        passages = yield Call(
            lambda: call(self.retriever, "retrieve", query, **options),
            lambda: acall(self.retriever, "retrieve", query, **options),
        )
        return [{**passage_to_dict(passage), **made} for passage in passages]

    def _folded(self, query: str, system: str, found: Any) -> Injection:
        retrieved = passages_from_step(found)
        passages = fitting(retrieved, max_chars=self.max_chars, measure=self.measure)
        if passages and self.query_from is not None:
            query = _check_made(found[0].get(QUERY_KEY, query))
        # With a step the id comes from what was retrieved, so that a turn run again records the same call.
        call_id = None if self.step is None else stable_id(query, found)
        folded = fold_block(system, self.render(passages))
        return Injection(folded, passages, retrieval_call(query, passages, id=call_id))


def _function_call(function: Callable[..., Any], argument: Any, *, what: str) -> Call:
    """Return the request to call a user's function; one with a method `acall` has an async twin of its own."""
    awaited = getattr(function, "acall", function)
    return Call(lambda: call_function(function, argument, what=what), lambda: acall_function(awaited, argument))


def _check_made(query: Any) -> str:
    if not isinstance(query, str):
        raise InvalidArgumentError(
            f"query_from must return the query as a str, got {type(query).__name__}; nothing is retrieved"
        )
    return check_query(query)


def _check_filter(bound: Any) -> AnyFilter:
    """Return what the hook returned where it is a filter; fail closed otherwise, None included."""
    try:
        # Frozen: who answered with a mapping may change it before it is used.
        return frozen_filter(bound)
    except InvalidFilterError as error:
        raise InvalidFilterError(
            f"retrieval_filter returned no usable filter, so nothing is retrieved: {error}"
        ) from error


def _check_callable(function: Any, argument: str) -> Callable[..., Any | Awaitable[Any]] | None:
    if function is not None and not callable(function):
        raise InvalidArgumentError(f"{argument} must be callable or None, got {type(function).__name__}")
    return cast("Callable[..., Any | Awaitable[Any]] | None", function)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None

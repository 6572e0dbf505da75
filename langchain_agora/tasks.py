"""Inject mode in a graph of one's own: the retrieval as a LangGraph task, whose result a resumed run reuses."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from langchain_core.runnables import Runnable
from langgraph.func import task

from agora_core.inject import Asker, ContextInjector, RetrievalFilter, passage_to_dict
from agora_core.metadata import UNSET
from agora_core.protocols import AsyncRetriever, SyncRetriever
from agora_core.steps import Steps, arun, run
from langchain_agora.retriever import as_core_retriever

# Its overloads cannot be matched by a decorator that is called with a function of unknown parameters.
_task: Any = task


def retrieve_task(
    retriever: SyncRetriever | AsyncRetriever | Runnable[str, Any],
    *,
    top_k: int = 5,
    retrieval_filter: RetrievalFilter | None = None,
    min_score: float | None = None,
    name: str = "agora_retrieve",
) -> Any:
    """Return a task `(query, actor)` whose result is the passages as plain JSON objects.

    It is called inside an `@entrypoint` or a node of a graph with a checkpointer, and gives a future:
    `passages = passages_from_step(task(query, actor).result())` in sync code, `await task(query, actor)` in async code.
    The filter is derived inside the task. A resumed run that calls it with the same actor reuses what the first one
    retrieved; with another it retrieves anew, for the task's name ends in a digest of who asks.

    Args:
        retriever: any retriever of the core or of LangChain.
        top_k: passages, 1 or more.
        retrieval_filter: called with `actor`; a raise, None, anything else that is no filter of the core, or
            a missing actor fails the task.
        min_score: a floor on the retriever's scores.
        name: what the task's name in traces begins with.

    Examples:
        >>> from langgraph.func import entrypoint
        >>> retrieve = retrieve_task(retriever, top_k=1)
        >>> @entrypoint()
        ... def turn(question):
        ...     return retrieve(question, None).result()
        >>> turn.invoke("days of leave")[0]["id"]
        'leave#0'
    """
    injector = _injector(retriever, top_k, retrieval_filter, min_score)

    def retrieve(query: str, actor: Any = UNSET) -> Any:
        asker = injector.asker(actor)

        def found() -> list[dict[str, Any]]:
            return [passage_to_dict(passage) for passage in injector.inject(query, actor=asker).passages]

        return _task(name=run(_named(name, asker)))(found)()

    return retrieve


def aretrieve_task(
    retriever: SyncRetriever | AsyncRetriever | Runnable[str, Any],
    *,
    top_k: int = 5,
    retrieval_filter: RetrievalFilter | None = None,
    min_score: float | None = None,
    name: str = "agora_retrieve",
) -> Any:
    """Async twin of `retrieve_task`; its task is awaited.

    Examples:
        >>> from langgraph.func import entrypoint
        >>> retrieve = aretrieve_task(retriever, top_k=1)
        >>> @entrypoint()
        ... async def turn(question):
        ...     return await retrieve(question, None)
        >>> asyncio.run(turn.ainvoke("days of leave"))[0]["id"]
        'leave#0'
    """
    injector = _injector(retriever, top_k, retrieval_filter, min_score)

    async def retrieve(query: str, actor: Any = UNSET) -> Any:
        asker = injector.asker(actor)

        async def found() -> list[dict[str, Any]]:
            return [passage_to_dict(passage) for passage in (await injector.ainject(query, actor=asker)).passages]

        return await _task(name=await arun(_named(name, asker)))(found)()

    return retrieve


def task_step(name: str, fn: Callable[[], Any]) -> Any:
    """The `step` of a `ContextInjector` that is used inside an `@entrypoint` or a node of a graph with a checkpointer.

    What it remembers is one actor's: a run that another goes on with retrieves anew.

    ```python
    injector = ContextInjector(retriever, step=task_step)


    @entrypoint(checkpointer=checkpointer)
    def turn(question: str) -> str:
        injection = injector.inject(question, system=PROMPT, actor=...)
        return model.invoke([("system", injection.system), ("human", question)]).text
    ```

    Examples:
        >>> from langgraph.func import entrypoint
        >>> injector = ContextInjector(retriever, top_k=1, step=task_step)
        >>> @entrypoint()
        ... def turn(question):
        ...     return injector.inject(question).system
        >>> "[1] (leave.md)" in turn.invoke("days of leave")
        True
    """
    return _task(name=run(_named(f"agora_{name}", _asker_of(fn))))(fn)().result()


async def atask_step(name: str, fn: Callable[[], Any]) -> Any:
    """Async twin of `task_step`, for `ainject`.

    Examples:
        >>> injector = ContextInjector(retriever, step=atask_step)  # for `await injector.ainject(...)` in an entrypoint
    """

    async def found() -> Any:
        result = fn()
        return await result if inspect.isawaitable(result) else result

    return await _task(name=await arun(_named(f"agora_{name}", _asker_of(fn))))(found)()


def _injector(
    retriever: SyncRetriever | AsyncRetriever | Runnable[str, Any],
    top_k: int,
    retrieval_filter: RetrievalFilter | None,
    min_score: float | None,
) -> ContextInjector:
    core = as_core_retriever(retriever)
    return ContextInjector(core, top_k=top_k, retrieval_filter=retrieval_filter, min_score=min_score)


def _asker_of(fn: Callable[[], Any]) -> Asker | None:
    asker: Asker | None = getattr(fn, "asker", None)
    return asker


def _named(name: str, asker: Asker | None) -> Steps[str]:
    """Return a task's name: LangGraph reuses the result of a task by it, whatever the task is called with."""
    identity = "" if asker is None else (yield from asker.identity())
    return f"{name}_{identity[:16]}" if identity else name

"""Who asks: the run's config and context, and the filters that are derived from them at each call."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, var_child_runnable_config

from agora_core.calling import call_function
from agora_core.errors import InvalidFilterError
from agora_core.filters import Expression
from agora_core.protocols import AnyFilter
from langchain_agora.filters import to_core_filter

ScopeFunction = Callable[[Any], Any]
"""Takes the run's config and returns a filter; it may be async where only async methods are used."""

Scope = AnyFilter | ScopeFunction
"""What `scoped` takes: a filter, or a function of the run's config that is called anew for each call."""


def run_context() -> Any:
    """Return the `context` of the LangGraph run that this code is part of, None outside of one."""
    # Where langgraph was never imported, no graph can be running.
    runtime_module = sys.modules.get("langgraph.runtime")
    if runtime_module is None:
        return None
    try:
        runtime = runtime_module.get_runtime()
    except (RuntimeError, KeyError):
        return None
    return getattr(runtime, "context", None)


def run_config() -> dict[str, Any]:
    """Return the config of the current run, with the run's context under `context`; an empty one outside of a run."""
    return {**ensure_config(), "context": run_context()}


@contextlib.contextmanager
def bound_config(config: RunnableConfig | None) -> Iterator[None]:
    """Make `config` the one that scopes and inner runnables see.

    LangChain does so for the steps of a chain, and not for a retriever that is invoked by itself.
    """
    token = var_child_runnable_config.set(ensure_config(config))
    try:
        yield
    finally:
        # A coroutine that is never finished is closed in another context, where there is nothing to restore.
        with contextlib.suppress(ValueError):
            var_child_runnable_config.reset(token)


def resolve_scope(scope: ScopeFunction) -> AnyFilter:
    """Call a scope function with the run's config and return its filter.

    Raises:
        InvalidFilterError: it returned None or anything else that is no filter; a scope is never left out.
        UnsupportedOperationError: it is async.
    """
    return _checked(call_function(scope, run_config(), what="the scope function"))


async def aresolve_scope(scope: ScopeFunction) -> AnyFilter:
    """Async twin of `resolve_scope`; an async function is awaited, a sync one is called where it stands."""
    result = scope(run_config())
    return _checked(await result if inspect.isawaitable(result) else result)


def _checked(filter: Any) -> AnyFilter:
    if not isinstance(filter, (Mapping, Expression)):
        raise InvalidFilterError(
            f"the scope function returned {type(filter).__name__} where a filter is needed, so the call is refused; "
            "return a mapping or an expression, and {'key': []} to deny"
        )
    return to_core_filter(filter)


def actor_of(config: RunnableConfig, actor: Any = None) -> Any:
    """Return who asks: `actor` where it is given, else `configurable["actor"]`, else the context of the run."""
    if actor is not None:
        return actor
    configured = (config.get("configurable") or {}).get("actor")
    return run_context() if configured is None else configured


def translated(hook: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """Return a `retrieval_filter` hook that may answer with an operator dict too; what is no filter is left to fail."""
    if hook is None or not callable(hook):
        return hook

    def translate(filter: Any) -> Any:
        return to_core_filter(filter) if isinstance(filter, Mapping) else filter

    async def afilter_for(actor: Any) -> Any:
        return translate(await hook(actor))

    def filter_for(actor: Any) -> Any:
        result = hook(actor)
        return _Translated(result, translate) if inspect.isawaitable(result) else translate(result)

    if inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(getattr(type(hook), "__call__", None)):  # noqa: B004
        return afilter_for
    return filter_for


class _Translated:
    """What a sync hook promised to give, translated when it comes."""

    def __init__(self, awaitable: Awaitable[Any], translate: Callable[[Any], Any]) -> None:
        self._awaitable, self._translate = awaitable, translate

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._translate((yield from self._awaitable.__await__()))

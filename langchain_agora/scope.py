"""Who asks: the run's config and context, and the filters that are derived from them at each call."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

from langchain_core.runnables import RunnableConfig
from langchain_core.runnables.config import ensure_config, var_child_runnable_config

from agora_core.metadata import UNSET
from agora_core.protocols import AnyFilter

ScopeFunction = Callable[[Any], Any]
"""Takes the run's config and returns a filter of the core; async where only async methods are used.

What it returns is data, made of who asks: its values are compared as JSON, and operators in them are refused.
"""

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


def from_run(scope: ScopeFunction) -> Callable[[], Any]:
    """Return a function without arguments that calls a scope function with the config of the run it is called in."""
    return lambda: scope(run_config())


def actor_of(config: RunnableConfig, actor: Any = UNSET) -> Any:
    """Return who asks: `actor` where it is given, else `configurable["actor"]`, else the context of the run.

    A None that was given or configured is passed on; `UNSET` where nobody was named.
    """
    if actor is not UNSET:
        return actor
    configurable = config.get("configurable") or {}
    if "actor" in configurable:
        return configurable["actor"]
    context = run_context()
    return UNSET if context is None else context

"""Every place where a filter, a scope or an actor crosses a public interface, read from the signatures.

`docs/security.md` shows them as a table beside the test that attacks each; `test_crossings.py` writes and checks it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import agora_core
import langchain_agora
import llamaindex_agora

PACKAGES: tuple[ModuleType, ...] = (agora_core, langchain_agora, llamaindex_agora)
CARRIERS = frozenset(
    ("filter", "filters", "within", "scope", "actor", "retrieval_filter", "keyword", "config", "check")
)
"""The names of parameters that carry a bound, or something that is kept beside a bounded store."""

_STORES = "tests/contract/test_stores.py", "tests/contract/test_walls.py"
_FILTERS = ("tests/unit/filters/test_bad_input.py",)
_HOOKS = ("tests/contract/test_hooks.py",)
_RETRIEVERS = ("tests/contract/test_walls_of_retrievers.py",)
_ADAPTERS = ("tests/contract/test_walls_of_adapters.py",)
_UPKEEP = "tests/contract/test_walls.py", "tests/unit/ingestion/test_ingestion.py"

ATTACKS: dict[str, tuple[str, ...]] = {
    "agora_core.AuthorizedRetriever": ("tests/unit/retrievers/test_authorized.py",),
    "agora_core.BaseVectorStore": ("tests/contract/test_walls.py",),
    "agora_core.ContextInjector": _HOOKS,
    "agora_core.EmbeddingRetriever": _RETRIEVERS,
    "agora_core.ExpandingRetriever": ("tests/unit/retrievers/test_expanding.py",),
    "agora_core.HybridRetriever": _RETRIEVERS,
    "agora_core.KeywordRetriever": ("tests/contract/test_walls.py", *_RETRIEVERS),
    "agora_core.LexicalRetriever": _RETRIEVERS,
    "agora_core.RerankingRetriever": ("tests/unit/retrievers/test_reranking.py",),
    "agora_core.ScopedRetriever": _FILTERS,
    "agora_core.ScopedVectorStore": ("tests/contract/test_walls.py",),
    "agora_core.MemoryVectorStore": _STORES,
    "agora_core.MemoryLexicalVectorStore": ("tests/unit/stores/test_memory_lexical.py",),
    "agora_core.PgVectorStore": (*_STORES, "tests/integration/postgres/test_row_security.py"),
    "agora_core.PgLexicalVectorStore": _STORES,
    "agora_core.QdrantStore": _STORES,
    "agora_core.QdrantLexicalVectorStore": _STORES,
    "agora_core.MediaIngestion": ("tests/unit/files/test_media.py",),
    "agora_core.sync_documents": ("tests/integration/corpus/test_sync.py",),
    "agora_core.sync_permissions": ("tests/integration/corpus/test_sync.py",),
    "agora_core.ingest_chunks": _UPKEEP,
    "agora_core.ingest_documents": _UPKEEP,
    "agora_core.tune_hybrid": ("tests/unit/test_evaluation.py",),
    "agora_core.assert_removal_filter": ("tests/unit/filters/test_meaning.py",),
    "agora_core.compile_filter": _FILTERS,
    "agora_core.conjoin": _FILTERS,
    "agora_core.matches_filter": _FILTERS,
    "agora_core.filter_denies_all": ("tests/unit/filters/test_meaning.py",),
    "agora_core.filter_to_json": ("tests/unit/filters/test_expressions.py",),
    "langchain_agora.AgoraRetriever": (*_HOOKS, *_ADAPTERS),
    "langchain_agora.AgoraVectorStore": (
        *_HOOKS,
        *_ADAPTERS,
        "tests/unit/langchain_agora/test_vectorstore_scope.py",
        "tests/unit/langchain_agora/test_vectorstore_text.py",
    ),
    "langchain_agora.InjectContext": _HOOKS,
    "langchain_agora.InjectContextMiddleware": _HOOKS,
    "langchain_agora.LangChainRetriever": (
        *_ADAPTERS,
        "tests/unit/langchain_agora/test_retriever.py",
    ),
    "langchain_agora.create_retrieve_tool": _HOOKS,
    "langchain_agora.retrieve_task": _HOOKS,
    "langchain_agora.to_core_filter": ("tests/unit/langchain_agora/test_filters.py",),
    "llamaindex_agora.AccessFilterPostprocessor": _HOOKS,
    "llamaindex_agora.AgoraContextChatEngine": _HOOKS,
    "llamaindex_agora.AgoraRetriever": (
        *_ADAPTERS,
        "tests/integration/llamaindex_agora/test_filters.py",
    ),
    "llamaindex_agora.AgoraVectorStore": (
        *_ADAPTERS,
        "tests/contract/llamaindex/test_vectorstore.py",
        "tests/unit/llamaindex_agora/test_vectorstore_bounds.py",
    ),
    "llamaindex_agora.InjectContext": _HOOKS,
    "llamaindex_agora.InjectContextPostprocessor": _HOOKS,
    "llamaindex_agora.InjectingFunctionAgent": _HOOKS,
    "llamaindex_agora.LlamaIndexRetriever": (
        *_ADAPTERS,
        "tests/unit/llamaindex_agora/test_parts.py",
    ),
    "llamaindex_agora.to_core_filter": ("tests/contract/llamaindex/test_filter_table.py",),
}
"""Who takes a bound, and the tests that try to get around it."""


def crossings() -> dict[str, dict[str, list[str]]]:
    """Return, by public class or function, the parameters that carry a bound and the methods that take each.

    Protocols decide nothing and are left out; an async twin stands with its sync one.
    """
    found: dict[str, dict[str, list[str]]] = {}
    for package in PACKAGES:
        for name in sorted(package.__all__):
            thing = getattr(package, name)
            if getattr(thing, "_is_protocol", False) or not (inspect.isclass(thing) or inspect.isfunction(thing)):
                continue
            for method, function in _functions(name, thing):
                for parameter in inspect.signature(function).parameters:
                    if parameter in CARRIERS:
                        found.setdefault(f"{package.__name__}.{name}", {}).setdefault(parameter, []).append(method)
    return found


def _functions(name: str, thing: Any) -> Iterator[tuple[str, Any]]:
    if inspect.isfunction(thing):
        if not _is_twin(name, agora_core) and not _is_twin(name, langchain_agora):
            yield name, thing
        return
    for method, function in inspect.getmembers(thing, inspect.isroutine):
        ours = str(getattr(function, "__module__", "")).partition(".")[0] in {p.__name__ for p in PACKAGES}
        public = method == "__init__" or not method.startswith("_")
        if ours and public and not _is_twin(method, thing):
            yield method, function


def _is_twin(name: str, owner: Any) -> bool:
    return any(name.startswith(prefix) and hasattr(owner, name[len(prefix) :]) for prefix in ("async_", "a"))


def table() -> str:
    """Return the crossings as Markdown."""
    lines = ["| who | takes | in | attacked by |", "| --- | --- | --- | --- |"]
    for who, carriers in crossings().items():
        tests = ", ".join(f"`{path}`" for path in ATTACKS[who])
        for parameter, methods in carriers.items():
            own = ", ".join("the constructor" if m == "__init__" else f"`{m}`" for m in methods)
            lines.append(f"| `{who}` | `{parameter}` | {own} | {tests} |")
    return "\n".join(["", *lines, "", ""])

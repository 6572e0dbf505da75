"""Every piece of Agora retrieval where LlamaIndex expects one of its own."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llamaindex_agora.vectorstore import AgoraVectorStore

_MODULES = {
    "AgoraVectorStore": "vectorstore",
}

__all__ = ["AgoraVectorStore"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from agora_core.extras import require

    require("llama_index.core", extra="llamaindex")
    return getattr(importlib.import_module(f"llamaindex_agora.{_MODULES[name]}"), name)

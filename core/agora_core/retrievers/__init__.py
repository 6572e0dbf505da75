"""Retrievers, each usable as a part of another, and factories for whole ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agora_core.retrievers.base import BaseRetriever
from agora_core.retrievers.embedding import EmbeddingRetriever
from agora_core.retrievers.factories import memory, pgvector, qdrant
from agora_core.retrievers.hybrid import HybridRetriever
from agora_core.retrievers.lazy import LazyRetriever
from agora_core.retrievers.lexical import LexicalRetriever
from agora_core.retrievers.reranking import RerankingRetriever

if TYPE_CHECKING:
    from agora_core.retrievers.keyword import KeywordRetriever

__all__ = [
    "BaseRetriever",
    "EmbeddingRetriever",
    "HybridRetriever",
    "KeywordRetriever",
    "LazyRetriever",
    "LexicalRetriever",
    "RerankingRetriever",
    "memory",
    "pgvector",
    "qdrant",
]


def __getattr__(name: str) -> Any:
    # The keyword index is the heaviest of them; it is loaded when it is first named.
    if name == "KeywordRetriever":
        from agora_core.retrievers.keyword import KeywordRetriever

        return KeywordRetriever
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

"""Qdrant: a vector store on its local mode, a server or a cluster (extra: qdrant)."""

from __future__ import annotations

from agora_core.stores.qdrant.lexical import QdrantLexicalVectorStore
from agora_core.stores.qdrant.store import QdrantStore

__all__ = ["QdrantLexicalVectorStore", "QdrantStore"]

"""Rerankers: order passages anew by how well they answer a query.

Each has `rerank(query, passages, *, top_k=None)` and `arerank`. What comes back are fresh passages with the reranker's
score (higher is better), best first, passages of equal score in the order given; those given are left as they were.
"""

from __future__ import annotations

from agora_core.rerankers.cross_encoder import CrossEncoderReranker
from agora_core.rerankers.embedding import EmbeddingReranker
from agora_core.rerankers.http import HttpReranker

__all__ = ["CrossEncoderReranker", "EmbeddingReranker", "HttpReranker"]

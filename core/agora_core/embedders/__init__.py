"""Embedders: texts to vectors. One static model that needs no network, one for servers, one for ONNX files.

Each has `embed(texts)` and `embed_query(text)` with their async twins `aembed` and `aembed_query`, and answers with
float32 vectors of shape (dimension,). What a class needs beyond numpy is imported when it is first used.
"""

from __future__ import annotations

from agora_core.embedders.onnx import OnnxEmbeddingProvider
from agora_core.embedders.openai_compatible import OpenAICompatibleEmbeddingProvider
from agora_core.embedders.wordllama import WordLlamaEmbeddingProvider

__all__ = ["OnnxEmbeddingProvider", "OpenAICompatibleEmbeddingProvider", "WordLlamaEmbeddingProvider"]

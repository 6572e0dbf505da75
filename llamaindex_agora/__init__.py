"""Every piece of Agora retrieval where LlamaIndex expects one of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agora_core.extras import lazy_attributes

if TYPE_CHECKING:
    from llamaindex_agora.access import AccessFilterPostprocessor
    from llamaindex_agora.agent import InjectingFunctionAgent
    from llamaindex_agora.chat_engine import AgoraContextChatEngine
    from llamaindex_agora.conversation import condense_question
    from llamaindex_agora.embeddings import AgoraEmbedding, LlamaIndexEmbeddingProvider
    from llamaindex_agora.filters import to_core_filter
    from llamaindex_agora.inject import InjectContext
    from llamaindex_agora.node_parser import AgoraNodeParser
    from llamaindex_agora.postprocessor import InjectContextPostprocessor
    from llamaindex_agora.reranker import AgoraReranker, LlamaIndexReranker
    from llamaindex_agora.retriever import AgoraRetriever, LlamaIndexRetriever
    from llamaindex_agora.vectorstore import AgoraVectorStore

_MODULES = {
    "AccessFilterPostprocessor": "access",
    "AgoraContextChatEngine": "chat_engine",
    "AgoraEmbedding": "embeddings",
    "AgoraNodeParser": "node_parser",
    "AgoraReranker": "reranker",
    "AgoraRetriever": "retriever",
    "AgoraVectorStore": "vectorstore",
    "InjectContext": "inject",
    "InjectContextPostprocessor": "postprocessor",
    "InjectingFunctionAgent": "agent",
    "LlamaIndexEmbeddingProvider": "embeddings",
    "LlamaIndexReranker": "reranker",
    "LlamaIndexRetriever": "retriever",
    "condense_question": "conversation",
    "to_core_filter": "filters",
}

__all__ = [
    "AccessFilterPostprocessor",
    "AgoraContextChatEngine",
    "AgoraEmbedding",
    "AgoraNodeParser",
    "AgoraReranker",
    "AgoraRetriever",
    "AgoraVectorStore",
    "InjectContext",
    "InjectContextPostprocessor",
    "InjectingFunctionAgent",
    "LlamaIndexEmbeddingProvider",
    "LlamaIndexReranker",
    "LlamaIndexRetriever",
    "condense_question",
    "to_core_filter",
]


__getattr__ = lazy_attributes(__name__, _MODULES, needs=("llama_index.core", "llamaindex"))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

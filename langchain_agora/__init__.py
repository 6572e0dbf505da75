"""The core wherever LangChain expects a piece of its own, and LangChain's pieces as seams of the core.

Everything is loaded when it is first named: the agents' middleware needs the extra `langchain-agents`, all else the
extra `langchain`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agora_core.extras import lazy_attributes

if TYPE_CHECKING:
    from langchain_agora.conversation import condense_question
    from langchain_agora.embeddings import AgoraEmbeddings, LangChainEmbeddingProvider
    from langchain_agora.filters import to_core_filter
    from langchain_agora.inject import InjectContext
    from langchain_agora.middleware import InjectContextMiddleware
    from langchain_agora.reranker import AgoraReranker, LangChainReranker
    from langchain_agora.retriever import AgoraRetriever, LangChainRetriever
    from langchain_agora.splitter import AgoraTextSplitter
    from langchain_agora.tasks import aretrieve_task, atask_step, retrieve_task, task_step
    from langchain_agora.tools import create_retrieve_tool
    from langchain_agora.vectorstore import AgoraVectorStore

_MODULES = {
    "AgoraEmbeddings": "embeddings",
    "AgoraReranker": "reranker",
    "AgoraRetriever": "retriever",
    "AgoraTextSplitter": "splitter",
    "AgoraVectorStore": "vectorstore",
    "InjectContext": "inject",
    "InjectContextMiddleware": "middleware",
    "LangChainEmbeddingProvider": "embeddings",
    "LangChainReranker": "reranker",
    "LangChainRetriever": "retriever",
    "aretrieve_task": "tasks",
    "atask_step": "tasks",
    "condense_question": "conversation",
    "create_retrieve_tool": "tools",
    "retrieve_task": "tasks",
    "task_step": "tasks",
    "to_core_filter": "filters",
}
_NEEDS = {"middleware": ("langchain", "langchain-agents"), "tasks": ("langgraph", "langchain-agents")}

__all__ = [
    "AgoraEmbeddings",
    "AgoraReranker",
    "AgoraRetriever",
    "AgoraTextSplitter",
    "AgoraVectorStore",
    "InjectContext",
    "InjectContextMiddleware",
    "LangChainEmbeddingProvider",
    "LangChainReranker",
    "LangChainRetriever",
    "aretrieve_task",
    "atask_step",
    "condense_question",
    "create_retrieve_tool",
    "retrieve_task",
    "task_step",
    "to_core_filter",
]


__getattr__ = lazy_attributes(__name__, _MODULES, needs=("langchain_core", "langchain"), also=_NEEDS)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""A chat model that answers from a script, a retriever that counts, and the corpus of two tenants they work on."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import Field

from agora_core import EmbeddingRetriever, IngestDocument, MemoryVectorStore, Passage, ingest_documents
from agora_core.testing import FakeEmbeddingProvider

DOCUMENTS = [
    IngestDocument("a-leave", "Paid leave at A is thirty days.", "a/leave.md", {"tenant": "a"}),
    IngestDocument("a-notice", "The period of notice at A is three months.", "a/notice.md", {"tenant": "a"}),
    IngestDocument("b-leave", "Paid leave at B is forty days.", "b/leave.md", {"tenant": "b"}),
]


class ScriptedModel(BaseChatModel):
    """Gives the answers of a script one after another; an exception in it is raised. Keeps all it was shown."""

    script: list[Any]
    seen: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Any:
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        self.seen.append(list(messages))
        answer = self.script.pop(0)
        if isinstance(answer, Exception):
            raise answer
        message = answer if isinstance(answer, AIMessage) else AIMessage(content=answer)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def system(self, call: int = -1) -> str:
        """Return what the system message of a call said, "" where there was none."""
        return next((str(m.text) for m in self.seen[call] if isinstance(m, SystemMessage)), "")


class CountingRetriever:
    """Remembers each retrieval that really happened: its query, and the options it was given."""

    def __init__(self, retriever: Any) -> None:
        self.retriever = retriever
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._lock = threading.Lock()

    def _note(self, query: str, options: dict[str, Any]) -> None:
        with self._lock:
            self.calls.append((query, options))

    def retrieve(self, query: str, **options: Any) -> list[Passage]:
        self._note(query, options)
        found: list[Passage] = self.retriever.retrieve(query, **options)
        return found

    async def aretrieve(self, query: str, **options: Any) -> list[Passage]:
        self._note(query, options)
        found: list[Passage] = await self.retriever.aretrieve(query, **options)
        return found


class FixedRetriever:
    """Gives the same passages whatever is asked."""

    def __init__(self, *passages: Passage) -> None:
        self.passages = list(passages)

    def retrieve(self, query: str, *, top_k: int = 5, filter: Any = None, min_score: Any = None) -> list[Passage]:
        return self.passages[:top_k]


def tenants(documents: Sequence[IngestDocument] = DOCUMENTS) -> CountingRetriever:
    """Return a counting retriever over the documents of both tenants."""
    embedder, store = FakeEmbeddingProvider(), MemoryVectorStore()
    ingest_documents(documents, embedder=embedder, store=store)
    return CountingRetriever(EmbeddingRetriever(embedder, store))


def calls_tool(name: str, id: str = "call-1", **args: Any) -> AIMessage:
    """Return the message of a model that calls a tool."""
    return AIMessage(content="", tool_calls=[{"name": name, "args": args, "id": id, "type": "tool_call"}])

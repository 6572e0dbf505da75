"""Models that answer from a script and write down what they were asked, embeddings by words, and a small corpus."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    CompletionResponse,
    LLMMetadata,
    MessageRole,
)
from llama_index.core.bridge.pydantic import Field
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.schema import Document

from agora_core import EmbeddingRetriever, IngestDocument, MemoryVectorStore, Passages, ingest_documents
from agora_core.testing import FakeEmbeddingProvider

DIMENSION = 64
_TOOL_CALLS = "scripted_tool_calls"


class WordEmbedding(BaseEmbedding):
    """Texts that share words are near."""

    texts: list[str] = Field(default_factory=list)
    """What was embedded as a text, so that a test can count it."""

    def _get_text_embedding(self, text: str) -> list[float]:
        self.texts.append(text)
        return FakeEmbeddingProvider(DIMENSION).embed([text])[0]

    def _get_query_embedding(self, query: str) -> list[float]:
        return FakeEmbeddingProvider(DIMENSION).embed([query])[0]

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


class ScriptedLLM(FunctionCallingLLM):
    """Answers with the next of its script: a text, tool calls as (name, arguments), or an error to raise."""

    script: list[Any] = Field(default_factory=list)
    seen: list[list[ChatMessage]] = Field(default_factory=list)

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_chat_model=True, is_function_calling_model=True)

    def system(self, call: int = -1) -> str:
        """Return the system prompt of a call."""
        return "\n".join(m.content or "" for m in self.seen[call] if m.role == MessageRole.SYSTEM)

    def whole(self, call: int = -1) -> str:
        """Return all that a call told the model."""
        return "\n".join(message.content or "" for message in self.seen[call])

    def told(self, call: int = -1) -> list[tuple[str, str]]:
        """Return a call's messages without its system prompts."""
        return [(m.role.value, m.content or "") for m in self.seen[call] if m.role != MessageRole.SYSTEM]

    def _next(self, messages: Sequence[ChatMessage]) -> ChatResponse:
        self.seen.append([message.model_copy(deep=True) for message in messages])
        answer = self.script.pop(0) if self.script else "answer"
        if isinstance(answer, Exception):
            raise answer
        calls = [] if isinstance(answer, str) else answer
        message = ChatMessage(role=MessageRole.ASSISTANT, content=answer if isinstance(answer, str) else "")
        message.additional_kwargs = {_TOOL_CALLS: calls}
        return ChatResponse(message=message, delta=message.content)

    def _stream(self, messages: Sequence[ChatMessage]) -> Iterator[ChatResponse]:
        whole = self._next(messages)
        text = whole.message.content or ""
        for end, piece in enumerate(text):
            shown = ChatMessage(role=MessageRole.ASSISTANT, content=text[: end + 1])
            yield ChatResponse(message=shown, delta=piece)
        if not text:
            yield whole

    def chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self._next(messages)

    async def achat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> ChatResponse:
        return self._next(messages)

    def stream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        return self._stream(messages)

    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        return _later(self._stream(messages))

    def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return CompletionResponse(text=self._next([ChatMessage(content=prompt)]).message.content or "")

    async def acomplete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> CompletionResponse:
        return self.complete(prompt)

    def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError

    async def astream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError

    def _prepare_chat_with_tools(self, *args: Any, **kwargs: Any) -> Any:
        return {"messages": kwargs["chat_history"]}

    async def achat_with_tools(self, *args: Any, **kwargs: Any) -> Any:
        return self._next(kwargs["chat_history"])

    async def astream_chat_with_tools(self, *args: Any, **kwargs: Any) -> Any:
        return _later(self._stream(kwargs["chat_history"]))

    def get_tool_calls_from_response(self, response: ChatResponse, *_: Any, **__: Any) -> list[ToolSelection]:
        calls = response.message.additional_kwargs.get(_TOOL_CALLS, [])
        return [
            ToolSelection(tool_id=f"{name}-{n}", tool_name=name, tool_kwargs=given)
            for n, (name, given) in enumerate(calls)
        ]


async def _later(pieces: Iterator[ChatResponse]) -> AsyncIterator[ChatResponse]:
    for piece in pieces:
        yield piece


def llm(*script: Any) -> ScriptedLLM:
    """Return a model with that script, and "answer" for what comes after it."""
    return ScriptedLLM(script=list(script), seen=[])


class Counted(EmbeddingRetriever):
    """A retriever that writes down the filters it was asked with; None stands for no filter argument."""

    def __init__(self, store: Any) -> None:
        super().__init__(FakeEmbeddingProvider(DIMENSION), store)
        self.asked: list[Any] = []

    def retrieve(self, query: str, **options: Any) -> Passages:
        self.asked.append(options.get("filter"))
        return super().retrieve(query, **options)

    async def aretrieve(self, query: str, **options: Any) -> Passages:
        self.asked.append(options.get("filter"))
        return await super().aretrieve(query, **options)


def tenants() -> Counted:
    """Return a retriever over one text of each of two tenants."""
    store = MemoryVectorStore()
    documents = [
        IngestDocument(f"leave-{tenant}", f"paid leave is {days} days at {tenant.upper()}", None, {"tenant": tenant})
        for tenant, days in (("a", 30), ("b", 20))
    ]
    ingest_documents(documents, embedder=FakeEmbeddingProvider(DIMENSION), store=store)
    return Counted(store)


def documents() -> list[Document]:
    """Return a small corpus, fresh."""
    return [
        Document(id_="leave", text="Everyone has 30 days of paid leave.", metadata={"acl": ["all"], "year": 2024}),
        Document(id_="notice", text="Notice is three months.", metadata={"acl": ["all"], "year": 2023}),
        Document(id_="board", text="Directors have 40 days of paid leave.", metadata={"acl": ["board"], "year": 2025}),
        Document(id_="office", text="The office closes on holidays.", metadata={"acl": ["all"], "year": 2019}),
    ]

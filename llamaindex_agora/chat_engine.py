"""A chat engine in inject mode: the block in the system prompt, numbered, and a model call even without passages.

Their context chat engine answers "Empty Response" without asking the model where nothing is found, and formats the
whole prompt as a template, so that braces a user types are replaced. A postprocessor cannot change either.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from threading import Thread

from llama_index.core.base.llms.types import ChatMessage, ChatResponse, MessageRole
from llama_index.core.chat_engine.types import AgentChatResponse, BaseChatEngine, StreamingAgentChatResponse
from llama_index.core.llms import LLM
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer
from llama_index.core.schema import NodeWithScore
from llama_index.core.settings import Settings
from llama_index.core.tools import ToolOutput

from agora_core.inject import Injection, Measure, QueryFrom, RetrievalFilter
from agora_core.protocols import AsyncRetriever, SyncRetriever
from llamaindex_agora.inject import InjectContext
from llamaindex_agora.nodes import passage_to_node
from llamaindex_agora.postprocessor import ActorSource, read_actor


class AgoraContextChatEngine(BaseChatEngine):
    """Retrieves once for each message and answers with the passages in the system prompt.

    The conversation remembers a message together with its answer: where the retrieval or the model fails, it stays as
    it was.

    Args:
        retriever: any core retriever.
        llm: the chat model; None is LlamaIndex's `Settings.llm`.
        memory: the conversation; None is a new one.
        system_prompt: what stands before the block.
        top_k: passages per message, 1 or more.
        retrieval_filter: called with the actor of the message; a raise, or anything but a filter, fails the message.
        min_score: a floor on the retriever's scores; None keeps all.
        actor: who asks: a function without arguments or a context variable. A hook without one fails the message.
        query_from: called with the messages, returns the query, for instance `condense_question(llm)`; None asks with
            the last message of the user.
        max_chars: the room for the passages in the prompt, see `agora_core.render_context`; None for no bound.
        measure: the unit of `max_chars`: characters, or a model's token counter.

    Examples:
        >>> engine = AgoraContextChatEngine(retriever, llm=MockLLM(), top_k=1)
        >>> [hit.node.node_id for hit in engine.chat("days of leave").source_nodes]
        ['leave#0']
    """

    def __init__(
        self,
        retriever: SyncRetriever | AsyncRetriever,
        *,
        llm: LLM | None = None,
        memory: BaseMemory | None = None,
        system_prompt: str = "",
        top_k: int = 5,
        retrieval_filter: RetrievalFilter | None = None,
        min_score: float | None = None,
        actor: ActorSource | None = None,
        query_from: QueryFrom | None = None,
        max_chars: int | None = None,
        measure: Measure = len,
    ) -> None:
        """Check the arguments; nothing is retrieved yet."""
        self._inject = InjectContext(
            retriever,
            top_k=top_k,
            retrieval_filter=retrieval_filter,
            min_score=min_score,
            query_from=query_from,
            max_chars=max_chars,
            measure=measure,
        )
        self._llm = Settings.llm if llm is None else llm
        self._memory: BaseMemory = ChatMemoryBuffer.from_defaults(llm=self._llm) if memory is None else memory
        self._prefix = [ChatMessage(role=MessageRole.SYSTEM, content=system_prompt)] if system_prompt else []
        self._actor = actor

    @property
    def chat_history(self) -> list[ChatMessage]:
        """The conversation so far, without the blocks."""
        return self._memory.get_all()

    def reset(self) -> None:
        """Forget the conversation."""
        self._memory.reset()

    def chat(self, message: str, chat_history: list[ChatMessage] | None = None) -> AgentChatResponse:
        """Answer a message. `chat_history` replaces the conversation so far."""
        history = self._memory.get_all() if chat_history is None else chat_history
        found = self._inject.retrieve([*history, _user(message)], actor=read_actor(self._actor))
        if chat_history is not None:
            self._memory.set(chat_history)
        answer = self._llm.chat(self._messages(self._memory.get(input=message), message, found)).message
        self._memory.put(_user(message))
        self._memory.put(answer)
        return AgentChatResponse(str(answer.content), sources=_sources(found), source_nodes=_nodes(found))

    async def achat(self, message: str, chat_history: list[ChatMessage] | None = None) -> AgentChatResponse:
        """Async twin of `chat`."""
        history = await self._memory.aget_all() if chat_history is None else chat_history
        found = await self._inject.aretrieve([*history, _user(message)], actor=read_actor(self._actor))
        if chat_history is not None:
            await self._memory.aset(chat_history)
        messages = self._messages(await self._memory.aget(input=message), message, found)
        answer = (await self._llm.achat(messages)).message
        await self._memory.aput(_user(message))
        await self._memory.aput(answer)
        return AgentChatResponse(str(answer.content), sources=_sources(found), source_nodes=_nodes(found))

    def stream_chat(self, message: str, chat_history: list[ChatMessage] | None = None) -> StreamingAgentChatResponse:
        """Answer a message piece by piece."""
        history = self._memory.get_all() if chat_history is None else chat_history
        found = self._inject.retrieve([*history, _user(message)], actor=read_actor(self._actor))
        if chat_history is not None:
            self._memory.set(chat_history)
        stream = self._llm.stream_chat(self._messages(self._memory.get(input=message), message, found))

        def remembered() -> Generator[ChatResponse, None, None]:
            yield from stream
            self._memory.put(_user(message))

        response = StreamingAgentChatResponse(
            chat_stream=remembered(), sources=_sources(found), source_nodes=_nodes(found)
        )
        writer = Thread(target=response.write_response_to_history, args=(self._memory,), daemon=True)
        response.write_response_to_history_thread = writer
        writer.start()
        return response

    async def astream_chat(
        self, message: str, chat_history: list[ChatMessage] | None = None
    ) -> StreamingAgentChatResponse:
        """Async twin of `stream_chat`."""
        history = await self._memory.aget_all() if chat_history is None else chat_history
        found = await self._inject.aretrieve([*history, _user(message)], actor=read_actor(self._actor))
        if chat_history is not None:
            await self._memory.aset(chat_history)
        stream = await self._llm.astream_chat(self._messages(await self._memory.aget(input=message), message, found))

        async def remembered() -> AsyncGenerator[ChatResponse, None]:
            async for piece in stream:
                yield piece
            await self._memory.aput(_user(message))

        response = StreamingAgentChatResponse(
            achat_stream=remembered(), sources=_sources(found), source_nodes=_nodes(found)
        )
        response.awrite_response_to_history_task = asyncio.create_task(
            response.awrite_response_to_history(self._memory)
        )
        return response

    def _messages(self, history: list[ChatMessage], message: str, found: Injection) -> list[ChatMessage]:
        return self._inject.fold([*self._prefix, *history, _user(message)], found.passages)


def _user(message: str) -> ChatMessage:
    return ChatMessage(role=MessageRole.USER, content=message)


def _nodes(found: Injection) -> list[NodeWithScore]:
    return [passage_to_node(passage) for passage in found.passages]


def _sources(found: Injection) -> list[ToolOutput]:
    if found.tool_call is None:
        return []
    ids = ", ".join(passage.id for passage in found.passages)
    return [
        ToolOutput(
            tool_name=found.tool_call["name"],
            content=f"{len(found.passages)} passages: {ids}",
            raw_input=found.tool_call["args"],
            raw_output=found.tool_call["result"],
        )
    ]

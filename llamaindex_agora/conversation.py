"""A question that stands by itself, made of a conversation: what `query_from` takes."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.llms import LLM

from agora_core.inject import CONDENSE_PROMPT
from llamaindex_agora.inject import SYSTEM_ROLES, last_user_text


class condense_question:  # noqa: N801 # used as a function, with an async twin
    """Returns the latest question of a conversation as one that is understood without it, asked of a model.

    ```python
    AgoraContextChatEngine(retriever, query_from=condense_question(llm))
    ```

    A conversation of one question is not put to the model. What the model raises fails the turn.

    Examples:
        >>> engine = AgoraContextChatEngine(retriever, llm=MockLLM(), query_from=condense_question(MockLLM()))
    """

    def __init__(self, llm: LLM, *, prompt: str = CONDENSE_PROMPT) -> None:
        """Take a chat model, and the instruction that stands before the conversation."""
        self.llm, self.prompt = llm, prompt

    def __call__(self, messages: Sequence[ChatMessage]) -> str:
        """Return the question."""
        asked = self._asked(messages)
        return asked if isinstance(asked, str) else (self.llm.chat(asked).message.content or "").strip()

    async def acall(self, messages: Sequence[ChatMessage]) -> str:
        """Async twin of `__call__`."""
        asked = self._asked(messages)
        return asked if isinstance(asked, str) else ((await self.llm.achat(asked)).message.content or "").strip()

    def _asked(self, messages: Sequence[ChatMessage]) -> str | list[ChatMessage]:
        """Return the only question of a conversation, or what is put to the model."""
        spoken = [m for m in messages if m.role not in SYSTEM_ROLES and (m.content or "").strip()]
        if len(spoken) <= 1:
            return last_user_text(messages)
        told = "\n".join(f"{message.role.value}: {message.content}" for message in spoken)
        return [
            ChatMessage(role=MessageRole.SYSTEM, content=self.prompt),
            ChatMessage(role=MessageRole.USER, content=told),
        ]

"""A question that stands by itself, made of a conversation: what `query_from` takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable

from agora_core.inject import CONDENSE_PROMPT
from langchain_agora.messages import question_in, text_of


class condense_question:  # noqa: N801 # used as a function, with an async twin
    """Returns the latest question of a conversation as one that is understood without it, asked of a model.

    ```python
    InjectContext(retriever, query_from=condense_question(model))
    ```

    A conversation of one question is not put to the model. What the model raises fails the turn.

    Examples:
        >>> model = FakeListChatModel(responses=["When may I take my days of leave?"])
        >>> inject = InjectContext(retriever, query_from=condense_question(model))
    """

    def __init__(self, model: BaseChatModel | Runnable[Any, Any], *, prompt: str = CONDENSE_PROMPT) -> None:
        """Take a chat model, and the instruction that stands before the conversation."""
        self.model, self.prompt = model, prompt

    def __call__(self, messages: Sequence[BaseMessage]) -> str:
        """Return the question."""
        asked = self._asked(messages)
        return asked if isinstance(asked, str) else _text(self.model.invoke(asked))

    async def acall(self, messages: Sequence[BaseMessage]) -> str:
        """Async twin of `__call__`."""
        asked = self._asked(messages)
        return asked if isinstance(asked, str) else _text(await self.model.ainvoke(asked))

    def _asked(self, messages: Sequence[BaseMessage]) -> str | list[BaseMessage]:
        """Return the only question of a conversation, or what is put to the model."""
        spoken = [m for m in messages if not isinstance(m, SystemMessage) and text_of(m).strip()]
        if len(spoken) <= 1:
            return text_of(question_in(messages))
        told = "\n".join(f"{message.type}: {text_of(message)}" for message in spoken)
        return [SystemMessage(self.prompt), HumanMessage(told)]


def _text(answer: Any) -> str:
    return (text_of(answer) if isinstance(answer, BaseMessage) else str(answer)).strip()

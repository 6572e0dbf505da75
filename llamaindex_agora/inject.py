"""Inject mode for chat messages: one retrieval a turn, folded into the system message."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Final

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock

from agora_core.inject import ContextInjector, Injection, RetrievalFilter, fold_context
from agora_core.protocols import Step
from agora_core.records import Passage
from llamaindex_agora.filters import to_core_filter

_SYSTEM_ROLES: Final = (MessageRole.SYSTEM, MessageRole.DEVELOPER)


def core_filter_hook(hook: RetrievalFilter | None) -> RetrievalFilter | None:
    """Return a hook that gives a filter of the core, whichever form the user's hook gives; async where that is."""
    if not callable(hook):
        # None, or a mistake that the injector refuses.
        return hook
    given = hook
    if inspect.iscoroutinefunction(given):

        async def translated_later(actor: Any) -> Any:
            return to_core_filter(await given(actor))

        return translated_later

    def translated(actor: Any) -> Any:
        bound = given(actor)
        return _awaited(bound) if inspect.isawaitable(bound) else to_core_filter(bound)

    async def _awaited(bound: Any) -> Any:
        return to_core_filter(await bound)

    return translated


def last_user_text(messages: Sequence[ChatMessage]) -> str:
    """Return the text of the last message of the user, "" where there is none."""
    for message in reversed(messages):
        if message.role == MessageRole.USER:
            return message.content or ""
    return ""


def fold_into_messages(messages: Sequence[ChatMessage], passages: Sequence[Passage]) -> list[ChatMessage]:
    """Return copies of the messages with the passages folded into the first system message, added where there is none.

    The given messages are left as they are; a system message of several blocks keeps them and gets one more.
    """
    copies = [message.model_copy(deep=True) for message in messages]
    if not passages:
        return copies
    for message in copies:
        if message.role in _SYSTEM_ROLES:
            if all(isinstance(block, TextBlock) for block in message.blocks) and len(message.blocks) <= 1:
                message.blocks = [TextBlock(text=fold_context(message.content or "", passages))]
            else:
                message.blocks = [*message.blocks, TextBlock(text=fold_context("", passages))]
            return copies
    return [ChatMessage(role=MessageRole.SYSTEM, content=fold_context("", passages)), *copies]


class InjectContext:
    """Retrieves for the last user message of a turn, and folds the passages into the system message.

    Takes the arguments of the core's `ContextInjector`; `retrieval_filter` may return `MetadataFilters` too.
    """

    def __init__(
        self,
        retriever: Any,
        *,
        top_k: int = 5,
        retrieval_filter: RetrievalFilter | None = None,
        min_score: float | None = None,
        step: Step | None = None,
    ) -> None:
        """Stand on any core retriever; see `ContextInjector`."""
        self._injector = ContextInjector(
            retriever,
            top_k=top_k,
            retrieval_filter=core_filter_hook(retrieval_filter),
            min_score=min_score,
            step=step,
        )

    def retrieve(self, messages: Sequence[ChatMessage], *, actor: Any = None) -> Injection:
        """Return the retrieval of a turn: its passages and the synthetic tool call."""
        return self._injector.inject(last_user_text(messages), actor=actor)

    async def aretrieve(self, messages: Sequence[ChatMessage], *, actor: Any = None) -> Injection:
        """Async twin of `retrieve`."""
        return await self._injector.ainject(last_user_text(messages), actor=actor)

    def inject(self, messages: Sequence[ChatMessage], *, actor: Any = None) -> list[ChatMessage]:
        """Return the messages with the retrieved passages in the system message; the given ones are unchanged.

        Raises:
            InvalidFilterError: `retrieval_filter` returned no filter; nothing was retrieved.
        """
        return fold_into_messages(messages, self.retrieve(messages, actor=actor).passages)

    async def ainject(self, messages: Sequence[ChatMessage], *, actor: Any = None) -> list[ChatMessage]:
        """Async twin of `inject`."""
        return fold_into_messages(messages, (await self.aretrieve(messages, actor=actor)).passages)

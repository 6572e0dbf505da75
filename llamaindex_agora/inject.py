"""Inject mode for chat messages: one retrieval a turn, folded into the system message."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any, Final

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock
from llama_index.core.vector_stores.types import MetadataFilters

from agora_core.calling import is_async_function
from agora_core.inject import Asker, ContextInjector, Injection, Measure, QueryFrom, RetrievalFilter, fold_block
from agora_core.metadata import UNSET
from agora_core.protocols import AsyncRetriever, Step, SyncRetriever
from agora_core.records import Passage
from llamaindex_agora.filters import to_core_filter

SYSTEM_ROLES: Final = (MessageRole.SYSTEM, MessageRole.DEVELOPER)


def core_filter_hook(hook: RetrievalFilter | None) -> RetrievalFilter | None:
    """Return a hook that gives a filter of the core: `MetadataFilters` are translated, all else is left as it is.

    A mapping stays data: no operator is read in it.
    """
    if not callable(hook):
        # None, or a mistake that the injector refuses.
        return hook
    given = hook
    if is_async_function(given):

        async def translated_later(actor: Any) -> Any:
            return _translated(await given(actor))

        return translated_later

    def translated(actor: Any) -> Any:
        bound = given(actor)
        return _awaited(bound) if inspect.isawaitable(bound) else _translated(bound)

    async def _awaited(bound: Any) -> Any:
        return _translated(await bound)

    return translated


def _translated(bound: Any) -> Any:
    return to_core_filter(bound) if isinstance(bound, MetadataFilters) else bound


def last_user_text(messages: Sequence[ChatMessage]) -> str:
    """Return the text of the last message of the user, "" where there is none."""
    for message in reversed(messages):
        if message.role == MessageRole.USER:
            return message.content or ""
    return ""


def fold_into_messages(messages: Sequence[ChatMessage], block: str) -> list[ChatMessage]:
    """Return copies of the messages with a block folded into the first system message, added where there is none.

    The given messages are left as they are; a system message of several blocks keeps them and gets one more.
    """
    copies = [message.model_copy(deep=True) for message in messages]
    if not block:
        return copies
    for message in copies:
        if message.role in SYSTEM_ROLES:
            if all(isinstance(part, TextBlock) for part in message.blocks) and len(message.blocks) <= 1:
                message.blocks = [TextBlock(text=fold_block(message.content or "", block))]
            else:
                message.blocks = [*message.blocks, TextBlock(text=block)]
            return copies
    return [ChatMessage(role=MessageRole.SYSTEM, content=block), *copies]


class InjectContext:
    """Retrieves for the last user message of a turn, and folds the passages into the system message.

    Takes the arguments of the core's `ContextInjector`; `retrieval_filter` may return `MetadataFilters` too.

    Examples:
        >>> inject = InjectContext(retriever, top_k=1)
        >>> messages = inject.inject([ChatMessage("days of leave")])
        >>> messages[0].role.value, "[1] (leave.md)" in messages[0].content
        ('system', True)
    """

    def __init__(
        self,
        retriever: SyncRetriever | AsyncRetriever,
        *,
        top_k: int = 5,
        retrieval_filter: RetrievalFilter | None = None,
        min_score: float | None = None,
        step: Step | None = None,
        query_from: QueryFrom | None = None,
        max_chars: int | None = None,
        measure: Measure = len,
    ) -> None:
        """Take any core retriever; see `ContextInjector`. `query_from` is given the chat messages."""
        self._injector = ContextInjector(
            retriever,
            top_k=top_k,
            retrieval_filter=core_filter_hook(retrieval_filter),
            min_score=min_score,
            step=step,
            query_from=query_from,
            max_chars=max_chars,
            measure=measure,
        )

    def asker(self, actor: Any = UNSET) -> Asker:
        """Return who asks, which tells one actor from another and serves as `actor`."""
        return self._injector.asker(actor)

    def retrieve(self, messages: Sequence[ChatMessage], *, actor: Any = UNSET) -> Injection:
        """Return the retrieval of a turn: its passages and the synthetic tool call."""
        return self._injector.inject(last_user_text(messages), actor=actor, messages=messages)

    async def aretrieve(self, messages: Sequence[ChatMessage], *, actor: Any = UNSET) -> Injection:
        """Async twin of `retrieve`."""
        return await self._injector.ainject(last_user_text(messages), actor=actor, messages=messages)

    def inject(self, messages: Sequence[ChatMessage], *, actor: Any = UNSET) -> list[ChatMessage]:
        """Return the messages with the retrieved passages in the system message; the given ones are unchanged.

        Raises:
            InvalidFilterError: there is a `retrieval_filter` and no actor, or it returned no filter; nothing was
                retrieved.
        """
        return self.fold(messages, self.retrieve(messages, actor=actor).passages)

    async def ainject(self, messages: Sequence[ChatMessage], *, actor: Any = UNSET) -> list[ChatMessage]:
        """Async twin of `inject`."""
        return self.fold(messages, (await self.aretrieve(messages, actor=actor)).passages)

    def fold(self, messages: Sequence[ChatMessage], passages: Sequence[Passage]) -> list[ChatMessage]:
        """Return copies of the messages with the block of these passages in the system message."""
        return fold_into_messages(messages, self._injector.render(passages))

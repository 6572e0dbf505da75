"""Messages and inject mode: the question in them, the block folded into their system message, the recorded call."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agora_core.inject import TOOL_NAME, Injection, fold_block, passage_to_dict
from agora_core.records import JSON, Passage

MessageT = TypeVar("MessageT", bound=BaseMessage)

CALL_PREFIX: Final = "agora_retrieve_"


def question_in(messages: Sequence[BaseMessage]) -> HumanMessage | None:
    """Return the latest message of the human, None where there is none."""
    return next((message for message in reversed(messages) if isinstance(message, HumanMessage)), None)


def text_of(message: BaseMessage | None) -> str:
    """Return the text of a message without its images and other blocks; "" of none."""
    return "" if message is None else str(message.text)


def fold_into_system(system: SystemMessage | None, block: str) -> SystemMessage | None:
    """Return the system message with a block after what it says; without a block it is unchanged.

    Content that is a list of blocks keeps them as they are, so that a provider's cache of them still serves, and gets
    one text block more.
    """
    if not block:
        return system
    if system is None:
        return SystemMessage(content=block)
    if isinstance(system.content, str):
        return system.model_copy(update={"content": fold_block(system.content, block)})
    # Providers join text blocks without anything between: the blank line has to be in the block.
    return system.model_copy(update={"content": [*system.content, {"type": "text", "text": f"\n\n{block}"}]})


def fold_into_messages(messages: Sequence[BaseMessage], block: str) -> list[BaseMessage]:
    """Return the messages with a block folded into their first system message; one is put first where none is."""
    folded = list(messages)
    place = next((n for n, message in enumerate(folded) if isinstance(message, SystemMessage)), None)
    existing = None if place is None else folded[place]
    system = fold_into_system(existing if isinstance(existing, SystemMessage) else None, block)
    if system is None:
        return folded
    if place is None:
        return [system, *folded]
    folded[place] = system
    return folded


def recorded_call(question: BaseMessage | None, injection: Injection) -> dict[str, JSON] | None:
    """Return the retrieval for a question as an executed tool call, None where it found nothing.

    Its id is made of the question's id and text: the same turn, run again, records the same call.
    """
    if injection.tool_call is None:
        return None
    digest = hashlib.sha256(f"{getattr(question, 'id', None)}\0{text_of(question)}".encode("utf-8", "surrogatepass"))
    return {**injection.tool_call, "id": f"{CALL_PREFIX}{digest.hexdigest()[:24]}"}


def call_messages(call: dict[str, Any], passages: Sequence[Passage]) -> list[AnyMessage]:
    """Return a recorded call as the pair of messages that a transcript holds: the request and its answered result."""
    request = {"name": call["name"], "args": call["args"], "id": call["id"], "type": "tool_call"}
    count = f"{len(passages)} passage{'' if len(passages) == 1 else 's'}"
    return [
        AIMessage(
            content="",
            id=call["id"],
            tool_calls=[request],
            additional_kwargs={"agora_status": call["status"]},
        ),
        ToolMessage(
            content=f"{count}: {', '.join(passage.id for passage in passages)}",
            id=f"{call['id']}_result",
            tool_call_id=call["id"],
            name=TOOL_NAME,
            artifact=[passage_to_dict(passage) for passage in passages],
        ),
    ]


def without_recorded_calls(messages: Sequence[MessageT]) -> list[MessageT]:
    """Return the messages without the pairs that record a retrieval: no model asked for them, so none is shown them."""
    return [message for message in messages if not _is_recorded(message)]


def _is_recorded(message: BaseMessage) -> bool:
    if isinstance(message, ToolMessage):
        return message.tool_call_id.startswith(CALL_PREFIX)
    return isinstance(message, AIMessage) and bool(message.id) and str(message.id).startswith(CALL_PREFIX)

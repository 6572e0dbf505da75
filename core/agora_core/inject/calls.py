"""Passages as plain JSON, and a retrieval as the synthetic tool call that records it."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agora_core.errors import InvalidArgumentError
from agora_core.metadata import copy_json
from agora_core.records import JSON, Passage

TOOL_NAME: Final = "retrieve"
"""The name of the synthetic tool call."""

CONDENSE_PROMPT: Final = (
    "The user's message is a conversation. Write its last question so that it is understood without the rest: put in "
    "what it refers to, add nothing else, and keep its language. Answer with the question alone; do not answer it."
)
"""The instruction of `condense_question`, in both frameworks."""

QUERY_KEY: Final = "query"
"""The key of a step's objects under which the query stands that was made from the conversation."""


def retrieval_call(query: str, passages: Sequence[Passage], *, id: str | None = None) -> dict[str, JSON] | None:
    """Return a retrieval as a tool call that was already executed; None where it found nothing.

    `id` left out is a new one.
    """
    if not passages:
        return None
    return {
        "id": f"retrieve-{uuid.uuid4().hex}" if id is None else id,
        "name": TOOL_NAME,
        "args": {"query": query},
        "status": "auto_executed",
        "result": [passage_to_dict(passage) for passage in passages],
    }


def passage_to_dict(passage: Passage) -> dict[str, JSON]:
    """Return a passage as a plain JSON object that shares nothing with it; source and metadata only where it has them.

    Raises:
        InvalidMetadataError: its metadata is not JSON.

    Examples:
        >>> sorted(passage_to_dict(passages[0]))
        ['id', 'metadata', 'score', 'source', 'text']
    """
    plain: dict[str, JSON] = {"id": passage.id, "text": passage.text, "score": float(passage.score)}
    if passage.source is not None:
        plain["source"] = passage.source
    if passage.metadata is not None:
        plain["metadata"] = copy_json(passage.metadata, where=f"passage {passage.id!r}", what="metadata")
    return plain


def passage_from_dict(plain: Mapping[str, JSON]) -> Passage:
    """Return the passage that `passage_to_dict` made an object of; other keys are ignored.

    Raises:
        InvalidArgumentError: a field is missing or of another type.

    Examples:
        >>> passage_from_dict(passage_to_dict(passages[0])) == passages[0]
        True
    """
    if not isinstance(plain, Mapping):
        raise InvalidArgumentError(f"a passage must be an object with id, text and score, got {type(plain).__name__}")
    for name, kinds, optional in _FIELDS:
        value = plain.get(name)
        if (value is None and optional) or (isinstance(value, kinds) and not isinstance(value, bool)):
            continue
        raise InvalidArgumentError(
            f"a passage's {name!r} must be {'null or ' if optional else ''}"
            f"{' or '.join(kind.__name__ for kind in kinds)}, got {type(value).__name__}"
        )
    metadata = plain.get("metadata")
    return Passage(
        plain["id"],
        plain["text"],
        float(plain["score"]),
        plain.get("source"),
        None if metadata is None else copy_json(metadata, where=f"passage {plain['id']!r}", what="metadata"),
    )


_FIELDS: Final[tuple[tuple[str, tuple[type, ...], bool], ...]] = (
    ("id", (str,), False),
    ("text", (str,), False),
    ("score", (int, float), False),
    ("source", (str,), True),
    ("metadata", (dict, Mapping), True),
)


def passages_from_step(found: Any) -> list[Passage]:
    """Return the passages that a step returned as JSON objects.

    Raises:
        InvalidArgumentError: it returned something else, for instance nothing at all.
    """
    if isinstance(found, (str, bytes, Mapping)) or not isinstance(found, Sequence):
        raise InvalidArgumentError(
            f"step must return what fn() returned, a list of passages as JSON objects, got {type(found).__name__}"
        )
    return [passage_from_dict(plain) for plain in found]


def stable_id(query: str, found: Any) -> str:
    """Return an id made of a query and what it found: the same turn, run again, records the same call."""
    content = json.dumps([query, found], sort_keys=True, default=str)
    return f"retrieve-{hashlib.sha256(content.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"

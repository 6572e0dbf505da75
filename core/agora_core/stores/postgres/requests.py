"""What an operation asks of a connection. Operations are generators of these, each written once for both colours."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement and its bound parameters; answered by an `Answer`. A value is never part of `text`."""

    text: str
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Copy:
    """A COPY FROM STDIN and the pieces of its stream; answered by an `Answer` without rows."""

    text: str
    pieces: Iterable[bytes]


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a statement, and how many rows it returned or wrote."""

    rows: Sequence[Sequence[Any]]
    count: int


Request = Statement | Copy
Steps = Generator[Request, Answer, T]
"""An operation: yields requests, is sent answers, returns its result."""

"""What reading a file gives, and the errors that say why it gave nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, Literal

from agora_core.errors import AgoraError, InvalidArgumentError
from agora_core.records import Metadata

SkipReason = Literal[
    "unsupported-type", "too-large", "empty-text", "encrypted", "unreadable", "timeout", "not-a-file", "outside"
]
TOO_LARGE: Final = "too-large"


@dataclass(frozen=True, slots=True)
class FilePart:
    """A text that a file holds: the whole of it, or a page, a sheet, a slide, a chapter, as `metadata` says.

    Examples:
        >>> FilePart("Text of the second page.", {"page": 2}).metadata
        {'page': 2}
    """

    text: str
    metadata: Metadata | None = None


Reader = Callable[[bytes, str], "str | Iterable[FilePart]"]
"""Turns the bytes of a file and its content type into its text, or into its parts."""


def check_max_bytes(max_bytes: Any) -> int:
    """Return `max_bytes`, checked.

    Raises:
        InvalidArgumentError: it is not an int of 0 or more.
    """
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 0:
        raise InvalidArgumentError(f"max_bytes must be an int of 0 or more, got {max_bytes!r}")
    return max_bytes


class UnreadableFileError(AgoraError, ValueError):
    """A file could not be read; `reason` is the word that `on_skip` and the results of media ingestion give.

    Examples:
        >>> issubclass(UnreadableFileError, ValueError)
        True
    """

    def __init__(self, reason: SkipReason, detail: str = "") -> None:
        self.reason: SkipReason = reason
        self.detail = detail
        super().__init__(f"{reason}: {detail}" if detail else reason)


class UnsupportedContentTypeError(UnreadableFileError):
    """No reader knows this content type, or the package that its reader needs is not installed.

    Examples:
        >>> issubclass(UnsupportedContentTypeError, UnreadableFileError)
        True
    """

    def __init__(self, content_type: str, detail: str = "") -> None:
        self.content_type = content_type
        super().__init__("unsupported-type", detail or repr(content_type))

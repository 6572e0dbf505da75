"""Which reader reads which content type. One's own go beside them or in their place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from agora_core.errors import InvalidArgumentError
from agora_core.files.content_types import DOCX, ENCRYPTED_OFFICE, EPUB, PDF, PPTX, XLSX, normalized_content_type
from agora_core.files.isolation import read_apart
from agora_core.files.parts import FilePart, Reader, UnreadableFileError, UnsupportedContentTypeError
from agora_core.files.text_readers import read_json, read_mail, read_table, read_text

GivenReaders = Mapping[str, Reader] | Iterable[tuple[str, Reader]]
"""Readers by content type: an exact one (`application/x-foo`) or a family (`audio/*`)."""

_ENCRYPTED_NAMES: Final = "a password protects this document"


class Readers:
    """Readers by content type. An exact type goes before a family, the last reader of a type before earlier ones, and
    the first family that fits before later ones; one's own before those that come with the library."""

    def __init__(self, given: GivenReaders | None = None, *, max_bytes: int) -> None:
        """Take one's own readers.

        Raises:
            InvalidArgumentError: a content type is not a str, or a reader cannot be called.
        """
        self._max_bytes = max_bytes
        self._exact: dict[str, Reader] = {}
        self._families: list[tuple[str, Reader]] = []
        pairs = given.items() if isinstance(given, Mapping) else given or ()
        for content_type, reader in pairs:
            if not isinstance(content_type, str) or "/" not in content_type or not callable(reader):
                raise InvalidArgumentError(
                    "readers must map content types such as 'application/x-foo' or 'audio/*' to functions of the bytes "
                    f"and the type, got {content_type!r}: {reader!r}"
                )
            if content_type.endswith("/*"):
                self._families.append((content_type[:-1], reader))
            else:
                self._exact[content_type.lower()] = reader

    def read(self, data: bytes, content_type: str) -> list[FilePart]:
        """Return the parts of a file that have a text.

        Raises:
            UnsupportedContentTypeError: no reader knows the type.
            UnreadableFileError: its reader could not read it.
        """
        kind = normalized_content_type(content_type)
        reader = self._found(kind)
        if reader is not None:
            parts = _as_parts(reader(data, kind))
        elif kind == ENCRYPTED_OFFICE:
            raise UnreadableFileError("encrypted", _ENCRYPTED_NAMES)
        elif kind in _APART:
            parts = read_apart(data, kind, max_bytes=self._max_bytes)
        else:
            own = _TEXT_READERS.get(kind, read_text if kind.startswith("text/") else None)
            if own is None:
                raise UnsupportedContentTypeError(content_type)
            parts = _as_parts(own(data, kind))
        return list(_checked(parts, kind))

    def has_own(self, kind: str) -> bool:
        """Say whether a reader that was given reads this type."""
        return self._found(kind) is not None

    def _found(self, kind: str) -> Reader | None:
        if kind in self._exact:
            return self._exact[kind]
        return next((reader for family, reader in self._families if kind.startswith(family)), None)


_TEXT_READERS: Final[dict[str, Reader]] = {
    "text/csv": read_table,
    "text/tab-separated-values": read_table,
    "application/json": read_json,
    "application/jsonl": read_text,
    "message/rfc822": read_mail,
}
_APART: Final = frozenset((PDF, DOCX, XLSX, PPTX, EPUB, "text/html"))


def _as_parts(answer: str | Iterable[FilePart]) -> Iterable[FilePart]:
    return [FilePart(answer)] if isinstance(answer, str) else answer


def _checked(parts: Iterable[Any], kind: str) -> Iterator[FilePart]:
    for part in parts:
        if not isinstance(part, FilePart) or not isinstance(part.text, str):
            raise InvalidArgumentError(
                f"the reader of {kind!r} must answer with a str or with FilePart objects, got {type(part).__name__}"
            )
        if part.text.strip("\ufeff \t\r\n\x00"):
            yield part

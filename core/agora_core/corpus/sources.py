"""The documents of a source, some at a time, so that one larger than memory goes through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from typing import Any, Final

from agora_core.errors import InvalidArgumentError
from agora_core.records import IngestDocument
from agora_core.steps import Call, Steps

_DOCUMENTS: Final = 1_000
_CHARACTERS: Final = 800_000


class Source:
    """An iterable, sync or async, read in windows of at most 1,000 documents that end with 800,000 characters.

    What it raises is raised after the documents that it gave before.
    """

    def __init__(self, documents: Any) -> None:
        """Begin to read.

        Raises:
            InvalidArgumentError: it cannot be iterated as documents.
        """
        self._error: Exception | None = None
        self._sync: Iterator[Any] | None = None
        self._async: AsyncIterator[Any] | None = None
        if isinstance(documents, AsyncIterable):
            self._async = aiter(documents)
        elif isinstance(documents, (str, bytes, IngestDocument)) or not isinstance(documents, Iterable):
            raise InvalidArgumentError(
                f"documents must be an iterable of IngestDocument, got {type(documents).__name__}"
            )
        else:
            self._sync = iter(documents)

    def next(self) -> Steps[list[Any]]:
        """Return the next documents; none are left when it is empty. A sync source is read in a worker thread."""
        documents: list[Any] = [] if self._error is not None else (yield Call(self._take, self._atake))
        if self._error is not None and not documents:
            raise self._error
        return documents

    def _take(self) -> list[Any]:
        window = _Window()
        try:
            for document in self._sync or ():
                if window.is_full_with(document):
                    break
        except Exception as error:
            self._error = error
        return window.documents

    async def _atake(self) -> list[Any]:
        if self._async is None:
            return await asyncio.to_thread(self._take)
        window = _Window()
        try:
            async for document in self._async:
                if window.is_full_with(document):
                    break
        except Exception as error:
            self._error = error
        return window.documents


class _Window:
    def __init__(self) -> None:
        self.documents: list[Any] = []
        self._characters = 0

    def is_full_with(self, document: Any) -> bool:
        self.documents.append(document)
        text = getattr(document, "text", None)
        self._characters += len(text) if isinstance(text, str) else 0
        return len(self.documents) >= _DOCUMENTS or self._characters >= _CHARACTERS

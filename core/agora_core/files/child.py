"""The process that reads files which nobody trusts: files come in by stdin, their parts go out by stdout as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any, Final

from agora_core.files import document_readers
from agora_core.files.content_types import DOCX, EPUB, PDF, PPTX, XLSX
from agora_core.files.html_text import html_to_text
from agora_core.files.isolation import missing_package
from agora_core.files.parts import FilePart, UnreadableFileError
from agora_core.files.text_readers import decoded

_MEMORY: Final = 2 << 30


def _read_html(data: bytes) -> Iterator[FilePart]:
    yield FilePart(html_to_text(decoded(data)))


_READERS: Final[dict[str, Callable[[bytes], Iterator[FilePart]]]] = {
    PDF: document_readers.read_pdf,
    DOCX: document_readers.read_docx,
    XLSX: document_readers.read_xlsx,
    PPTX: document_readers.read_pptx,
    EPUB: document_readers.read_epub,
    "text/html": _read_html,
}


def main() -> None:
    """Answer one file after another until stdin ends."""
    _bound_memory()
    answers = os.fdopen(os.dup(1), "wb")
    # What a parser prints is no answer.
    os.dup2(2, 1)
    while head := sys.stdin.buffer.readline():
        request = json.loads(head)
        data = sys.stdin.buffer.read(request["size"])
        _answer(answers, data, request["type"], request["max_bytes"])


def _answer(answers: IO[bytes], data: bytes, content_type: str, max_bytes: int) -> None:
    try:
        if data.startswith(b"PK"):
            document_readers.check_archive(data, max_bytes)
        for part in _READERS[content_type](data):
            _say(answers, {"text": part.text, "metadata": part.metadata})
        _say(answers, {"end": True})
    except UnreadableFileError as error:
        _say(answers, {"reason": error.reason, "detail": error.detail})
    except ImportError as error:
        _say(answers, {"missing": missing_package(error)})
    except Exception as error:
        # A parser may raise anything over a damaged file.
        _say(answers, {"reason": "unreadable", "detail": f"{type(error).__name__}: {str(error)[:200]}"})


def _say(answers: IO[bytes], answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer).encode() + b"\n")
    answers.flush()


def _bound_memory() -> None:
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))


if __name__ == "__main__":
    main()

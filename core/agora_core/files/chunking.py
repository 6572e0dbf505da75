"""The chunker for files of many kinds: each is cut as its name says."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from agora_core.chunking import (
    BaseChunker,
    Chunk,
    CodeChunker,
    MarkdownChunker,
    ProseChunker,
    RecordChunker,
)
from agora_core.files.content_types import CODE_SUFFIXES
from agora_core.records import IngestDocument

_MARKDOWN = frozenset((".md", ".markdown", ".mdx", ".html", ".htm", ".xhtml", ".docx", ".epub"))


class FileChunker:
    """Cuts what `read_files` gave: Markdown, HTML, Word and EPUB by headings, tables by rows, JSON by lines, code by
    functions, everything else as prose.

    Examples:
        >>> ingest_documents(read_files(folder), embedder=embedder, store=MemoryVectorStore(), chunker=FileChunker())
        1
    """

    def __init__(self, **options: Any) -> None:
        """Take the options of `BaseChunker`; `overlap_at` is `word` unless it is given.

        Raises:
            InvalidArgumentError: an option is out of its range.
        """
        given = {"overlap_at": "word", **options}
        self._prose: BaseChunker = ProseChunker(**given)
        self._markdown = MarkdownChunker(**given)
        # A record is whole by itself; the end of the one before adds nothing to it.
        self._rows = RecordChunker(**{**given, "overlap": 0}, separator="\n\n")
        self._lines = RecordChunker(**{**given, "overlap": 0})
        self._code = CodeChunker(**{**given, "overlap": 0})

    def __call__(self, document: IngestDocument) -> list[Chunk]:
        """Return the chunks of a document, by the suffix of its source, or of its id."""
        return self._chunker(PurePosixPath(document.source or document.id).suffix.lower())(document)

    def _chunker(self, suffix: str) -> BaseChunker:
        if suffix in _MARKDOWN:
            return self._markdown
        if suffix in (".csv", ".tsv", ".xlsx"):
            return self._rows
        if suffix in (".json", ".jsonl", ".ndjson"):
            return self._lines
        return self._code if suffix in CODE_SUFFIXES else self._prose

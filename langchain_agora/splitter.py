"""`AgoraTextSplitter`: the core's chunker wherever LangChain takes a text splitter or a document transformer."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.documents import BaseDocumentTransformer, Document

from agora_core.chunking import DEFAULT_CHUNK_SIZE, Chunker, check_separator, check_sizes, document_cutter
from agora_core.errors import InvalidArgumentError
from agora_core.records import ChunkRecord, IngestDocument


class AgoraTextSplitter(BaseDocumentTransformer):
    """Cuts texts and documents as `agora_core.chunk_text` does, or by a chunker of the core.

    Chunk n of a document with the id `d` has the id `d#n`, so that `remove("d")` and `update_metadata("d", ...)` reach
    all of them. Where `langchain-text-splitters` is installed it also counts as one of its `TextSplitter`s.

    Examples:
        >>> AgoraTextSplitter(chunk_size=12, chunk_overlap=0).split_text("Everyone has 30 days.")
        ['Everyone', 'has 30 days.']
    """

    def __init__(
        self,
        chunk_size: int = DEFAULT_CHUNK_SIZE,
        overlap: int | None = None,
        separator: str | None = None,
        *,
        chunk_overlap: int | None = None,
        chunker: Chunker | None = None,
    ) -> None:
        """Take the arguments of `chunk_documents`; `chunk_overlap` is LangChain's name of `overlap`.

        What a chunker knows of a chunk (headings, its place) is added to the metadata of its document.

        Raises:
            InvalidArgumentError: an argument is out of its range, the overlap is given under both names, or a chunker
                together with sizes.
        """
        if overlap is not None and chunk_overlap is not None:
            raise InvalidArgumentError("overlap and chunk_overlap are the same; give one of them")
        self.chunk_size, self.overlap = check_sizes(chunk_size, chunk_overlap if overlap is None else overlap)
        self.separator = check_separator(separator) or None
        self.chunker = chunker
        self._cut = document_cutter(
            chunk_size=chunk_size,
            overlap=chunk_overlap if overlap is None else overlap,
            separator=separator,
            chunker=chunker,
        )
        _count_as_text_splitter()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(chunk_size={self.chunk_size}, overlap={self.overlap})"

    def split_text(self, text: str) -> list[str]:
        """Return the chunks of one text, without U+0000."""
        if not isinstance(text, str):
            raise InvalidArgumentError(f"text must be a str, got {type(text).__name__}")
        return [chunk.text for chunk in self._chunks(Document(page_content=text))]

    def create_documents(
        self, texts: Sequence[str], metadatas: Sequence[dict[str, Any]] | None = None
    ) -> list[Document]:
        """Return the chunks of several texts, each with a copy of its text's metadata.

        Raises:
            InvalidArgumentError: there are more or fewer metadatas than texts.
        """
        rows = [{}] * len(texts) if metadatas is None else metadatas
        if len(rows) != len(texts):
            raise InvalidArgumentError(
                f"metadatas must hold one mapping for each of {len(texts)} texts, got {len(rows)}"
            )
        pairs = zip(texts, rows, strict=True)
        return self.split_documents([Document(page_content=text, metadata=row) for text, row in pairs])

    def split_documents(self, documents: Iterable[Document]) -> list[Document]:
        """Return the chunks of documents in their order, each with a copy of its document's metadata."""
        return [
            Document(
                page_content=chunk.text,
                id=None if document.id is None else chunk.id,
                metadata={**(chunk.metadata or {}), **copy.deepcopy(document.metadata)},
            )
            for document in documents
            for chunk in self._chunks(document)
        ]

    def _chunks(self, document: Document) -> list[ChunkRecord]:
        # The file's name tells some chunkers what kind of text it is; the metadata stays what LangChain allows.
        source = document.metadata.get("source")
        named = source if isinstance(source, str) else None
        return self._cut(IngestDocument(document.id or "", document.page_content, named))

    def transform_documents(self, documents: Sequence[Document], **kwargs: Any) -> Sequence[Document]:
        """Return the chunks of documents; see `split_documents`."""
        if kwargs:
            raise TypeError(f"transform_documents takes no keyword {min(kwargs)!r}")
        return self.split_documents(documents)


def _count_as_text_splitter() -> None:
    """Let `isinstance(splitter, TextSplitter)` hold, as some of LangChain's models ask."""
    try:
        from langchain_text_splitters import TextSplitter
    except ImportError:
        return
    TextSplitter.register(AgoraTextSplitter)

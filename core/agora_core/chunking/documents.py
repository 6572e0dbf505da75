"""Cut documents into chunk records: the ids, the source and the metadata that each chunk gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agora_core.chunking.chunkers import Chunker, check_chunker, chunks_by
from agora_core.chunking.prose import (
    DEFAULT_CHUNK_SIZE,
    check_separator,
    check_sizes,
    chunk_text,
    without_nul,
)
from agora_core.errors import InvalidArgumentError
from agora_core.metadata import copy_metadata, plain_text
from agora_core.records import ChunkRecord, IngestDocument

Cutter = Callable[[IngestDocument], list[ChunkRecord]]
"""Cuts one document that was checked."""


def chunk_documents(
    documents: Iterable[IngestDocument],
    *,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    overlap: int | None = None,
    separator: str | None = None,
    chunker: Chunker | None = None,
) -> list[ChunkRecord]:
    """Cut each document as `chunk_text` does, or by a chunker; chunk n of document `d` has the id `d#n`, n from 0.

    Source, metadata and context are those of the document. What the chunker knows of a chunk is added to its metadata,
    its place as `start` and `end`; the document's own keys win. U+0000, which extracted PDFs hold and databases
    refuse, is removed from text, source and context first. A document without text gives no chunk.

    Raises:
        InvalidArgumentError: an argument is out of its range, something given is no document, or `chunker` is given
            together with options of its own.

    Examples:
        >>> [chunk.id for chunk in chunk_documents(documents)]
        ['leave#0', 'board#0']
    """
    cut = document_cutter(chunk_size=chunk_size, overlap=overlap, separator=separator, chunker=chunker)
    chunks: list[ChunkRecord] = []
    for position, document in enumerate(iterate_documents(documents)):
        chunks += cut(check_document(document, position))
    return chunks


def document_cutter(
    *,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    overlap: int | None = None,
    separator: str | None = None,
    chunker: Chunker | None = None,
) -> Cutter:
    """Return what cuts one checked document; the options are those of `chunk_documents`.

    Raises:
        InvalidArgumentError: an argument is out of its range, or `chunker` is given together with the others.
    """
    size, lap = check_sizes(chunk_size, overlap)
    mark = check_separator(separator)
    if chunker is None:
        return lambda document: _records(document, [(piece, None) for piece in _prose(document, size, lap, mark)])
    if (chunk_size, overlap, separator) != (DEFAULT_CHUNK_SIZE, None, None):
        raise InvalidArgumentError(
            "chunk_size, overlap and separator are options of the default chunker; give them to chunker= itself, as in "
            "MarkdownChunker(chunk_size=400)"
        )
    own = check_chunker(chunker)

    def cut(document: IngestDocument) -> list[ChunkRecord]:
        text = plain_text(without_nul(document.text))
        key = plain_text(document.id)
        plain = IngestDocument(key, text, document.source, document.metadata, _context_of(document))
        pieces = []
        for number, chunk in enumerate(chunks_by(own, plain)):
            known = copy_metadata(chunk.metadata, where=f"chunk {number} of document {plain.id!r}") or {}
            place = {} if chunk.start is None else {"start": chunk.start, "end": chunk.end}
            pieces.append((without_nul(chunk.text), {**known, **place}))
        return _records(document, pieces)

    return cut


def _prose(document: IngestDocument, size: int, overlap: int, separator: str) -> list[str]:
    text = plain_text(without_nul(document.text))
    return chunk_text(text, chunk_size=size, overlap=overlap, separator=separator)


def _records(document: IngestDocument, pieces: Iterable[tuple[str, Mapping[str, Any] | None]]) -> list[ChunkRecord]:
    key, source = plain_text(document.id), document.source
    source = source if source is None else plain_text(without_nul(source))
    context = _context_of(document)
    return [
        ChunkRecord(
            f"{key}#{number}",
            piece,
            source,
            # A label of the document is a bound; what a chunker reads out of a text may not change it.
            {**known, **(document.metadata or {})} if known else document.metadata,
            context,
        )
        for number, (piece, known) in enumerate(pieces)
    ]


def _context_of(document: Any) -> str | None:
    # An object of the older shape has none.
    context = getattr(document, "context", None)
    return plain_text(without_nul(context)) if context else None


def iterate_documents(documents: Any) -> Iterable[Any]:
    """Return `documents` where it can be iterated as a list of documents.

    Raises:
        InvalidArgumentError: it is one document or one text, or cannot be iterated.
    """
    if isinstance(documents, (str, bytes, IngestDocument)) or not isinstance(documents, Iterable):
        raise InvalidArgumentError(f"documents must be a list of IngestDocument, got {type(documents).__name__}")
    return documents


def check_document(document: Any, position: int) -> IngestDocument:
    """Return `document` where it has the shape of one: str id and text, str or no source and context.

    Raises:
        InvalidArgumentError: it has not.
    """
    kinds = [type(getattr(document, name, None)) for name in ("id", "text")]
    if not all(issubclass(kind, str) for kind in kinds) or not hasattr(document, "metadata"):
        raise InvalidArgumentError(
            f"documents[{position}] must be an IngestDocument with a str id and a str text, "
            f"got {type(document).__name__}"
        )
    for name in ("source", "context"):
        value = getattr(document, name, None)
        if value is not None and not isinstance(value, str):
            raise InvalidArgumentError(
                f"documents[{position}]: {name} must be a str or None, got {type(value).__name__}"
            )
    checked: IngestDocument = document
    return checked

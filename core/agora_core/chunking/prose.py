"""Cut texts into chunks. Lengths are code points; a character is never cut in half."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from agora_core.errors import InvalidArgumentError
from agora_core.metadata import plain_text
from agora_core.records import ChunkRecord, IngestDocument

DEFAULT_CHUNK_SIZE: Final = 800
DEFAULT_OVERLAP: Final = 100

# Python's white space and U+FEFF: files with a byte order mark are common, and str.strip keeps it.
BLANKS: Final = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\ufeff"


def chunk_text(
    text: str,
    *,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    overlap: int | None = None,
    separator: str | None = None,
) -> list[str]:
    """Cut `text` into chunks of at most `chunk_size` characters, without blanks at their ends.

    A window is cut after its last space or at its last blank line, whichever comes later, where that lies in the
    second half; otherwise at its end. Nothing is lost but white space (Python's, and U+FEFF) at the ends of chunks.

    With a `separator` the text is a list of records: it is split there and only there, and whole records are packed
    into chunks, joined by the separator. A record longer than `chunk_size` is a chunk of its own, uncut.

    Args:
        chunk_size: characters, 1 or more.
        overlap: characters, 0 or more and below `chunk_size`, with which a chunk repeats the end of the one before; in
            records, as many whole ones as fit. Left out it is 100, or `chunk_size // 8` where 100 would not fit. Above
            half of `chunk_size` neighbouring chunks may be one character apart.
        separator: taken literally; None and "" cut prose.

    Raises:
        InvalidArgumentError: an argument is out of its range or of another type.
    """
    size, lap = check_sizes(chunk_size, overlap)
    if not isinstance(text, str):
        raise InvalidArgumentError(f"text must be a str, got {type(text).__name__}")
    return _cut(text, size, lap, check_separator(separator))


def chunk_documents(
    documents: Iterable[IngestDocument],
    *,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    overlap: int | None = None,
    separator: str | None = None,
) -> list[ChunkRecord]:
    """Cut each document as `chunk_text` does; chunk n of document `d` has the id `d#n`, n from 0.

    Source and metadata are those of the document. U+0000, which extracted PDFs hold and databases refuse, is removed
    from text and source first. A document without text gives no chunk.

    Raises:
        InvalidArgumentError: an argument is out of its range, or something given is no document.
    """
    size, lap = check_sizes(chunk_size, overlap)
    mark = check_separator(separator)
    chunks: list[ChunkRecord] = []
    for position, document in enumerate(iterate_documents(documents)):
        chunks += chunks_of(check_document(document, position), size, lap, mark)
    return chunks


def chunks_of(document: IngestDocument, size: int, overlap: int, separator: str) -> list[ChunkRecord]:
    """Cut one checked document by checked sizes."""
    key, text, source = plain_text(document.id), plain_text(without_nul(document.text)), document.source
    source = source if source is None else plain_text(without_nul(source))
    return [
        ChunkRecord(f"{key}#{number}", piece, source, document.metadata)
        for number, piece in enumerate(_cut(text, size, overlap, separator))
    ]


def without_nul(text: str) -> str:
    """Return `text` without U+0000."""
    return text.replace("\x00", "") if "\x00" in text else text


def check_sizes(chunk_size: Any, overlap: Any) -> tuple[int, int]:
    """Return the sizes to cut by, the overlap's default filled in.

    Raises:
        InvalidArgumentError: `chunk_size` is below 1, or a given `overlap` is negative or not below it.
    """
    if isinstance(chunk_size, bool) or not isinstance(chunk_size, int):
        raise InvalidArgumentError(f"chunk_size must be an int, got {type(chunk_size).__name__}")
    if chunk_size < 1:
        raise InvalidArgumentError(f"chunk_size must be 1 or more, got {chunk_size}")
    if overlap is None:
        return chunk_size, DEFAULT_OVERLAP if chunk_size > DEFAULT_OVERLAP else chunk_size // 8
    if isinstance(overlap, bool) or not isinstance(overlap, int):
        raise InvalidArgumentError(f"overlap must be an int or None, got {type(overlap).__name__}")
    if not 0 <= overlap < chunk_size:
        raise InvalidArgumentError(
            f"overlap must be 0 or more and below chunk_size ({chunk_size}), got {overlap}; "
            "leave it out for one that fits"
        )
    return chunk_size, overlap


def check_separator(separator: Any) -> str:
    """Return the separator, "" standing for none.

    Raises:
        InvalidArgumentError: it is neither a str nor None.
    """
    if separator is None:
        return ""
    if not isinstance(separator, str):
        raise InvalidArgumentError(f"separator must be a str or None, got {type(separator).__name__}")
    return separator


def iterate_documents(documents: Any) -> Iterable[Any]:
    """Return `documents` where it can be iterated as a list of documents.

    Raises:
        InvalidArgumentError: it is one document or one text, or cannot be iterated.
    """
    if isinstance(documents, (str, bytes, IngestDocument)) or not isinstance(documents, Iterable):
        raise InvalidArgumentError(f"documents must be a list of IngestDocument, got {type(documents).__name__}")
    return documents


def check_document(document: Any, position: int) -> IngestDocument:
    """Return `document` where it has the shape of one: str id and text, str or no source.

    Raises:
        InvalidArgumentError: it has not.
    """
    kinds = [type(getattr(document, name, None)) for name in ("id", "text")]
    source = getattr(document, "source", None)
    if not all(issubclass(kind, str) for kind in kinds) or not hasattr(document, "metadata"):
        raise InvalidArgumentError(
            f"documents[{position}] must be an IngestDocument with a str id and a str text, "
            f"got {type(document).__name__}"
        )
    if source is not None and not isinstance(source, str):
        raise InvalidArgumentError(f"documents[{position}]: source must be a str or None, got {type(source).__name__}")
    checked: IngestDocument = document
    return checked


def _cut(text: str, size: int, overlap: int, separator: str) -> list[str]:
    return _pack_records(text, size, overlap, separator) if separator else _cut_prose(text, size, overlap)


def _cut_prose(text: str, size: int, overlap: int) -> list[str]:
    text = text.strip(BLANKS)
    length = len(text)
    if length <= size:
        return [text] if text else []
    pieces: list[str] = []
    find = text.rfind
    first = size // 2 + 1  # the first place strictly beyond half of the window
    start = 0
    while (end := start + size) < length:
        # The original also looks for ". ", which never wins: the space in it stands one place later.
        place = find(" ", start + first, end)
        place = max(place, find("\n\n", max(place, start + first), end))
        cut = end if place < 0 else place + 1
        piece = text[start:cut].strip(BLANKS)
        if piece:
            pieces.append(piece)
        start = max(cut - overlap, start + 1)
    piece = text[start:].strip(BLANKS)
    if piece:
        pieces.append(piece)
    return pieces


def _pack_records(text: str, size: int, overlap: int, separator: str) -> list[str]:
    records = [record for part in text.split(separator) if (record := part.strip(BLANKS))]
    gap = len(separator)
    pieces: list[str] = []
    start, stop = 0, 0
    while stop < len(records):
        length = len(records[start])
        stop = start + 1
        while stop < len(records) and length + gap + len(records[stop]) <= size:
            length += gap + len(records[stop])
            stop += 1
        pieces.append(separator.join(records[start:stop]))
        # Carry whole records from the end of this chunk into the next, never its first: each chunk starts later.
        carried, room = stop, overlap
        while carried - 1 > start and (room := room - len(records[carried - 1]) - gap) >= 0:
            carried -= 1
        start = carried
    return pieces

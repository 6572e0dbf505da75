"""The vocabulary: small frozen records that every store, retriever and adapter speaks."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# JSON as Python holds it. A recursive alias would force every caller to annotate nested literals.
JSON = Any
Metadata = Mapping[str, JSON]
# A numpy array of shape (dimension,) serves as well; it satisfies neither Sequence nor list, hence Any.
Embedding = Sequence[float] | Any

# Point ids of indexes written by the original system use this namespace; ours stay readable by both.
_POINT_NAMESPACE = uuid.UUID("b9d5a5f2-1c3e-5e7a-9b2d-6f4c8a1e0d3b")
_CHUNK_SUFFIX = re.compile(r"#[0-9]+\Z")


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrieved chunk. `score` is always higher-is-better; its scale is that of the retriever.

    Examples:
        >>> passages[0].id, passages[0].source
        ('leave#0', 'leave.md')
    """

    id: str
    text: str
    score: float
    source: str | None = None
    metadata: dict[str, JSON] | None = None


@dataclass(frozen=True, slots=True)
class IngestDocument:
    """What a caller hands in: a whole text with its id, and what is known of it.

    `context`, a title for instance, is embedded and indexed before the text of each chunk and never shown.

    Examples:
        >>> IngestDocument("faq", "Returns are free.", "faq.md", {"acl": ["staff"]}).source
        'faq.md'
    """

    id: str
    text: str
    source: str | None = None
    metadata: Metadata | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class ChunkRecord:
    """A chunk that is not yet embedded; its id is `{document.id}#{n}`, n from 0. For `context` see `indexed_text`.

    Examples:
        >>> document_id_of(ChunkRecord("faq#0", "Returns are free.").id)
        'faq'
    """

    id: str
    text: str
    source: str | None = None
    metadata: Metadata | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class VectorRecord:
    """A chunk with its embedding, a sequence of `dimension` finite floats. For `context` see `indexed_text`.

    Examples:
        >>> store.upsert([VectorRecord("faq#0", "Returns are free.", embedder.embed(["Returns are free."])[0])])
        1
    """

    id: str
    text: str
    embedding: Embedding
    source: str | None = None
    metadata: Metadata | None = None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """A document as the index sees it; `metadata` is that of its chunk with the smallest number.

    Examples:
        >>> store.list_documents({"acl": ["board"]})[0].id
        'board'
    """

    id: str
    metadata: dict[str, JSON] | None = None


def indexed_text(text: str, context: str | None) -> str:
    """Return what is embedded and indexed of a chunk: its context, two newlines and its text, or the text alone."""
    return f"{context}\n\n{text}" if context else text


def document_id_of(chunk_id: str) -> str:
    """Return the id of the document a chunk belongs to: `chunk_id` without one trailing `#<ASCII digits>`.

    `document_id_of("faq#2")` is `"faq"`, `document_id_of("faq")` is `"faq"` and `document_id_of("a#1#2")` is `"a#1"`.

    Examples:
        >>> document_id_of("faq#12"), document_id_of("faq")
        ('faq', 'faq')
    """
    head, mark, number = chunk_id.rpartition("#")
    return head if mark and number.isascii() and number.isdigit() else chunk_id


def chunk_order_key(chunk_id: str) -> tuple[int, str, str]:
    """Return the key that orders the chunks of one document: one without a number first, then by number, then by id."""
    match = _CHUNK_SUFFIX.search(chunk_id)
    if match is None:
        return (-1, "", chunk_id)
    # Compared as (length, digits): a number may have more digits than int() takes.
    digits = chunk_id[match.start() + 1 :].lstrip("0")
    return (len(digits), digits, chunk_id)


def chunk_id_to_point_id(chunk_id: str) -> str:
    """Return the UUIDv5 under which Qdrant keeps the chunk `chunk_id`, as 36 characters.

    Examples:
        >>> chunk_id_to_point_id("faq#0") == chunk_id_to_point_id("faq#0")
        True
    """
    return str(uuid.uuid5(_POINT_NAMESPACE, chunk_id))

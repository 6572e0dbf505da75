"""LangChain documents and the records of the core, in both directions."""

from __future__ import annotations

import hashlib
import math
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.documents import Document

from agora_core.coercion import coerce_metadata, coerce_text
from agora_core.errors import InvalidArgumentError
from agora_core.filters.literals import canonical_json
from agora_core.metadata import check_text, copy_metadata
from agora_core.records import ChunkRecord, Embedding, Passage, VectorRecord


def to_chunks(
    documents: Iterable[Document], ids: Sequence[str | None] | None, *, source_key: str | None, coerce: bool = False
) -> list[ChunkRecord]:
    """Return documents as chunks that wait for their vectors; all that can be refused is refused here, before they are
    paid for.

    Args:
        documents: their own ids count where `ids` has none; a document without any gets a UUID.
        ids: one for each document, kept as they are.
        source_key: the metadata key whose text becomes the source as well; None for none.
        coerce: make JSON of what is nearly JSON, see `agora_core.coercion`.

    Raises:
        InvalidArgumentError: there are more or fewer ids than documents, or something given is no document.
        InvalidMetadataError: an id, a text or metadata is not storable; the message names document, key and type.
    """
    given = list(documents)
    if ids is not None and (isinstance(ids, str) or len(ids) != len(given)):
        count = "a str" if isinstance(ids, str) else len(ids)
        raise InvalidArgumentError(
            f"ids must be a list with one id for each document: got {count} for {len(given)} documents; "
            "give an id or None for every document, or leave ids out"
        )
    chunks = []
    for position, document in enumerate(given):
        if not isinstance(document, Document):
            raise InvalidArgumentError(f"documents[{position}] must be a Document, got {type(document).__name__}")
        chosen = document.id if ids is None or ids[position] is None else ids[position]
        chunks.append(
            _to_chunk(document, str(uuid.uuid4()) if chosen is None else chosen, position, source_key, coerce)
        )
    return chunks


def _to_chunk(document: Document, id: str, position: int, source_key: str | None, coerce: bool) -> ChunkRecord:
    check_text(id, where=f"documents[{position}]", what="id")
    if not id:
        raise InvalidArgumentError(f"documents[{position}]: id must not be empty; leave it out to be given one")
    where = f"document {id!r}"
    text = coerce_text(document.page_content) if coerce else document.page_content
    check_text(text, where=where, what="text")
    metadata = copy_metadata(coerce_metadata(document.metadata) if coerce else document.metadata, where=where)
    source = (metadata or {}).get(source_key) if source_key is not None else None
    return ChunkRecord(id, text, source if isinstance(source, str) else None, metadata)


def to_records(chunks: Sequence[ChunkRecord], vectors: Sequence[Embedding]) -> list[VectorRecord]:
    """Return chunks with their vectors."""
    return [
        VectorRecord(chunk.id, chunk.text, vector, chunk.source, chunk.metadata)
        for chunk, vector in zip(chunks, vectors, strict=True)
    ]


def to_document(
    passage: Passage | VectorRecord, *, source_key: str | None = None, score_key: str | None = None
) -> Document:
    """Return a passage or a record as a document: id, text and metadata, with nothing of ours in it unless asked.

    Args:
        passage: its metadata is handed over, not copied; stores give copies.
        source_key: the metadata key under which its source is put where metadata has none of that name.
        score_key: the metadata key under which its score is put.
    """
    metadata: dict[str, Any] = passage.metadata or {}  # type: ignore[assignment]
    if source_key is not None and passage.source is not None and source_key not in metadata:
        metadata = {**metadata, source_key: passage.source}
    if score_key is not None and isinstance(passage, Passage):
        metadata = {**metadata, score_key: passage.score}
    return Document(page_content=passage.text, id=passage.id, metadata=metadata)


def to_passages(
    documents: Sequence[Document], *, id_key: str | None, source_key: str | None, score_key: str | None
) -> list[Passage]:
    """Return the ranked documents of somebody else's retriever as passages, best first as they came.

    The id is the document's own, else the text under `id_key`, else a hash of text and metadata, so that the same
    document has the same id from every retriever. The score is the number under `score_key`, else 1 / rank.
    """
    passages = []
    for rank, document in enumerate(documents, 1):
        metadata = dict(document.metadata)
        source = metadata.get(source_key) if source_key is not None else None
        passages.append(
            Passage(
                id=_identity(document, id_key),
                text=document.page_content,
                score=score_of(document, score_key, rank),
                source=source if isinstance(source, str) else None,
                metadata=metadata,
            )
        )
    return passages


def score_of(document: Document, score_key: str | None, rank: int) -> float:
    """Return the finite number in a document's metadata under `score_key`, else 1 / `rank`."""
    score = document.metadata.get(score_key) if score_key is not None else None
    try:
        value = math.nan if score is None or isinstance(score, (bool, str)) else float(score)
    except (TypeError, ValueError):
        value = math.nan
    return value if math.isfinite(value) else 1.0 / rank


def _identity(document: Document, id_key: str | None) -> str:
    if document.id is not None:
        return document.id
    named = document.metadata.get(id_key) if id_key is not None else None
    if isinstance(named, str) and named:
        return named
    try:
        metadata = canonical_json(document.metadata)
    except ValueError:
        # Not JSON, so no store of ours can hold it; its repr still tells two documents apart.
        metadata = repr(sorted(document.metadata.items(), key=lambda item: str(item[0])))
    digest = hashlib.sha256(f"{document.page_content}\0{metadata}".encode("utf-8", "surrogatepass"))
    return f"content-{digest.hexdigest()[:32]}"

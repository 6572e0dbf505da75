"""Fill a store: documents are cut, embedded, and take the place of what was stored of them before.

Embedding comes first. A store is touched only when all vectors of a document are there, and the old chunks of a
document and its new ones change places in one step, so that a failure loses nothing and leaves no tail.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final, Protocol

from agora_core.chunking import (
    DEFAULT_CHUNK_SIZE,
    Chunker,
    check_document,
    document_cutter,
    iterate_documents,
    without_nul,
)
from agora_core.errors import InvalidArgumentError, InvalidMetadataError
from agora_core.extras import require
from agora_core.ingestion_plan import IngestionPlan, WholeDocument
from agora_core.metadata import check_optional_text, check_text, copy_metadata, plain_text
from agora_core.protocols import EmbeddingProvider, VectorStore
from agora_core.records import ChunkRecord, IngestDocument, document_id_of
from agora_core.steps import arun, run
from agora_core.validation import check_top_k

DEFAULT_BATCH_SIZE: Final = 256


def ingest_documents(
    documents: Iterable[IngestDocument],
    *,
    embedder: EmbeddingProvider,
    store: VectorStore,
    keyword: Any = None,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    overlap: int | None = None,
    separator: str | None = None,
    chunker: Chunker | None = None,
    batch_size: int = DEFAULT_BATCH_SIZE,
    show_progress: bool = False,
) -> int:
    """Cut, embed and store documents. Return how many chunks were written.

    Each document takes the place of all that was stored under its id; one whose text is blank only loses it. A list
    is checked whole before anything is embedded; an iterator is taken up bit by bit, in bounded memory, and checked
    just before each document is embedded. Of documents with the same id the last wins.

    When something fails, the documents written before stay, and the others are as they were; calling again is safe.

    Args:
        documents: what to store; its chunks are those of `chunk_documents`.
        embedder: any object with `embed`; called with at most `batch_size` texts at a time.
        store: any object with `upsert`. Without `replace_documents` new chunks are written before stale ones go.
        keyword: a `KeywordRetriever` to fill with the same chunks, right after the store, in the store's scope where
            that is a scoped view.
        chunk_size: see `chunk_text`, like `overlap` and `separator`.
        overlap: see `chunk_text`.
        separator: see `chunk_text`.
        chunker: cuts the documents instead, see `chunk_documents`; its options are its own.
        batch_size: texts per call of the embedder, 1 or more.
        show_progress: show a bar of documents (extra `progress`); nothing is printed without it.

    Raises:
        EmbeddingError: the embedder answered with more or fewer vectors than texts.
        InvalidMetadataError: a document is not storable; the message names it.
        InvalidArgumentError: an argument is out of its range.

    Examples:
        >>> ingest_documents(documents, embedder=embedder, store=MemoryVectorStore())
        2
    """
    cut = _Cutter(chunk_size=chunk_size, overlap=overlap, separator=separator, chunker=chunker)
    plan = IngestionPlan(embedder, store, keyword, batch_size=check_top_k(batch_size, argument="batch_size"))
    return _run(plan, cut.whole_documents(documents), documents, show_progress)


async def aingest_documents(
    documents: Iterable[IngestDocument] | AsyncIterable[IngestDocument],
    *,
    embedder: EmbeddingProvider,
    store: VectorStore,
    keyword: Any = None,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    overlap: int | None = None,
    separator: str | None = None,
    chunker: Chunker | None = None,
    batch_size: int = DEFAULT_BATCH_SIZE,
    show_progress: bool = False,
) -> int:
    """Async twin of `ingest_documents`; takes an async iterator too.

    Examples:
        >>> asyncio.run(aingest_documents(documents, embedder=embedder, store=MemoryVectorStore()))
        2
    """
    cut = _Cutter(chunk_size=chunk_size, overlap=overlap, separator=separator, chunker=chunker)
    plan = IngestionPlan(embedder, store, keyword, batch_size=check_top_k(batch_size, argument="batch_size"))
    if isinstance(documents, AsyncIterable):
        return await _arun(plan, cut.awhole_documents(documents), documents, show_progress)
    return await _arun(plan, _steadily(cut.whole_documents(documents)), documents, show_progress)


def ingest_chunks(
    chunks: Iterable[ChunkRecord],
    *,
    embedder: EmbeddingProvider,
    store: VectorStore,
    keyword: Any = None,
    batch_size: int = DEFAULT_BATCH_SIZE,
    show_progress: bool = False,
) -> int:
    """Embed and store chunks. Return how many were written.

    The chunks given of one document (see `document_id_of`) are that document: they take the place of all that was
    stored of it. In an iterator the chunks of one document should stand together; where they do not, the later ones
    are added to the earlier. Everything else is as in `ingest_documents`.

    Examples:
        >>> ingest_chunks(chunk_documents(documents), embedder=embedder, store=MemoryVectorStore())
        2
    """
    plan = IngestionPlan(embedder, store, keyword, batch_size=check_top_k(batch_size, argument="batch_size"))
    return _run(plan, _grouped(chunks), None, show_progress)


async def aingest_chunks(
    chunks: Iterable[ChunkRecord],
    *,
    embedder: EmbeddingProvider,
    store: VectorStore,
    keyword: Any = None,
    batch_size: int = DEFAULT_BATCH_SIZE,
    show_progress: bool = False,
) -> int:
    """Async twin of `ingest_chunks`.

    Examples:
        >>> asyncio.run(aingest_chunks(chunk_documents(documents), embedder=embedder, store=MemoryVectorStore()))
        2
    """
    plan = IngestionPlan(embedder, store, keyword, batch_size=check_top_k(batch_size, argument="batch_size"))
    return await _arun(plan, _steadily(_grouped(chunks)), None, show_progress)


def _run(plan: IngestionPlan, documents: Iterable[WholeDocument], source: object, show_progress: bool) -> int:
    with progress_bar(source, show_progress, "ingesting") as bar:
        for document in documents:
            run(plan.take(document))
            bar.update(1)
        run(plan.finish())
    return plan.written


async def _arun(
    plan: IngestionPlan, documents: AsyncIterator[WholeDocument], source: object, show_progress: bool
) -> int:
    with progress_bar(source, show_progress, "ingesting") as bar:
        async for document in documents:
            await arun(plan.take(document))
            bar.update(1)
        await arun(plan.finish())
    return plan.written


async def _steadily(documents: Iterable[WholeDocument]) -> AsyncIterator[WholeDocument]:
    for document in documents:
        yield document


class _Cutter:
    """Turns documents into checked, cut ones, by checked options."""

    def __init__(self, **chunking: Any) -> None:
        self._chunks_of = document_cutter(**chunking)

    def whole_documents(self, documents: Iterable[IngestDocument]) -> Iterator[WholeDocument]:
        given = iterate_documents(documents)
        if not isinstance(given, Sequence):
            for position, document in enumerate(given):
                yield self._cut(document, position)
            return
        last = {}
        for position, document in enumerate(given):
            last[storable_document(document, position).id] = position
        for position, document in enumerate(given):
            if last.get(plain_text(document.id)) == position:
                yield self._cut(document, position)

    async def awhole_documents(self, documents: AsyncIterable[IngestDocument]) -> AsyncIterator[WholeDocument]:
        position = 0
        async for document in documents:
            yield self._cut(document, position)
            position += 1

    def _cut(self, document: IngestDocument, position: int) -> WholeDocument:
        checked = storable_document(document, position)
        return WholeDocument(checked.id, self._chunks_of(checked))


def storable_document(document: Any, position: int) -> IngestDocument:
    """Return a copy of a document that any store can keep, without U+0000 in its text and source.

    Raises:
        InvalidArgumentError: it is no document.
        InvalidMetadataError: it has an empty id, or holds what no store keeps.
    """
    check_document(document, position)
    key = check_text(document.id, where=f"documents[{position}]", what="id")
    if not key:
        raise InvalidMetadataError(f"documents[{position}]: id must not be empty; give every document an id of its own")
    where = f"document {_shown(key)}"
    text = check_text(without_nul(document.text), where=where, what="text")
    source, context = (
        None if value is None else check_text(without_nul(value), where=where, what=name)
        for name in ("source", "context")
        for value in (getattr(document, name, None),)
    )
    return IngestDocument(key, text, source, copy_metadata(document.metadata, where=where), context or None)


def _grouped(chunks: Iterable[ChunkRecord]) -> Iterator[WholeDocument]:
    """Put the chunks of each document together: all of a list, neighbours of an iterator."""
    if isinstance(chunks, (str, bytes, ChunkRecord)) or not isinstance(chunks, Iterable):
        raise InvalidArgumentError(f"chunks must be a list of ChunkRecord, got {type(chunks).__name__}")
    if isinstance(chunks, Sequence):
        groups: dict[str, dict[str, ChunkRecord]] = {}
        for position, chunk in enumerate(chunks):
            checked = _storable_chunk(chunk, position)
            groups.setdefault(document_id_of(checked.id), {})[checked.id] = checked
        for document_id, grouped in groups.items():
            yield WholeDocument(document_id, list(grouped.values()))
        return
    seen: set[str] = set()
    current: str | None = None
    group: dict[str, ChunkRecord] = {}
    for position, chunk in enumerate(chunks):
        checked = _storable_chunk(chunk, position)
        document_id = document_id_of(checked.id)
        if current is not None and document_id != current:
            yield WholeDocument(current, list(group.values()), adds=current in seen)
            seen.add(current)
            group = {}
        current = document_id
        group[checked.id] = checked
    if current is not None:
        yield WholeDocument(current, list(group.values()), adds=current in seen)


def _storable_chunk(chunk: Any, position: int) -> ChunkRecord:
    if not all(hasattr(chunk, name) for name in ("id", "text", "source", "metadata")):
        raise InvalidArgumentError(f"chunks[{position}] must be a ChunkRecord, got {type(chunk).__name__}")
    key = check_text(chunk.id, where=f"chunks[{position}]", what="id")
    if not key:
        raise InvalidMetadataError(f"chunks[{position}]: id must not be empty; give every chunk an id of its own")
    where = f"chunk {_shown(key)}"
    text, source = check_text(chunk.text, where=where, what="text"), chunk.source
    source = check_optional_text(source, where=where, what="source")
    context = check_optional_text(getattr(chunk, "context", None), where=where, what="context")
    return ChunkRecord(key, text, source, copy_metadata(chunk.metadata, where=where), context or None)


def _shown(key: str) -> str:
    return repr(key if len(key) <= 120 else key[:117] + "...")


class Progress(Protocol):
    """What shows how far a long call has come."""

    def update(self, amount: int) -> Any:
        """Tell that so many more documents are done."""
        ...


class _Silence:
    """Progress that shows nothing."""

    def update(self, amount: int) -> None:
        """Do nothing."""


@contextmanager
def progress_bar(source: object, show_progress: bool, what: str) -> Iterator[Progress]:
    """Give a bar of documents with rate and time left (extra `progress`), or one that shows nothing."""
    if not show_progress:
        yield _Silence()
        return
    total = len(source) if isinstance(source, Sequence) else None
    bar = require("tqdm", extra="progress").tqdm(total=total, desc=what, unit=" documents")
    with closing(bar):
        yield bar

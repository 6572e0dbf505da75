"""How documents enter a vector store over the core, change and leave it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from agora_core.coercion import coerce_metadata
from agora_core.embedding import checked_vectors
from agora_core.errors import InvalidArgumentError, UnsafeRemovalError
from agora_core.metadata import MetadataPatch
from agora_core.protocols import AnyFilter, EmbeddingProvider
from agora_core.records import ChunkRecord, Embedding
from agora_core.steps import Steps, arun, ask, run
from agora_core.validation import check_top_k
from langchain_agora.documents import to_chunks, to_records
from langchain_agora.filters import to_core_filter
from langchain_agora.vectorstore_base import BoundVectorStore

SelfT = TypeVar("SelfT", bound="WritableVectorStore")


class WritableVectorStore(BoundVectorStore):
    """The writing half of `AgoraVectorStore`."""

    def add_documents(  # type: ignore[override] # without **kwargs, so that a misspelt keyword raises
        self,
        documents: Iterable[Document],
        ids: Sequence[str | None] | None = None,
        *,
        batch_size: int | None = None,
    ) -> list[str]:
        """Embed and store documents, replacing text, vector and metadata of those with the same id; all or nothing.

        Args:
            documents: a document without an id is given a UUID; the documents themselves are not changed.
            ids: one for each document, before the documents' own; None where there is none.
            batch_size: texts embedded at a time, all at once where it is None. They are stored together.

        Returns:
            The ids, in the order of the documents.

        Raises:
            InvalidArgumentError: there are more or fewer ids than documents.
            InvalidMetadataError: metadata is not JSON; nothing was embedded.
            ScopeViolationError: a document lies outside the scope; nothing was written.
        """
        return run(self._added(documents, ids, batch_size))

    async def aadd_documents(  # type: ignore[override]
        self,
        documents: Iterable[Document],
        ids: Sequence[str | None] | None = None,
        *,
        batch_size: int | None = None,
    ) -> list[str]:
        """Async twin of `add_documents`."""
        return await arun(self._added(documents, ids, batch_size))

    def _added(
        self, documents: Iterable[Document], ids: Sequence[str | None] | None, batch_size: int | None
    ) -> Steps[list[str]]:
        pair = yield from self._bound()
        prepare = partial(to_chunks, documents, ids, source_key=self.source_key, coerce=self.coerce)
        # Thousands of documents take time: async code prepares them in a thread, and its loop goes on.
        chunks = yield from ask(prepare, partial(asyncio.to_thread, prepare))
        vectors: list[Embedding] = []
        for texts in _batches(chunks, batch_size):
            embedded = yield from ask(self.embedding.embed_documents, self.embedding.aembed_documents, texts)
            vectors += checked_vectors(embedded, len(texts), self.embedding)
        if chunks:
            build = partial(to_records, chunks, vectors)
            yield from pair.upsert((yield from ask(build, partial(asyncio.to_thread, build))))
        return [chunk.id for chunk in chunks]

    def add_texts(  # type: ignore[override]
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any] | None] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int | None = None,
    ) -> list[str]:
        """Store texts with one mapping of metadata each; see `add_documents`."""
        return self.add_documents(_from_texts(texts, metadatas), ids, batch_size=batch_size)

    async def aadd_texts(  # type: ignore[override]
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any] | None] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        batch_size: int | None = None,
    ) -> list[str]:
        """Async twin of `add_texts`."""
        return await self.aadd_documents(_from_texts(texts, metadatas), ids, batch_size=batch_size)

    @classmethod
    def from_texts(  # type: ignore[override]
        cls: type[SelfT],
        texts: Iterable[str],
        embedding: Embeddings | EmbeddingProvider,
        metadatas: Sequence[Mapping[str, Any] | None] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        store: Any = None,
        source_key: str | None = None,
        batch_size: int | None = None,
    ) -> SelfT:
        """Return a vector store with these texts in it, over a new memory store where `store` is None."""
        vectors = cls(_given_or_new(store), embedding, source_key=source_key)
        vectors.add_texts(texts, metadatas, ids=ids, batch_size=batch_size)
        return vectors

    @classmethod
    async def afrom_texts(  # type: ignore[override]
        cls: type[SelfT],
        texts: Iterable[str],
        embedding: Embeddings | EmbeddingProvider,
        metadatas: Sequence[Mapping[str, Any] | None] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        store: Any = None,
        source_key: str | None = None,
        batch_size: int | None = None,
    ) -> SelfT:
        """Async twin of `from_texts`."""
        vectors = cls(_given_or_new(store), embedding, source_key=source_key)
        await vectors.aadd_texts(texts, metadatas, ids=ids, batch_size=batch_size)
        return vectors

    @classmethod
    def from_documents(  # type: ignore[override]
        cls: type[SelfT],
        documents: Iterable[Document],
        embedding: Embeddings | EmbeddingProvider,
        *,
        ids: Sequence[str | None] | None = None,
        store: Any = None,
        source_key: str | None = None,
        batch_size: int | None = None,
    ) -> SelfT:
        """Return a vector store with these documents in it; see `from_texts`."""
        vectors = cls(_given_or_new(store), embedding, source_key=source_key)
        vectors.add_documents(documents, ids, batch_size=batch_size)
        return vectors

    @classmethod
    async def afrom_documents(  # type: ignore[override]
        cls: type[SelfT],
        documents: Iterable[Document],
        embedding: Embeddings | EmbeddingProvider,
        *,
        ids: Sequence[str | None] | None = None,
        store: Any = None,
        source_key: str | None = None,
        batch_size: int | None = None,
    ) -> SelfT:
        """Async twin of `from_documents`."""
        vectors = cls(_given_or_new(store), embedding, source_key=source_key)
        await vectors.aadd_documents(documents, ids, batch_size=batch_size)
        return vectors

    def delete(  # type: ignore[override]
        self, ids: Sequence[str] | None = None, *, filter: AnyFilter | None = None
    ) -> bool:
        """Delete by id, by filter, or what has one of the ids and matches. Ids that are not there are no error.

        Returns:
            True.

        Raises:
            UnsafeRemovalError: neither is given, or a filter alone bounds nothing (`{}`); nothing was deleted.
        """
        return run(self._deleted(ids, filter))

    async def adelete(  # type: ignore[override]
        self, ids: Sequence[str] | None = None, *, filter: AnyFilter | None = None
    ) -> bool:
        """Async twin of `delete`."""
        return await arun(self._deleted(ids, filter))

    def _deleted(self, ids: Sequence[str] | None, filter: AnyFilter | None) -> Steps[bool]:
        if ids is None and filter is None:
            raise UnsafeRemovalError("delete needs ids, a filter or both; nothing was deleted")
        chosen = None if filter is None else to_core_filter(filter)
        pair = yield from self._bound()
        if ids is not None:
            yield from pair.delete(ids, within=chosen)
        else:
            yield from pair.remove_where(chosen)  # type: ignore[arg-type] # one of both is there
        return True

    def update_metadata(self, document_id: str, patch: MetadataPatch) -> int:
        """Patch the metadata of a document and of its chunks (`{document_id}#{n}`) without embedding anything again.

        A value replaces, None deletes the key, an absent key is left alone.

        Returns:
            How many chunks were written, 0 for an unknown document.

        Raises:
            InvalidMetadataError: the patch is not JSON.
            ScopeViolationError: the patch would move a chunk out of the scope; nothing was written.
        """
        return run(self._patched(document_id, patch))

    async def aupdate_metadata(self, document_id: str, patch: MetadataPatch) -> int:
        """Async twin of `update_metadata`."""
        return await arun(self._patched(document_id, patch))

    def _patched(self, document_id: str, patch: MetadataPatch) -> Steps[int]:
        pair = yield from self._bound()
        return (yield from pair.update_metadata(document_id, coerce_metadata(patch) if self.coerce else patch))


def _batches(chunks: Sequence[ChunkRecord], batch_size: int | None) -> list[list[str]]:
    size = len(chunks) or 1 if batch_size is None else check_top_k(batch_size, argument="batch_size")
    texts = [chunk.text for chunk in chunks]
    return [texts[start : start + size] for start in range(0, len(texts), size)]


def _from_texts(texts: Iterable[str], metadatas: Sequence[Mapping[str, Any] | None] | None) -> list[Document]:
    if isinstance(texts, str):
        raise InvalidArgumentError("texts must be a list of str, got a single str; put it in a list")
    listed = list(texts)
    if metadatas is not None and len(metadatas) != len(listed):
        raise InvalidArgumentError(
            f"metadatas must hold one mapping for each text: got {len(metadatas)} for {len(listed)} texts; "
            "give a mapping or None for every text, or leave metadatas out"
        )
    rows = metadatas if metadatas is not None else [None] * len(listed)
    return [Document(page_content=text, metadata=dict(row or {})) for text, row in zip(listed, rows, strict=True)]


def _given_or_new(store: Any) -> Any:
    if store is not None:
        return store
    from agora_core.stores.memory import MemoryVectorStore

    return MemoryVectorStore()

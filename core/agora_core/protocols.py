"""The seams: any object of these shapes serves. What is optional is said in each docstring."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeGuard, runtime_checkable

from agora_core.filters.expressions import AnyFilter as AnyFilter
from agora_core.filters.expressions import MetadataFilter as MetadataFilter
from agora_core.records import Embedding, IndexedDocument, Passage, VectorRecord


@runtime_checkable
class EmbeddingProvider(Protocol):
    """Turns texts into vectors of one length.

    Optional: `aembed(texts)`; `embed_query(text)` and `aembed_query(text)` for models that embed queries differently.

    Examples:
        >>> class Lengths:
        ...     def embed(self, texts):
        ...         return [[float(len(text)), 1.0] for text in texts]
        >>> isinstance(Lengths(), EmbeddingProvider)
        True
    """

    def embed(self, texts: Sequence[str]) -> Sequence[Embedding]:
        """Return one vector per text, in the same order."""
        ...


@runtime_checkable
class Reranker(Protocol):
    """Orders passages by how well they answer a query. Optional: `arerank`.

    Examples:
        >>> isinstance(EmbeddingReranker(embedder), Reranker)
        True
    """

    def rerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        """Return the best `top_k` passages (all where it is None), best first, each with its new score."""
        ...


@runtime_checkable
class Retriever(Protocol):
    """Finds passages for a query. Optional: `aretrieve`.

    An argument that was not given is not passed on, so an implementation may declare only what it understands.

    Examples:
        >>> isinstance(retriever, Retriever)
        True
    """

    def retrieve(
        self, query: str, *, top_k: int = 5, filter: AnyFilter | None = None, min_score: float | None = None
    ) -> list[Passage]:
        """Return at most `top_k` passages, best first."""
        ...


@runtime_checkable
class VectorStore(Protocol):
    """The least a vector store offers.

    Optional, used where present: `update_metadata`, `list_document_ids`, `remove_where`, `replace_documents`, `get`,
    `delete`, `count`, `scan`, `search_text`, and an `a`-twin of each method.

    Examples:
        >>> isinstance(store, VectorStore)
        True
    """

    def upsert(self, records: Iterable[VectorRecord]) -> Any:
        """Insert the records, replacing those with the same id."""
        ...

    def search(
        self,
        embedding: Embedding,
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
    ) -> list[Passage]:
        """Return the `top_k` records most similar to `embedding` that match, best first."""
        ...

    def remove(self, document_id: str) -> Any:
        """Remove every chunk of a document."""
        ...

    def list_documents(self, filter: AnyFilter | None = None) -> list[IndexedDocument]:
        """Return the documents with a matching chunk, in code-point order of their ids."""
        ...


class AsyncEmbeddingProvider(Protocol):
    """`EmbeddingProvider` with the async method alone; sync code cannot use it."""

    async def aembed(self, texts: Sequence[str]) -> Sequence[Embedding]:
        """Return one vector per text, in the same order."""
        ...


class SyncRetriever(Protocol):
    """The least that an adapter asks of a retriever; the options are those of `Retriever`, each where it knows it."""

    @property
    def retrieve(self) -> Callable[..., Sequence[Passage]]:
        """Return at most `top_k` passages, best first."""
        ...


class AsyncRetriever(Protocol):
    """`Retriever` with the async method alone; sync code cannot use it. The options are those of `Retriever`."""

    @property
    def aretrieve(self) -> Callable[..., Awaitable[Sequence[Passage]]]:
        """Return at most `top_k` passages, best first."""
        ...


class SearchesVectors(Protocol):
    """The least that an adapter asks of a store; the options are those of `VectorStore.search`."""

    @property
    def search(self) -> Callable[..., Sequence[Passage]]:
        """Return the records most similar to an embedding, best first."""
        ...


class SearchesVectorsAsync(Protocol):
    """`SearchesVectors` with the async method alone; sync code cannot use it."""

    @property
    def asearch(self) -> Callable[..., Awaitable[Sequence[Passage]]]:
        """Return the records most similar to an embedding, best first."""
        ...


class SearchesTexts(Protocol):
    """A keyword index that can be kept in step with a store, as `KeywordRetriever` is."""

    @property
    def retrieve(self) -> Callable[..., Sequence[Passage]]:
        """Return the passages whose texts answer a query best, best first."""
        ...

    @property
    def add(self) -> Callable[..., object]:
        """Index records."""
        ...

    @property
    def remove(self) -> Callable[..., object]:
        """Forget records by id."""
        ...


@runtime_checkable
class LexicalVectorStore(VectorStore, Protocol):
    """A vector store that also searches the text of its records.

    Examples:
        >>> isinstance(store, LexicalVectorStore)
        True
    """

    def search_text(self, query: str, *, top_k: int, filter: AnyFilter | None = None) -> list[Passage]:
        """Return the `top_k` records whose text answers `query` best, best first."""
        ...


def is_lexical_vector_store(store: object) -> TypeGuard[LexicalVectorStore]:
    """Say whether `store` can search text: it has a callable `search_text` or `asearch_text`.

    Examples:
        >>> is_lexical_vector_store(store), is_lexical_vector_store(MemoryVectorStore())
        (True, False)
    """
    return callable(getattr(store, "search_text", None)) or callable(getattr(store, "asearch_text", None))


Step = Callable[[str, Callable[[], Any]], Any | Awaitable[Any]]
"""The durable seam of inject mode: `step(name, fn)` returns what `fn()` returned, now or in an earlier run."""

"""`AgoraVectorStore`: any store of the core wherever LangChain takes a `VectorStore`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore

from agora_core.calling import acall, call, given
from agora_core.embedding import check_query, checked_vectors
from agora_core.errors import InvalidArgumentError, UnsafeRemovalError
from agora_core.metadata import MetadataPatch
from agora_core.protocols import AnyFilter, EmbeddingProvider
from agora_core.records import ChunkRecord, Embedding, Passage, VectorRecord
from agora_core.scoped import ScopedVectorStore
from agora_core.similarity import maximal_marginal_relevance, relevance_score, score_of_relevance
from agora_core.stores.base import OnWrite
from agora_core.validation import check_min_score, check_top_k
from langchain_agora.documents import to_chunks, to_document, to_records
from langchain_agora.embeddings import as_embeddings
from langchain_agora.filters import to_core_filter
from langchain_agora.scope import Scope, ScopeFunction, aresolve_scope, resolve_scope
from langchain_agora.vectorstore_retriever import AgoraVectorStoreRetriever

SelfT = TypeVar("SelfT", bound="AgoraVectorStore")


class AgoraVectorStore(VectorStore):
    """A LangChain vector store over any store of the core: memory, Postgres, Qdrant or your own.

    Ids are kept as they are given, metadata comes back equal, and every method has an async twin that uses the store's
    and the model's own async methods where they have them.

    Setup:
        ```python
        from agora_core import MemoryVectorStore
        from langchain_agora import AgoraVectorStore

        vectors = AgoraVectorStore(MemoryVectorStore(), embeddings)
        ```

    Add and delete:
        ```python
        vectors.add_documents([Document("Paid leave is 30 days.", id="leave", metadata={"acl": ["all"]})])
        vectors.update_metadata("leave", {"acl": ["all", "board"]})  # nothing is embedded again
        vectors.delete(["leave"])
        vectors.delete(filter={"acl": ["board"]})
        ```

    Search:
        ```python
        vectors.similarity_search("leave", k=2, filter={"acl": ["all"]})
        vectors.similarity_search("leave", filter={"year": {"$gte": 2020}})
        vectors.similarity_search_with_score("leave")  # the core's score, higher is better
        vectors.similarity_search_with_relevance_scores("leave", score_threshold=0.5)  # within [0, 1]
        await vectors.asimilarity_search("leave")
        ```

    As a retriever, and for one tenant only:
        ```python
        vectors.as_retriever(search_type="mmr", search_kwargs={"k": 5})
        vectors.scoped({"tenant": "a"}).as_retriever()
        vectors.scoped(lambda config: {"tenant": config["configurable"]["tenant"]}).as_retriever()
        ```

    A `filter` is one of the core's (mapping or expression) or an operator dict; see
    `langchain_agora.filters.to_core_filter` for its grammar.
    """

    def __init__(self, store: Any, embedding: Embeddings | EmbeddingProvider, *, source_key: str | None = None) -> None:
        """Stand on a store of the core and an embedding model, LangChain's or the core's.

        Args:
            store: any object with `upsert` and `search` (or their async twins) and, where those methods are used,
                `get`, `delete`, `remove_where` and `update_metadata`. Closed by who opened it.
            embedding: embeds documents and queries.
            source_key: the metadata key whose text is kept as the citation label (`Passage.source`) too, and under
                which a label that was stored otherwise is shown. None keeps labels and metadata apart.
        """
        if not callable(getattr(store, "search", None)) and not callable(getattr(store, "asearch", None)):
            raise InvalidArgumentError(f"store must have search or asearch, got {type(store).__name__}")
        self.store = store
        self.embedding = as_embeddings(embedding)
        self.source_key = source_key
        self._scopes: tuple[tuple[ScopeFunction, OnWrite], ...] = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.store!r}, {type(self.embedding).__name__})"

    @property
    def embeddings(self) -> Embeddings:
        """The embedding model."""
        return self.embedding

    # -- scope ---------------------------------------------------------------------------------------------------------

    def scoped(self, scope: Scope, *, on_write: OnWrite = "check") -> AgoraVectorStore:
        """Return a view that no argument can widen: reads, writes and removals touch only what matches `scope`.

        Args:
            scope: a filter, or a function that takes the run's config and returns one. The function is called anew for
                each call, with the config as a dict; `config["configurable"]` holds what `invoke(..., config=...)` was
                given, `config["context"]` the context of a LangGraph run, None outside of one. Returning None or
                raising fails the call.
            on_write: `check` refuses a document outside the scope, `stamp` writes the scope's plain values into it.

        Raises:
            InvalidFilterError: the filter could not be built.
        """
        if callable(scope):
            view = self._over(self.store)
            view._scopes = (*self._scopes, (scope, on_write))
            return view
        return self._over(ScopedVectorStore(self.store, to_core_filter(scope), on_write=on_write))

    def _over(self, store: Any) -> AgoraVectorStore:
        view = type(self)(store, self.embedding, source_key=self.source_key)
        view._scopes = self._scopes
        return view

    def _bound(self) -> Any:
        store = self.store
        for scope, on_write in self._scopes:
            store = ScopedVectorStore(store, resolve_scope(scope), on_write=on_write)
        return store

    async def _abound(self) -> Any:
        store = self.store
        for scope, on_write in self._scopes:
            store = ScopedVectorStore(store, await aresolve_scope(scope), on_write=on_write)
        return store

    # -- writing -------------------------------------------------------------------------------------------------------

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
        store = self._bound()
        chunks = to_chunks(documents, ids, source_key=self.source_key)
        vectors: list[Embedding] = []
        for texts in _batches(chunks, batch_size):
            vectors += checked_vectors(self.embedding.embed_documents(texts), len(texts), self.embedding)
        if chunks:
            call(store, "upsert", to_records(chunks, vectors))
        return [chunk.id for chunk in chunks]

    async def aadd_documents(  # type: ignore[override]
        self,
        documents: Iterable[Document],
        ids: Sequence[str | None] | None = None,
        *,
        batch_size: int | None = None,
    ) -> list[str]:
        """Async twin of `add_documents`."""
        store = await self._abound()
        chunks = to_chunks(documents, ids, source_key=self.source_key)
        vectors: list[Embedding] = []
        for texts in _batches(chunks, batch_size):
            vectors += checked_vectors(await self.embedding.aembed_documents(texts), len(texts), self.embedding)
        if chunks:
            await acall(store, "upsert", to_records(chunks, vectors))
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
        name, arguments = _deletion(ids, filter)
        call(self._bound(), name, *arguments, **_within(ids, filter))
        return True

    async def adelete(  # type: ignore[override]
        self, ids: Sequence[str] | None = None, *, filter: AnyFilter | None = None
    ) -> bool:
        """Async twin of `delete`."""
        name, arguments = _deletion(ids, filter)
        await acall(await self._abound(), name, *arguments, **_within(ids, filter))
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
        return int(call(self._bound(), "update_metadata", document_id, patch))

    async def aupdate_metadata(self, document_id: str, patch: MetadataPatch) -> int:
        """Async twin of `update_metadata`."""
        return int(await acall(await self._abound(), "update_metadata", document_id, patch))

    # -- reading -------------------------------------------------------------------------------------------------------

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids in the order asked, each once; what is missing is left out."""
        return self._documents(call(self._bound(), "get", list(ids)))

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Async twin of `get_by_ids`."""
        return self._documents(await acall(await self._abound(), "get", list(ids)))

    def similarity_search(  # type: ignore[override]
        self, query: str, k: int = 4, filter: AnyFilter | None = None, *, min_score: float | None = None
    ) -> list[Document]:
        """Return the `k` documents most similar to `query`, best first.

        Args:
            query: is embedded.
            k: 1 or more.
            filter: see `langchain_agora.filters.to_core_filter`; None searches without one.
            min_score: a floor on the core's score (see `similarity_search_with_score`), answered by the store.
        """
        return self._documents(self._search(query, _options(k, filter, min_score)))

    async def asimilarity_search(  # type: ignore[override]
        self, query: str, k: int = 4, filter: AnyFilter | None = None, *, min_score: float | None = None
    ) -> list[Document]:
        """Async twin of `similarity_search`."""
        return self._documents(await self._asearch(query, _options(k, filter, min_score)))

    def similarity_search_with_score(
        self, query: str, k: int = 4, filter: AnyFilter | None = None, *, min_score: float | None = None
    ) -> list[tuple[Document, float]]:
        """Return documents with the core's score, higher is better on every backend and under every metric.

        cosine: `1 - distance`; l2: minus the distance; inner: the inner product.
        """
        return self._scored(self._search(query, _options(k, filter, min_score)))

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, filter: AnyFilter | None = None, *, min_score: float | None = None
    ) -> list[tuple[Document, float]]:
        """Async twin of `similarity_search_with_score`."""
        return self._scored(await self._asearch(query, _options(k, filter, min_score)))

    def similarity_search_by_vector(  # type: ignore[override]
        self,
        embedding: Embedding,
        k: int = 4,
        filter: AnyFilter | None = None,
        *,
        min_score: float | None = None,
    ) -> list[Document]:
        """Return the `k` documents most similar to a vector; see `similarity_search`."""
        return self._documents(call(self._bound(), "search", embedding, **_options(k, filter, min_score)))

    async def asimilarity_search_by_vector(  # type: ignore[override]
        self,
        embedding: Embedding,
        k: int = 4,
        filter: AnyFilter | None = None,
        *,
        min_score: float | None = None,
    ) -> list[Document]:
        """Async twin of `similarity_search_by_vector`."""
        found = await acall(await self._abound(), "search", embedding, **_options(k, filter, min_score))
        return self._documents(found)

    def similarity_search_with_relevance_scores(  # type: ignore[override]
        self, query: str, k: int = 4, *, filter: AnyFilter | None = None, score_threshold: float | None = None
    ) -> list[tuple[Document, float]]:
        """Return documents with their relevance in [0, 1]; see `agora_core.relevance_score` for each metric.

        Args:
            query: is embedded.
            k: 1 or more.
            filter: as in `similarity_search`.
            score_threshold: a floor on the relevance. The store answers it as a floor on its own score, before `k`.
        """
        floor = self._floor(score_threshold)
        return self._relevant(self._search(query, _options(k, filter, floor)))

    async def asimilarity_search_with_relevance_scores(  # type: ignore[override]
        self, query: str, k: int = 4, *, filter: AnyFilter | None = None, score_threshold: float | None = None
    ) -> list[tuple[Document, float]]:
        """Async twin of `similarity_search_with_relevance_scores`."""
        floor = self._floor(score_threshold)
        return self._relevant(await self._asearch(query, _options(k, filter, floor)))

    def _select_relevance_score_fn(self) -> Any:
        return lambda score: relevance_score(self.store.metric, score)

    def max_marginal_relevance_search(  # type: ignore[override]
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: AnyFilter | None = None,
    ) -> list[Document]:
        """Return `k` documents that are similar to `query` and different from each other.

        Args:
            query: is embedded.
            k: 1 or more.
            fetch_k: how many of the most similar are chosen from; raised to `k` where that is larger.
            lambda_mult: 1 looks at similarity alone, 0 at diversity alone.
            filter: as in `similarity_search`.
        """
        _mmr_options(k, fetch_k, filter)
        vector = self.embedding.embed_query(check_query(query))
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, filter)

    async def amax_marginal_relevance_search(  # type: ignore[override]
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: AnyFilter | None = None,
    ) -> list[Document]:
        """Async twin of `max_marginal_relevance_search`."""
        _mmr_options(k, fetch_k, filter)
        vector = await self.embedding.aembed_query(check_query(query))
        return await self.amax_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, filter)

    def max_marginal_relevance_search_by_vector(  # type: ignore[override]
        self,
        embedding: Embedding,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: AnyFilter | None = None,
    ) -> list[Document]:
        """Return `k` documents similar to a vector and different from each other."""
        store = self._bound()
        found = call(store, "search", embedding, **_mmr_options(k, fetch_k, filter))
        records = call(store, "get", [passage.id for passage in found])
        return self._documents(_diverse(embedding, records, k, lambda_mult))

    async def amax_marginal_relevance_search_by_vector(  # type: ignore[override]
        self,
        embedding: Embedding,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: AnyFilter | None = None,
    ) -> list[Document]:
        """Async twin of `max_marginal_relevance_search_by_vector`."""
        store = await self._abound()
        found = await acall(store, "search", embedding, **_mmr_options(k, fetch_k, filter))
        records = await acall(store, "get", [passage.id for passage in found])
        return self._documents(_diverse(embedding, records, k, lambda_mult))

    def as_retriever(self, **kwargs: Any) -> AgoraVectorStoreRetriever:
        """Return a retriever; see `langchain_core.vectorstores.VectorStore.as_retriever`.

        Its `search_kwargs["filter"]` is a bound that a call's own `filter` only narrows.
        """
        tags = [*(kwargs.pop("tags", None) or []), *self._get_retriever_tags()]
        return AgoraVectorStoreRetriever(vectorstore=self, tags=tags, **kwargs)

    # -- what the twins share ------------------------------------------------------------------------------------------

    def _search(self, query: str, options: dict[str, Any]) -> Sequence[Passage]:
        store = self._bound()
        found: Sequence[Passage] = call(store, "search", self.embedding.embed_query(check_query(query)), **options)
        return found

    async def _asearch(self, query: str, options: dict[str, Any]) -> Sequence[Passage]:
        store = await self._abound()
        vector = await self.embedding.aembed_query(check_query(query))
        found: Sequence[Passage] = await acall(store, "search", vector, **options)
        return found

    def _floor(self, threshold: float | None) -> float | None:
        floor = check_min_score(threshold, argument="score_threshold")
        return None if floor is None else score_of_relevance(self.store.metric, floor)

    def _documents(self, found: Iterable[Passage | VectorRecord]) -> list[Document]:
        source_key = self.source_key
        return [to_document(passage, source_key=source_key) for passage in found]

    def _scored(self, found: Iterable[Passage]) -> list[tuple[Document, float]]:
        return [(to_document(passage, source_key=self.source_key), passage.score) for passage in found]

    def _relevant(self, found: Iterable[Passage]) -> list[tuple[Document, float]]:
        metric = self.store.metric
        return [(document, relevance_score(metric, score)) for document, score in self._scored(found)]


def _options(k: int, filter: AnyFilter | None, min_score: float | None) -> dict[str, Any]:
    """Check the arguments of a search before anything is embedded for it."""
    bound = None if filter is None else to_core_filter(filter)
    floor = check_min_score(min_score)
    return {"top_k": check_top_k(k, argument="k"), **given(filter=bound, min_score=floor)}


def _mmr_options(k: int, fetch_k: int, filter: AnyFilter | None) -> dict[str, Any]:
    most = max(check_top_k(k, argument="k"), check_top_k(fetch_k, argument="fetch_k"))
    return _options(most, filter, None)


def _diverse(embedding: Embedding, records: Sequence[VectorRecord], k: int, lambda_mult: float) -> list[VectorRecord]:
    vectors = [record.embedding for record in records]
    picked = maximal_marginal_relevance(embedding, vectors, top_k=k, lambda_mult=lambda_mult)
    return [records[position] for position in picked]


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


def _deletion(ids: Sequence[str] | None, filter: AnyFilter | None) -> tuple[str, tuple[Any, ...]]:
    if ids is not None:
        return "delete", (ids,)
    if filter is None:
        raise UnsafeRemovalError("delete needs ids, a filter or both; nothing was deleted")
    return "remove_where", (to_core_filter(filter),)


def _within(ids: Sequence[str] | None, filter: AnyFilter | None) -> dict[str, AnyFilter]:
    return {} if ids is None or filter is None else {"within": to_core_filter(filter)}


def _given_or_new(store: Any) -> Any:
    if store is not None:
        return store
    from agora_core.stores.memory import MemoryVectorStore

    return MemoryVectorStore()

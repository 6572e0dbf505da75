"""`AgoraVectorStore`: any store of the core wherever LangChain takes a `VectorStore`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from langchain_core.documents import Document

from agora_core.calling import acall, call, given
from agora_core.embedding import check_query
from agora_core.errors import UnsupportedOperationError
from agora_core.filters import compile_filter, predicate
from agora_core.protocols import AnyFilter
from agora_core.records import Embedding, Passage, VectorRecord
from agora_core.similarity import maximal_marginal_relevance, relevance_score, score_of_relevance
from agora_core.stores.run_scope import abound_store, bound_store
from agora_core.validation import check_min_score, check_top_k
from langchain_agora.documents import to_document
from langchain_agora.filters import to_core_filter
from langchain_agora.vectorstore_retriever import AgoraVectorStoreRetriever
from langchain_agora.vectorstore_writing import WritableVectorStore


class AgoraVectorStore(WritableVectorStore):
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

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids in the order asked, each once; what is missing is left out."""
        return self._documents(call(bound_store(self.store), "get", ids))

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Async twin of `get_by_ids`."""
        return self._documents(await acall(await abound_store(self.store), "get", ids))

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
        return self._documents(call(bound_store(self.store), "search", embedding, **_options(k, filter, min_score)))

    async def asimilarity_search_by_vector(  # type: ignore[override]
        self,
        embedding: Embedding,
        k: int = 4,
        filter: AnyFilter | None = None,
        *,
        min_score: float | None = None,
    ) -> list[Document]:
        """Async twin of `similarity_search_by_vector`."""
        found = await acall(await abound_store(self.store), "search", embedding, **_options(k, filter, min_score))
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
        return lambda score: relevance_score(self._metric, score)

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
        store = bound_store(self.store)
        options = _mmr_options(k, fetch_k, filter)
        found = call(store, "search", embedding, **options)
        records = _matching(call(store, "get", [passage.id for passage in found]), options.get("filter"))
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
        store = await abound_store(self.store)
        options = _mmr_options(k, fetch_k, filter)
        found = await acall(store, "search", embedding, **options)
        records = _matching(await acall(store, "get", [passage.id for passage in found]), options.get("filter"))
        return self._documents(_diverse(embedding, records, k, lambda_mult))

    def as_retriever(self, **kwargs: Any) -> AgoraVectorStoreRetriever:
        """Return a retriever; see `langchain_core.vectorstores.VectorStore.as_retriever`.

        Its `search_kwargs["filter"]` is a bound that a call's own `filter` only narrows.
        """
        tags = [*(kwargs.pop("tags", None) or []), *self._get_retriever_tags()]
        return AgoraVectorStoreRetriever(vectorstore=self, tags=tags, **kwargs)

    def _search(self, query: str, options: dict[str, Any]) -> Sequence[Passage]:
        store = bound_store(self.store)
        found: Sequence[Passage] = call(store, "search", self.embedding.embed_query(check_query(query)), **options)
        return found

    async def _asearch(self, query: str, options: dict[str, Any]) -> Sequence[Passage]:
        store = await abound_store(self.store)
        vector = await self.embedding.aembed_query(check_query(query))
        found: Sequence[Passage] = await acall(store, "search", vector, **options)
        return found

    @property
    def _metric(self) -> str:
        metric = getattr(self.store, "metric", None)
        if metric is None:
            raise UnsupportedOperationError(
                f"{type(self.store).__name__} has no attribute metric (cosine, l2 or inner), which relevance needs; "
                "give it one, or use similarity_search_with_score and min_score"
            )
        return str(metric)

    def _floor(self, threshold: float | None) -> float | None:
        floor = check_min_score(threshold, argument="score_threshold")
        return None if floor is None else score_of_relevance(self._metric, floor)

    def _documents(self, found: Iterable[Passage | VectorRecord]) -> list[Document]:
        source_key = self.source_key
        return [to_document(passage, source_key=source_key) for passage in found]

    def _scored(self, found: Iterable[Passage]) -> list[tuple[Document, float]]:
        return [(to_document(passage, source_key=self.source_key), passage.score) for passage in found]

    def _relevant(self, found: Iterable[Passage]) -> list[tuple[Document, float]]:
        metric = self._metric
        return [(document, relevance_score(metric, score)) for document, score in self._scored(found)]


def _options(k: int, filter: AnyFilter | None, min_score: float | None) -> dict[str, Any]:
    """Check the arguments of a search before anything is embedded for it."""
    bound = None if filter is None else to_core_filter(filter)
    floor = check_min_score(min_score)
    return {"top_k": check_top_k(k, argument="k"), **given(filter=bound, min_score=floor)}


def _mmr_options(k: int, fetch_k: int, filter: AnyFilter | None) -> dict[str, Any]:
    most = max(check_top_k(k, argument="k"), check_top_k(fetch_k, argument="fetch_k"))
    return _options(most, filter, None)


def _matching(records: Iterable[VectorRecord], filter: AnyFilter | None) -> list[VectorRecord]:
    """Leave out what no longer matches: a record may have changed since it was found."""
    matches = None if filter is None else predicate(compile_filter(filter))
    return [record for record in records if matches is None or matches(record.metadata or {})]


def _diverse(embedding: Embedding, records: Sequence[VectorRecord], k: int, lambda_mult: float) -> list[VectorRecord]:
    vectors = [record.embedding for record in records]
    picked = maximal_marginal_relevance(embedding, vectors, top_k=k, lambda_mult=lambda_mult)
    return [records[position] for position in picked]

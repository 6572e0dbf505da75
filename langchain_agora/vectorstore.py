"""`AgoraVectorStore`: any store of the core wherever LangChain takes a `VectorStore`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from langchain_core.documents import Document

from agora_core.adapting import RetrieverPort, Steps, arun, ask, check_min_score, check_query, check_top_k, run
from agora_core.errors import UnsupportedOperationError
from agora_core.filters import compile_filter, predicate
from agora_core.fusion import Fusion
from agora_core.protocols import AnyFilter
from agora_core.records import Embedding, Passage, VectorRecord
from agora_core.retrievers.embedding import EmbeddingRetriever
from agora_core.retrievers.hybrid import HybridRetriever
from agora_core.similarity import maximal_marginal_relevance, relevance_score, score_of_relevance
from agora_core.stores.per_document import check_per_document
from langchain_agora.documents import to_document
from langchain_agora.embeddings import LangChainEmbeddingProvider
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
        vectors.as_retriever(search_type="hybrid", search_kwargs={"k": 5, "per_document": 2})
        vectors.scoped({"tenant": "a"}).as_retriever()
        vectors.scoped(lambda config: {"tenant": config["configurable"]["tenant"]}).as_retriever()
        ```

    A `filter` is one of the core's (mapping or expression) or an operator dict; see
    `langchain_agora.filters.to_core_filter` for its grammar.

    Examples:
        >>> vectors = AgoraVectorStore(store, AgoraEmbeddings(embedder))
        >>> vectors.similarity_search("days of leave", k=1, filter={"year": {"$gte": 2025}})[0].id
        'board#0'
    """

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids in the order asked, each once; what is missing is left out."""
        return self._documents(run(self._got(ids)))

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Async twin of `get_by_ids`."""
        return self._documents(await arun(self._got(ids)))

    def similarity_search(  # type: ignore[override]
        self,
        query: str,
        k: int = 4,
        filter: AnyFilter | None = None,
        *,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> list[Document]:
        """Return the `k` documents most similar to `query`, best first.

        Args:
            query: is embedded.
            k: 1 or more.
            filter: see `langchain_agora.filters.to_core_filter`; None searches without one.
            min_score: a floor on the core's score (see `similarity_search_with_score`), answered by the store.
            per_document: at most this many chunks of one document (`{document}#{n}`); None for no bound.
        """
        return self._documents(run(self._searched(query, _options(k, filter, min_score, per_document))))

    async def asimilarity_search(  # type: ignore[override]
        self,
        query: str,
        k: int = 4,
        filter: AnyFilter | None = None,
        *,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> list[Document]:
        """Async twin of `similarity_search`."""
        return self._documents(await arun(self._searched(query, _options(k, filter, min_score, per_document))))

    def similarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        filter: AnyFilter | None = None,
        *,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> list[tuple[Document, float]]:
        """Return documents with the core's score, higher is better on every backend and under every metric.

        cosine: `1 - distance`; l2: minus the distance; inner: the inner product.
        """
        return self._scored(run(self._searched(query, _options(k, filter, min_score, per_document))))

    async def asimilarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        filter: AnyFilter | None = None,
        *,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> list[tuple[Document, float]]:
        """Async twin of `similarity_search_with_score`."""
        return self._scored(await arun(self._searched(query, _options(k, filter, min_score, per_document))))

    def similarity_search_by_vector(  # type: ignore[override]
        self,
        embedding: Embedding,
        k: int = 4,
        filter: AnyFilter | None = None,
        *,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> list[Document]:
        """Return the `k` documents most similar to a vector; see `similarity_search`."""
        return self._documents(run(self._near(embedding, _options(k, filter, min_score, per_document))))

    async def asimilarity_search_by_vector(  # type: ignore[override]
        self,
        embedding: Embedding,
        k: int = 4,
        filter: AnyFilter | None = None,
        *,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> list[Document]:
        """Async twin of `similarity_search_by_vector`."""
        return self._documents(await arun(self._near(embedding, _options(k, filter, min_score, per_document))))

    def similarity_search_with_score_by_vector(
        self,
        embedding: Embedding,
        k: int = 4,
        filter: AnyFilter | None = None,
        *,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> list[tuple[Document, float]]:
        """Return the documents most similar to a vector with the core's score; see `similarity_search_with_score`."""
        return self._scored(run(self._near(embedding, _options(k, filter, min_score, per_document))))

    async def asimilarity_search_with_score_by_vector(
        self,
        embedding: Embedding,
        k: int = 4,
        filter: AnyFilter | None = None,
        *,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> list[tuple[Document, float]]:
        """Async twin of `similarity_search_with_score_by_vector`."""
        return self._scored(await arun(self._near(embedding, _options(k, filter, min_score, per_document))))

    def text_search(
        self,
        query: str,
        k: int = 4,
        filter: AnyFilter | None = None,
        *,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> list[Document]:
        """Return the `k` documents whose texts answer `query` best, by BM25: of the store, or of `keyword`.

        Raises:
            UnsupportedOperationError: the store searches no text, and there is no `keyword`.
        """
        return self._documents(run(self._worded(query, _options(k, filter, min_score, per_document))))

    async def atext_search(
        self,
        query: str,
        k: int = 4,
        filter: AnyFilter | None = None,
        *,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> list[Document]:
        """Async twin of `text_search`."""
        return self._documents(await arun(self._worded(query, _options(k, filter, min_score, per_document))))

    def hybrid_search(
        self,
        query: str,
        k: int = 4,
        filter: AnyFilter | None = None,
        *,
        min_score: float | None = None,
        per_document: int | None = None,
        fetch_k: int = 20,
        weights: Sequence[float] | None = None,
        fusion: Fusion = "rrf",
    ) -> list[Document]:
        """Return the `k` documents that are best by meaning and by words together; see `agora_core.HybridRetriever`.

        Args:
            query: is embedded, and searched for in the texts.
            k: 1 or more.
            filter: as in `similarity_search`; bounds both searches.
            min_score: a floor on the fused score.
            per_document: at most this many chunks of one document.
            fetch_k: how many each search brings; raised to `k`.
            weights: that of the embedding and that of the text; None weighs both alike.
            fusion: how both lists become one.

        Raises:
            UnsupportedOperationError: the store searches no text, and there is no `keyword`.
        """
        options = _options(k, filter, min_score, per_document)
        return self._documents(run(self._fused(query, options, fetch_k, weights, fusion)))

    async def ahybrid_search(
        self,
        query: str,
        k: int = 4,
        filter: AnyFilter | None = None,
        *,
        min_score: float | None = None,
        per_document: int | None = None,
        fetch_k: int = 20,
        weights: Sequence[float] | None = None,
        fusion: Fusion = "rrf",
    ) -> list[Document]:
        """Async twin of `hybrid_search`."""
        options = _options(k, filter, min_score, per_document)
        return self._documents(await arun(self._fused(query, options, fetch_k, weights, fusion)))

    def search(self, query: str, search_type: str, **kwargs: Any) -> list[Document]:
        """Search by `similarity`, `similarity_score_threshold`, `mmr`, `text` or `hybrid`; see each method."""
        method = {"text": self.text_search, "hybrid": self.hybrid_search}.get(search_type)
        return super().search(query, search_type, **kwargs) if method is None else method(query, **kwargs)

    async def asearch(self, query: str, search_type: str, **kwargs: Any) -> list[Document]:
        """Async twin of `search`."""
        method = {"text": self.atext_search, "hybrid": self.ahybrid_search}.get(search_type)
        if method is None:
            return await super().asearch(query, search_type, **kwargs)
        return await method(query, **kwargs)

    def similarity_search_with_relevance_scores(  # type: ignore[override]
        self,
        query: str,
        k: int = 4,
        *,
        filter: AnyFilter | None = None,
        score_threshold: float | None = None,
        per_document: int | None = None,
    ) -> list[tuple[Document, float]]:
        """Return documents with their relevance in [0, 1]; see `agora_core.relevance_score` for each metric.

        Args:
            query: is embedded.
            k: 1 or more.
            filter: as in `similarity_search`.
            score_threshold: a floor on the relevance. The store answers it as a floor on its own score, before `k`.
            per_document: as in `similarity_search`.
        """
        floor = self._floor(score_threshold)
        return self._relevant(run(self._searched(query, _options(k, filter, floor, per_document))))

    async def asimilarity_search_with_relevance_scores(  # type: ignore[override]
        self,
        query: str,
        k: int = 4,
        *,
        filter: AnyFilter | None = None,
        score_threshold: float | None = None,
        per_document: int | None = None,
    ) -> list[tuple[Document, float]]:
        """Async twin of `similarity_search_with_relevance_scores`."""
        floor = self._floor(score_threshold)
        return self._relevant(await arun(self._searched(query, _options(k, filter, floor, per_document))))

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
        options = _mmr_options(k, fetch_k, filter)
        return self._documents(run(self._diverse(embedding, options, k, lambda_mult)))

    async def amax_marginal_relevance_search_by_vector(  # type: ignore[override]
        self,
        embedding: Embedding,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        filter: AnyFilter | None = None,
    ) -> list[Document]:
        """Async twin of `max_marginal_relevance_search_by_vector`."""
        options = _mmr_options(k, fetch_k, filter)
        return self._documents(await arun(self._diverse(embedding, options, k, lambda_mult)))

    def as_retriever(self, **kwargs: Any) -> AgoraVectorStoreRetriever:
        """Return a retriever; see `langchain_core.vectorstores.VectorStore.as_retriever`.

        Its `search_kwargs["filter"]` is a bound that a call's own `filter` only narrows.
        """
        tags = [*(kwargs.pop("tags", None) or []), *self._get_retriever_tags()]
        return AgoraVectorStoreRetriever(vectorstore=self, tags=tags, **kwargs)

    def _got(self, ids: Sequence[str]) -> Steps[list[VectorRecord]]:
        pair = yield from self._bound()
        return (yield from pair.port.get(ids))

    def _near(self, embedding: Embedding, options: dict[str, Any]) -> Steps[list[Passage]]:
        pair = yield from self._bound()
        return (yield from pair.port.search(embedding, **options))

    def _searched(self, query: str, options: dict[str, Any]) -> Steps[list[Passage]]:
        pair = yield from self._bound()
        embed, aembed = self.embedding.embed_query, self.embedding.aembed_query
        vector = yield from ask(embed, aembed, check_query(query))
        return (yield from pair.port.search(vector, **options))

    def _worded(self, query: str, options: dict[str, Any]) -> Steps[list[Passage]]:
        pair = yield from self._bound()
        return (yield from RetrieverPort(pair.text_leg()).retrieve(check_query(query), **options))

    def _fused(
        self,
        query: str,
        options: dict[str, Any],
        fetch_k: int,
        weights: Sequence[float] | None,
        fusion: Fusion,
    ) -> Steps[list[Passage]]:
        pair = yield from self._bound()
        store: Any = pair.port.store
        legs = [EmbeddingRetriever(LangChainEmbeddingProvider(self.embedding), store), pair.text_leg()]
        hybrid = HybridRetriever(
            legs,
            fetch_top_k=check_top_k(fetch_k, argument="fetch_k"),
            weights=weights,
            fusion=fusion,
        )
        return (yield from RetrieverPort(hybrid).retrieve(check_query(query), **options))

    def _diverse(
        self, embedding: Embedding, options: dict[str, Any], k: int, lambda_mult: float
    ) -> Steps[list[VectorRecord]]:
        pair = yield from self._bound()
        found = yield from pair.port.search(embedding, **options)
        records = yield from pair.port.get([passage.id for passage in found])
        pick = partial(_diverse, embedding, _matching(records, options.get("filter")), k, lambda_mult)
        return (yield from ask(pick, partial(asyncio.to_thread, pick)))

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


def _options(
    k: int, filter: AnyFilter | None, min_score: float | None, per_document: int | None = None
) -> dict[str, Any]:
    """Check the arguments of a search before anything is embedded for it."""
    return {
        "top_k": check_top_k(k, argument="k"),
        "filter": None if filter is None else to_core_filter(filter),
        "min_score": check_min_score(min_score),
        "per_document": check_per_document(per_document),
    }


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

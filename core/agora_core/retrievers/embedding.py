"""Retrieval by meaning: embed the query, search the store."""

from __future__ import annotations

from agora_core.embedding import EmbedderPort
from agora_core.filters import Expression
from agora_core.protocols import AnyFilter, EmbeddingProvider, VectorStore
from agora_core.records import Passage
from agora_core.retrievers.base import BaseRetriever, shared_scope
from agora_core.steps import Steps
from agora_core.stores.ports import StorePort


class EmbeddingRetriever(BaseRetriever):
    """Searches a store by the embedding of the query. Scores are the store's.

    The embedder's `embed_query` is used where it has one. Filter, floor, top-k and the bound by document are answered
    by the store.

    Examples:
        >>> EmbeddingRetriever(embedder, store).retrieve("days of leave", top_k=1)[0].id
        'leave#0'
    """

    def __init__(self, embedder: EmbeddingProvider, store: VectorStore) -> None:
        """Accept any object with `embed` or `aembed`, and any with `search` or `asearch`.

        Raises:
            UnsupportedOperationError: one of them has no such method.
        """
        self.embedder = embedder
        self.store = store
        self._embedder = EmbedderPort(embedder)
        self._store = StorePort(store)
        self._store.method("search")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.embedder).__name__}, {type(self.store).__name__})"

    @property
    def scope(self) -> Expression | None:
        """The scope of the store."""
        return shared_scope([self.store])

    def _retrieve(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        yield from self._store.check_model(self._embedder.model)
        embedding = yield from self._embedder.embed_query(query)
        if embedding is None:
            return []
        found = self._store.search(
            embedding, top_k=top_k, filter=filter, min_score=min_score, per_document=per_document
        )
        return (yield from found)

    def _holds(self, ids: list[str], scope: AnyFilter) -> Steps[set[str]]:
        return {record.id for record in (yield from self._store.get(ids, within=scope))}

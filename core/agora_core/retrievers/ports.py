"""Somebody's retriever or reranker as the retrievers here ask it: resolved once, called by typed steps from then on."""

from __future__ import annotations

from collections.abc import Sequence

from agora_core.calling import Method
from agora_core.events import watching
from agora_core.protocols import AnyFilter
from agora_core.records import Passage
from agora_core.steps import Steps
from agora_core.stores.per_document import grow


class RetrieverPort:
    """A retriever: any object with `retrieve` or `aretrieve`."""

    def __init__(self, retriever: object) -> None:
        """Resolve it.

        Raises:
            UnsupportedOperationError: it has neither method.
        """
        self.retriever = retriever
        self._retrieve = Method(retriever, "retrieve")

    def retrieve(
        self,
        query: str,
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> Steps[list[Passage]]:
        """Retrieve; what is None is not passed on. One that knows no `per_document` is asked for a longer list."""

        def fetch(count: int) -> Steps[list[Passage]]:
            return list((yield from self._retrieve(query, top_k=count, filter=filter, min_score=min_score)))

        if per_document is not None and self._retrieve.names("per_document"):
            options = {"top_k": top_k, "filter": filter, "min_score": min_score, "per_document": per_document}
            return list((yield from self._retrieve(query, **options)))
        if per_document is None:
            return (yield from fetch(top_k))
        return (yield from grow(fetch, top_k=top_k, per_document=per_document))


class RerankerPort:
    """A reranker: any object with `rerank` or `arerank`."""

    def __init__(self, reranker: object) -> None:
        """Resolve it.

        Raises:
            UnsupportedOperationError: it has neither method.
        """
        self.reranker = reranker
        self._rerank = Method(reranker, "rerank")

    def rerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> Steps[list[Passage]]:
        """Rerank; the answer is as it came."""
        steps = self._rerank(query, passages, top_k=top_k)
        by = type(self.reranker).__name__
        return list((yield from watching("rerank", steps, by=by, passages=len(passages), top_k=top_k)))

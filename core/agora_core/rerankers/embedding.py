"""Reranking by the similarity of embeddings: no other model than the one at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agora_core.calling import acall, call
from agora_core.embedding import aembed_query, checked_vectors, embed_query
from agora_core.errors import EmbeddingError
from agora_core.protocols import EmbeddingProvider
from agora_core.records import Passage
from agora_core.rerankers.ordering import check_max_chars, check_request, in_order


class EmbeddingReranker:
    """Scores each passage by the cosine similarity of its embedding to the query's, from -1 to 1; zero vectors give 0.

    Worth most where the first ranking was not made by the same embedder, for example by keywords. The passages' texts
    are embedded at every call; queries go through `embed_query` where the embedder has it.

    Args:
        embedder: any embedding provider, sync, async or both.
        max_passage_chars: only so many leading characters of a passage are embedded; default None, all of it.

    Raises:
        EmbeddingError: the embedder answers with something else than one vector per text, all of one length.
        UnsupportedOperationError: `rerank` is used with an embedder that has only async methods.

    Examples:
        >>> EmbeddingReranker(embedder).rerank("days of leave", passages, top_k=1)[0].id
        'leave#0'
    """

    def __init__(self, embedder: EmbeddingProvider | Any, *, max_passage_chars: int | None = None) -> None:
        self._embedder = embedder
        self._max_chars = check_max_chars(max_passage_chars)

    def rerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        """Return fresh passages by similarity to the query, best first, the best `top_k` where it is given."""
        checked = check_request(query, passages, top_k)
        if not checked:
            return []
        texts = self._texts(checked)
        query_vector = embed_query(self._embedder, query)
        vectors = call(self._embedder, "embed", texts)
        return in_order(checked, self._similarities(query_vector, vectors, len(texts)), top_k)

    async def arerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        """Do what `rerank` does without blocking the event loop."""
        checked = check_request(query, passages, top_k)
        if not checked:
            return []
        texts = self._texts(checked)
        query_vector = await aembed_query(self._embedder, query)
        vectors = await acall(self._embedder, "embed", texts)
        return in_order(checked, self._similarities(query_vector, vectors, len(texts)), top_k)

    def _texts(self, passages: Sequence[Passage]) -> list[str]:
        return [passage.text[: self._max_chars] for passage in passages]

    def _similarities(self, query_vector: Any, vectors: Any, count: int) -> list[float]:
        """Return the cosine similarity of each of `count` vectors to the query's."""
        listed = list(checked_vectors(vectors, count, self._embedder))
        try:
            query = np.asarray(query_vector, dtype=np.float64)
            matrix = np.asarray(listed, dtype=np.float64)
        except (TypeError, ValueError):
            name = type(self._embedder).__name__
            raise EmbeddingError(f"{name} answered with something that is not vectors of one length") from None
        if query.ndim != 1 or matrix.shape != (count, len(query)):
            raise EmbeddingError(
                f"{type(self._embedder).__name__} answered with vectors of shape {matrix.shape} to {count} texts "
                f"and of shape {query.shape} to a query"
            )
        # Not a matrix product: BLAS may round equal rows differently by their place, and equals must stay equal.
        products = (_unit(matrix) * _unit(query[None])).sum(axis=1)
        similarities: list[float] = products.clip(-1.0, 1.0).tolist()
        return similarities


def _unit(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    # Scaled by the largest part first, so that squares neither overflow nor vanish.
    largest = np.abs(matrix).max(axis=1, keepdims=True, initial=0.0)
    scaled = matrix / np.where(largest == 0.0, 1.0, largest)
    lengths = np.linalg.norm(scaled, axis=1, keepdims=True)
    unit: NDArray[np.float64] = scaled / np.where(lengths == 0.0, 1.0, lengths)
    return unit

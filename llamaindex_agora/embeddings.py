"""Their embedding models as embedding providers of the core."""

from __future__ import annotations

from collections.abc import Sequence

from llama_index.core.base.embeddings.base import BaseEmbedding


class LlamaIndexEmbeddingProvider:
    """A LlamaIndex embedding model where the core expects an embedder; texts and queries are embedded apart."""

    def __init__(self, embedding: BaseEmbedding) -> None:
        """Stand on `embedding`; nothing is embedded yet."""
        self._embedding = embedding

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._embedding.model_name!r})"

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector per passage, in the same order."""
        return self._embedding.get_text_embedding_batch(list(texts))

    async def aembed(self, texts: Sequence[str]) -> list[list[float]]:
        """Async twin of `embed`."""
        return await self._embedding.aget_text_embedding_batch(list(texts))

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return self._embedding.get_query_embedding(text)

    async def aembed_query(self, text: str) -> list[float]:
        """Async twin of `embed_query`."""
        return await self._embedding.aget_query_embedding(text)

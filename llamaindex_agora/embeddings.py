"""Embedding models in both directions: theirs as a seam of the core, ours wherever LlamaIndex takes one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr

from agora_core.adapting import EmbedderPort, arun, run
from agora_core.errors import EmbeddingError
from agora_core.protocols import AsyncEmbeddingProvider, EmbeddingProvider
from agora_core.records import Embedding
from llamaindex_agora.arguments import refuse_unknown


class LlamaIndexEmbeddingProvider:
    """A LlamaIndex embedding model where the core expects an embedder; texts and queries are embedded apart.

    Examples:
        >>> theirs = AgoraEmbedding(embedder)  # any embedding model of LlamaIndex's
        >>> len(LlamaIndexEmbeddingProvider(theirs).embed(["days of leave"])[0])
        64
    """

    def __init__(self, embedding: BaseEmbedding) -> None:
        """Stand on `embedding`; nothing is embedded yet."""
        self._embedding = embedding

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._embedding.model_name!r})"

    @property
    def model(self) -> str | None:
        """The name of the model, which stores remember; None where it goes unnamed."""
        name = self._embedding.model_name
        return name if name and name != "unknown" else None

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


class AgoraEmbedding(BaseEmbedding):
    """Any embedder of the core wherever LlamaIndex takes an embedding model; queries keep their own path.

    Args:
        provider: any object with `embed` or `aembed`.
        kwargs: what `BaseEmbedding` takes, for instance `embed_batch_size`.

    Examples:
        >>> len(AgoraEmbedding(embedder).get_query_embedding("days of leave"))
        64
    """

    _port: EmbedderPort = PrivateAttr()

    def __init__(self, provider: EmbeddingProvider | AsyncEmbeddingProvider, **kwargs: Any) -> None:
        """Take the embedder; nothing is embedded yet.

        Raises:
            UnsupportedOperationError: it embeds nothing.
            TypeError: an unknown keyword.
        """
        refuse_unknown(type(self), kwargs)
        port = EmbedderPort(provider)
        super().__init__(**{"model_name": port.model or type(provider).__name__, **kwargs})
        self._port = port

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex knows this class."""
        return "AgoraEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._one(run(self._port.embed_query(query)))

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._one(await arun(self._port.embed_query(query)))

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return (await self._aget_text_embeddings([text]))[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return [_floats(vector) for vector in run(self._port.embed(texts))]

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return [_floats(vector) for vector in await arun(self._port.embed(texts))]

    def _one(self, vector: Embedding | None) -> list[float]:
        if vector is None:
            raise EmbeddingError(f"{self.model_name} returned no vector for a query; it must return one")
        return _floats(vector)


def _floats(vector: Embedding) -> list[float]:
    return vector.tolist() if hasattr(vector, "tolist") else [float(value) for value in vector]

"""Embedding models in both directions: theirs as a seam of ours, ours wherever LangChain takes `Embeddings`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.embeddings import Embeddings

from agora_core.calling import acall, call, offers
from agora_core.embedding import aembed_query, checked_vectors, embed_query
from agora_core.errors import EmbeddingError, InvalidArgumentError
from agora_core.protocols import EmbeddingProvider
from agora_core.records import Embedding


class LangChainEmbeddingProvider:
    """Any LangChain `Embeddings` as an `EmbeddingProvider` of the core. Documents and queries keep their own paths.

    Examples:
        >>> theirs = AgoraEmbeddings(embedder)  # any embeddings of LangChain's
        >>> len(LangChainEmbeddingProvider(theirs).embed(["days of leave"])[0])
        64
    """

    def __init__(self, embeddings: Embeddings) -> None:
        """Stand on `embeddings`, which must have `embed_documents` and `embed_query`."""
        if not offers(embeddings, "embed_documents") or not offers(embeddings, "embed_query"):
            raise InvalidArgumentError(
                f"embeddings must have embed_documents and embed_query, got {type(embeddings).__name__}"
            )
        self.embeddings = embeddings

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.embeddings).__name__})"

    @property
    def model(self) -> str | None:
        """The name of the model, which stores remember; None where the embeddings do not say."""
        names = (getattr(self.embeddings, name, None) for name in ("model", "model_name"))
        return next((name for name in names if isinstance(name, str) and name), None)

    def embed(self, texts: Sequence[str]) -> Sequence[Embedding]:
        """Embed texts as documents."""
        return self.embeddings.embed_documents(list(texts))

    async def aembed(self, texts: Sequence[str]) -> Sequence[Embedding]:
        """Async twin of `embed`."""
        return await self.embeddings.aembed_documents(list(texts))

    def embed_query(self, text: str) -> Embedding:
        """Embed one text as a query."""
        return self.embeddings.embed_query(text)

    async def aembed_query(self, text: str) -> Embedding:
        """Async twin of `embed_query`."""
        return await self.embeddings.aembed_query(text)


class AgoraEmbeddings(Embeddings):
    """Any `EmbeddingProvider` of the core wherever LangChain takes `Embeddings`.

    Examples:
        >>> len(AgoraEmbeddings(embedder).embed_query("days of leave"))
        64
    """

    def __init__(self, provider: EmbeddingProvider) -> None:
        """Stand on any object with `embed` or `aembed`."""
        if not offers(provider, "embed"):
            raise InvalidArgumentError(f"provider must have embed or aembed, got {type(provider).__name__}")
        self.provider = provider

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.provider).__name__})"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts; one vector per text, in the same order."""
        return _lists(checked_vectors(call(self.provider, "embed", texts), len(texts), self.provider))

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """Async twin of `embed_documents`."""
        return _lists(checked_vectors(await acall(self.provider, "embed", texts), len(texts), self.provider))

    def embed_query(self, text: str) -> list[float]:
        """Embed one text as a query."""
        return self._only(embed_query(self.provider, text))

    async def aembed_query(self, text: str) -> list[float]:
        """Async twin of `embed_query`."""
        return self._only(await aembed_query(self.provider, text))

    def _only(self, vector: Embedding | None) -> list[float]:
        if vector is None:
            raise EmbeddingError(f"{type(self.provider).__name__} returned no vector for a query; it must return one")
        return _list(vector)


def as_embeddings(embedding: Any) -> Embeddings:
    """Return `embedding` where LangChain can use it, and one of ours behind `AgoraEmbeddings`.

    Raises:
        InvalidArgumentError: it is neither.
    """
    if isinstance(embedding, Embeddings) or (offers(embedding, "embed_documents") and offers(embedding, "embed_query")):
        return embedding  # type: ignore[no-any-return]
    return AgoraEmbeddings(embedding)


def _lists(vectors: Sequence[Embedding]) -> list[list[float]]:
    return [_list(vector) for vector in vectors]


def _list(vector: Embedding) -> list[float]:
    # numpy's own conversion is much cheaper than one float at a time.
    return vector.tolist() if hasattr(vector, "tolist") else list(vector)

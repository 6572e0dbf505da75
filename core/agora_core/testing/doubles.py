"""Stand-ins for models: deterministic, offline, with scores a person can check."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agora_core.calling import given
from agora_core.errors import InvalidArgumentError
from agora_core.ingestion import ingest_documents
from agora_core.protocols import EmbeddingProvider
from agora_core.records import IngestDocument, Passage
from agora_core.retrievers.embedding import EmbeddingRetriever
from agora_core.validation import check_dimension

_TOKEN = re.compile(r"[a-z0-9]+")


def tokens_of(text: str) -> list[str]:
    """Return the runs of ASCII letters and digits of `text`, in lower case."""
    return _TOKEN.findall(text.lower())


class FakeEmbeddingProvider:
    """Embeds by counting words: each is hashed to one of `dimensions` places, which counts it.

    Texts that share words are similar; a text without words is the zero vector. Vectors are not normalised.

    Examples:
        >>> len(FakeEmbeddingProvider(dimensions=8).embed(["days of leave"])[0])
        8
    """

    def __init__(self, dimensions: int = 64) -> None:
        """Give every vector `dimensions` numbers, 1 or more."""
        self.dimensions = check_dimension(dimensions, argument="dimensions")

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return one vector of word counts per text."""
        return [self._count(text) for text in texts]

    async def aembed(self, texts: Sequence[str]) -> list[list[float]]:
        """Async twin of `embed`."""
        return self.embed(texts)

    def _count(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        for token in tokens_of(text):
            vector[_fnv1a(token) % self.dimensions] += 1.0
        return vector


class FakeReranker:
    """Scores a passage by how many different words of the query it holds; equal scores keep their order.

    Examples:
        >>> FakeReranker().rerank("directors", passages, top_k=1)[0].id
        'board#0'
    """

    def rerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        """Return the best `top_k` passages, all where it is None, with their new scores.

        A stand-in for a reranker obeys what it is told: 0 gives none. It is the retrievers that refuse it.
        """
        if top_k is not None and top_k < 0:
            raise InvalidArgumentError(f"top_k must be 0 or more, got {top_k}")
        words = set(tokens_of(query))
        scored = [
            Passage(
                passage.id,
                passage.text,
                float(len(words & set(tokens_of(passage.text)))),
                passage.source,
                passage.metadata,
            )
            for passage in passages
        ]
        return sorted(scored, key=lambda passage: -passage.score)[:top_k]

    async def arerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        """Async twin of `rerank`."""
        return self.rerank(query, passages, top_k=top_k)


def in_memory_retriever(
    documents: Iterable[IngestDocument | str] | Mapping[str, str] = (),
    *,
    embedder: EmbeddingProvider | None = None,
    chunk_size: int | None = None,
    overlap: int | None = None,
    separator: str | None = None,
    **store_options: Any,
) -> EmbeddingRetriever:
    """Return a retriever over a new `MemoryVectorStore` that holds `documents`.

    Args:
        documents: documents, or plain texts (their ids are `doc0`, `doc1`, ...), or texts by id.
        embedder: None takes a `FakeEmbeddingProvider`.
        chunk_size: see `chunk_text`, like `overlap` and `separator`.
        overlap: see `chunk_text`.
        separator: see `chunk_text`.
        store_options: of the store (`metric`, `dimension`).

    Examples:
        >>> in_memory_retriever({"faq": "Returns are free."}).retrieve("returns")[0].id
        'faq#0'
    """
    from agora_core.stores.memory import MemoryVectorStore

    provider = FakeEmbeddingProvider() if embedder is None else embedder
    store = MemoryVectorStore(**store_options)
    chunking = given(chunk_size=chunk_size, overlap=overlap, separator=separator)
    ingest_documents(_as_documents(documents), embedder=provider, store=store, **chunking)
    return EmbeddingRetriever(provider, store)


def _as_documents(documents: Iterable[IngestDocument | str] | Mapping[str, str]) -> list[IngestDocument]:
    if isinstance(documents, Mapping):
        return [IngestDocument(key, text) for key, text in documents.items()]
    return [
        IngestDocument(f"doc{number}", document) if isinstance(document, str) else document
        for number, document in enumerate(documents)
    ]


def _fnv1a(token: str) -> int:
    """Return the 32-bit FNV-1a hash of a token's characters (RFC draft eastlake-fnv)."""
    value = 0x811C9DC5
    for character in token:
        value = ((value ^ ord(character)) * 0x01000193) & 0xFFFFFFFF
    return value

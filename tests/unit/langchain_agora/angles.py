"""An embedding model whose similarities a person can tell: directions in the plane, by their degrees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.embeddings import Embeddings

from agora_core import (
    MemoryVectorStore,
)
from langchain_agora import AgoraVectorStore
from tests.unit.langchain_agora.colours import Run


class Angles(Embeddings):
    """Embeds a number of degrees as that direction in the plane, and remembers what it was paid for."""

    def __init__(self) -> None:
        self.texts: list[list[str]] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.texts.append(texts)
        return [self.at(float(text)) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self.at(float(text))

    @staticmethod
    def at(degrees: float) -> list[float]:
        import math

        return [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]


def angles(metric: Any = "cosine", **options: Any) -> AgoraVectorStore:
    return AgoraVectorStore(MemoryVectorStore(metric=metric), Angles(), **options)


def filled(run: Run, *degrees: str, **options: Any) -> AgoraVectorStore:
    vectors = angles(**options)
    run(vectors, "add_texts", degrees, [{"n": n} for n in range(len(degrees))], ids=list(degrees))
    return vectors


def ids_of(found: Sequence[Any]) -> list[str | None]:
    return [item[0].id if isinstance(item, tuple) else item.id for item in found]

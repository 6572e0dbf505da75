"""How an embedder is asked: for a query, for texts; its answer is checked before anything is built on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agora_core.calling import acall, call, offers
from agora_core.errors import EmbeddingError, InvalidArgumentError
from agora_core.records import Embedding


def embed_query(embedder: object, query: str) -> Embedding | None:
    """Embed a query: by `embed_query` where the embedder has one, else as the only text of `embed`.

    None where the embedder answers that one text with no vector at all: there is nothing to search by.

    Raises:
        EmbeddingError: the embedder answers with more than one vector.
    """
    if offers(embedder, "embed_query"):
        return call(embedder, "embed_query", query)
    return _only_vector(call(embedder, "embed", [query]), embedder)


async def aembed_query(embedder: object, query: str) -> Embedding | None:
    """Async twin of `embed_query`."""
    if offers(embedder, "embed_query"):
        return await acall(embedder, "embed_query", query)
    return _only_vector(await acall(embedder, "embed", [query]), embedder)


def checked_vectors(answer: Any, texts: int, embedder: object) -> Sequence[Embedding]:
    """Return the answer of an embedder as a sequence of exactly `texts` vectors.

    Raises:
        EmbeddingError: there are more or fewer, or the answer cannot be counted.
    """
    try:
        vectors: Sequence[Embedding] = answer if hasattr(answer, "__len__") else list(answer)
        count = len(vectors)
    except TypeError:
        raise EmbeddingError(
            f"{type(embedder).__name__}.embed must return one vector per text, got {type(answer).__name__}"
        ) from None
    if count != texts:
        raise EmbeddingError(
            f"{type(embedder).__name__}.embed returned {count} vectors for {texts} texts; "
            "it must return one per text, in the same order"
        )
    return vectors


def check_query(query: Any) -> str:
    """Return a query as it is.

    Raises:
        InvalidArgumentError: it is no str.
    """
    if not isinstance(query, str):
        raise InvalidArgumentError(f"query must be a str, got {type(query).__name__}")
    return query


def _only_vector(answer: Any, embedder: object) -> Embedding | None:
    if answer is not None and hasattr(answer, "__len__") and len(answer) == 0:
        return None
    return checked_vectors(answer, 1, embedder)[0]

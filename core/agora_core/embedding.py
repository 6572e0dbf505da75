"""How an embedder is asked: for a query, for texts; its answer is checked before anything is built on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agora_core.calling import Method, offers
from agora_core.errors import EmbeddingError, InvalidArgumentError
from agora_core.events import listening, watching
from agora_core.records import Embedding
from agora_core.steps import Steps, arun, run


class EmbedderPort:
    """Somebody's embedder as this library asks it; every answer is checked."""

    def __init__(self, embedder: object) -> None:
        """Accept any object with `embed` or `aembed`, or with `embed_query` or `aembed_query` for queries alone.

        Raises:
            UnsupportedOperationError: it has none of them.
        """
        self.embedder = embedder
        self._query = Method(embedder, "embed_query") if offers(embedder, "embed_query") else None
        self._embed = None if self._query is not None and not offers(embedder, "embed") else Method(embedder, "embed")

    @property
    def model(self) -> str | None:
        """The name of the embedder's model; None where it has none."""
        name = getattr(self.embedder, "model", None)
        return name if isinstance(name, str) and name else None

    def embed(self, texts: Sequence[str]) -> Steps[Sequence[Embedding]]:
        """Embed texts, one vector for each.

        Raises:
            EmbeddingError: the embedder answers with more or fewer vectors than texts.
        """
        method = self._embed or Method(self.embedder, "embed")
        answer = yield from self._watched(method(texts), texts)
        return checked_vectors(answer, len(texts), self.embedder)

    def embed_query(self, query: str) -> Steps[Embedding | None]:
        """Embed a query: by `embed_query` where the embedder has one, else as the only text of `embed`.

        None where the embedder answers that one text with no vector at all: there is nothing to search by.

        Raises:
            EmbeddingError: the embedder answers with more than one vector.
        """
        if self._query is not None:
            embedding: Embedding = yield from self._watched(self._query(query), [query])
            return embedding
        method = self._embed or Method(self.embedder, "embed")
        return _only_vector((yield from self._watched(method([query]), [query])), self.embedder)

    def _watched(self, steps: Steps[Any], texts: Sequence[str]) -> Steps[Any]:
        characters = sum(map(len, texts)) if listening() else 0
        by = type(self.embedder).__name__
        return watching("embed", steps, by=by, texts=len(texts), characters=characters)


def embed_query(embedder: object, query: str) -> Embedding | None:
    """Embed a query; see `EmbedderPort.embed_query`."""
    return run(EmbedderPort(embedder).embed_query(query))


async def aembed_query(embedder: object, query: str) -> Embedding | None:
    """Async twin of `embed_query`."""
    return await arun(EmbedderPort(embedder).embed_query(query))


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
        InvalidArgumentError: it is not a str.
    """
    if not isinstance(query, str):
        raise InvalidArgumentError(f"query must be a str, got {type(query).__name__}")
    return query


def _only_vector(answer: Any, embedder: object) -> Embedding | None:
    if answer is not None and hasattr(answer, "__len__") and len(answer) == 0:
        return None
    return checked_vectors(answer, 1, embedder)[0]

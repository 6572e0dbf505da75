"""Texts to vectors in full batches, some at once; a batch that fails is told and stops nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np

from agora_core.concurrency import map_bounded
from agora_core.embedding import EmbedderPort
from agora_core.records import Embedding
from agora_core.steps import Call, Steps, arun, run

_TEXTS: Final = 256
_CHARACTERS: Final = 200_000

Answer = Sequence[Embedding] | Exception
"""The vectors of one batch, or what it failed with."""


def batched(texts: Sequence[str]) -> Iterator[list[str]]:
    """Cut texts into batches of at most 256 texts and 200,000 characters; a longer text goes alone."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == _TEXTS or characters + len(text) > _CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch


def embed_batches(embedder: EmbedderPort, batches: Sequence[list[str]], *, concurrency: int) -> Steps[list[Answer]]:
    """Embed batches, at most `concurrency` at once: in threads from sync code, as tasks from async code."""

    def one(texts: list[str]) -> Answer:
        try:
            return narrow(run(embedder.embed(texts)))
        except Exception as error:
            return error

    async def aone(texts: list[str]) -> Answer:
        try:
            return narrow(await arun(embedder.embed(texts)))
        except Exception as error:
            return error

    def at_once() -> list[Answer]:
        if len(batches) < 2 or concurrency == 1:
            return list(map(one, batches))
        with ThreadPoolExecutor(min(concurrency, len(batches)), thread_name_prefix="agora-embed") as pool:
            return list(pool.map(one, batches))

    answers: list[Answer] = yield Call(at_once, lambda: map_bounded(aone, batches, limit=concurrency))
    return answers


def narrow(vectors: Sequence[Any]) -> Sequence[Embedding]:
    """Return vectors as the float32 that stores keep, an eighth of a list of Python floats; what is none stays."""
    try:
        with np.errstate(over="ignore"):
            matrix = np.asarray(vectors)
            return list(matrix.astype(np.float32)) if matrix.ndim == 2 and matrix.dtype.kind in "fiu" else vectors
    except (ValueError, TypeError):
        return vectors

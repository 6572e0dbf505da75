"""Texts to vectors in full batches, some at once; a batch that fails is told and stops nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Final

import numpy as np

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


class EmbeddingAhead:
    """Embeds batches, some at once, while the caller goes on: in threads from sync code, as tasks from async code.

    With a concurrency of 1 nothing runs beside the caller, and the embedder is asked when the answers are.
    """

    def __init__(self, embedder: EmbedderPort, concurrency: int) -> None:
        self._embedder = embedder
        self._concurrency = concurrency
        self._pool: ThreadPoolExecutor | None = None
        self._turns: asyncio.Semaphore | None = None
        self._under_way: list[Any] = []

    def begin(self, batches: Sequence[list[str]]) -> Steps[Steps[list[Answer]]]:
        """Begin to embed; the steps returned give the answers, in the order of the batches."""
        if self._concurrency == 1 or not batches:
            return self._answers(batches)
        under_way = yield Call(lambda: self._submitted(batches), lambda: self._started(batches))
        return self._awaited(under_way)

    def close(self) -> None:
        """Begin no further batch; threads end what they are at."""
        for one in self._under_way:
            one.cancel()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _answers(self, batches: Sequence[list[str]]) -> Steps[list[Answer]]:
        answers: list[Answer] = []
        for texts in batches:
            answer: Answer = yield Call(partial(self._embed, texts), partial(self._aembed, texts))
            answers.append(answer)
        return answers

    def _awaited(self, under_way: list[Any]) -> Steps[list[Answer]]:
        async def gathered() -> list[Answer]:
            return [await one for one in under_way]

        answers: list[Answer] = yield Call(lambda: [one.result() for one in under_way], gathered)
        self._under_way = [one for one in self._under_way if one not in under_way]
        return answers

    def _submitted(self, batches: Sequence[list[str]]) -> list[Any]:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._concurrency, thread_name_prefix="agora-embed")
        under_way = [self._pool.submit(copy_context().run, self._embed, texts) for texts in batches]
        self._under_way += under_way
        return under_way

    async def _started(self, batches: Sequence[list[str]]) -> list[Any]:
        if self._turns is None:
            self._turns = asyncio.Semaphore(self._concurrency)
        turns = self._turns

        async def in_turn(texts: list[str]) -> Answer:
            async with turns:
                return await self._aembed(texts)

        under_way = [asyncio.ensure_future(in_turn(texts)) for texts in batches]
        self._under_way += under_way
        return under_way

    def _embed(self, texts: list[str]) -> Answer:
        try:
            return narrow(run(self._embedder.embed(texts)))
        except Exception as error:
            return error

    async def _aembed(self, texts: list[str]) -> Answer:
        try:
            return narrow(await arun(self._embedder.embed(texts)))
        except Exception as error:
            return error


def narrow(vectors: Sequence[Any]) -> Sequence[Embedding]:
    """Return vectors as the float32 that stores keep, an eighth of a list of Python floats; what is none stays."""
    try:
        with np.errstate(over="ignore"):
            matrix = np.asarray(vectors)
            return list(matrix.astype(np.float32)) if matrix.ndim == 2 and matrix.dtype.kind in "fiu" else vectors
    except (ValueError, TypeError):
        return vectors

"""Retrievers and stores for the tests of composed retrievers: real lists, recorded calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Any

from agora_core import Passage


def passages(*ids: str, first: float = 1.0) -> list[Passage]:
    return [Passage(key, f"text {key}", first - place / 100, f"{key}.md") for place, key in enumerate(ids)]


class Static:
    """A retriever in sync only: returns its list cut to `top_k`, and records what it was asked."""

    def __init__(self, found: Sequence[Passage], error: Exception | None = None) -> None:
        self.found = list(found)
        self.error = error
        self.calls: list[dict[str, Any]] = []
        self.threads: list[str] = []

    def retrieve(self, query: str, **options: Any) -> list[Passage]:
        self.calls.append({"query": query, **options})
        self.threads.append(threading.current_thread().name)
        if self.error is not None:
            raise self.error
        return self.found[: options["top_k"]]


class AsyncStatic:
    """A retriever in async only; it can wait for others, and tells whether it was cancelled."""

    def __init__(self, found: Sequence[Passage], error: Exception | None = None, waits: bool = False) -> None:
        self.found = list(found)
        self.error = error
        self.waits = waits
        self.cancelled = False
        self.started = asyncio.Event()

    async def aretrieve(self, query: str, **options: Any) -> list[Passage]:
        self.started.set()
        await asyncio.sleep(0)
        if self.waits:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled = True
                raise
        if self.error is not None:
            raise self.error
        return self.found[: options["top_k"]]

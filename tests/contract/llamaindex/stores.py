"""Every store of the core behind the LlamaIndex adapter, empty, in both colours."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from agora_core import KeywordRetriever, MemoryVectorStore, PgLexicalVectorStore, QdrantLexicalVectorStore
from llamaindex_agora import AgoraVectorStore

KINDS = ("memory", "postgres", "qdrant")
_ASYNC_NAMES = {"add": "async_add"}


class Colour:
    """An adapter whose methods are called sync or async, so that each demand is written once."""

    def __init__(self, target: Any, loop: asyncio.AbstractEventLoop | None) -> None:
        self.target, self._loop = target, loop

    def __getattr__(self, name: str) -> Any:
        loop = self._loop
        if loop is None:
            return getattr(self.target, name)
        native = getattr(self.target, _ASYNC_NAMES.get(name, "a" + name))
        return lambda *args, **options: loop.run_until_complete(native(*args, **options))

    def of(self, target: Any) -> Colour:
        return Colour(target, self._loop)


@contextmanager
def open_adapter(kind: str, colour: str, conninfo: str, *, dimension: int = 3) -> Iterator[Colour]:
    """Yield an adapter over an empty store that searches text too."""
    name = f"li_{uuid.uuid4().hex[:12]}"
    with ExitStack() as stack:
        loop = None
        if colour == "async":
            loop = asyncio.new_event_loop()
            stack.callback(loop.close)
        keyword = None
        store: Any
        if kind == "memory":
            store, keyword = MemoryVectorStore(dimension=dimension), KeywordRetriever()
        elif kind == "postgres":
            store = PgLexicalVectorStore(conninfo, table=name, dimension=dimension)
            store.ensure_schema()
        else:
            store = QdrantLexicalVectorStore(":memory:", collection=name, dimension=dimension)
            store.ensure_collection()
        stack.callback(store.close if loop is None else lambda: loop.run_until_complete(store.aclose()))
        yield Colour(AgoraVectorStore(store=store, keyword=keyword), loop)

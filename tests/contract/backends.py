"""The stores that are held against each other, each with a quick way to an empty one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import sql

from agora_core import MemoryVectorStore, PgVectorStore, QdrantStore

_counter = itertools.count()
DIMENSION = 3


@dataclass
class Backend:
    """One store in one colour; `empty(metric)` gives it empty."""

    name: str
    colour: str
    empty: Callable[[Any], Any]
    unit_vectors: bool = False


@dataclass
class Backends:
    """Every backend, and the event loop that their async colours live in."""

    all: list[Backend]
    loop: asyncio.AbstractEventLoop


@contextmanager
def open_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Yield an event loop, and wind it up as `asyncio.run` does: what still runs in it is cancelled."""
    loop = asyncio.new_event_loop()
    try:
        yield loop
    finally:
        loop.run_until_complete(_cancel_the_rest())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _cancel_the_rest() -> None:
    pending = asyncio.all_tasks() - {asyncio.current_task()}
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)


@contextmanager
def open_backends(conninfo: str) -> Iterator[Backends]:
    """Yield every backend; the database ones keep one table or collection a metric and are emptied between runs."""
    with ExitStack() as stack:
        loop = stack.enter_context(open_loop())
        admin = stack.enter_context(psycopg.connect(conninfo, autocommit=True))
        backends = [
            Backend("memory", "sync", lambda metric: MemoryVectorStore(metric, DIMENSION)),
            _postgres(stack, admin, conninfo, None),
            _postgres(stack, admin, conninfo, loop),
            Backend("qdrant", "sync", _empty_qdrant, unit_vectors=True),
            Backend("qdrant (async)", "async", _empty_qdrant, unit_vectors=True),
        ]
        yield Backends(backends, loop)


def _postgres(
    stack: ExitStack,
    admin: psycopg.Connection[Any],
    conninfo: str,
    loop: asyncio.AbstractEventLoop | None,
) -> Backend:
    stores: dict[str, PgVectorStore] = {}

    def empty(metric: Any) -> PgVectorStore:
        if metric not in stores:
            table = f"machine_{metric}_{next(_counter)}"
            store = PgVectorStore(conninfo, table=table, dimension=DIMENSION, metric=metric)
            store.ensure_schema()
            stack.callback(store.close if loop is None else lambda: loop.run_until_complete(store.aclose()))
            stores[metric] = store
        admin.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(stores[metric].table)))
        return stores[metric]

    return Backend("postgres", "sync", empty) if loop is None else Backend("postgres (async)", "async", empty)


def _empty_qdrant(metric: Any) -> QdrantStore:
    store = QdrantStore(":memory:", collection=f"machine_{next(_counter)}", dimension=DIMENSION, metric=metric)
    store.ensure_collection()
    return store

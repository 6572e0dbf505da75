"""The stores that are held against each other, each with a quick way to an empty one."""

from __future__ import annotations

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
    empty: Callable[[str], Any]
    unit_vectors: bool = False


@contextmanager
def open_backends(conninfo: str) -> Iterator[list[Backend]]:
    """Yield every backend; the database ones keep one table or collection a metric and are emptied between runs."""
    with ExitStack() as stack:
        admin = stack.enter_context(psycopg.connect(conninfo, autocommit=True))
        yield [
            Backend("memory", "sync", lambda metric: MemoryVectorStore(metric, DIMENSION)),
            _postgres(stack, admin, conninfo, "sync"),
            _postgres(stack, admin, conninfo, "async"),
            Backend("qdrant", "sync", _empty_qdrant, unit_vectors=True),
            Backend("qdrant", "async", _empty_qdrant, unit_vectors=True),
        ]


def _postgres(stack: ExitStack, admin: psycopg.Connection[Any], conninfo: str, colour: str) -> Backend:
    stores: dict[str, PgVectorStore] = {}

    def empty(metric: str) -> PgVectorStore:
        if metric not in stores:
            table = f"machine_{colour}_{metric}_{next(_counter)}"
            store = PgVectorStore(conninfo, table=table, dimension=DIMENSION, metric=metric)
            store.ensure_schema()
            stack.callback(store.close)
            stores[metric] = store
        admin.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(stores[metric].table)))
        return stores[metric]

    return Backend("postgres" if colour == "sync" else "postgres (async)", colour, empty)


def _empty_qdrant(metric: str) -> QdrantStore:
    store = QdrantStore(":memory:", collection=f"machine_{next(_counter)}", dimension=DIMENSION, metric=metric)
    store.ensure_collection()
    return store

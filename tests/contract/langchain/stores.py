"""Every store of the core, opened empty for a test of the adapter."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agora_core import MemoryVectorStore, QdrantStore

KINDS = ("memory", "postgres", "qdrant")


@contextmanager
def open_store(kind: str, conninfo: Any, *, dimension: int, metric: Any = "cosine") -> Iterator[Any]:
    """Yield an empty store; `conninfo` is called where a PostgreSQL server is needed."""
    name = f"lc_{uuid.uuid4().hex[:12]}"
    if kind == "memory":
        with MemoryVectorStore(metric=metric, dimension=dimension) as memory:
            yield memory
    elif kind == "postgres":
        from agora_core import PgVectorStore

        with PgVectorStore(conninfo(), table=name, dimension=dimension, metric=metric) as postgres:
            postgres.ensure_schema()
            yield postgres
    else:
        with QdrantStore(":memory:", collection=name, dimension=dimension, metric=metric) as qdrant:
            qdrant.ensure_collection()
            yield qdrant

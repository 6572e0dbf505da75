"""Clients to test with: local mode, the real engine, and a server where one is named."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from qdrant_client import QdrantClient

from agora_core import QdrantStore
from tests.integration.qdrant.edge_client import EdgeClient

_numbers = itertools.count()
_KINDS = ["local", "engine", *(["server"] if "AGORA_QDRANT_URL" in os.environ else [])]

StoreMaker = Callable[..., Any]


@pytest.fixture(scope="session", params=_KINDS)
def qdrant_client(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Yield a client of each kind."""
    with ExitStack() as stack:
        if request.param == "local":
            client: Any = QdrantClient(":memory:", force_disable_check_same_thread=True)
        elif request.param == "engine":
            client = EdgeClient()
        else:
            client = QdrantClient(os.environ["AGORA_QDRANT_URL"], api_key=os.environ.get("AGORA_QDRANT_API_KEY"))
        stack.callback(client.close)
        yield client


@pytest.fixture
def make_store(qdrant_client: Any) -> Iterator[StoreMaker]:
    """Return a function that makes empty stores, whose collections are dropped after the test."""
    made: list[QdrantStore] = []

    def make(kind: type[QdrantStore] = QdrantStore, *, dimension: int = 2, **options: Any) -> QdrantStore:
        options.setdefault("collection", f"test_{next(_numbers)}")
        store = kind(qdrant_client, dimension=dimension, **options)
        store.ensure_collection()
        made.append(store)
        return store

    yield make
    for collection in dict.fromkeys(store._settings.collection for store in made):
        qdrant_client.delete_collection(collection)

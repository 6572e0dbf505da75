"""The contract on every way to reach Qdrant: its engine, its REST interface, and its async client alone."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
from qdrant_client import AsyncQdrantClient

from agora_core import QdrantStore, matches_filter
from agora_core.testing.contract import Caller, VectorStoreContract
from agora_core.testing.examples import FILTER_EXAMPLES, METADATA_EXAMPLES
from tests.integration.qdrant.edge_client import EdgeClient
from tests.integration.qdrant.rest_server import CLIENT_OPTIONS, RestServer, rest_server

pytestmark = pytest.mark.qdrant

_numbers = itertools.count()


class _OnQdrant(VectorStoreContract):
    keeps_embeddings = ("l2", "inner")

    def made(self, dimension: int, metric: Any, *where: Any, **options: Any) -> QdrantStore:
        store = QdrantStore(
            *where, collection=f"contract_{next(_numbers)}", dimension=dimension, metric=metric, **options
        )
        store.ensure_collection()
        return store


class TestEngine(_OnQdrant):
    _client: ClassVar[EdgeClient]

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _engine(cls) -> Iterator[None]:
        cls._client = EdgeClient()
        yield
        cls._client.close()

    @pytest.fixture(autouse=True)
    def _emptied(self) -> Iterator[None]:
        yield
        self._client.drop_all()

    def make_store(self, *, dimension: int, metric: str) -> QdrantStore:
        return self.made(dimension, metric, self._client)


class TestRest(_OnQdrant):
    shares_filled_store = True
    _server: ClassVar[RestServer]

    @pytest.mark.parametrize("name", list(FILTER_EXAMPLES))
    def test_filter_means_the_same_everywhere(self, filled: Caller, name: str) -> None:
        """On its way every call sends a filter in the same form, so two of them are made."""
        filter = FILTER_EXAMPLES[name]
        expected = [f"r{n:02}#0" for n, metadata in enumerate(METADATA_EXAMPLES) if matches_filter(metadata, filter)]
        assert filled.count(filter) == len(expected)
        assert [p.id for p in filled.search([1, 0, 0], top_k=100, filter=filter)] == expected

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _http(cls) -> Iterator[None]:
        with rest_server() as cls._server:
            yield

    def make_store(self, *, dimension: int, metric: str) -> QdrantStore:
        return self.made(dimension, metric, self._server.url, client_options=CLIENT_OPTIONS)


if "AGORA_QDRANT_URL" in os.environ:

    class TestServer(_OnQdrant):
        def make_store(self, *, dimension: int, metric: str) -> QdrantStore:
            return self.made(
                dimension, metric, os.environ["AGORA_QDRANT_URL"], api_key=os.environ.get("AGORA_QDRANT_API_KEY")
            )


async def test_an_async_client_may_stand_alone() -> None:
    client = AsyncQdrantClient(":memory:")
    store = QdrantStore(async_client=client, dimension=2)
    await store.aensure_collection()
    assert await store.acount() == 0
    await store.aclose()
    assert await client.collection_exists("agent_rag_chunks")
    await client.close()

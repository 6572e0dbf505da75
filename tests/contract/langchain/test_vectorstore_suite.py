"""LangChain's standard suite for vector stores, whole and unaltered, over every store of the core."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from langchain_tests.integration_tests import VectorStoreIntegrationTests

from agora_core import MemoryVectorStore
from langchain_agora import AgoraVectorStore


class TestMemory(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self) -> Iterator[AgoraVectorStore]:
        with MemoryVectorStore() as store:
            yield AgoraVectorStore(store, self.get_embeddings())


class TestMemoryInner(VectorStoreIntegrationTests):
    """The scores of this metric have no floor: none may be implied."""

    @pytest.fixture
    def vectorstore(self) -> Iterator[AgoraVectorStore]:
        with MemoryVectorStore(metric="inner") as store:
            yield AgoraVectorStore(store, self.get_embeddings())


class TestMemoryScoped(VectorStoreIntegrationTests):
    """A view with a scope is a vector store like any other."""

    @pytest.fixture
    def vectorstore(self) -> Iterator[AgoraVectorStore]:
        with MemoryVectorStore() as store:
            # Any metadata is in this scope, and none has to be written for it.
            scope = {"$not": {"tenant": "another"}}
            yield AgoraVectorStore(store, self.get_embeddings()).scoped(scope)

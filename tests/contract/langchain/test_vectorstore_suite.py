"""LangChain's standard suite for vector stores, whole and unaltered, over every store of the core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_tests.integration_tests import VectorStoreIntegrationTests
from langchain_tests.integration_tests.vectorstores import EMBEDDING_SIZE

from agora_core import field
from langchain_agora import AgoraVectorStore
from tests.contract.langchain.stores import open_store


class Suite(VectorStoreIntegrationTests):
    """One object for both colours; `kind` and `metric` say over what."""

    kind = "memory"
    metric = "cosine"

    @pytest.fixture
    def vectorstore(self, request: pytest.FixtureRequest) -> Iterator[AgoraVectorStore]:
        def conninfo() -> str:
            return str(request.getfixturevalue("pg_conninfo"))

        with open_store(self.kind, conninfo, dimension=EMBEDDING_SIZE, metric=self.metric) as store:
            yield self.over(store)

    def over(self, store: Any) -> AgoraVectorStore:
        return AgoraVectorStore(store, self.get_embeddings())


class TestMemory(Suite):
    pass


class TestMemoryInner(Suite):
    """Scores without a floor: none may be implied."""

    metric = "inner"


class TestMemoryEuclidean(Suite):
    """Scores that are all negative: none may be implied to be zero or more."""

    metric = "l2"


class TestScoped(Suite):
    """A view with a scope is a vector store like any other."""

    def over(self, store: Any) -> AgoraVectorStore:
        # Any metadata of the suite is in this scope.
        return super().over(store).scoped(field("tenant") != "another")


class TestScopedByTheRun(Suite):
    def over(self, store: Any) -> AgoraVectorStore:
        return super().over(store).scoped(lambda config: field("tenant") != "another")


@pytest.mark.postgres
class TestPostgres(Suite):
    kind = "postgres"


@pytest.mark.qdrant
class TestQdrant(Suite):
    kind = "qdrant"

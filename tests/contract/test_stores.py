"""Every shipped store is held to the contract, in both colours."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, ClassVar

import psycopg
import pytest

from agora_core import MemoryVectorStore, PgLexicalVectorStore, PgVectorStore, QdrantLexicalVectorStore, QdrantStore
from agora_core.testing.contract import VectorStoreContract
from tests.contract.model import PlainModelStore

_numbers = itertools.count()


class TestMemoryStore(VectorStoreContract):
    def make_store(self, *, dimension: int, metric: Any) -> MemoryVectorStore:
        return MemoryVectorStore(metric, dimension)


class _OnPostgres(VectorStoreContract):
    store_class: ClassVar[type[PgVectorStore]] = PgVectorStore
    _conninfo: ClassVar[str]
    _schema: ClassVar[str]

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _server(cls, pg_conninfo: str) -> Iterator[None]:
        cls._conninfo = pg_conninfo
        cls._schema = f"contract_{next(_numbers)}"
        with psycopg.connect(pg_conninfo, autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL("CREATE SCHEMA {}").format(psycopg.sql.Identifier(cls._schema)))
            yield
            connection.execute(psycopg.sql.SQL("DROP SCHEMA {} CASCADE").format(psycopg.sql.Identifier(cls._schema)))

    def make_store(self, *, dimension: int, metric: Any) -> PgVectorStore:
        store = self.store_class(
            self._conninfo, schema=self._schema, table=f"t{next(_numbers)}", dimension=dimension, metric=metric
        )
        store.ensure_schema()
        return store


class TestPostgresStore(_OnPostgres):
    pass


class TestPostgresLexicalStore(_OnPostgres):
    store_class = PgLexicalVectorStore


class TestQdrantStore(VectorStoreContract):
    store_class: ClassVar[type[QdrantStore]] = QdrantStore
    keeps_embeddings = ("l2", "inner")

    def make_store(self, *, dimension: int, metric: Any) -> Any:
        store = self.store_class(":memory:", collection=f"c{next(_numbers)}", dimension=dimension, metric=metric)
        store.ensure_collection()
        return store


class TestQdrantLexicalStore(TestQdrantStore):
    store_class = QdrantLexicalVectorStore


def test_the_plain_model_keeps_the_laws_it_is_used_to_check() -> None:
    """The model answers as `matches_filter` says; a model with a law of its own would prove nothing."""
    model = PlainModelStore("cosine")
    assert model.search([1, 0, 0], top_k=1) == []

"""Every shipped store is held to the contract, sync and async.

A store with text search adds to the one it is derived from and searches vectors by the same code: the examples of
filters are run on the plain one alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, ClassVar

import psycopg
import pytest

from agora_core import (
    MemoryLexicalVectorStore,
    MemoryVectorStore,
    PgLexicalVectorStore,
    PgVectorStore,
    QdrantLexicalVectorStore,
    QdrantStore,
)
from agora_core.testing.contract import VectorStoreContract, record
from tests.contract.model import PlainModelStore

_numbers = itertools.count()


class TestMemoryStore(VectorStoreContract):
    def make_store(self, *, dimension: int, metric: Any) -> MemoryVectorStore:
        return MemoryVectorStore(metric, dimension)


class TestMemoryLexicalStore(VectorStoreContract):
    test_filter_means_the_same_everywhere = None  # type: ignore[assignment]

    def make_store(self, *, dimension: int, metric: Any) -> MemoryLexicalVectorStore:
        return MemoryLexicalVectorStore(metric, dimension)


class _OnPostgres(VectorStoreContract):
    shares_filled_store = True
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
            # One after another: what one statement drops, it locks all at once.
            names = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = %s", (cls._schema,)
            ).fetchall()
            for (name,) in names:
                connection.execute(psycopg.sql.SQL("DROP TABLE {}").format(psycopg.sql.Identifier(cls._schema, name)))
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
    test_filter_means_the_same_everywhere = None  # type: ignore[assignment]
    store_class = PgLexicalVectorStore


class TestQdrantStore(VectorStoreContract):
    shares_filled_store = True
    store_class: ClassVar[type[QdrantStore]] = QdrantStore
    keeps_embeddings = ("l2", "inner")

    def make_store(self, *, dimension: int, metric: Any) -> Any:
        store = self.store_class(":memory:", collection=f"c{next(_numbers)}", dimension=dimension, metric=metric)
        store.ensure_collection()
        return store


class TestQdrantLexicalStore(TestQdrantStore):
    test_filter_means_the_same_everywhere = None  # type: ignore[assignment]
    store_class = QdrantLexicalVectorStore


def test_the_plain_model_scores_by_the_words_of_the_design() -> None:
    """Every other store is compared with the model, so its own scores and order are held to figures worked by hand."""
    expected = {
        "cosine": [("b", 1.0), ("a", 0.6), ("zero", 0.0)],
        "l2": [("b", -1.0), ("zero", -2.0), ("a", -4.123105625617661)],
        "inner": [("a", 6.0), ("b", 2.0), ("zero", 0.0)],
    }
    for metric, ranking in expected.items():
        model = PlainModelStore(metric)
        model.upsert([record("zero", [0, 0, 0]), record("b", [1, 0, 0]), record("a", [3, 4, 0])])
        found = model.search([2, 0, 0], top_k=5)
        assert [p.id for p in found] == [id for id, _ in ranking]
        assert [p.score for p in found] == pytest.approx([score for _, score in ranking])
    ties = PlainModelStore("inner")
    ties.upsert([record(id, [1, 0, 0], {"k": id}) for id in ("b", "a", "B")])
    assert [p.id for p in ties.search([1, 0, 0], top_k=2)] == ["B", "a"]
    assert [p.id for p in ties.search([1, 0, 0], top_k=2, filter={"k": ["b"]})] == ["b"]

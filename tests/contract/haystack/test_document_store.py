"""Haystack's published tests of a document store, run against the core's stores through a shim.

What passes: CountDocumentsTest (2), WriteDocumentsTest (5), DeleteDocumentsTest (3), FilterDocumentsTest (39),
DeleteAllTest (4), DeleteByFilterTest (3), UpdateByFilterTest (4), CountDocumentsByFilterTest (4), on every store.

Two members are overridden, as Haystack asks for:

* `assert_documents_are_equal`: theirs compares lists in the order of writing and embeddings with `==`; the core answers
  in the order of ids, and its vectors are float32 (Qdrant keeps unit vectors under cosine).
* `test_write_documents`: what happens without a policy is left to the store, and their test fails on purpose. Here a
  document of the same id is replaced.

What cannot run, and why: CountUniqueMetadataByFilterTest, GetMetadataFieldsInfoTest, GetMetadataFieldMinMaxTest and
GetMetadataFieldUniqueValuesTest ask for analytics over metadata. The core has none; a shim that computed them from
`scan` would be tested, and not the core. The asynchronous mixins ask the same of the same stores: both colours of
every method are compared in the contract of the stores.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")

from haystack import Document
from haystack.document_stores.types import DuplicatePolicy
from haystack.testing.document_store import (
    CountDocumentsByFilterTest,
    DocumentStoreBaseExtendedTests,
)

from agora_core import MemoryVectorStore, PgVectorStore, QdrantStore
from tests.contract.haystack.shim import DIMENSION, CoreDocumentStore

KINDS = ["memory", "postgres", "qdrant"]


def unit(document: Document) -> list[float]:
    length = sum(value * value for value in document.embedding or []) ** 0.5
    return [value / length for value in document.embedding or []]


@pytest.mark.parametrize("kind", KINDS)
class TestDocumentStore(DocumentStoreBaseExtendedTests, CountDocumentsByFilterTest):
    """Every test of theirs that asks for what the core has."""

    @pytest.fixture
    def document_store(self, kind: str, request: pytest.FixtureRequest, fresh_name: str) -> Iterator[Any]:
        store: Any
        if kind == "memory":
            store = MemoryVectorStore(dimension=DIMENSION)
        elif kind == "postgres":
            conninfo = str(request.getfixturevalue("pg_conninfo"))
            store = PgVectorStore(conninfo, table=fresh_name, dimension=DIMENSION, index=None)
            store.ensure_schema()
        else:
            store = QdrantStore(":memory:", collection=fresh_name, dimension=DIMENSION)
            store.ensure_collection()
        with store:
            yield CoreDocumentStore(store)

    @staticmethod
    def assert_documents_are_equal(received: list[Document], expected: list[Document]) -> None:
        pairs = list(zip(sorted(received, key=id_of), sorted(expected, key=id_of), strict=True))
        for ours, theirs in pairs:
            assert (ours.id, ours.content, ours.meta) == (theirs.id, theirs.content, theirs.meta)
            assert (ours.embedding is None) is (theirs.embedding is None)
            assert unit(ours) == pytest.approx(unit(theirs), abs=1e-6)

    def test_write_documents(self, document_store: Any) -> None:
        first, second = Document(id="1", content="old"), Document(id="1", content="new", meta={"k": [1, None]})
        assert document_store.write_documents([first]) == 1
        assert document_store.write_documents([second], policy=DuplicatePolicy.NONE) == 1
        self.assert_documents_are_equal(document_store.filter_documents(), [second])


def id_of(document: Document) -> str:
    return str(document.id)

"""The golden cases of ingestion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agora_core import IngestDocument, MemoryVectorStore, VectorRecord, ingest_documents
from agora_core.testing import FakeEmbeddingProvider
from tests.golden_cases import GoldenCase, assert_same, drop_undefined, golden_params


class CountingEmbedder(FakeEmbeddingProvider):
    def __init__(self, dimensions: int) -> None:
        super().__init__(dimensions)
        self.batches: list[int] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.batches.append(len(texts))
        return super().embed(texts)


# Both cases of the family `ingest_chunks` pin that a missing vector is stored as []; here it is an `EmbeddingError`.
@pytest.mark.parametrize("case", golden_params("ingest"))
def test_ingest_documents(case: GoldenCase) -> None:
    embedder, store = CountingEmbedder(case.input["dims"]), MemoryVectorStore()
    documents = [IngestDocument(**one) for one in drop_undefined(case.input["documents"])]
    names = {"chunkSize": "chunk_size", "overlap": "overlap", "separator": "separator"}
    chunking = {names[name]: value for name, value in case.input["chunk"].items()}
    count = 0
    for _ in range(case.input["passes"]):
        count = ingest_documents(documents, embedder=embedder, store=store, **chunking)
    assert count == case.expected["count"]
    assert embedder.batches == case.expected["embed_batches"]
    # The original keeps the order of insertion, this library reads in the order asked and lists by id.
    stored = store.get([record["id"] for record in case.expected["records"]])
    assert_same([plain(record) for record in stored], case.expected["records"])
    assert store.count() == len(case.expected["records"])
    assert store.list_document_ids() == sorted(case.expected["document_ids"])


def plain(record: VectorRecord) -> dict[str, Any]:
    names = ("id", "text", "source", "metadata", "embedding")
    return {name: getattr(record, name) for name in names if getattr(record, name) is not None}

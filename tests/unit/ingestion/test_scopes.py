"""Tenants that fill one store and one keyword index through scopes: none reaches what another has put there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agora_core import (
    ChunkRecord,
    HybridRetriever,
    IngestDocument,
    KeywordRetriever,
    MemoryVectorStore,
    ScopeViolationError,
    UnsupportedOperationError,
    aingest_documents,
    field,
    ingest_documents,
)
from agora_core.testing import FakeEmbeddingProvider

Ingest = Callable[..., int]


def ingest_async(documents: Any, **options: Any) -> int:
    return asyncio.run(aingest_documents(documents, **options))


@pytest.fixture(params=[ingest_documents, ingest_async], ids=["sync", "async"])
def ingest(request: pytest.FixtureRequest) -> Ingest:
    given: Ingest = request.param
    return given


def document(key: str, text: str = "some words", **metadata: Any) -> IngestDocument:
    return IngestDocument(key, text, metadata=metadata)


def options(store: Any, keyword: Any, tenant: str, on_write: Any = "stamp") -> dict[str, Any]:
    view = store.scoped({"tenant": tenant}, on_write=on_write)
    return {"embedder": FakeEmbeddingProvider(), "store": view, "keyword": keyword}


def texts(keyword: KeywordRetriever, **metadata: Any) -> list[str]:
    return sorted(passage.id for passage in keyword.retrieve("words", top_k=99, filter=metadata))


def test_a_document_of_another_tenant_is_neither_replaced_nor_removed(ingest: Ingest) -> None:
    store, keyword = MemoryVectorStore(), KeywordRetriever()
    assert ingest([document("d"), document("e")], **options(store, keyword, "a")) == 2
    # Without text a document only loses its chunks: those of this tenant, of which there are none.
    assert ingest([document("d", " ")], **options(store, keyword, "b")) == 0
    with pytest.raises(ScopeViolationError):
        ingest([document("d")], **options(store, keyword, "b"))
    assert texts(keyword, tenant="a") == ["d#0", "e#0"] == sorted(record.id for record in store.scan())
    assert ingest([document("d", " ")], **options(store, keyword, "a")) == 0
    assert texts(keyword, tenant="a") == ["e#0"] == [record.id for record in store.scan()]


@pytest.mark.parametrize("on_write", ["check", "stamp"])
def test_the_keyword_index_holds_what_the_store_holds(ingest: Ingest, on_write: Any) -> None:
    store, keyword = MemoryVectorStore(), KeywordRetriever()
    own = {} if on_write == "stamp" else {"tenant": "a"}
    ingest([document("d", k=1, **own)], **options(store, keyword, "a", on_write))
    nested = {**options(store.scoped({"tenant": "a"}, on_write=on_write), keyword, "a", "check")}
    ingest([document("e", k=2, **own)], **nested)
    found = keyword.scoped({"tenant": "a"}).retrieve("words")
    assert {passage.id: passage.metadata for passage in found} == {one.id: one.metadata for one in store.scan()}
    hybrid = HybridRetriever([keyword]).scoped({"tenant": "b"})
    assert hybrid.retrieve("words") == []


def test_an_index_that_cannot_be_kept_in_scope_is_refused_before_anything(ingest: Ingest) -> None:
    class Plain:
        def add(self, records: Any) -> None:
            raise AssertionError("nothing may be written")

        def remove_document(self, document_id: str) -> None:
            raise AssertionError("nothing may be removed")

    store = MemoryVectorStore()
    with pytest.raises(UnsupportedOperationError, match="within"):
        ingest([document("d")], **options(store, Plain(), "a"))
    assert store.count() == 0


def test_keyword_writes_stay_within_their_bound() -> None:
    keyword, within = KeywordRetriever(), field("tenant") == "a"

    def chunk(key: str, tenant: str | None) -> ChunkRecord:
        return ChunkRecord(key, "some words", metadata=None if tenant is None else {"tenant": tenant})

    keyword.add([chunk("d#0", "a"), chunk("d#1", "b"), chunk("e#0", None)])
    before = {passage.id: passage for passage in keyword.retrieve("words")}
    writes: list[Callable[[], int]] = [
        lambda: keyword.add([chunk("new", "a"), chunk("bad", "b")], within=within),
        lambda: keyword.add([chunk("new", "a"), chunk("d#1", "a")], within=within),
        lambda: keyword.replace_documents(["d"], [chunk("e#0", "a")], within=within),
        lambda: keyword.update_metadata("d", {"tenant": "c"}, within=within),
        lambda: keyword.update_metadata("d", {"tenant": None}, within=within),
    ]
    for write in writes:
        with pytest.raises(ScopeViolationError):
            write()
    assert keyword.remove(["d#1", "e#0"], within=within) == 0
    assert keyword.remove_document("e", within=within) == 0
    assert keyword.update_metadata("e", {"k": 1}, within=within) == 0
    assert {passage.id: passage for passage in keyword.retrieve("words")} == before
    assert keyword.update_metadata("d", {"k": 1}, within=within) == 1
    assert keyword.replace_documents(["d", "e"], [chunk("d#2", "a")], within=within) == 1
    assert sorted(passage.id for passage in keyword.retrieve("words")) == ["d#1", "d#2", "e#0"]
    assert asyncio.run(keyword.aremove_document("d", within=within)) == 1
    assert asyncio.run(keyword.aadd([chunk("x", "a")], within=within)) == 1
    assert asyncio.run(keyword.areplace_documents(["x"], [], within=within)) == 0
    assert asyncio.run(keyword.aupdate_metadata("d", {"k": 1}, within=within)) == 0
    assert asyncio.run(keyword.aremove("d#1", within=within)) == 0

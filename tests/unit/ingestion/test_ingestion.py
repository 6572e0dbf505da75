"""Ingestion: embedding first, in full batches, whole documents. On the real memory store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from agora_core import (
    ChunkRecord,
    IngestDocument,
    InvalidArgumentError,
    KeywordRetriever,
    MemoryVectorStore,
    UnsupportedOperationError,
    VectorRecord,
    aingest_chunks,
    aingest_documents,
    chunk_documents,
    ingest_chunks,
    ingest_documents,
)
from agora_core.testing import FakeEmbeddingProvider
from tests.unit.ingestion.doubles import LONG, DeletingStore, Embedder, MinimalStore, content, documents, ids


@pytest.mark.parametrize("make", [MemoryVectorStore, MinimalStore, DeletingStore])
def test_a_shrunken_document_leaves_no_tail(make: Callable[[], Any]) -> None:
    store, embedder = make(), Embedder()
    assert ingest_documents(documents("a", "b"), embedder=embedder, store=store, chunk_size=100) == 14
    before = [key for key in ids(store) if key.startswith("b#")]
    assert ingest_documents(documents("a", text="short"), embedder=embedder, store=store, chunk_size=100) == 1
    assert ids(store) == ["a#0", *before]


@pytest.mark.parametrize("make", [MemoryVectorStore, MinimalStore, DeletingStore])
def test_a_document_that_became_blank_loses_its_chunks(make: Callable[[], Any]) -> None:
    store, keyword = make(), KeywordRetriever()
    options: dict[str, Any] = {"embedder": Embedder(), "store": store, "keyword": keyword}
    ingest_documents(documents("a", "b", text="torque"), **options)
    assert ingest_documents([IngestDocument("a", " \n\x00\ufeff")], **options) == 0
    assert ids(store) == ["b#0"]
    assert [passage.id for passage in keyword.retrieve("torque")] == ["b#0"]


def test_the_keyword_index_holds_the_same_chunks() -> None:
    store, keyword = MemoryVectorStore(), KeywordRetriever()
    options: dict[str, Any] = {"embedder": Embedder(), "store": store, "keyword": keyword, "chunk_size": 100}
    ingest_documents(documents("a", "b"), **options)
    ingest_documents(documents("a", text="torque"), **options)
    found = keyword.retrieve(LONG, top_k=100)
    assert sorted(passage.id for passage in found) == ids(store)
    assert {(passage.id, passage.text, passage.source) for passage in found} == {
        (record.id, record.text, record.source) for record in store.scan()
    }


def test_embeds_in_full_batches_across_documents() -> None:
    embedder, store = Embedder(), MemoryVectorStore()
    count = ingest_documents(documents("a", "b", "c"), embedder=embedder, store=store, chunk_size=100, batch_size=4)
    assert count == store.count() == 21
    assert [len(batch) for batch in embedder.batches] == [4, 4, 4, 4, 4, 1]
    assert ingest_documents([], embedder=embedder, store=store) == 0
    assert len(embedder.batches) == 6


def test_stale_chunks_are_found_behind_many_numbers_and_in_gaps() -> None:
    store = DeletingStore()
    vector = [1.0] * 16
    stale = ["a#0", "a#3", "a#255", "a#256", "a#300", "a#511", "a"]
    store.records = {key: VectorRecord(key, "old", vector) for key in [*stale, "b#7"]}
    ingest_chunks([ChunkRecord("a#1", "new")], embedder=Embedder(), store=store)
    assert sorted(store.records) == ["a#1", "b#7"]


def test_vectors_may_come_as_an_array_or_an_iterator() -> None:
    for answer in (np.asarray, iter, tuple):
        store = MemoryVectorStore()
        embedder = Embedder(answer=answer)
        assert ingest_documents(documents("a", "b"), embedder=embedder, store=store) == 2
        assert np.allclose(store.get(["b#0"])[0].embedding, FakeEmbeddingProvider(16).embed(["b " + LONG.strip()])[0])


def test_an_iterator_is_taken_up_bit_by_bit() -> None:
    embedder, store, taken = Embedder(), MemoryVectorStore(), 0

    def source() -> Iterator[IngestDocument]:
        nonlocal taken
        for number in range(40):
            taken += 1
            # At most one batch and the document that filled it are waiting.
            assert taken - store.count() <= 5
            yield IngestDocument(f"d{number:02}", "torque")

    assert ingest_documents(source(), embedder=embedder, store=store, batch_size=4) == 40
    assert {len(batch) for batch in embedder.batches} == {4}


def test_blank_documents_of_an_iterator_do_not_pile_up() -> None:
    class Counting(MinimalStore):
        most = 0

        def remove(self, document_id: str) -> None:
            super().remove(document_id)

    store = MemoryVectorStore()
    ingest_documents(documents(*(f"d{number}" for number in range(30))), embedder=Embedder(), store=store)
    left: list[int] = []

    def source() -> Iterator[IngestDocument]:
        for number in range(30):
            left.append(store.count())
            yield IngestDocument(f"d{number}", "")

    assert ingest_documents(source(), embedder=Embedder(), store=store, batch_size=5) == 0
    assert store.count() == 0
    assert left[0] == 30
    assert left[-1] <= 5


def test_of_documents_with_one_id_the_last_wins() -> None:
    given_now = [IngestDocument("a", LONG), IngestDocument("b", "torque"), IngestDocument("a", "last")]
    embedder, store = Embedder(), MemoryVectorStore()
    assert ingest_documents(given_now, embedder=embedder, store=store, chunk_size=100) == 2
    assert [len(batch) for batch in embedder.batches] == [2]
    for source in (given_now, iter(given_now)):
        for batch_size in (1, 3, 100):
            store = MemoryVectorStore()
            ingest_documents(source, embedder=Embedder(), store=store, chunk_size=100, batch_size=batch_size)
            assert {one.id: one.text for one in store.scan()} in ({"a#0": "last", "b#0": "torque"}, {})


def test_chunks_of_one_document_are_that_document() -> None:
    store, options = MemoryVectorStore(), {"embedder": Embedder()}
    chunks = [ChunkRecord(f"{key}#{number}", "torque") for number in range(3) for key in "ab"]
    assert ingest_chunks(chunks, store=store, **options) == 6  # type: ignore[arg-type]
    assert ids(store) == ["a#0", "a#1", "a#2", "b#0", "b#1", "b#2"]
    assert ingest_chunks([ChunkRecord("a#0", "copper")], store=store, **options) == 1  # type: ignore[arg-type]
    assert ids(store) == ["a#0", "b#0", "b#1", "b#2"]
    assert ingest_chunks([], store=store, **options) == 0  # type: ignore[arg-type]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 100])
def test_chunks_of_an_iterator_may_be_mixed(batch_size: int) -> None:
    store, keyword = MemoryVectorStore(), KeywordRetriever()
    old = [ChunkRecord(f"a#{number}", "torque") for number in range(9)]
    options: dict[str, Any] = {"embedder": Embedder(), "store": store, "keyword": keyword, "batch_size": batch_size}
    ingest_chunks(old, **options)
    chunks = [ChunkRecord(f"{key}#{number}", "copper") for number in range(3) for key in "ab"]
    assert ingest_chunks(iter(chunks), **options) == 6
    assert ids(store) == ["a#0", "a#1", "a#2", "b#0", "b#1", "b#2"]
    assert sorted(one.id for one in keyword.retrieve("copper", top_k=20)) == ids(store)
    assert keyword.retrieve("torque") == []


async def test_the_async_twins_do_the_same() -> None:
    options: dict[str, Any] = {"chunk_size": 100, "batch_size": 4}
    wanted = MemoryVectorStore()
    count = ingest_documents(documents("a", "b"), embedder=Embedder(), store=wanted, **options)

    async def slowly() -> AsyncIterator[IngestDocument]:
        for document in documents("a", "b"):
            await asyncio.sleep(0)
            yield document

    for source in (documents("a", "b"), iter(documents("a", "b")), slowly()):
        store, keyword = MemoryVectorStore(), KeywordRetriever()
        embedder = Embedder()
        assert count == await aingest_documents(source, embedder=embedder, store=store, keyword=keyword, **options)
        assert content(store) == content(wanted)
        assert [len(batch) for batch in embedder.batches] == [4, 4, 4, 2]
        assert len(await keyword.aretrieve(LONG, top_k=50)) == count
    store = MemoryVectorStore()
    chunks = chunk_documents(documents("a", "b"), chunk_size=100)
    assert await aingest_chunks(chunks, embedder=Embedder(), store=store) == count
    assert content(store) == content(wanted)


async def test_an_async_embedder_is_refused_from_sync_code() -> None:
    class AsyncOnly:
        async def aembed(self, texts: Sequence[str]) -> list[list[float]]:
            return FakeEmbeddingProvider(16).embed(texts)

    store, embedder = MemoryVectorStore(), AsyncOnly()
    with pytest.raises(UnsupportedOperationError, match=r"AsyncOnly.aembed is async and was used from sync code"):
        ingest_documents(documents("a"), embedder=embedder, store=store)  # type: ignore[arg-type]
    assert await aingest_documents(documents("a"), embedder=embedder, store=store) == 1  # type: ignore[arg-type]


def test_what_the_caller_holds_is_not_shared_with_the_store() -> None:
    metadata = {"tags": ["a"]}
    store = MemoryVectorStore()
    ingest_documents([IngestDocument("a", "text", None, metadata)], embedder=Embedder(), store=store)
    metadata["tags"].append("b")
    assert store.get(["a#0"])[0].metadata == {"tags": ["a"]}


def test_progress_is_shown_only_when_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    ingest_documents(documents("a"), embedder=Embedder(), store=MemoryVectorStore())
    assert capfd.readouterr() == ("", "")
    pytest.importorskip("tqdm")
    ingest_documents(documents("a", "b"), embedder=Embedder(), store=MemoryVectorStore(), show_progress=True)
    shown = capfd.readouterr()
    assert shown.out == ""
    assert "2/2" in shown.err


def test_refuses_bad_options() -> None:
    options: dict[str, Any] = {"embedder": Embedder(), "store": MemoryVectorStore()}
    for batch_size in (0, -1, 2.5, True, None):
        with pytest.raises(InvalidArgumentError, match="batch_size must be"):
            ingest_documents([], batch_size=batch_size, **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="chunk_size must be 1 or more, got 0"):
        ingest_documents([], chunk_size=0, **options)
    with pytest.raises(InvalidArgumentError, match="overlap must be"):
        ingest_documents([], overlap=800, **options)
    with pytest.raises(InvalidArgumentError, match="documents must be a list of IngestDocument, got str"):
        ingest_documents("text", **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="chunks must be a list of ChunkRecord, got ChunkRecord"):
        ingest_chunks(ChunkRecord("a#0", "text"), **options)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"chunks\[0\] must be a ChunkRecord, got str"):
        ingest_chunks(["text"], **options)  # type: ignore[list-item]
    with pytest.raises(TypeError):
        ingest_documents([], batchsize=3, **options)  # type: ignore[call-arg]


def test_progress_of_chunks_counts_documents(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tqdm")
    chunks = [ChunkRecord(f"a#{number}", "torque") for number in range(3)]
    ingest_chunks(chunks, embedder=Embedder(), store=MemoryVectorStore(), show_progress=True)
    assert "1 documents" in capfd.readouterr().err


def test_an_index_that_can_be_backed_is_backed_by_the_store_and_never_by_a_view() -> None:
    class Backed(KeywordRetriever):
        backed_by: Any = None

    store, beside_a_view, own = MemoryVectorStore(), Backed(), Backed()
    ingest_documents([], embedder=Embedder(), store=store.scoped({"a": 1}), keyword=beside_a_view)
    assert beside_a_view.backed_by is None
    ingest_documents([], embedder=Embedder(), store=store, keyword=own)
    assert own.backed_by is store
    ingest_documents([], embedder=Embedder(), store=MemoryVectorStore(), keyword=own)
    assert own.backed_by is store

"""The lazy factories: nothing before the first use, made once, whoever comes first."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agora_core import (
    HybridRetriever,
    IngestDocument,
    InvalidArgumentError,
    MemoryLexicalVectorStore,
    MemoryVectorStore,
    UnsupportedOperationError,
    ingest_documents,
    retrievers,
)
from agora_core.retrievers.lazy import LazyRetriever, Parts
from agora_core.testing import FakeEmbeddingProvider

DOCUMENTS = [IngestDocument("faq", "refund within five days"), IngestDocument("sea", "ship boat harbour")]


class Counter:
    """An embedder factory that counts, takes its time, and can fail."""

    def __init__(self, failures: int = 0) -> None:
        self.made = 0
        self.failures = failures

    def __call__(self) -> FakeEmbeddingProvider:
        self.made += 1
        time.sleep(0.02)
        if self.made <= self.failures:
            raise ConnectionError("not yet")
        return FakeEmbeddingProvider()


def test_nothing_happens_before_the_first_use() -> None:
    counter = Counter()
    taken: list[str] = []

    def documents() -> Any:
        for document in DOCUMENTS:
            taken.append(document.id)
            yield document

    made = retrievers.memory(counter, documents())
    assert repr(made) == "LazyRetriever(not used yet)"
    assert counter.made == 0
    assert taken == []
    assert [one.id for one in made.retrieve("refund", top_k=1)] == ["faq#0"]
    made.retrieve("boat")
    assert counter.made == 1
    assert taken == ["faq", "sea"]


def test_nothing_is_imported_before_the_first_use() -> None:
    program = (
        "import sys; from agora_core import retrievers\n"
        "retrievers.memory(lambda: 1 / 0, [1 / 1])\n"
        "retrievers.pgvector('postgresql://nowhere:1/x', embedder=lambda: 1 / 0, ensure_schema=True, full_text={})\n"
        "retrievers.qdrant(lambda: 1 / 0, embedder=lambda: 1 / 0, ensure_collection=True)\n"
        "loaded = {name.split('.')[0] for name in sys.modules}\n"
        "print(sorted(loaded & {'psycopg', 'psycopg_pool', 'pgvector', 'qdrant_client', 'wordllama', 'tqdm'}))\n"
        "print([name for name in sys.modules if name.startswith('agora_core.stores.')])\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(retrievers.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    loaded, stores = done.stdout.splitlines()
    assert loaded == "[]"
    assert not [name for name in ("memory", "postgres", "qdrant") if f"agora_core.stores.{name}" in stores]


async def test_threads_and_coroutines_make_the_parts_once() -> None:
    counter = Counter()
    made = retrievers.memory(counter, DOCUMENTS)
    with ThreadPoolExecutor(8) as pool:
        from_threads = [pool.submit(made.retrieve, "refund", top_k=1) for _ in range(8)]
        from_loop = await asyncio.gather(*(made.aretrieve("refund", top_k=1) for _ in range(8)))
        found = [task.result() for task in from_threads] + from_loop
    assert {passages[0].id for passages in found} == {"faq#0"}
    assert counter.made == 1


async def test_sync_callers_in_the_loops_own_pool_do_not_starve_the_making() -> None:
    counter = Counter()
    made = retrievers.memory(counter, DOCUMENTS)
    first = asyncio.create_task(made.aretrieve("refund", top_k=1))
    others = [asyncio.to_thread(made.retrieve, "refund", top_k=1) for _ in range(80)]
    await asyncio.wait_for(asyncio.gather(first, *others), 20)
    assert counter.made == 1


def test_several_event_loops_make_the_parts_once() -> None:
    counter = Counter()
    made = retrievers.memory(counter, DOCUMENTS)
    threads = [threading.Thread(target=lambda: asyncio.run(made.aretrieve("refund"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert counter.made == 1
    assert asyncio.run(made.aretrieve("refund", top_k=1))[0].id == "faq#0"


async def test_a_failure_is_raised_and_the_next_call_tries_again() -> None:
    counter = Counter(failures=2)
    made = retrievers.memory(counter, iter(DOCUMENTS))
    with pytest.raises(ConnectionError):
        made.retrieve("refund")
    with pytest.raises(ConnectionError):
        await made.aretrieve("refund")
    assert len(made.retrieve("refund")) == 2


async def test_documents_survive_a_failed_first_attempt() -> None:
    class Moody(FakeEmbeddingProvider):
        calls = 0

        def embed(self, texts: Sequence[str]) -> list[list[float]]:
            Moody.calls += 1
            if Moody.calls <= 2:
                raise ConnectionError
            return super().embed(texts)

        aembed = None  # type: ignore[assignment]

    made = retrievers.memory(Moody, iter(DOCUMENTS))
    with pytest.raises(ConnectionError):
        made.retrieve("refund")
    with pytest.raises(ConnectionError):
        await made.aretrieve("refund")
    assert {one.id for one in made.retrieve("refund")} == {"faq#0", "sea#0"}


async def test_an_async_embedder_fills_the_store_from_async_code() -> None:
    class AsyncOnly:
        async def aembed(self, texts: Sequence[str]) -> list[list[float]]:
            return FakeEmbeddingProvider().embed(texts)

    made = retrievers.memory(AsyncOnly, DOCUMENTS)  # type: ignore[arg-type]
    assert (await made.aretrieve("refund", top_k=1))[0].id == "faq#0"


class SlowStore(MemoryVectorStore):
    """Needs its loop while it is prepared."""

    prepared = 0
    closed = 0

    async def aensure_schema(self) -> None:
        await asyncio.sleep(0.05)
        SlowStore.prepared += 1

    def ensure_schema(self) -> None:
        SlowStore.prepared += 1

    def close(self) -> None:
        SlowStore.closed += 1


def lazy(store_class: Any = SlowStore) -> LazyRetriever:
    def make(coming: Any) -> Parts:
        store = store_class()
        embedder = FakeEmbeddingProvider()
        return Parts(retrievers.EmbeddingRetriever(embedder, store), store, embedder)

    return LazyRetriever(make, prepare="ensure_schema")


async def test_a_sync_call_on_the_loop_that_is_making_is_refused() -> None:
    made = lazy()
    task = asyncio.create_task(made.aopen())
    await asyncio.sleep(0.02)
    with pytest.raises(UnsupportedOperationError, match="this event loop is just making the retriever's parts"):
        made.retrieve("q")
    await task
    assert made.retrieve("q") == []


async def test_the_store_is_prepared_once_and_closed_at_the_end() -> None:
    SlowStore.prepared = SlowStore.closed = 0
    with lazy() as made:
        made.retrieve("q")
        await made.aretrieve("q")
        assert SlowStore.prepared == 1
    assert SlowStore.closed == 1
    async with lazy() as made:
        await made.aretrieve("q")
    assert (SlowStore.prepared, SlowStore.closed) == (2, 2)
    with lazy():
        pass
    assert SlowStore.closed == 2


async def test_a_store_that_cannot_be_prepared_is_closed() -> None:
    class Broken(SlowStore):
        def ensure_schema(self) -> None:
            raise ConnectionError

        async def aensure_schema(self) -> None:
            raise ConnectionError

    SlowStore.closed = 0
    made = lazy(Broken)
    with pytest.raises(ConnectionError):
        made.retrieve("q")
    with pytest.raises(ConnectionError):
        await made.aretrieve("q")
    assert SlowStore.closed == 2


async def test_a_cancelled_first_use_leaves_it_usable() -> None:
    made = lazy()
    task = asyncio.create_task(made.aretrieve("q"))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.wait_for(made.aretrieve("q"), 5) == []


def test_memory_as_a_hybrid() -> None:
    made = retrievers.memory(
        FakeEmbeddingProvider(), DOCUMENTS, full_text={"k1": 1.2}, hybrid={"fusion": "relative_score"}
    )
    assert made.retrieve("boat", top_k=1)[0].id == "sea#0"
    parts = made.open()
    assert isinstance(parts.retriever, HybridRetriever)
    assert isinstance(parts.store, MemoryLexicalVectorStore)
    assert (parts.store.k1, parts.keyword) == (1.2, None)
    assert parts.retriever.fusion == "relative_score"
    assert made.store is parts.store
    assert made.embedder is parts.embedder


def test_memory_over_a_given_store() -> None:
    store = MemoryVectorStore(metric="l2")
    made = retrievers.memory(FakeEmbeddingProvider, DOCUMENTS, store=store, chunk_size=10, overlap=0)
    assert made.store is store
    assert store.count() > 2
    assert retrievers.memory(FakeEmbeddingProvider, store=lambda: store).store is store


def test_bad_arguments_are_refused_before_anything_is_made() -> None:
    counter = Counter()
    made = retrievers.memory(counter)
    with pytest.raises(InvalidArgumentError):
        made.retrieve("q", top_k=0)
    with pytest.raises(InvalidArgumentError):
        made.retrieve("q", min_score=float("nan"))
    with pytest.raises(TypeError):
        retrievers.memory(counter, metrik="l2")  # type: ignore[call-arg]
    assert counter.made == 0
    assert made.scoped({"a": 1}) is not None


def test_a_misspelt_option_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"pgvector\(\) got an unexpected keyword argument 'tabel'"):
        retrievers.pgvector("postgresql://nowhere/x", embedder=Counter(), tabel="t")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"qdrant\(\) got an unexpected keyword argument 'tabel'"):
        retrievers.qdrant(":memory:", embedder=Counter(), tabel="t")  # type: ignore[call-arg]


async def test_closing_waits_for_the_making() -> None:
    SlowStore.closed = 0
    made = lazy()
    task = asyncio.create_task(made.aopen())
    await asyncio.sleep(0.02)
    with pytest.raises(UnsupportedOperationError):
        made.close()
    await asyncio.wait_for(made.aclose(), 5)
    await task
    assert SlowStore.closed == 1


def test_full_text_over_a_store_that_is_filled_already_finds_its_words() -> None:
    """Kind: a leg that is silently empty."""
    store = MemoryVectorStore()
    embedder = FakeEmbeddingProvider()
    ingest_documents(DOCUMENTS, embedder=embedder, store=store)
    word = DOCUMENTS[0].text.split()[0]
    for view in (store, store.scoped({})):
        made = retrievers.memory(embedder, store=view, full_text={})
        parts = made.open()
        assert len(parts.keyword) == store.count()
        assert parts.retriever.retrievers[1].retrieve(word)


def test_the_factories_hybrid_is_adaptive_over_long_lists_unless_told() -> None:
    def options(**hybrid: Any) -> tuple[Any, ...]:
        hybrid_retriever = retrievers.memory(FakeEmbeddingProvider(), full_text={}, hybrid=hybrid).open().retriever
        return hybrid_retriever.fusion, hybrid_retriever.fetch_top_k, hybrid_retriever.weights

    assert options() == ("adaptive", 100, None)
    assert options(weights=(1.0, 3.0)) == ("relative_score", 100, (1.0, 3.0))
    assert options(fusion="rrf", fetch_top_k=7) == ("rrf", 7, None)


def test_an_analyser_is_suggested_from_twenty_texts_on() -> None:
    text = "Die Abteilung hat das Budget nicht mit der Leitung und den anderen Gruppen besprochen, weil es nicht eilte."

    def name(count: int, **full_text: Any) -> str:
        documents = [IngestDocument(f"d{n}", text) for n in range(count)]
        made = retrievers.memory(FakeEmbeddingProvider(), iter(documents), full_text=full_text).open()
        return str(made.store.tokenizer.name)

    assert (name(19), name(20), name(20, tokenizer="ascii")) == ("unicode", "german", "ascii")


def test_full_text_over_a_store_that_searches_texts_itself() -> None:
    store = MemoryLexicalVectorStore(tokenizer="ascii")
    made = retrievers.memory(FakeEmbeddingProvider(), DOCUMENTS, store=store, full_text={})
    assert made.retrieve("boat", top_k=1)[0].id == "sea#0"
    assert made.open().keyword is None
    with pytest.raises(InvalidArgumentError, match="full_text must be empty: MemoryLexicalVectorStore searches"):
        retrievers.memory(FakeEmbeddingProvider(), store=store, full_text={"k1": 1.0}).open()


def test_what_the_store_takes_back_no_leg_finds() -> None:
    """Kind: two copies of a label, of which one is updated."""
    documents = [IngestDocument(key, f"falcon {key}", None, {"acl": ["all"]}) for key in ("plan", "pay")]
    prefilled = MemoryVectorStore()
    ingest_documents(documents, embedder=FakeEmbeddingProvider(), store=prefilled)
    for made in (
        retrievers.memory(FakeEmbeddingProvider(), documents, full_text={}),
        retrievers.memory(FakeEmbeddingProvider(), store=prefilled, full_text={}),
    ):
        assert len(made.retrieve("falcon")) == 2
        made.store.update_metadata("plan", {"acl": ["board"]})
        made.store.remove("pay")
        assert made.scoped({"acl": ["all"]}).retrieve("falcon") == []


async def test_more_documents_may_follow() -> None:
    made = retrievers.memory(FakeEmbeddingProvider(), DOCUMENTS, full_text={})
    more = [IngestDocument("more", "zeppelin")]
    assert made.add(more) == 1
    assert await made.aadd(more) == 1
    assert [p.id for p in made.store.search_text("zeppelin", top_k=5)] == ["more#0"]


@pytest.mark.parametrize("full_text", [None, {}, {"tokenizer": "english"}])
@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_one_object_adds_reconciles_saves_and_is_loaded_tomorrow(
    tmp_path: Path, full_text: Any, colour: str
) -> None:
    path, is_async = tmp_path / "index.agora", colour == "async"
    today = retrievers.memory(FakeEmbeddingProvider(), DOCUMENTS, full_text=full_text, chunk_size=12, overlap=0)
    kept = [DOCUMENTS[0], IngestDocument("new", "a train leaves", metadata={"acl": ["all"]})]
    report = await today.async_sync(kept) if is_async else today.sync(kept)
    assert (report.embedded, report.removed, report.unchanged) == (["new"], ["sea"], ["faq"])
    assert today.store.count() > len(kept), "cut as the factory was told"
    today.store.update_metadata("new", {"acl": ["board"]})
    if is_async:
        await today.asave(path)
    else:
        today.save(path)
    counter = Counter()
    tomorrow = retrievers.memory(counter, [IngestDocument("not", "wanted")], full_text=full_text)
    assert (await tomorrow.aload(path) if is_async else tomorrow.load(path)) is tomorrow
    assert tomorrow.store.list_document_ids() == ["faq", "new"]
    assert tomorrow.retrieve("refund train", top_k=9) == today.retrieve("refund train", top_k=9)
    assert tomorrow.scoped({"acl": ["board"]}).retrieve("train")[0].id == "new#0"
    assert counter.made == 1
    tomorrow.close()
    assert tomorrow.store.list_document_ids() == ["faq", "new"], "opened anew from the file"


def test_what_cannot_be_saved_or_loaded_says_what_to_do(tmp_path: Path) -> None:
    over = retrievers.memory(FakeEmbeddingProvider(), store=MemoryVectorStore())
    with pytest.raises(UnsupportedOperationError, match=r"store=MemoryVectorStore\.load"):
        over.load(tmp_path / "x")
    ours = retrievers.memory(FakeEmbeddingProvider(), DOCUMENTS)
    with pytest.raises(FileNotFoundError):
        ours.load(tmp_path / "missing")
    assert ours.store.count() == len(DOCUMENTS)

    class Server(MemoryVectorStore):
        save = asave = None  # type: ignore[assignment]

    with pytest.raises(UnsupportedOperationError, match="Server keeps its records itself"):
        retrievers.memory(FakeEmbeddingProvider(), store=Server()).save(tmp_path / "x")


def test_a_file_whose_texts_another_tokenizer_indexed_is_refused(tmp_path: Path) -> None:
    retrievers.memory(FakeEmbeddingProvider(), DOCUMENTS, full_text={"tokenizer": "english"}).save(tmp_path / "x")
    ours = retrievers.memory(FakeEmbeddingProvider(), DOCUMENTS, full_text={"tokenizer": "unicode"})
    with pytest.raises(InvalidArgumentError, match=r"english.*unicode|unicode.*english"):
        ours.load(tmp_path / "x")
    assert ours.retrieve("refund")[0].id == "faq#0"

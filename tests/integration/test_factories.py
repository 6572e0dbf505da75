"""The lazy factories on a real PostgreSQL server and on Qdrant's local mode."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from agora_core import (
    HybridRetriever,
    IngestDocument,
    SchemaError,
    aingest_documents,
    ingest_documents,
    reciprocal_rank_fusion,
    retrievers,
)
from agora_core.retrievers.factories import PgVectorOptions, QdrantOptions
from agora_core.testing import FakeEmbeddingProvider

DOCUMENTS = [
    IngestDocument("faq", "refund within five days", "faq.md", {"audience": "public"}),
    IngestDocument("memo", "refund budget is secret", "memo.md", {"audience": "staff"}),
    IngestDocument("sea", "ship boat harbour", "sea.md", {"audience": "public"}),
]


def options_of(store_class: Any) -> set[str]:
    parameters = inspect.signature(store_class.__init__).parameters.values()
    return {one.name for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY}


def expect_answers(retriever: Any, expected_first: str = "faq#0") -> None:
    assert retriever.retrieve("refund within days", top_k=1)[0].id == expected_first
    assert [one.id for one in retriever.retrieve("refund", filter={"audience": "staff"})] == ["memo#0"]
    assert retriever.scoped({"audience": []}).retrieve("refund") == []


@pytest.mark.postgres
@pytest.mark.parametrize("full_text", [None, {}])
async def test_pgvector(pg_conninfo: str, fresh_name: str, full_text: Any) -> None:
    pytest.importorskip("psycopg_pool")
    from agora_core.stores.postgres import PgVectorStore

    assert options_of(PgVectorStore) == set(PgVectorOptions.__annotations__)
    made = retrievers.pgvector(
        lambda: pg_conninfo,
        embedder=lambda: FakeEmbeddingProvider(32),
        ensure_schema=True,
        full_text=full_text,
        table=fresh_name,
        dimension=32,
    )
    async with made:
        with ThreadPoolExecutor(4) as pool:
            waiting = [pool.submit(made.retrieve, "refund") for _ in range(4)]
            found = await asyncio.gather(*(made.aretrieve("refund") for _ in range(4)))
            assert [*found, *(one.result() for one in waiting)] == [[]] * 8
        await aingest_documents(DOCUMENTS, embedder=made.embedder, store=made.store)
        assert (await made.aretrieve("refund within days", top_k=1))[0].id == "faq#0"
        await asyncio.to_thread(expect_answers, made)
        if full_text is not None:
            await asyncio.to_thread(expect_the_fusion_of_both_legs, made)


@pytest.mark.qdrant
@pytest.mark.parametrize("full_text", [None, {}])
def test_qdrant(full_text: Any) -> None:
    pytest.importorskip("qdrant_client")
    from agora_core.stores.qdrant import QdrantStore

    assert options_of(QdrantStore) == set(QdrantOptions.__annotations__)
    made = retrievers.qdrant(
        ":memory:",
        embedder=lambda: FakeEmbeddingProvider(32),
        ensure_collection=True,
        full_text=full_text,
        dimension=32,
    )
    with made:
        ingest_documents(DOCUMENTS, embedder=made.embedder, store=made.store)
        expect_answers(made)
        assert asyncio.run(made.aretrieve("boat", top_k=1))[0].id == "sea#0"
        if full_text is not None:
            expect_the_fusion_of_both_legs(made)


ENGLISH = [
    IngestDocument(
        f"d{n}", f"The rules of the house are those that we have agreed on, and number {n} is about running."
    )
    for n in range(30)
]


@pytest.fixture(params=["memory", pytest.param("pgvector", marks=pytest.mark.postgres), "qdrant"])
def open_again(request: pytest.FixtureRequest) -> Iterator[Callable[..., Any]]:
    """Give a function that makes a hybrid over one and the same store, whenever it is called."""
    opened: list[Any] = []
    again = _again(request, FakeEmbeddingProvider(32))

    def noted(**options: Any) -> Any:
        opened.append(again(**options))
        return opened[-1]

    yield noted
    for one in opened:
        one.close()


def _again(request: pytest.FixtureRequest, embedder: FakeEmbeddingProvider) -> Callable[..., Any]:
    if request.param == "pgvector":
        options: Any = {"table": request.getfixturevalue("fresh_name"), "dimension": 32, "ensure_schema": True}
        return partial(retrievers.pgvector, request.getfixturevalue("pg_conninfo"), embedder=embedder, **options)
    if request.param == "qdrant":
        from qdrant_client import QdrantClient

        client = QdrantClient(":memory:")
        return partial(retrievers.qdrant, client, embedder=embedder, dimension=32, ensure_collection=True)
    kept: dict[str, Any] = {}

    def again(**options: Any) -> Any:
        made = retrievers.memory(embedder, **options)
        if kept:
            kept["last"].save(kept["path"])
            made.load(kept["path"])
        kept.update(last=made, path=request.getfixturevalue("tmp_path") / "store")
        return made

    return again


@pytest.mark.parametrize("way", ["add", "sync", "async"])
async def test_an_analyser_is_suggested_by_what_first_fills_a_store_and_stays(
    open_again: Callable[..., Any], way: str
) -> None:
    """An option that only one of the factories obeys."""
    made = open_again(full_text={})
    if way == "async":
        assert (await made.async_sync(iter(ENGLISH))).chunks_embedded == len(ENGLISH)
    elif way == "sync":
        assert len((await asyncio.to_thread(made.sync, iter(ENGLISH))).embedded) == len(ENGLISH)
    else:
        assert await made.aadd(iter(ENGLISH)) == len(ENGLISH)
    assert made.store.tokenizer.name == "english"
    assert [one.id for one in made.store.search_text("ran 7 runs", top_k=1)] == ["d7#0"]
    again = open_again(full_text={})
    again.add([IngestDocument(f"g{n}", "Der die das und ist nicht ein eine von mit.") for n in range(30)])
    assert again.store.tokenizer.name == "english", "an index that is there keeps its analyser"
    assert [one.id for one in again.store.search_text("ran 7 runs", top_k=1)] == ["d7#0"]


def test_few_texts_or_a_named_analyser_suggest_nothing(open_again: Callable[..., Any]) -> None:
    made = open_again(full_text={})
    made.add(ENGLISH[:19])
    assert made.store.tokenizer.name == "unicode"
    made.sync([], allow_empty=True)
    made.add(ENGLISH)
    assert made.store.tokenizer.name == "english", "the store was empty again"


@pytest.mark.postgres
def test_a_table_that_is_filled_suggests_the_analyser_of_its_new_index(pg_conninfo: str, fresh_name: str) -> None:
    options: Any = {"embedder": FakeEmbeddingProvider(32), "table": fresh_name, "dimension": 32, "ensure_schema": True}
    with retrievers.pgvector(pg_conninfo, **options) as dense:
        dense.add(ENGLISH)
    with retrievers.pgvector(pg_conninfo, full_text={}, **options) as hybrid:
        assert hybrid.store.tokenizer.name == "english"
        assert [one.id for one in hybrid.store.search_text("ran 7 runs", top_k=1)] == ["d7#0"]
    german = retrievers.pgvector(pg_conninfo, full_text={"tokenizer": "german"}, **options)
    with pytest.raises(SchemaError, match=r"english.*german"):
        german.retrieve("x")


def expect_the_fusion_of_both_legs(made: Any) -> None:
    """One round trip gives the ranking of the two legs, each asked on its own."""
    hybrid = made.open().retriever
    for query in ("refund within days", "ship", "budget harbour refund"):
        for weights in (None, [0.3, 0.7]):
            tried = HybridRetriever(hybrid.retrievers, fetch_top_k=2, weights=weights)
            legs = [leg.retrieve(query, top_k=3) for leg in hybrid.retrievers]
            expected = reciprocal_rank_fusion(legs, weights=weights)
            found = tried.retrieve(query, top_k=3)
            assert [one.id for one in found] == [one.id for one in expected[:3]]
            assert [one.score for one in found] == pytest.approx([one.score for one in expected[:3]], rel=1e-6)
            floor = expected[0].score - 1e-9
            best = [one.id for one in expected[:3] if one.score >= floor]
            assert [one.id for one in tried.retrieve(query, top_k=3, min_score=floor)] == best

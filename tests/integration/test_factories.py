"""The lazy factories on a real PostgreSQL server and on Qdrant's local mode."""

from __future__ import annotations

import asyncio
import inspect
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from agora_core import (
    HybridRetriever,
    IngestDocument,
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

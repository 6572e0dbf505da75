"""The hybrid retriever: legs at the same time, one failure fails all, scores of the fusion."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import (
    EmbeddingRetriever,
    HybridRetriever,
    IngestDocument,
    InvalidArgumentError,
    InvalidFilterError,
    KeywordRetriever,
    LexicalRetriever,
    MemoryVectorStore,
    Passage,
    RetrieverLegError,
    UnsupportedFilterError,
    UnsupportedOperationError,
    chunk_documents,
    ingest_chunks,
    reciprocal_rank_fusion,
    relative_score_fusion,
    tune_hybrid,
)
from agora_core.evaluation import atune_hybrid
from agora_core.fusion import adaptive_fusion
from agora_core.testing import FakeEmbeddingProvider, FakeReranker
from tests.unit.retrievers.doubles import AsyncStatic, Static, passages

ONE, TWO = passages("a", "b", "c"), passages("c", "d", first=9.0)


async def test_both_colours_fuse_the_same() -> None:
    for fusion, fused in (
        ("rrf", reciprocal_rank_fusion([ONE, TWO])),
        ("relative_score", relative_score_fusion([ONE, TWO])),
        ("adaptive", adaptive_fusion([ONE, TWO])),
    ):
        made = HybridRetriever([Static(ONE), Static(TWO)], fusion=fusion)  # type: ignore[arg-type]
        assert made.retrieve("q") == fused
        assert await made.aretrieve("q") == fused


async def test_the_legs_are_asked_for_enough_and_not_for_the_floor() -> None:
    legs = [Static(ONE), Static(TWO)]
    made = HybridRetriever(legs, fetch_top_k=3)
    made.retrieve("q", top_k=1, filter={"a": 1}, min_score=0.001)
    await made.aretrieve("q", top_k=7)
    for leg in legs:
        assert leg.calls == [{"query": "q", "top_k": 3, "filter": {"a": 1}}, {"query": "q", "top_k": 7}]


async def test_the_floor_is_on_the_fused_score() -> None:
    made = HybridRetriever([Static(ONE), Static(TWO)])
    assert [one.id for one in made.retrieve("q", min_score=1 / 61)] == ["c", "a"]
    assert [one.id for one in await made.aretrieve("q", min_score=1 / 60)] == ["c"]
    assert made.retrieve("q", min_score=1.0) == []


def test_k_and_weights_reach_the_fusion() -> None:
    made = HybridRetriever([Static(ONE), Static(TWO)], k=5, weights=[1, 3])
    assert made.retrieve("q") == reciprocal_rank_fusion([ONE, TWO], k=5, weights=[1, 3])
    made = HybridRetriever([Static(ONE), Static(TWO)], weights=[1, 3], fusion="relative_score")
    assert made.retrieve("q") == relative_score_fusion([ONE, TWO], weights=[1, 3])


async def test_the_callers_passages_are_never_written_to_or_shared() -> None:
    kept = [Passage("a", "text", 0.5, "a.md", {"tags": ["x"]})]
    made = HybridRetriever([Static(kept), Static(kept)])
    for found in (made.retrieve("q"), await made.aretrieve("q")):
        assert found[0].metadata is not None
        found[0].metadata["tags"].append("y")
        assert kept == [Passage("a", "text", 0.5, "a.md", {"tags": ["x"]})]


async def test_no_legs_find_nothing() -> None:
    assert HybridRetriever([]).retrieve("q") == []
    assert await HybridRetriever([]).aretrieve("q") == []


async def test_a_failing_leg_fails_the_call_under_its_name() -> None:
    error = ConnectionError("password=secret")
    made = HybridRetriever([Static(ONE), Static(TWO, error)])
    for attempt in range(2):
        with pytest.raises(
            RetrieverLegError, match=r"leg 1 of the hybrid \(Static\) failed with ConnectionError"
        ) as info:
            made.retrieve("q") if attempt else await made.aretrieve("q")
        assert info.value.leg == 1
        assert info.value.__cause__ is error
        assert "secret" not in str(info.value)


async def test_when_a_leg_fails_its_siblings_are_cancelled() -> None:
    slow = AsyncStatic(ONE, waits=True)
    made = HybridRetriever([slow, AsyncStatic(TWO, ValueError("no"))])  # type: ignore[list-item]
    with pytest.raises(RetrieverLegError) as info:
        await made.aretrieve("q")
    assert info.value.leg == 1
    assert slow.cancelled


async def test_a_cancelled_call_cancels_its_legs() -> None:
    legs = [AsyncStatic(ONE, waits=True), AsyncStatic(TWO, waits=True)]
    task = asyncio.create_task(HybridRetriever(legs).aretrieve("q"))  # type: ignore[arg-type]
    await legs[1].started.wait()
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(leg.cancelled for leg in legs)


async def test_the_legs_run_at_the_same_time() -> None:
    met = asyncio.Event()

    class Waits(AsyncStatic):
        async def aretrieve(self, query: str, **options: Any) -> list[Passage]:
            await asyncio.wait_for(met.wait(), 5)
            return await super().aretrieve(query, **options)

    class Opens(AsyncStatic):
        async def aretrieve(self, query: str, **options: Any) -> list[Passage]:
            met.set()
            return await super().aretrieve(query, **options)

    found = await HybridRetriever([Waits(ONE), Opens(TWO)]).aretrieve("q")  # type: ignore[list-item]
    assert found == reciprocal_rank_fusion([ONE, TWO])


async def test_a_refused_filter_is_the_callers_mistake() -> None:
    for error in (InvalidFilterError("no"), UnsupportedFilterError("not here")):
        made = HybridRetriever([Static(ONE), Static(TWO, error)])
        with pytest.raises(type(error)):
            made.retrieve("q")
        with pytest.raises(type(error)):
            await made.aretrieve("q")


def test_an_async_leg_is_refused_from_sync_code() -> None:
    made = HybridRetriever([AsyncStatic(ONE)])  # type: ignore[list-item]
    with pytest.raises(UnsupportedOperationError, match=r"AsyncStatic.aretrieve is async and was used from sync code"):
        made.retrieve("q")


def test_refuses_bad_arguments() -> None:
    legs = [Static(ONE), Static(TWO)]
    with pytest.raises(InvalidArgumentError, match=r"weights must hold one number per list \(2\), got 1"):
        HybridRetriever(legs, weights=[1])
    with pytest.raises(InvalidArgumentError, match=r"weights\[0\] must be a finite number of 0 or more, got -1"):
        HybridRetriever(legs, weights=[-1, 1])
    with pytest.raises(InvalidArgumentError, match="k must be a finite number"):
        HybridRetriever(legs, k=-1)
    with pytest.raises(InvalidArgumentError, match="fetch_top_k must be 1 or more, got 0"):
        HybridRetriever(legs, fetch_top_k=0)
    with pytest.raises(
        InvalidArgumentError,
        match="fusion must be one of rrf, relative_score, adaptive, or a function of the legs' lists, got 'sum'",
    ):
        HybridRetriever(legs, fusion="sum")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="weights cannot be given with fusion='adaptive'"):
        HybridRetriever(legs, fusion="adaptive", weights=[1, 1])
    with pytest.raises(InvalidArgumentError, match="top_k must be 1 or more, got 0"):
        HybridRetriever(legs).retrieve("q", top_k=0)
    with pytest.raises(TypeError):
        HybridRetriever(legs, c=60)  # type: ignore[call-arg]


class HybridStore:
    """A store that answers both legs in one call, as the formula would."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.options: dict[str, Any] = {}

    def search(self, embedding: Any, **options: Any) -> list[Passage]:
        self.calls.append("search")
        return ONE[: options["top_k"]]

    def search_text(self, query: str, **options: Any) -> list[Passage]:
        self.calls.append("search_text")
        return TWO[: options["top_k"]]

    def search_hybrid(
        self, query: str, embedding: Any, *, top_k: int, fetch_top_k: int, k: float, weights: Any, filter: Any = None
    ) -> list[Passage]:
        self.calls.append("search_hybrid")
        self.options = {"top_k": top_k, "fetch_top_k": fetch_top_k, "k": k, "weights": weights, "filter": filter}
        return reciprocal_rank_fusion([ONE[:fetch_top_k], TWO[:fetch_top_k]], k=k, weights=weights)[:top_k]


class Fails:
    def embed(self, texts: Sequence[str]) -> Any:
        raise ConnectionError


def both_legs(store: Any, embedder: Any = None, **options: Any) -> HybridRetriever:
    dense = EmbeddingRetriever(embedder or FakeEmbeddingProvider(4), store)
    return HybridRetriever([dense, LexicalRetriever(store)], **options)


@pytest.mark.parametrize("options", [{}, {"k": 5, "weights": [0.3, 0.7]}, {"fetch_top_k": 2}])
async def test_two_legs_over_one_store_are_asked_in_one_round_trip(options: dict[str, Any]) -> None:
    store = HybridStore()
    made = both_legs(store, **options)
    expected = HybridRetriever([Static(ONE), Static(TWO)], **options).retrieve("q", top_k=2, min_score=0.001)
    assert made.retrieve("q", top_k=2, filter={"a": 1}, min_score=0.001) == expected
    assert store.options["filter"] == {"a": 1}
    assert await made.aretrieve("q", top_k=2, min_score=0.001) == expected
    assert store.calls == ["search_hybrid", "search_hybrid"]


def test_other_hybrids_ask_each_leg() -> None:
    store, other = HybridStore(), HybridStore()
    both_legs(store, fusion="relative_score").retrieve("q")
    dense, lexical = EmbeddingRetriever(FakeEmbeddingProvider(4), store), LexicalRetriever(other)  # type: ignore[arg-type]
    HybridRetriever([dense, lexical]).retrieve("q")
    HybridRetriever([lexical, dense]).retrieve("q")
    HybridRetriever([dense, dense]).retrieve("q")
    assert "search_hybrid" not in store.calls + other.calls


async def test_a_failing_round_trip_is_named_too() -> None:
    for attempt in range(2):
        made = both_legs(HybridStore(), Fails())
        with pytest.raises(RetrieverLegError) as info:
            made.retrieve("q") if attempt else await made.aretrieve("q")
        assert info.value.leg == 0
        assert isinstance(info.value.__cause__, ConnectionError)


def test_composes_with_the_real_parts() -> None:
    topics = {"refunds": "refund money back days", "fleet": "ship boat harbour", "law": "warranty refund law"}
    chunks = chunk_documents([IngestDocument(key, text, None, {"key": key}) for key, text in topics.items()])
    store, keyword, embedder = MemoryVectorStore(), KeywordRetriever(), FakeEmbeddingProvider()
    ingest_chunks(chunks, embedder=embedder, store=store, keyword=keyword)
    hybrid = HybridRetriever([EmbeddingRetriever(embedder, store), keyword])
    assert {one.id for one in hybrid.retrieve("refund", top_k=2)} == {"refunds#0", "law#0"}
    assert [one.id for one in hybrid.retrieve("refund", filter={"key": "law"})] == ["law#0"]
    assert hybrid.scoped({"key": []}).retrieve("refund") == []
    assert HybridRetriever([hybrid, hybrid]).retrieve("boat", top_k=1)[0].id == "fleet#0"


def judged() -> tuple[HybridRetriever, dict[str, list[str]]]:
    """One leg always right, the other always wrong."""

    class ByQuery(Static):
        def __init__(self, right: bool) -> None:
            super().__init__([])
            self.right = right

        def retrieve(self, query: str, **options: Any) -> list[Passage]:
            return passages(*([f"{query}#0", "x#0", "y#0"] if self.right else ["z#0", "y#0", "x#0", "w#0"]))

    legs = [ByQuery(right=False), ByQuery(right=True)]
    return HybridRetriever(legs), {f"q{number}": [f"q{number}"] for number in range(8)}


@pytest.mark.parametrize("fusion", ["rrf", "relative_score"])
async def test_tuning_finds_the_better_leg(fusion: Any) -> None:
    hybrid, judgements = judged()
    for tuned in (
        tune_hybrid(hybrid, judgements, fusion=fusion),
        await atune_hybrid(hybrid, judgements, fusion=fusion),
    ):
        assert tuned.fusion == fusion
        assert tuned.weights is not None
        assert tuned.weights[1] > tuned.weights[0]
        assert all(tuned.retrieve(query)[0].id == f"{query}#0" for query in judgements)


def test_tuning_stays_even_where_it_makes_no_difference() -> None:
    legs = [Static(ONE), Static(ONE)]
    assert tune_hybrid(HybridRetriever(legs), {"q": ["a"]}).weights == (0.5, 0.5)


def test_tuning_takes_grades_of_chunks_and_of_documents() -> None:
    legs = [Static(passages("a#0", "b#0")), Static(passages("b#0", "a#0"))]
    hybrid = HybridRetriever(legs)
    assert tune_hybrid(hybrid, {"q": {"a": 3, "b#0": 1}}).retrieve("q")[0].id == "a#0"
    assert tune_hybrid(hybrid, {"q": {"a": 1, "b#0": 3}}).retrieve("q")[0].id == "b#0"


def test_tuning_refuses_bad_arguments() -> None:
    hybrid, judgements = judged()
    nothings: list[Any] = [{}, {"q": []}, {"q": {"a": 0}}]
    for nothing in nothings:
        with pytest.raises(InvalidArgumentError, match="judgements must name at least one query"):
            tune_hybrid(hybrid, nothing)
    with pytest.raises(InvalidArgumentError, match="must give a list of ids per query, got a str"):
        tune_hybrid(hybrid, {"q": "a"})
    with pytest.raises(InvalidArgumentError, match="fusion must be 'rrf' or 'relative_score' to be tuned"):
        tune_hybrid(hybrid, judgements, fusion="adaptive")
    with pytest.raises(InvalidArgumentError, match="steps must be 1 or more, got 0"):
        tune_hybrid(hybrid, judgements, steps=0)


found = st.lists(st.sampled_from("abcdef"), unique=True, max_size=6).map(lambda keys: passages(*keys))


@given(st.lists(found, max_size=3), st.integers(1, 8), st.integers(1, 8))
def test_equals_the_fusion_of_its_legs(lists: list[list[Passage]], top_k: int, fetch_top_k: int) -> None:
    made = HybridRetriever([Static(one) for one in lists], fetch_top_k=fetch_top_k)
    depth = max(top_k, fetch_top_k)
    expected = reciprocal_rank_fusion([one[:depth] for one in lists])[:top_k]
    assert made.retrieve("q", top_k=top_k) == [replace(one) for one in expected]


def test_reranks_a_hybrid() -> None:
    from agora_core import RerankingRetriever

    made = RerankingRetriever(HybridRetriever([Static(ONE), Static(TWO)]), FakeReranker())
    assert made.retrieve("text d", top_k=1)[0].id == "d"

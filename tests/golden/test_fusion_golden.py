"""The golden cases of the hybrid retriever and of what it fuses."""

from __future__ import annotations

from typing import Any

import pytest

from agora_core import (
    EmbeddingRetriever,
    HybridRetriever,
    IngestDocument,
    KeywordRetriever,
    MemoryVectorStore,
    Passage,
    chunk_documents,
    ingest_chunks,
    reciprocal_rank_fusion,
)
from agora_core.testing import FakeEmbeddingProvider
from tests.golden_cases import GoldenCase, assert_same, golden_cases, same

# This library differs on purpose:
# * `dup_in_list`: an id that stands twice in one list counts once. A list is one vote.
# * a missing weight is refused instead of being taken for 1, and one too many instead of being ignored; `weights_of`
#   writes out what the original assumes.
# * `topk/0`, `fetch/0`: asking for less than one passage is refused everywhere.
FUSED_OTHERWISE = ("fixed/dup_in_list", "topk/0", "fetch/0")

FUSION_CASES = golden_cases("hybrid_retriever", without=FUSED_OTHERWISE)


def depth_of(case: GoldenCase) -> int:
    return int(case.input["options"].get("fetchTopK", 20))


def top_k_of(case: GoldenCase) -> int:
    return int(case.input["retrieve_options"].get("topK", 5))


def passages_of(plain: list[dict[str, Any]]) -> list[Passage]:
    return [Passage(**fields) for fields in plain]


def plain(passages: list[Passage]) -> list[dict[str, Any]]:
    names = ("id", "text", "score", "source", "metadata")
    fields = [{name: getattr(passage, name) for name in names} for passage in passages]
    return [{name: value for name, value in one.items() if value is not None} for one in fields]


def options_of(case: GoldenCase, lists: int) -> dict[str, Any]:
    options = {name: value for name, value in case.input["options"].items() if name in ("k", "weights")}
    if "weights" in options:
        options["weights"] = weights_of(options["weights"], lists)
    return options


def weights_of(weights: list[float], lists: int) -> list[float]:
    return (weights + [1] * lists)[:lists]


@pytest.mark.parametrize("case", FUSION_CASES, ids=lambda case: case.name)
def test_reciprocal_rank_fusion(case: GoldenCase) -> None:
    """The arithmetic, on the lists as the original's legs returned them."""
    cut = depth_of(case) if case.input["honour_topk"] else None
    rankings = [passages_of(ranking)[:cut] for ranking in case.input["lists"]]
    fused = reciprocal_rank_fusion(rankings, **options_of(case, len(rankings)))
    assert_same(plain(fused[: top_k_of(case)]), case.expected["passages"])


class StaticRetriever:
    """Returns one list whatever is asked, and records what was."""

    def __init__(self, passages: list[Passage], honour_top_k: bool) -> None:
        self.passages = passages
        self.honour_top_k = honour_top_k
        self.calls: list[dict[str, Any]] = []

    def retrieve(self, query: str, **options: Any) -> list[Passage]:
        self.calls.append({"query": query, "options": options})
        return self.passages[: options["top_k"]] if self.honour_top_k else self.passages


# Where top-k is above fetchTopK the original returns too little; here the legs are asked for top-k, so that these
# cases have other calls and other passages.
@pytest.mark.parametrize(
    "case", [case for case in FUSION_CASES if depth_of(case) >= top_k_of(case)], ids=lambda case: case.name
)
def test_hybrid_retriever(case: GoldenCase) -> None:
    legs = [StaticRetriever(passages_of(ranking), case.input["honour_topk"]) for ranking in case.input["lists"]]
    hybrid = HybridRetriever(legs, fetch_top_k=depth_of(case), **options_of(case, len(legs)))
    asked = {"topK": "top_k", "filter": "filter"}
    options = {asked[name]: value for name, value in case.input["retrieve_options"].items()}
    passages = hybrid.retrieve(case.input["query"], **options)
    assert_same(plain(passages), case.expected["passages"])
    given = {python: original for original, python in asked.items()}
    calls = [
        [{**call, "options": {given[k]: v for k, v in call["options"].items()}} for call in leg.calls] for leg in legs
    ]
    assert_same(calls, case.expected["calls"])


@pytest.mark.parametrize("case", golden_cases("hybrid_integration"), ids=lambda case: case.name)
def test_hybrid_over_the_real_parts(case: GoldenCase) -> None:
    names = {"chunkSize": "chunk_size", "overlap": "overlap", "separator": "separator"}
    chunking = {names[name]: value for name, value in case.input["chunk"].items()}
    chunks = chunk_documents([IngestDocument(**one) for one in case.input["documents"]], **chunking)
    embedder, store, keyword = (
        FakeEmbeddingProvider(case.input["dims"]),
        MemoryVectorStore(),
        KeywordRetriever(tokenizer="ascii"),
    )
    ingest_chunks(chunks, embedder=embedder, store=store, keyword=keyword)
    dense = EmbeddingRetriever(embedder, store)
    hybrid = HybridRetriever([dense, keyword], **options_of(case, 2))
    for query, expected in zip(case.input["queries"], case.expected, strict=True):
        options: dict[str, Any] = {"top_k": query["options"].get("topK", 5)}
        if "filter" in query["options"]:
            options["filter"] = query["options"]["filter"]
        assert_equal_up_to_ties(dense, query["query"], options, expected["dense"])
        assert_equal_up_to_ties(keyword, query["query"], options, expected["keyword"])
        assert_fused(hybrid, query["query"], options, case, expected["hybrid"])


def assert_equal_up_to_ties(retriever: Any, query: str, options: dict[str, Any], expected: Any) -> None:
    """Equal scores are ordered by id here, by insertion in the original, also through the cut."""
    found = retriever.retrieve(query, **options)
    assert len(found) == len(expected)
    assert all(abs(mine.score - theirs["score"]) < 1e-6 for mine, theirs in zip(found, expected, strict=True))
    lowest = min((one["score"] for one in expected), default=0.0)
    for theirs in expected:
        if theirs["score"] > lowest + 1e-6:
            assert any(same(mine.id, theirs["id"]) for mine in found), theirs["id"]


def assert_fused(hybrid: Any, query: str, options: dict[str, Any], case: GoldenCase, expected: Any) -> None:
    """The original's passages where no leg has a tie; elsewhere the formula over our own legs."""
    rankings = [leg.retrieve(query, **{**options, "top_k": 20}) for leg in hybrid.retrievers]
    found = hybrid.retrieve(query, **options)
    assert found == reciprocal_rank_fusion(rankings, **options_of(case, 2))[: options["top_k"]]
    scores = [[round(passage.score, 6) for passage in ranking] for ranking in rankings]
    if all(len(set(one)) == len(one) for one in scores):
        assert_same([{"id": passage.id, "score": passage.score} for passage in found], expected)

"""The golden cases of the embedding and the reranking retriever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agora_core import EmbeddingRetriever, Passage, RerankingRetriever
from agora_core.testing import FakeReranker
from tests.golden_cases import GoldenCase, assert_same, drop_undefined, golden_params

NAMES = {"topK": "top_k", "minScore": "min_score", "filter": "filter"}
ORIGINALS = {python: original for original, python in NAMES.items()}


def to_python(options: dict[str, Any]) -> dict[str, Any]:
    return {NAMES[name]: value for name, value in drop_undefined(options).items()}


def to_original(options: dict[str, Any]) -> dict[str, Any]:
    return {ORIGINALS[name]: value for name, value in options.items()}


class RecordingEmbedder:
    def __init__(self, vectors: list[list[float]]) -> None:
        self.vectors = vectors
        self.calls: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.calls.append(list(texts))
        return self.vectors


class RecordingStore:
    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def search(self, embedding: Any, **options: Any) -> list[Passage]:
        self.calls.append({"embedding": embedding, "options": to_original(options)})
        return [Passage("a#0", "text", 1.0)]


# `topk0`: asking for less than one passage is refused everywhere.
@pytest.mark.parametrize("case", golden_params("embedding_retriever", without=("topk0",)))
def test_embedding_retriever(case: GoldenCase) -> None:
    embedder = RecordingEmbedder([[1, 2]] if case.input["embeddings"] == "one" else [])
    store = RecordingStore()
    retriever = EmbeddingRetriever(embedder, store)  # type: ignore[arg-type] # a store that only searches
    passages = retriever.retrieve(case.input["query"], **to_python(case.input["options"]))
    assert len(passages) == case.expected["result_count"]
    assert embedder.calls == case.expected["embed_calls"]
    assert_same(store.calls, case.expected["search_calls"])


class RecordingBase:
    def __init__(self, candidates: list[Passage]) -> None:
        self.candidates = candidates
        self.calls: list[dict[str, Any]] = []

    def retrieve(self, query: str, **options: Any) -> list[Passage]:
        self.calls.append({"query": query, "options": to_original(options)})
        return self.candidates[: options["top_k"]]


class RecordingReranker(FakeReranker):
    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def rerank(self, query: str, passages: Sequence[Passage], **options: Any) -> list[Passage]:
        self.calls.append({"query": query, "n": len(passages), "options": to_original(options)})
        return super().rerank(query, passages, **options)


# This library differs on purpose:
# * `min_score_not_forwarded`: the original drops the floor; here it reaches the reranker's score.
# * `topk_above_fetch`, `random/3`, `random/13`: fetchTopK is below top-k, so the original returns too little; here
#   it is raised.
ANSWERED_OTHERWISE = ("fixed/min_score_not_forwarded", "fixed/topk_above_fetch", "random/3", "random/13")


@pytest.mark.parametrize("case", golden_params("reranking_retriever", without=ANSWERED_OTHERWISE))
def test_reranking_retriever(case: GoldenCase) -> None:
    base = RecordingBase([Passage(**one) for one in case.input["candidates"]])
    reranker = RecordingReranker()
    options = {"fetch_top_k": case.input["options"].get("fetchTopK", 20)}
    retriever = RerankingRetriever(base, reranker, **options)
    passages = retriever.retrieve(case.input["query"], **to_python(case.input["retrieve_options"]))
    names = ("id", "text", "score", "source", "metadata")
    plain = [{name: getattr(one, name) for name in names if getattr(one, name) is not None} for one in passages]
    assert_same(plain, case.expected["passages"])
    assert_same(base.calls, case.expected["base_calls"])
    assert_same(reranker.calls, case.expected["rerank_calls"])

"""The golden cases of the testing kit's stand-ins."""

from __future__ import annotations

import pytest

from agora_core import Passage
from agora_core.testing import FakeEmbeddingProvider, FakeReranker
from tests.golden_cases import GoldenCase, assert_same, golden_params


@pytest.mark.parametrize("case", golden_params("fake_embeddings"))
def test_fake_embeddings(case: GoldenCase) -> None:
    embedder = FakeEmbeddingProvider(case.input["dimensions"])
    assert_same(embedder.embed(case.input["texts"]), case.expected)


@pytest.mark.parametrize("case", golden_params("fake_reranker"))
def test_fake_reranker(case: GoldenCase) -> None:
    passages = [Passage(**one) for one in case.input["passages"]]
    top_k = case.input["options"].get("topK")
    ranked = FakeReranker().rerank(case.input["query"], passages, top_k=top_k)
    names = ("id", "text", "score", "source", "metadata")
    plain = [{name: getattr(one, name) for name in names if getattr(one, name) is not None} for one in ranked]
    assert_same(plain, case.expected)

"""Explanations: the passages are those of `retrieve`, the numbers those of the fusion, the hidden in none of them."""

from __future__ import annotations

from typing import Any

import pytest

from agora_core import (
    BoostingReranker,
    ExpandingRetriever,
    HybridRetriever,
    IngestDocument,
    InvalidArgumentError,
    KeywordRetriever,
    MemoryVectorStore,
    Passage,
    Passages,
    RerankingRetriever,
    chunk_documents,
    ingest_documents,
)
from agora_core.retrievers import EmbeddingRetriever
from agora_core.testing import FakeEmbeddingProvider

DOCUMENTS = [
    IngestDocument("leave", "Everyone has 30 days of leave.", "leave.md", {"acl": "all", "date": "2020-01-01"}),
    IngestDocument("notice", "The period of notice is three months.", None, {"acl": "all", "date": "2024-01-01"}),
    IngestDocument("board", "The board has 40 days of leave.", None, {"acl": "board"}),
    IngestDocument("sick", "Sick leave needs a note.", None, {"acl": "all"}),
]


def parts() -> tuple[EmbeddingRetriever, KeywordRetriever, MemoryVectorStore]:
    embedder, store, keyword = FakeEmbeddingProvider(16), MemoryVectorStore(), KeywordRetriever()
    ingest_documents(DOCUMENTS, embedder=embedder, store=store)
    keyword.add(chunk_documents(DOCUMENTS))
    return EmbeddingRetriever(embedder, store), keyword, store


def compositions() -> dict[str, Any]:
    dense, keyword, store = parts()
    hybrid = HybridRetriever([dense, keyword])
    return {
        "dense": dense,
        "keyword": keyword,
        "rrf": hybrid,
        "relative": HybridRetriever([dense, keyword], fusion="relative_score", weights=[0.3, 0.7]),
        "adaptive": HybridRetriever([dense, keyword], fusion="adaptive"),
        "own": HybridRetriever([dense, keyword], fusion=lambda lists: [one for ranking in lists for one in ranking]),
        "twice": HybridRetriever([keyword, keyword, dense]),
        "scoped": hybrid.scoped({"acl": "all"}),
        "reranked": RerankingRetriever(hybrid, BoostingReranker(half_life=365, now=lambda: 1.8e9), blend=0.5),
        "expanded": ExpandingRetriever(hybrid, store),
        "nested": HybridRetriever([HybridRetriever([dense, keyword]), keyword.scoped({"acl": "all"})]),
    }


@pytest.mark.parametrize("name", list(compositions()))
@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"min_score": 0.02}, {"filter": {"acl": ["all"]}}])
async def test_the_passages_are_those_of_retrieve(name: str, options: dict[str, Any]) -> None:
    retriever = compositions()[name]
    expected = retriever.retrieve("days of leave", **options)
    for explained in (
        retriever.explain("days of leave", **options),
        await retriever.aexplain("days of leave", **options),
    ):
        assert explained.passages == expected
        assert [item.passage for item in explained.items] == expected
        assert len(set(explained.legs)) == len(explained.legs)
        str(explained), explained._repr_html_()


@pytest.mark.parametrize("name", ["rrf", "relative", "adaptive", "twice", "scoped"])
def test_contributions_add_up_to_the_score(name: str) -> None:
    explained = compositions()[name].explain("days of leave")
    assert len(explained.items) > 2
    for item in explained.items:
        total = sum(score.contribution for score in item.legs.values() if score.contribution is not None)
        assert total == pytest.approx(item.passage.score)


def test_ranks_weights_terms_and_names() -> None:
    made = compositions()
    explained = made["relative"].explain("days of leave")
    assert explained.legs == ("EmbeddingRetriever", "KeywordRetriever")
    best = explained.items[0]
    assert best.legs["KeywordRetriever"].rank == 1
    assert best.legs["KeywordRetriever"].weight == 0.7
    assert best.matched_terms == ("days", "of", "leave")
    assert made["twice"].explain("leave").legs == ("KeywordRetriever 1", "KeywordRetriever 2", "EmbeddingRetriever")
    assert made["nested"].explain("leave").legs == ("HybridRetriever", "KeywordRetriever")
    assert made["keyword"].explain("leave").legs == ("KeywordRetriever",)


def test_what_was_removed_is_counted_and_the_hidden_is_in_no_number() -> None:
    made = compositions()
    explained = made["rrf"].explain("days of leave", top_k=2)
    assert explained.removed == {"floor": 0, "cut": 2}
    dense = made["dense"]
    scores = [one.score for one in dense.retrieve("days of leave")]
    assert dense.explain("days of leave", min_score=scores[1]).removed == {"floor": 2, "cut": 0}
    hidden = made["scoped"].explain("days of leave", top_k=2)
    assert hidden.removed == {"floor": 0, "cut": 1}
    assert "board" not in str(hidden)


def test_places_before_and_after_a_reranker() -> None:
    explained = compositions()["reranked"].explain("days of leave")
    assert sorted(item.before for item in explained.items if item.before is not None) == [1, 2, 3, 4]
    assert [item.after for item in explained.items] == [1, 2, 3, 4]
    assert any(item.before != item.after for item in explained.items)
    assert "reranked" in str(explained)


def test_it_draws_itself() -> None:
    explained = compositions()["rrf"].explain("days of leave")
    axes = explained.plot().axes[0]
    assert len(axes.patches) == 2 * len(explained.items)
    assert next(label.get_text() for label in axes.get_yticklabels()) == "leave.md"


def test_passages_show_themselves() -> None:
    found: Passages = compositions()["keyword"].retrieve("<b>leave</b>")
    assert type(found) is Passages
    assert found == [*found]
    assert found.documents == ["sick", "leave", "board"]
    assert list(found.to_frame().columns) == ["id", "score", "text", "source", "metadata"]
    text = Passages([Passage("a#0", "<script>leave</script> me", 0.5)], query="leave")._repr_html_()
    assert "<script>" not in text
    assert "&lt;script&gt;<mark>leave</mark>&lt;/script&gt;" in text
    assert Passages()._repr_html_() == "<i>no passages</i>"


def test_a_fusion_of_ones_own_takes_no_weights() -> None:
    dense, keyword, _ = parts()
    with pytest.raises(InvalidArgumentError, match="weights cannot be given"):
        HybridRetriever([dense, keyword], fusion=lambda lists: [], weights=[1, 1])


def test_boosts_prefer_the_new_and_the_labelled() -> None:
    passages = [
        Passage("old", "x", 2.0, None, {"date": "2024-01-01"}),
        Passage("new", "x", 1.9, None, {"date": "2026-01-01T00:00:00Z", "kind": "faq"}),
        Passage("undated", "x", 1.0, None, {"date": "soon"}),
        Passage("worst", "x", 0.0),
    ]
    now = 1767225600.0
    halved = BoostingReranker(half_life=365.5, now=lambda: now).rerank("q", passages)
    assert [(one.id, round(one.score, 3)) for one in halved] == [
        ("new", 0.95),
        ("undated", 0.5),
        ("old", 0.25),
        ("worst", 0.0),
    ]
    boosted = BoostingReranker(boosts=[({"kind": "faq"}, 2.0)]).rerank("q", passages, top_k=1)
    assert [(one.id, round(one.score, 3)) for one in boosted] == [("new", 1.9)]
    wrong: list[dict[str, Any]] = [{"half_life": 0}, {"half_life": True}, {"boosts": [({}, -1)]}]
    for options in wrong:
        with pytest.raises(InvalidArgumentError):
            BoostingReranker(**options)

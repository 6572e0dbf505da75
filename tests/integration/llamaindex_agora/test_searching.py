"""Faults of search and scores in LlamaIndex's own parts and their neighbours, each shown to be absent here.

A test is named after what breaks elsewhere; a number is that of an issue or a pull request of run-llama/llama_index.
Those of filters and of upkeep stand in the files beside this one.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from llama_index.core import VectorStoreIndex
from llama_index.core.postprocessor import SimilarityPostprocessor
from llama_index.core.schema import NodeWithScore
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode

from agora_core import (
    ChunkRecord,
    HybridRetriever,
    KeywordRetriever,
    MemoryVectorStore,
    Passage,
    PgLexicalVectorStore,
    PgVectorStore,
    ScopeViolationError,
    get_tokenizer,
    reciprocal_rank_fusion,
)
from agora_core.errors import UnsupportedOperationError
from llamaindex_agora import AgoraRetriever, AgoraVectorStore, LlamaIndexRetriever
from tests.contract.llamaindex.stores import Colour
from tests.integration.llamaindex_agora.asking import HYBRID, MMR, TEXT, ask, ids, node, vector
from tests.integration.llamaindex_agora.scripted import DIMENSION, WordEmbedding

# ------------------------------------------------------------------------------------------------ hybrid and lexical


def test_hybrid_puts_one_list_behind_the_other_and_ignores_its_options(store: Colour) -> None:
    """PGVectorStore mixes two scales, and ignores `alpha` and `hybrid_top_k`."""
    store.add([node("dense", "x", 1.0), node("both", "plum", 0.9, 0.1), node("text", "plum plum", -1.0)])
    both = ask(store, query_str="plum", mode=HYBRID, similarity_top_k=2, sparse_top_k=2)
    assert both.ids[0] == "both"
    assert sorted(both.similarities, reverse=True) == both.similarities
    assert ask(store, query_str="plum", mode=HYBRID, similarity_top_k=2, alpha=1.0).ids == ["dense", "both"]
    assert set(ask(store, query_str="plum", mode=HYBRID, similarity_top_k=2, alpha=0.0).ids) == {"both", "text"}
    assert len(ask(store, query_str="plum", mode=HYBRID, hybrid_top_k=1).ids) == 1


def test_weights_of_a_fusion_are_ignored_and_two_zeros_divide_by_zero() -> None:
    """21444: QueryFusionRetriever takes weights and does not use them in reciprocal rank fusion."""
    ranks = [[Passage("a", "a", 1.0)], [Passage("b", "b", 1.0)]]
    assert [p.id for p in reciprocal_rank_fusion(ranks, weights=[0.1, 0.9])] == ["b", "a"]
    assert [p.score for p in reciprocal_rank_fusion(ranks, weights=[0.0, 0.0])] == [0.0, 0.0]


class Fixed:
    """A retriever with one answer, of passages that it keeps."""

    def __init__(self, *passages: Passage) -> None:
        self.passages = list(passages)

    def retrieve(self, query: str, *, top_k: int = 5, **_: Any) -> list[Passage]:
        return self.passages[:top_k]


def test_a_fusion_joins_by_text_and_writes_into_what_it_was_given() -> None:
    """11538, 14383, 21033: two ids with one text collapse, one id with two metadata splits; scores are overwritten."""
    one = Fixed(Passage("a", "same", 0.9), Passage("b", "same", 0.8))
    other = Fixed(Passage("a", "same", 0.5, None, {"seen": True}))
    retriever = AgoraRetriever(retriever=HybridRetriever([one, other]))
    found = retriever.retrieve("x")
    assert ids(found) == ["a", "b"]
    # haystack 12774: the copy of the first list that has it, whatever came later.
    assert found[0].node.metadata == {}
    assert [p.score for p in one.passages] == [0.9, 0.8]


def test_a_fusion_zeroes_what_one_leg_alone_found() -> None:
    """deepset-ai/haystack 12507."""
    retriever = AgoraRetriever(
        retriever=HybridRetriever([Fixed(Passage("a", "a", 0.9)), Fixed(Passage("b", "b", 0.1))])
    )
    assert all(found.score and found.score > 0 for found in retriever.retrieve("x"))


def test_a_leg_that_fails_goes_unnamed() -> None:
    class Broken:
        def retrieve(self, query: str, **_: Any) -> list[Passage]:
            raise OSError("down")

    with pytest.raises(Exception, match="Broken"):
        AgoraRetriever(retriever=HybridRetriever([Fixed(Passage("a", "a", 1.0)), Broken()])).retrieve("x")


async def test_an_async_retrieval_blocks_the_loop() -> None:
    """18090, 21159, 8204, 15621: the default `_aretrieve` calls the sync method; a sync-only leg stops everything."""
    ticks = 0

    class Slow:
        def retrieve(self, query: str, **_: Any) -> list[Passage]:
            time.sleep(0.1)
            return [Passage("a", "a", 1.0)]

    async def beat() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    beating = asyncio.create_task(beat())
    for core in (Slow(), HybridRetriever([Slow(), Slow()])):
        ticks = 0
        assert ids(await AgoraRetriever(retriever=core).aretrieve("x")) == ["a"]
        assert ticks > 1
    beating.cancel()


FRUIT = [
    ChunkRecord("public", "plum jam", None, {"audience": ["public"]}),
    ChunkRecord("secret", "plum brandy", None, {"audience": ["admin"]}),
    ChunkRecord("other", "bread", None, {"audience": ["public"]}),
]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_keyword_search_fills_up_with_rows_outside_the_filter(colour: str) -> None:
    """22897: masked rows come back with score 0 where fewer than `top_k` are allowed; so do rows without a match."""
    keyword = KeywordRetriever()
    keyword.add(FRUIT)

    def retrieve(query: str, filter: Any) -> list[str]:
        retriever = AgoraRetriever(retriever=keyword, similarity_top_k=10, filter=filter)
        return ids(retriever.retrieve(query) if colour == "sync" else asyncio.run(retriever.aretrieve(query)))

    assert retrieve("plum", {"audience": ["public"]}) == ["public"]
    assert retrieve("zebra", {"audience": ["public"]}) == []
    assert retrieve("plum", {"audience": []}) == []
    # 14959: the filter of a query, not of the retriever; PR 20925: a deny is no error.
    audience = ["admin"]
    retriever = AgoraRetriever(retriever=keyword, filter=lambda _: {"audience": audience})
    assert ids(retriever.retrieve("plum")) == ["secret"]
    audience = []
    assert ids(retriever.retrieve("plum")) == []


def test_text_search_fills_up_with_rows_outside_the_filter(store: Colour) -> None:
    store.add([node(f.id, f.text, **(f.metadata or {})) for f in FRUIT])
    result = store.query(
        VectorStoreQuery(query_str="plum", similarity_top_k=10, mode=TEXT, filters={"audience": ["public"]})  # type: ignore[arg-type]
    )
    assert result.ids == ["public"]


def test_one_letter_words_and_other_scripts_are_dropped() -> None:
    """14960, 16333, 17461: "vitamin c" is "vitamin d"; only ASCII is split into words."""
    keyword = KeywordRetriever()
    texts = {"c": "vitamin c", "d": "vitamin d", "de": "Übergröße", "ru": "отпуск", "el": "άδεια"}
    keyword.add(ChunkRecord(id, text) for id, text in texts.items())
    for query, best in (("vitamin d", "d"), ("vitamin c", "c"), ("übergröße", "de"), ("ОТПУСК", "ru"), ("ΆΔΕΙΑ", "el")):
        assert ids(AgoraRetriever(retriever=keyword).retrieve(query))[0] == best


def test_an_empty_corpus_or_a_large_top_k_crashes(store: Colour) -> None:
    """19568, 10344, 12732, 19527, 20601."""
    for mode in (VectorStoreQueryMode.DEFAULT, TEXT, HYBRID, MMR):
        assert ask(store, query_str="plum", mode=mode, similarity_top_k=1_000).ids == []
    assert AgoraRetriever(retriever=KeywordRetriever(), similarity_top_k=1_000).retrieve("plum") == []
    store.add([node("a", "plum")])
    for mode in (VectorStoreQueryMode.DEFAULT, TEXT, HYBRID, MMR):
        assert ask(store, query_str="plum", mode=mode, similarity_top_k=1_000).ids == ["a"]


def test_a_saved_keyword_index_forgets_its_language(tmp_path: Path) -> None:
    """22978, 19240: stemmer, language and token pattern revert to English, or are missing on one side."""
    keyword = KeywordRetriever(tokenizer=get_tokenizer("italian"))
    keyword.add([ChunkRecord("it", "le ferie pagate dei dipendenti")])
    keyword.save(tmp_path / "index")
    loaded = KeywordRetriever.load(tmp_path / "index")
    for index in (keyword, loaded):
        assert ids(AgoraRetriever(retriever=index).retrieve("dipendente pagato")) == ["it"]


def test_hybrid_on_a_table_that_was_made_without_text_search(pg_conninfo: str, fresh_name: str) -> None:
    """11851: an AttributeError. Here a plain store says what is missing, and a lexical one adds it."""
    with PgVectorStore(pg_conninfo, table=fresh_name, dimension=DIMENSION) as plain:
        plain.ensure_schema()
        AgoraVectorStore(store=plain).add([node("a", "plum")])
        with pytest.raises(UnsupportedOperationError, match="text"):
            ask(Colour(AgoraVectorStore(store=plain), None), query_str="plum", mode=HYBRID)
    with PgLexicalVectorStore(pg_conninfo, table=fresh_name, dimension=DIMENSION) as lexical:
        lexical.ensure_schema()
        assert ask(Colour(AgoraVectorStore(store=lexical), None), query_str="plum", mode=HYBRID).ids == ["a"]


# 10985 (several languages in one table), 22822 (a language per store): the text search configuration is an option of
# the core's lexical store and tested there. There is one tokenizer for index and query alike.


# ------------------------------------------------------------------------------------------------ scores


@pytest.mark.parametrize("metric", ["cosine", "l2", "inner"])
def test_a_distance_is_returned_as_a_score(metric: Any) -> None:
    """9355, 12487, 19481, mem0 4456: a threshold keeps the far ones."""
    core = MemoryVectorStore(metric=metric)
    AgoraVectorStore(store=core).add([node("near", "x", 1.0), node("far", "x", -1.0)])
    result = ask(Colour(AgoraVectorStore(store=core), None))
    assert result.ids == ["near", "far"]
    assert result.similarities[0] > result.similarities[1]
    nodes = [NodeWithScore(node=n, score=s) for n, s in zip(result.nodes, result.similarities, strict=True)]
    kept = SimilarityPostprocessor(similarity_cutoff=result.similarities[0]).postprocess_nodes(nodes)
    assert ids(kept) == ["near"]


def test_a_floor_cuts_after_the_top_k() -> None:
    """Their cutoff is a postprocessor; `min_score` reaches the store."""
    core = MemoryVectorStore()
    AgoraVectorStore(store=core).add([node("near", "x", 1.0), node("far", "x", -1.0)])
    asked: list[dict[str, Any]] = []

    class Dense:
        def retrieve(self, query: str, **options: Any) -> list[Passage]:
            asked.append(options)
            return list(core.search(vector(1.0), **options))

    assert ids(AgoraRetriever(retriever=Dense(), similarity_top_k=5, min_score=0.5).retrieve("x")) == ["near"]
    assert asked == [{"top_k": 5, "min_score": 0.5}]


def test_the_similarity_of_a_zero_vector_is_nan(store: Colour) -> None:
    store.add([node("zero", "x", 0.0), node("near", "x", 1.0)])
    assert dict(zip(ask(store).ids, ask(store).similarities, strict=True)) == pytest.approx({"near": 1.0, "zero": 0.0})
    assert ask(store, query_embedding=vector(0.0)).similarities == pytest.approx([0.0, 0.0])


def test_mmr_ignores_its_threshold_and_returns_other_scores(store: Colour) -> None:
    """22967, 17048: read from one of two places only; MMR's own value for a similarity, as numpy numbers."""
    store.add([node("a", "x", 1.0), node("b", "x", 0.99, 0.1), node("c", "x", 0.5, -0.8)])
    plain = dict(zip(ask(store).ids, ask(store).similarities, strict=True))
    for threshold, second in ((1.0, "b"), (0.2, "c")):
        result = ask(store, mode=MMR, similarity_top_k=2, mmr_threshold=threshold)
        assert result.ids == ["a", second]
        assert [type(s) for s in result.similarities] == [float, float]
        assert result.similarities == pytest.approx([plain["a"], plain[second]])


def test_several_tenants_in_one_store(store: Colour) -> None:
    """16945, 13972, 12046, 22823: a view bound to a tenant, whatever is asked of it."""
    core = store.target.store
    mine = store.of(AgoraVectorStore(store=core.scoped({"tenant": "a"})))
    store.add([node("other", "plum", tenant="b")])
    mine.add([node("mine", "plum", tenant="a")])
    with pytest.raises(ScopeViolationError):
        mine.add([node("stray", tenant="b")])
    with pytest.raises(ScopeViolationError):
        mine.add([node("other", tenant="a")])
    assert ask(mine).ids == ["mine"]
    assert [n.node_id for n in mine.get_nodes()] == ["mine"]
    assert mine.get_nodes(["other"]) == []
    assert mine.update_metadata("doc", {"seen": True}) == 1
    mine.delete_nodes(["other"])
    mine.delete("doc")
    mine.clear()
    assert [n.node_id for n in store.get_nodes()] == ["other"]
    assert store.get_nodes()[0].metadata == {"tenant": "b"}


def test_a_scored_node_does_not_come_back_as_it_went() -> None:
    """18345: every piece that crosses a border is rebuilt whole, theirs as a leg of ours included."""
    given = node("a", "text", 1.0, k=[1, {"x": None}])
    given.embedding = None
    theirs = VectorStoreIndex(nodes=[given], embed_model=WordEmbedding()).as_retriever(similarity_top_k=1)
    (through,) = AgoraRetriever(retriever=LlamaIndexRetriever(theirs)).retrieve("text")
    assert through.node == given


# 16857, 20894 (nothing found, and the model is not asked) and 34 (what survives a saved context) stand in the tests of
# the chat engine and of the agent.

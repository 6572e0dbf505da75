"""Faults that LangChain's ensemble, BM25 and other retrievers have or had, each shown to be absent here.

As in test_vectorstore.py, a test is named after what breaks elsewhere and says in its docstring where.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document

from agora_core import (
    ChunkRecord,
    EmbeddingRetriever,
    HybridRetriever,
    InvalidArgumentError,
    KeywordRetriever,
    LexicalRetriever,
    Passage,
    PgLexicalVectorStore,
    RetrieverLegError,
    field,
    reciprocal_rank_fusion,
)
from agora_core.testing import FakeEmbeddingProvider
from langchain_agora import (
    AgoraRetriever,
    AgoraVectorStore,
    LangChainRetriever,
    to_core_filter,
)
from tests.unit.langchain_agora.colours import Run


def ids(found: Any) -> list[str]:
    return [document.id for document in found]


class Fixed:
    """A leg that gives its passages."""

    def __init__(self, *passages: Passage, error: Exception | None = None) -> None:
        self.passages, self.error = passages, error

    def retrieve(self, query: str, *, top_k: int = 5, filter: Any = None, min_score: Any = None) -> list[Passage]:
        if self.error is not None:
            raise self.error
        return list(self.passages[:top_k])


# -- hybrid retrieval and BM25 -----------------------------------------------------------------------------------------


FRUIT = ["apple pie and more apple", "cherry cake", "plum jam", "cherry and apple"]


def test_a_hybrid_query_does_not_stick(run: Run, conninfo: Any, fresh_name: str) -> None:
    """PGVectorStore keeps the first query in its shared configuration: "cherry" is then scored as "apple"."""
    embedder = FakeEmbeddingProvider()
    with PgLexicalVectorStore(conninfo(), table=fresh_name, dimension=64) as store:
        store.ensure_schema()
        vectors = AgoraVectorStore(store, embedder)
        run(vectors, "add_texts", FRUIT, ids=["apple", "cherry", "plum", "both"])
        hybrid = HybridRetriever([EmbeddingRetriever(embedder, store), LexicalRetriever(store)])
        retriever = AgoraRetriever(retriever=hybrid, k=1)
        assert ids(run(retriever, "invoke", "apple pie")) == ["apple"]
        assert ids(run(retriever, "invoke", "cherry cake")) == ["cherry"]
        assert ids(run(AgoraRetriever(retriever=LexicalRetriever(store)), "invoke", "plum")) == ["plum"]


def test_the_identity_of_a_document_is_its_id(run: Run) -> None:
    """EnsembleRetriever takes two ids with one text for one document, and one id with two texts for two (lc #22950);
    a missing `id_key` is a KeyError."""
    first = Fixed(Passage("1", "same", 0.9), Passage("2", "same", 0.8), Passage("3", "old", 0.7))
    second = Fixed(Passage("3", "new", 0.9))
    found = run(AgoraRetriever(retriever=HybridRetriever([first, second])), "invoke", "x")
    assert sorted(ids(found)) == ["1", "2", "3"]
    assert next(document for document in found if document.id == "3").page_content == "old"


def test_a_list_contributes_once_for_each_id(run: Run) -> None:
    """lc #37046, #38578: EnsembleRetriever counts repeats inside one list."""
    repeated = [Passage("1", "a", 0.9), Passage("1", "a", 0.8), Passage("2", "b", 0.7)]
    once = [Passage("1", "a", 0.9), Passage("2", "b", 0.7)]
    fused = {passage.id: passage.score for passage in reciprocal_rank_fusion([repeated])}
    assert fused["1"] == reciprocal_rank_fusion([once])[0].score


def test_the_best_ranked_metadata_wins(run: Run) -> None:
    """lc #38627: EnsembleRetriever overwrites metadata where texts are equal."""
    first, second = (
        Fixed(Passage("1", "t", 0.9, None, {"of": "first"})),
        Fixed(Passage("1", "t", 0.9, None, {"of": "2"})),
    )
    (found,) = run(AgoraRetriever(retriever=HybridRetriever([first, second])), "invoke", "x")
    assert found.metadata["of"] == "first"


def test_k_is_obeyed_and_the_fused_score_is_there(run: Run) -> None:
    """EnsembleRetriever and BM25Retriever ignore the `k` of a call; there is no fused score."""
    legs = [Fixed(*(Passage(str(n), "t", 1.0) for n in range(9)))] * 2
    retriever = AgoraRetriever(retriever=HybridRetriever(legs), score_key="score")
    assert len(run(retriever, "invoke", "x", k=7)) == 7
    scores = [document.metadata["score"] for document in run(retriever, "invoke", "x", k=3)]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("weights", [[-1, 1], [1], [float("nan"), 1]])
def test_weights_that_make_no_sense_are_refused(weights: Any) -> None:
    """EnsembleRetriever takes negative weights."""
    with pytest.raises(InvalidArgumentError):
        HybridRetriever([Fixed(), Fixed()], weights=weights)


def test_a_failing_leg_is_named(run: Run) -> None:
    """EnsembleRetriever fails with the bare error of one retriever. Half an answer would look like a whole one, so
    ours fails too, and says which leg it was."""
    hybrid = HybridRetriever([Fixed(Passage("1", "t", 1.0)), Fixed(error=ConnectionError("away"))])
    with pytest.raises(RetrieverLegError, match=r"leg 1 .*Fixed") as caught:
        run(AgoraRetriever(retriever=hybrid), "invoke", "x")
    assert isinstance(caught.value.__cause__, ConnectionError)


def test_async_legs_run_at_once_and_are_cancelled_on_a_failure() -> None:
    """lc #15764: async EnsembleRetriever is sequential; haystack #11965: siblings go on after a failure."""
    events: list[str] = []

    async def use() -> None:
        both = asyncio.Event()
        waiting: list[str] = []

        class Leg:
            def __init__(self, name: str, fails: bool = False) -> None:
                self.name, self.fails = name, fails

            async def aretrieve(self, query: str, **options: Any) -> list[Passage]:
                waiting.append(self.name)
                if len(waiting) == 2:
                    both.set()
                await both.wait()
                if self.fails:
                    raise ConnectionError(self.name)
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    events.append(f"{self.name} cancelled")
                    raise
                return []

        legs: list[Any] = [Leg("slow"), Leg("broken", fails=True)]
        retriever = AgoraRetriever(retriever=HybridRetriever(legs))
        with pytest.raises(RetrieverLegError):
            await retriever.ainvoke("x")

    asyncio.run(asyncio.wait_for(use(), 30))
    assert events == ["slow cancelled"]


def keyword(*texts: str) -> KeywordRetriever:
    retriever = KeywordRetriever()
    retriever.add([ChunkRecord(str(n), text, None, {"n": n}) for n, text in enumerate(texts)])
    return retriever


def test_bm25_reads_words_and_returns_matches_only(run: Run) -> None:
    """BM25Retriever is case-sensitive, splits at white space only, and returns k documents where nothing matches."""
    retriever = AgoraRetriever(retriever=keyword("Paid Leave, thirty days.", "notice"))
    assert ids(run(retriever, "invoke", "LEAVE")) == ["0"]
    assert run(retriever, "invoke", "zzz") == []


def test_bm25_may_be_empty_and_takes_a_generator(run: Run) -> None:
    """BM25Retriever raises ValueError for no documents and AssertionError for a generator."""
    retriever = KeywordRetriever()
    assert run(AgoraRetriever(retriever=retriever), "invoke", "x") == []
    retriever.add(ChunkRecord(str(n), "leave") for n in range(3))
    assert len(run(AgoraRetriever(retriever=retriever), "invoke", "leave")) == 3


def test_bm25_scores_are_positive_in_a_small_corpus(run: Run) -> None:
    """rank_bm25 #50: idf is zero or negative where a term is in half of the documents."""
    retriever = AgoraRetriever(retriever=keyword("leave", "notice"), score_key="score")
    assert run(retriever, "invoke", "leave")[0].metadata["score"] > 0


def test_bm25_filters_and_takes_documents_at_any_time(run: Run) -> None:
    """llama_index #14959, bm25s #35, #74: neither filters nor incremental adds."""
    core = keyword("leave one", "leave two")
    retriever = AgoraRetriever(retriever=core)
    assert ids(run(retriever, "invoke", "leave", filter={"n": 1})) == ["1"]
    core.add([ChunkRecord("2", "leave three", None, {"n": 2})])
    core.remove("0")
    assert sorted(ids(run(retriever, "invoke", "leave"))) == ["1", "2"]


def test_bm25_is_saved_without_pickle(run: Run, tmp_path: Path) -> None:
    """lc #27071: save and load were rejected for using pickle."""
    keyword("paid leave", "notice").save(tmp_path / "index")
    loaded = KeywordRetriever.load(tmp_path / "index")
    assert ids(run(AgoraRetriever(retriever=loaded), "invoke", "leave")) == ["0"]
    files = [path for path in [tmp_path / "index", *(tmp_path / "index").rglob("*")] if path.is_file()]
    assert files
    assert not any(path.read_bytes()[:2] == b"\x80\x04" for path in files)


# -- theirs as ours ----------------------------------------------------------------------------------------------------


def test_their_retriever_as_a_leg_keeps_the_filter_that_it_ignores(run: Run) -> None:
    """BaseRetriever drops keywords that a subclass does not name: a filter given to it is silently ignored."""
    from langchain_core.callbacks import CallbackManagerForRetrieverRun
    from langchain_core.retrievers import BaseRetriever

    class Careless(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> Any:
            return [Document("mine", id="1", metadata={"t": "a"}), Document("theirs", id="2", metadata={"t": "b"})]

    leg = LangChainRetriever(Careless())
    hybrid = HybridRetriever([leg, keyword("x")])
    assert ids(run(AgoraRetriever(retriever=hybrid, filter={"t": "a"}), "invoke", "leave")) == ["1"]


def test_a_metadata_filter_can_be_logged(run: Run) -> None:
    """A filter that went wrong has to be found again: it travels as JSON."""
    from agora_core import filter_from_json, filter_to_json

    written = to_core_filter({"year": {"$gte": 2020}, "$or": [{"acl": ["a"]}, {"acl": {"$exists": False}}]})
    assert filter_from_json(json.loads(json.dumps(filter_to_json(written)))) == written
    assert filter_to_json(field("year") >= 2020) == {"field": ["year"], "op": ">=", "value": 2020}

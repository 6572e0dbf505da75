"""The embedding reranker, the cross-encoder, and what every reranker promises."""

from __future__ import annotations

import asyncio
import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core.embedders import WordLlamaEmbeddingProvider
from agora_core.errors import (
    EmbeddingError,
    InvalidArgumentError,
    InvalidMetadataError,
    RerankingError,
    UnsupportedOperationError,
)
from agora_core.protocols import Reranker
from agora_core.records import Passage
from agora_core.rerankers import CrossEncoderReranker, EmbeddingReranker
from agora_core.rerankers.cross_encoder import sigmoid, to_logits
from agora_core.rerankers.ordering import in_order
from tests.onnx_files import WORDS, write_cross_encoder, write_encoder, write_tokenizer

PASSAGES = [
    Passage("1", "cat", 0.1, "a.md", {"tags": ["x"]}),
    Passage("2", "dog dog", 0.9),
    Passage("3", "tea rain", 0.5, None, {}),
    Passage("4", "red", 0.4),
]
# What the cross-encoder below gives for each word of the passage.
WEIGHTS = {"cat": 1.0, "dog": 2.0, "tea": -1.0, "rain": 0.5, "red": 3.0}


def word_scores(columns: int = 1) -> Any:
    table = np.zeros((len(WORDS), columns), dtype=np.float32)
    for word, weight in WEIGHTS.items():
        table[WORDS.index(word), -1] = weight
    return table


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write_cross_encoder(tmp_path / "m.onnx", word_scores()), write_tokenizer(tmp_path / "t.json")


@pytest.fixture(params=["embedding", "cross-encoder"])
def reranker(request: pytest.FixtureRequest, files: tuple[Path, Path]) -> Any:
    """Each reranker that needs no server."""
    if request.param == "embedding":
        return EmbeddingReranker(WordLlamaEmbeddingProvider(dimensions=64))
    return CrossEncoderReranker(*files)


@pytest.fixture(params=["sync", "async"])
def rerank(request: pytest.FixtureRequest) -> Any:
    """Rerank in either colour."""

    def run(target: Any, query: str, passages: Any, **options: Any) -> list[Passage]:
        if request.param == "sync":
            found: list[Passage] = target.rerank(query, passages, **options)
        else:
            found = asyncio.run(target.arerank(query, passages, **options))
        return found

    return run


def ids(passages: list[Passage]) -> list[str]:
    return [passage.id for passage in passages]


class TestEveryReranker:
    def test_returns_all_passages_best_first_with_new_scores(self, reranker: Any, rerank: Any) -> None:
        assert isinstance(reranker, Reranker)
        found = rerank(reranker, "dog", PASSAGES)
        assert sorted(ids(found)) == ["1", "2", "3", "4"]
        scores = [passage.score for passage in found]
        assert scores == sorted(scores, reverse=True)
        assert all(type(score) is float for score in scores)
        assert ids(rerank(reranker, "dog", tuple(PASSAGES), top_k=2)) == ids(found)[:2]
        assert ids(rerank(reranker, "dog", PASSAGES, top_k=99)) == ids(found)

    def test_the_passages_given_are_not_touched_nor_shared(self, reranker: Any, rerank: Any) -> None:
        before = copy.deepcopy(PASSAGES)
        found = {passage.id: passage for passage in rerank(reranker, "cat", PASSAGES)}
        first = found["1"]
        assert (first.text, first.source, first.metadata) == ("cat", "a.md", {"tags": ["x"]})
        assert first.metadata is not None
        first.metadata["tags"].append("y")
        assert before == PASSAGES

    def test_equal_scores_keep_the_order_given(self, reranker: Any, rerank: Any) -> None:
        twins = [Passage(str(n), "cat", float(n)) for n in range(40)]
        assert ids(rerank(reranker, "dog", twins)) == [str(n) for n in range(40)]

    def test_no_passages(self, reranker: Any, rerank: Any) -> None:
        assert rerank(reranker, "q", []) == []
        assert rerank(reranker, "q", iter(()), top_k=1) == []

    @pytest.mark.parametrize("top_k", [0, -1, 1.5, True, "2"])
    @pytest.mark.parametrize("passages", [[], PASSAGES])
    def test_top_k_is_checked(self, top_k: Any, passages: Any, reranker: Any, rerank: Any) -> None:
        with pytest.raises(InvalidArgumentError, match="top_k must be"):
            rerank(reranker, "q", passages, top_k=top_k)

    @pytest.mark.parametrize(
        ("query", "passages", "error", "message"),
        [
            (None, [], InvalidMetadataError, "query must be a str, got NoneType"),
            ("a\ud800", [], InvalidMetadataError, "lone surrogate"),
            ("q", ["text"], InvalidArgumentError, r"passages\[0\] must be a Passage, got str"),
            ("q", "text", InvalidArgumentError, "passages must be a sequence of Passage, got str"),
            ("q", 5, InvalidArgumentError, "passages must be a sequence of Passage, got int"),
        ],
    )
    def test_other_arguments_are_checked(
        self, query: Any, passages: Any, error: type[Exception], message: str, reranker: Any, rerank: Any
    ) -> None:
        with pytest.raises(error, match=message):
            rerank(reranker, query, passages)

    def test_an_unknown_argument_is_refused(self, reranker: Any) -> None:
        with pytest.raises(TypeError, match="unexpected keyword argument"):
            reranker.rerank("q", PASSAGES, topk=1)


VECTORS = {
    "q": [1.0, 0.0],
    "same": [5.0, 0.0],
    "half": [1.0, 1.0],
    "none": [0.0, 0.0],
    "back": [-2.0, 0.0],
    "huge": [1e200, 1e200],
    "tiny": [1e-200, 0.0],
}


class Embedder:
    """Looks vectors up, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def embed(self, texts: Any) -> Any:
        self.asked.append(list(texts))
        return [VECTORS[text] for text in texts]


class QueryEmbedder(Embedder):
    def embed_query(self, text: str) -> Any:
        self.asked.append([f"query:{text}"])
        return [0.0, 1.0]


class AsyncEmbedder:
    async def aembed(self, texts: Any) -> Any:
        return np.array([VECTORS[text] for text in texts])


def named(*texts: str) -> list[Passage]:
    return [Passage(text, text, 0.0) for text in texts]


class TestEmbeddingReranker:
    def test_scores_are_cosine_similarities(self, rerank: Any) -> None:
        embedder = Embedder()
        found = rerank(EmbeddingReranker(embedder), "q", named("none", "back", "half", "same", "huge", "tiny"))
        scores = {passage.id: passage.score for passage in found}
        assert list(scores) == ["same", "tiny", "half", "huge", "none", "back"]
        half = math.sqrt(0.5)
        expected = {"same": 1.0, "tiny": 1.0, "half": half, "huge": half, "none": 0.0, "back": -1.0}
        assert scores == pytest.approx(expected)
        assert len(embedder.asked) == 2

    def test_a_zero_query_scores_all_zero(self, rerank: Any) -> None:
        found = rerank(EmbeddingReranker(Embedder()), "none", named("half", "same"))
        assert [(passage.id, passage.score) for passage in found] == [("half", 0.0), ("same", 0.0)]

    def test_queries_are_embedded_as_queries_where_the_embedder_tells_them_apart(self, rerank: Any) -> None:
        embedder = QueryEmbedder()
        assert ids(rerank(EmbeddingReranker(embedder), "q", named("same", "half"))) == ["half", "same"]
        assert embedder.asked == [["query:q"], ["same", "half"]]

    def test_long_passages_are_cut(self, rerank: Any) -> None:
        embedder = Embedder()
        (found,) = rerank(EmbeddingReranker(embedder, max_passage_chars=4), "q", named("halfway"))
        assert found.text == "halfway"
        assert embedder.asked == [["q"], ["half"]]

    def test_an_async_embedder_serves_the_async_colour_only(self) -> None:
        reranker = EmbeddingReranker(AsyncEmbedder())
        assert ids(asyncio.run(reranker.arerank("q", named("half", "same")))) == ["same", "half"]
        with pytest.raises(UnsupportedOperationError, match="aembed is async"):
            reranker.rerank("q", named("half"))

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            ([[1.0, 0.0]], "returned 1 vectors for 2 texts"),
            ([[1.0, 0.0]] * 4, "returned 4 vectors for 2 texts"),
            ([[1.0, 0.0], [1.0]], "not vectors of one length"),
            ([[1.0], [1.0]], r"vectors of shape \(2, 1\) to 2 texts and of shape \(2,\) to a query"),
            ([["a"], ["b"]], "not vectors of one length"),
            (5, "must return one vector per text, got int"),
        ],
    )
    def test_an_embedder_that_answers_wrongly(self, answer: Any, message: str, rerank: Any) -> None:
        class Wrong:
            def embed(self, _texts: Any) -> Any:
                return answer

            def embed_query(self, _text: str) -> Any:
                return [1.0, 0.0]

        with pytest.raises(EmbeddingError, match=message):
            rerank(EmbeddingReranker(Wrong()), "q", named("half", "same"))

    def test_a_vector_that_is_not_a_number_gives_no_order(self, rerank: Any) -> None:
        class Broken:
            def embed(self, texts: Any) -> Any:
                return [[math.nan, 1.0] for _ in texts]

        with pytest.raises(RerankingError, match=r"the score of passages\[0\] is nan"):
            rerank(EmbeddingReranker(Broken()), "q", named("half"))

    def test_the_real_model_puts_the_answer_first(self, rerank: Any) -> None:
        texts = ["The invoice is due in thirty days.", "Cats sleep most of the day.", "Trains leave at noon."]
        passages = [Passage(str(n), text, 0.0) for n, text in enumerate(texts)]
        reranker = EmbeddingReranker(WordLlamaEmbeddingProvider())
        assert ids(rerank(reranker, "how long does a kitten sleep", passages, top_k=1)) == ["1"]

    @pytest.mark.parametrize("limit", [0, -1, 2.0, True])
    def test_bad_limits(self, limit: Any) -> None:
        with pytest.raises(InvalidArgumentError, match="max_passage_chars must be None or an int of 1 or more"):
            EmbeddingReranker(Embedder(), max_passage_chars=limit)


class TestCrossEncoder:
    @pytest.mark.parametrize("batch_size", [1, 3, 16])
    def test_scores_are_the_models(self, files: tuple[Path, Path], batch_size: int, rerank: Any) -> None:
        reranker = CrossEncoderReranker(*files, activation="none", batch_size=batch_size)
        found = rerank(reranker, "red red", PASSAGES)
        scores = [(passage.id, passage.score) for passage in found]
        assert scores == [("2", 4.0), ("4", 3.0), ("1", 1.0), ("3", -0.5)]

    def test_sigmoid_is_the_default_and_keeps_the_order(self, files: tuple[Path, Path], rerank: Any) -> None:
        found = rerank(CrossEncoderReranker(*files, threads=1), "q", PASSAGES)
        assert ids(found) == ["2", "4", "1", "3"]
        assert found[0].score == pytest.approx(1 / (1 + math.exp(-4.0)))

    def test_two_columns_give_their_difference(self, tmp_path: Path, rerank: Any) -> None:
        table = word_scores(2)
        table[:, 0] = 0.25
        model = write_cross_encoder(tmp_path / "m.onnx", table)
        reranker = CrossEncoderReranker(model, write_tokenizer(tmp_path / "t.json"), activation="none")
        # [SEP] ends the passage and counts as its second text's token: 0.25 less for it and for each word.
        found = rerank(reranker, "q", PASSAGES)
        assert [(passage.id, passage.score) for passage in found] == [("2", 3.25), ("4", 2.5), ("1", 0.5), ("3", -1.25)]

    def test_long_passages_are_cut_by_tokens_and_by_characters(self, files: tuple[Path, Path], rerank: Any) -> None:
        long = [Passage("1", "tea tea tea tea red", 0.0)]
        whole = CrossEncoderReranker(*files, activation="none")
        assert rerank(whole, "cat", long)[0].score == -1.0
        tokens = CrossEncoderReranker(*files, activation="none", max_tokens=8)
        assert rerank(tokens, "cat", long)[0].score == -4.0
        characters = CrossEncoderReranker(*files, activation="none", max_passage_chars=7)
        assert rerank(characters, "cat", long)[0].score == -2.0

    def test_a_model_that_is_no_reranker(self, tmp_path: Path, rerank: Any) -> None:
        table = np.ones((len(WORDS), 5), dtype=np.float32)
        model = write_encoder(tmp_path / "m.onnx", table)
        reranker = CrossEncoderReranker(model, write_tokenizer(tmp_path / "t.json"))
        with pytest.raises(RerankingError, match=r"answered with shape \(4, \d+, 5\) to 4 pairs"):
            rerank(reranker, "q", PASSAGES)

    def test_scores_beyond_numbers_are_refused(self, tmp_path: Path, rerank: Any) -> None:
        table = word_scores()
        table[WORDS.index("cat")] = np.nan
        reranker = CrossEncoderReranker(
            write_cross_encoder(tmp_path / "m.onnx", table), write_tokenizer(tmp_path / "t.json")
        )
        with pytest.raises(RerankingError, match=r"the score of passages\[0\] is nan"):
            rerank(reranker, "q", PASSAGES)

    def test_a_model_that_fails(self, tmp_path: Path, rerank: Any) -> None:
        model = write_cross_encoder(tmp_path / "m.onnx", word_scores()[:5])
        reranker = CrossEncoderReranker(model, write_tokenizer(tmp_path / "t.json"))
        with pytest.raises(RerankingError, match="failed on a batch of 4 pairs"):
            rerank(reranker, "q", PASSAGES)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"activation": "softmax"}, "activation must be 'none' or 'sigmoid', got 'softmax'"),
            ({"batch_size": 0}, "batch_size must be an int of 1 or more"),
            ({"max_tokens": None}, "max_tokens must be an int of 1 or more"),
            ({"max_passage_chars": 0}, "max_passage_chars must be None or an int of 1 or more"),
            ({"model": "absent.onnx"}, "model: there is no file 'absent.onnx'"),
        ],
    )
    def test_bad_arguments(self, files: tuple[Path, Path], options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidArgumentError, match=message):
            CrossEncoderReranker(**{"model": files[0], "tokenizer": files[1], **options})


def test_shapes_of_logits() -> None:
    def read(answer: Any, count: int) -> Any:
        logits = to_logits(np.array(answer), count)
        return None if logits is None else logits.tolist()

    assert read([1.5, 2.5], 2) == [1.5, 2.5]
    assert read([[1.5], [2.5]], 2) == [1.5, 2.5]
    assert read([[1.0, 3.0], [2.0, 1.0]], 2) == [2.0, -1.0]
    assert read([[1.0, 2.0, 3.0]], 1) is None
    assert read([1.0], 2) is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20))
def test_sigmoid_is_monotone_and_never_overflows(values: list[float]) -> None:
    with np.errstate(all="raise", under="ignore"):
        result = sigmoid(np.array(sorted(values)))
    assert ((result >= 0) & (result <= 1)).all()
    assert (np.diff(result) >= 0).all()


@given(
    scores=st.lists(st.sampled_from([0.0, -0.0, 0.5, 1.0, -1.0]), max_size=12),
    top_k=st.none() | st.integers(1, 15),
)
def test_order_is_descending_and_stable(scores: list[float], top_k: int | None) -> None:
    passages = [Passage(str(n), "", 0.0) for n in range(len(scores))]
    expected = sorted(range(len(scores)), key=lambda n: (-scores[n], n))[:top_k]
    assert ids(in_order(passages, scores, top_k)) == [str(n) for n in expected]

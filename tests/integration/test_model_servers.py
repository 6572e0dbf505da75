"""The HTTP embedder and reranker against a real local server, well behaved and not."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from agora_core.embedders import OpenAICompatibleEmbeddingProvider
from agora_core.errors import InvalidArgumentError, ModelServerError
from agora_core.protocols import EmbeddingProvider, Reranker
from agora_core.records import Passage
from agora_core.rerankers import HttpReranker
from tests.model_server import ModelServer, Reply, Request, embeddings_of, model_server

KEY = "sk-very-secret-key"
PRIVATE = "a text that no log may hold"


def embedder(server: ModelServer, **options: Any) -> OpenAICompatibleEmbeddingProvider:
    settings: dict[str, Any] = {"model": "tiny", "api_key": KEY, "max_retries": 1, "timeout": 5.0}
    return OpenAICompatibleEmbeddingProvider(f"{server.url}/v1/", **{**settings, **options})


@pytest.fixture(params=["sync", "async"])
def embed(request: pytest.FixtureRequest) -> Any:
    """Embed passages in either colour and return plain lists."""

    def run(provider: OpenAICompatibleEmbeddingProvider, texts: list[str]) -> list[list[float]]:
        vectors = provider.embed(texts) if request.param == "sync" else asyncio.run(provider.aembed(texts))
        return [vector.tolist() for vector in vectors]

    return run


def item(index: int, *numbers: float) -> dict[str, Any]:
    return {"index": index, "embedding": list(numbers)}


class TestEmbeddings:
    def test_one_vector_a_text_in_batches(self, embed: Any) -> None:
        texts = ["x" * n for n in range(1, 8)]
        with model_server(embeddings_of) as server:
            provider = embedder(server, batch_size=3)
            assert isinstance(provider, EmbeddingProvider)
            assert embed(provider, texts) == [[float(n), 1.0] for n in range(1, 8)]
            assert provider.dimension == 2
        assert sorted(len(request.body["input"]) for request in server.requests) == [1, 3, 3]
        request = server.requests[0]
        assert request.path == "/v1/embeddings"
        assert request.body["model"] == "tiny"
        assert set(request.body) == {"model", "input"}
        assert request.headers["Authorization"] == f"Bearer {KEY}"

    def test_the_dimension_is_known_after_the_first_answer(self) -> None:
        with model_server(embeddings_of) as server:
            provider = embedder(server)
            known = [provider.dimension]
            provider.embed(["a"])
            known.append(provider.dimension)
        assert known == [None, 2]

    def test_vectors_are_float32_arrays(self) -> None:
        with model_server(embeddings_of) as server:
            (vector,) = embedder(server).embed(["abc"])
        assert vector.dtype == np.float32
        assert vector.shape == (2,)

    def test_no_texts_no_request(self, embed: Any) -> None:
        with model_server(embeddings_of) as server:
            assert embed(embedder(server), []) == []
        assert server.requests == []

    def test_the_empty_text_is_sent_as_a_space(self, embed: Any) -> None:
        with model_server(embeddings_of) as server:
            assert embed(embedder(server), ["", "ab"]) == [[1.0, 1.0], [2.0, 1.0]]
        assert server.requests[0].body["input"] == [" ", "ab"]

    def test_long_texts_are_cut(self, embed: Any) -> None:
        with model_server(embeddings_of) as server:
            assert embed(embedder(server), ["x" * 30_000]) == [[24_000.0, 1.0]]
            assert embed(embedder(server, max_input_chars=10), ["x" * 30]) == [[10.0, 1.0]]
            assert embed(embedder(server, max_input_chars=None), ["x" * 30_000]) == [[30_000.0, 1.0]]

    def test_prefixes_tell_queries_from_passages(self) -> None:
        with model_server(embeddings_of) as server:
            provider = embedder(server, query_prefix="query: ", passage_prefix="passage: ")
            provider.embed(["tea"])
            provider.embed_query("tea")
            asyncio.run(provider.aembed_query("tea"))
        assert [r.body["input"] for r in server.requests] == [["passage: tea"], ["query: tea"], ["query: tea"]]

    def test_vectors_are_put_in_the_order_of_their_index(self, embed: Any) -> None:
        with model_server([Reply({"data": [item(2, 2.0), item(0, 0.0), item(1, 1.0)]})]) as server:
            assert embed(embedder(server), ["a", "b", "c"]) == [[0.0], [1.0], [2.0]]

    def test_dimensions_are_asked_for_and_checked(self, embed: Any) -> None:
        with model_server(embeddings_of) as server:
            assert embed(embedder(server, dimensions=2), ["a"]) == [[1.0, 1.0]]
            with pytest.raises(ModelServerError, match=r"vectors have \[2\] dimensions, expected 3"):
                embed(embedder(server, dimensions=3), ["a"])
        assert server.requests[0].body["dimensions"] == 2

    def test_a_passing_failure_is_retried(self, embed: Any) -> None:
        replies = [
            Reply({"error": "overloaded"}, status=429, headers={"Retry-After": "0"}),
            Reply({"data": [item(0, 5.0)]}),
        ]
        with model_server(replies) as server:
            assert embed(embedder(server), ["a"]) == [[5.0]]
        assert len(server.requests) == 2

    def test_half_a_body_is_retried(self, embed: Any) -> None:
        good = Reply({"data": [item(0, 5.0)]})
        with model_server([Reply({"data": [item(0, 5.0)]}, cut=9), good]) as server:
            assert embed(embedder(server), ["a"]) == [[5.0]]

    @pytest.mark.parametrize(
        ("answer", "problem"),
        [
            ({"data": [item(0, 1.0)]}, "1 vectors for 2 texts"),
            ({"data": [item(0, 1.0), item(1, 1.0), item(2, 1.0)]}, "3 vectors for 2 texts"),
            ({"data": []}, "0 vectors for 2 texts"),
            ({"data": [item(0, 1.0), item(0, 2.0)]}, "not 0 to 1, each once"),
            ({"data": [item(1, 1.0), item(2, 2.0)]}, "not 0 to 1, each once"),
            ({"data": [{"index": "0", "embedding": [1.0]}, item(1, 2.0)]}, "not 0 to 1, each once"),
            ({"data": [item(0, 1.0), {"index": 1}]}, "index 1 is no list of numbers"),
            ({"data": [item(0, 1.0), item(1)]}, "index 1 is no list of numbers"),
            ({"data": [item(0, 1.0), {"index": 1, "embedding": [True]}]}, "index 1 is no list of numbers"),
            ({"data": [item(0, 1.0), {"index": 1, "embedding": [PRIVATE]}]}, "index 1 is no list of numbers"),
            ({"data": [item(0, 1.0), item(1, float("nan"))]}, "index 1 holds NaN or infinity"),
            ({"data": [item(0, 1.0), item(1, 1e300)]}, "index 1 holds NaN or infinity"),
            ({"data": [item(0, 1.0), item(1, 10**400)]}, "index 1 holds a number too large"),
            ({"data": [item(0, 1.0), item(1, 1.0, 2.0)]}, r"\[1, 2\] dimensions, expected 1"),
            ({"data": [1, 2]}, "no list of objects called 'data'"),
            ({"vectors": []}, "no list of objects called 'data'"),
            ([[1.0], [2.0]], "no list of objects called 'data'"),
            (None, "no list of objects called 'data'"),
        ],
    )
    def test_an_answer_of_another_shape_is_refused(self, answer: Any, problem: str, embed: Any) -> None:
        with model_server([Reply(answer)]) as server, pytest.raises(ModelServerError, match=problem) as caught:
            embed(embedder(server), [PRIVATE, "b"])
        assert caught.value.status == 502
        assert PRIVATE not in str(caught.value)
        assert len(server.requests) == 1

    def test_an_answer_that_changes_dimension_later_is_refused(self, embed: Any) -> None:
        with model_server([Reply({"data": [item(0, 1.0)]}), Reply({"data": [item(0, 1.0, 2.0)]})]) as server:
            provider = embedder(server)
            embed(provider, ["a"])
            with pytest.raises(ModelServerError, match=r"\[2\] dimensions, expected 1"):
                embed(provider, ["b"])

    def test_a_refusal_for_size_halves_the_batch_and_is_remembered(self, embed: Any) -> None:
        def at_most_three(request: Request) -> Reply:
            if len(request.body["input"]) > 3:
                return Reply({"error": "batch size 8 > maximum allowed batch size 3"}, status=422)
            return embeddings_of(request)

        texts = ["x" * n for n in range(1, 17)]
        with model_server(at_most_three) as server:
            provider = embedder(server, batch_size=8, concurrency=1)
            assert embed(provider, texts) == [[float(n), 1.0] for n in range(1, 17)]
            before = len(server.requests)
            assert embed(provider, texts[:4]) == [[float(n), 1.0] for n in range(1, 5)]
        sizes = [len(request.body["input"]) for request in server.requests[before:]]
        assert sizes == [2, 2]

    def test_a_single_text_that_is_too_large_is_refused(self, embed: Any) -> None:
        with (
            model_server([Reply(status=413)]) as server,
            pytest.raises(ModelServerError, match="status 413; it is too large") as caught,
        ):
            embed(embedder(server), ["a", "b", "c"])
        assert caught.value.status == 413

    def test_a_refusal_shows_neither_key_nor_text(self, embed: Any) -> None:
        echo = {"error": {"message": f"key {KEY} is wrong for {PRIVATE}", "type": "invalid_request_error"}}
        with model_server([Reply(echo, status=401)]) as server:
            provider = embedder(server, headers={"X-Gateway": "hush"})
            with pytest.raises(
                ModelServerError, match=r"status 401 \(invalid_request_error\); check api_key"
            ) as caught:
                embed(provider, [PRIVATE])
        shown = f"{caught.value!r}{provider!r}{vars(provider)!r}"
        for secret in (KEY, PRIVATE, "hush"):
            assert secret not in shown

    def test_a_slow_server(self, embed: Any) -> None:
        with model_server([Reply({}, delay=30.0)]) as server:
            provider = embedder(server, timeout=0.2, max_retries=0)
            with pytest.raises(ModelServerError, match=r"did not answer within 0\.2 s") as caught:
                embed(provider, ["a"])
        assert caught.value.status is None

    def test_async_batches_run_at_once_within_the_limit(self) -> None:
        arrived = 0

        def together(request: Request) -> Reply:
            nonlocal arrived
            arrived += 1
            # The first two are answered only when both are there: one after the other would hang.
            return Reply(embeddings_of(request).body, delay=0.0 if arrived > 1 else 0.2)

        with model_server(together) as server:
            provider = embedder(server, batch_size=1, concurrency=2)
            vectors = asyncio.run(provider.aembed(["x" * n for n in range(1, 9)]))
        assert [vector.tolist() for vector in vectors] == [[float(n), 1.0] for n in range(1, 9)]
        assert server.most_at_once == 2

    def test_the_first_failure_of_several_ends_them_all(self) -> None:
        def second_fails(request: Request) -> Reply:
            return Reply(status=400) if request.body["input"] == ["b"] else embeddings_of(request)

        with model_server(second_fails) as server:
            provider = embedder(server, batch_size=1, concurrency=1)
            with pytest.raises(ModelServerError, match="status 400"):
                asyncio.run(provider.aembed(["a", "b", "c", "d", "e"]))
        assert [request.body["input"] for request in server.requests] == [["a"], ["b"]]

    def test_survives_several_event_loops(self) -> None:
        with model_server(embeddings_of) as server:
            provider = embedder(server)
            for _ in range(2):
                assert asyncio.run(provider.aembed_query("abc")).tolist() == [3.0, 1.0]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"base_url": "localhost:8000"}, "base_url must be an absolute http or https URL"),
            ({"model": ""}, "model must be a non-empty str"),
            ({"batch_size": 0}, "batch_size must be an int of 1 or more"),
            ({"max_input_chars": 0}, "max_input_chars must be an int of 1 or more"),
            ({"dimensions": True}, "dimensions must be an int of 1 or more"),
            ({"concurrency": 0}, "concurrency must be an int of 1 or more"),
            ({"max_retries": -1}, "max_retries must be an int of 0 or more"),
            ({"timeout": 0}, "timeout must be a number of seconds above 0"),
            ({"headers": "x"}, "headers must be a mapping"),
            ({"passage_prefix": 1}, "must be a str"),
        ],
    )
    def test_bad_arguments(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidArgumentError, match=message):
            OpenAICompatibleEmbeddingProvider(**options)

    def test_repr(self) -> None:
        shown = repr(OpenAICompatibleEmbeddingProvider(api_key=KEY))
        assert shown == (
            "OpenAICompatibleEmbeddingProvider('https://api.openai.com/v1/embeddings', model='text-embedding-3-small')"
        )


PASSAGES = [
    Passage("a", "alpha", 0.9, "a.md", {"n": [1]}),
    Passage("b", "beta", 0.8),
    Passage("c", "gamma", 0.7),
    Passage("d", "delta", 0.6),
]


def reranker(server: ModelServer, **options: Any) -> HttpReranker:
    settings: dict[str, Any] = {"api_key": KEY, "max_retries": 1, "timeout": 5.0}
    return HttpReranker(f"{server.url}/rerank", **{**settings, **options})


@pytest.fixture(params=["sync", "async"])
def rerank(request: pytest.FixtureRequest) -> Any:
    """Rerank in either colour."""

    def run(target: HttpReranker, query: str, passages: list[Passage], **options: Any) -> list[Passage]:
        if request.param == "sync":
            return target.rerank(query, passages, **options)
        return asyncio.run(target.arerank(query, passages, **options))

    return run


def by_second_letter(request: Request) -> Reply:
    """Answer as TEI does: a bare list of index and score, best first, all texts scored."""
    texts = request.body.get("texts") or request.body["documents"]
    scores = [{"index": n, "score": ord(text[1]) / 128} for n, text in enumerate(texts)]
    return Reply(sorted(scores, key=lambda entry: -entry["score"]))


def ids(passages: list[Passage]) -> list[str]:
    return [passage.id for passage in passages]


class TestReranking:
    @pytest.mark.parametrize(
        ("format", "members"),
        [
            ("auto", {"query", "documents", "texts", "top_n"}),
            ("cohere", {"query", "documents", "top_n"}),
            ("jina", {"query", "documents", "top_n"}),
            ("tei", {"query", "texts"}),
        ],
    )
    def test_what_each_format_sends(self, format: Any, members: set[str], rerank: Any) -> None:
        with model_server(by_second_letter) as server:
            found = rerank(reranker(server, format=format), "q", PASSAGES, top_k=2)
            assert isinstance(reranker(server), Reranker)
        assert ids(found) == ["a", "b"]
        body = server.requests[0].body
        assert set(body) == members
        assert body["query"] == "q"
        assert body.get("top_n", 2) == 2
        for name in members & {"documents", "texts"}:
            assert body[name] == ["alpha", "beta", "gamma", "delta"]
        assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"

    def test_top_n_is_the_number_of_passages_where_top_k_is_not_given(self, rerank: Any) -> None:
        with model_server(by_second_letter) as server:
            rerank(reranker(server, model="m", extra_body={"truncate": True}), "q", PASSAGES)
        body = server.requests[0].body
        assert (body["top_n"], body["model"], body["truncate"]) == (4, "m", True)

    @pytest.mark.parametrize(
        "shape",
        [
            lambda items: items,
            lambda items: {"results": items},
            lambda items: {"data": items},
            lambda items: {"id": "x", "results": items, "meta": {}},
        ],
    )
    @pytest.mark.parametrize("name", ["relevance_score", "score"])
    def test_all_shapes_of_answer_are_read(self, shape: Any, name: str, rerank: Any) -> None:
        items = [{"index": 2, name: 0.75}, {"index": 0, name: 0.5}, {"index": 1, name: -2}, {"index": 3, name: 0.875}]
        with model_server([Reply(shape(items))]) as server:
            found = rerank(reranker(server), "q", PASSAGES)
        assert [(passage.id, passage.score) for passage in found] == [
            ("d", 0.875),
            ("c", 0.75),
            ("a", 0.5),
            ("b", -2.0),
        ]

    def test_passages_come_back_fresh_and_those_given_stay(self, rerank: Any) -> None:
        with model_server([Reply([{"index": 0, "score": 2.5}])]) as server:
            (found,) = rerank(reranker(server), "q", PASSAGES[:1])
        assert found == Passage("a", "alpha", 2.5, "a.md", {"n": [1]})
        assert found is not PASSAGES[0]
        assert found.metadata is not None
        found.metadata["n"].append(2)
        assert PASSAGES[0] == Passage("a", "alpha", 0.9, "a.md", {"n": [1]})

    def test_equal_scores_keep_the_order_given(self, rerank: Any) -> None:
        items = [{"index": n, "score": 1.0} for n in (3, 1, 2, 0)]
        with model_server([Reply(items)]) as server:
            assert ids(rerank(reranker(server), "q", PASSAGES, top_k=3)) == ["a", "b", "c"]

    def test_left_out_unknown_and_repeated_indices(self, rerank: Any) -> None:
        indices: list[Any] = [2, 2, 4, -1, 0, "1", None, True, 1.0]
        items = [{"index": index, "score": n} for n, index in enumerate(indices)] + [{"score": 9.0}]
        with model_server([Reply(items)]) as server:
            found = rerank(reranker(server), "q", PASSAGES)
        assert [(passage.id, passage.score) for passage in found] == [("a", 4.0), ("c", 0.0)]

    def test_a_missing_score_is_zero(self, rerank: Any) -> None:
        with model_server([Reply([{"index": 0}, {"index": 1, "score": 1}])]) as server:
            found = rerank(reranker(server), "q", PASSAGES)
        assert [(passage.id, passage.score) for passage in found] == [("b", 1.0), ("a", 0.0)]

    def test_no_passages_no_request(self, rerank: Any) -> None:
        with model_server(by_second_letter) as server:
            assert rerank(reranker(server), "q", [], top_k=3) == []
        assert server.requests == []

    def test_many_passages_are_sent_in_several_requests(self, rerank: Any) -> None:
        with model_server(by_second_letter) as server:
            found = rerank(reranker(server, batch_limit=3), "q", PASSAGES, top_k=2)
        assert ids(found) == ["a", "b"]
        assert sorted(len(request.body["texts"]) for request in server.requests) == [1, 3]
        assert sorted(request.body["top_n"] for request in server.requests) == [1, 2]

    def test_a_refusal_for_size_is_sent_in_halves(self, rerank: Any) -> None:
        def at_most_one(request: Request) -> Reply:
            return by_second_letter(request) if len(request.body["texts"]) == 1 else Reply(status=413)

        with model_server(at_most_one) as server:
            assert ids(rerank(reranker(server), "q", PASSAGES)) == ["a", "b", "d", "c"]
        with model_server([Reply(status=413)]) as server, pytest.raises(ModelServerError, match="too large"):
            rerank(reranker(server), "q", PASSAGES)

    def test_long_passages_are_cut(self, rerank: Any) -> None:
        with model_server(by_second_letter) as server:
            found = rerank(reranker(server, max_passage_chars=2), "q", PASSAGES)
        assert server.requests[0].body["texts"] == ["al", "be", "ga", "de"]
        assert found[0].text == "alpha"

    def test_a_passing_failure_is_retried(self, rerank: Any) -> None:
        good = Reply([{"index": 0, "score": 1.0}])
        for bad in (Reply(status=500), Reply(status=429, headers={"Retry-After": "0"}), Reply([1, 2, 3], cut=4)):
            with model_server([bad, good]) as server:
                assert ids(rerank(reranker(server), "q", PASSAGES)) == ["a"]
            assert len(server.requests) == 2

    @pytest.mark.parametrize(
        ("body", "problem"),
        [
            ({"scores": [1, 2]}, "no list of objects"),
            ({"results": "x"}, "no list of objects"),
            ([0.5, 0.25], "no list of objects"),
            ("text", "no list of objects"),
            ([{"index": 0, "score": "high"}], "the score of index 0 is no finite number"),
            ([{"index": 0, "score": None}], "the score of index 0 is no finite number"),
            ([{"index": 0, "score": float("nan")}], "the score of index 0 is no finite number"),
            ([{"index": 0, "score": 10**400}], "the score of index 0 is no finite number"),
            (b"<html>busy</html>", "are not JSON"),
        ],
    )
    def test_an_unreadable_answer(self, body: Any, problem: str, rerank: Any) -> None:
        with model_server([Reply(body)]) as server, pytest.raises(ModelServerError, match=problem) as caught:
            rerank(reranker(server), "q", PASSAGES)
        assert caught.value.status == 502
        assert len(server.requests) == 1

    def test_a_refusal_shows_neither_key_nor_texts(self, rerank: Any) -> None:
        echo = {"message": f"{KEY} {PRIVATE} alpha"}
        with model_server([Reply(echo, status=403)]) as server:
            target = reranker(server)
            with pytest.raises(ModelServerError, match="status 403; check api_key") as caught:
                rerank(target, PRIVATE, PASSAGES)
        assert caught.value.status == 403
        for secret in (KEY, PRIVATE, "alpha"):
            assert secret not in f"{caught.value!r}{target!r}{vars(target)!r}"

    def test_a_slow_server(self, rerank: Any) -> None:
        with model_server([Reply([], delay=30.0)]) as server:
            target = reranker(server, timeout=0.2, max_retries=0)
            with pytest.raises(ModelServerError, match=r"did not answer within 0\.2 s"):
                rerank(target, "q", PASSAGES)

    @pytest.mark.parametrize("top_k", [0, -1, 1.5, True, "2"])
    def test_top_k_is_checked_before_anything_is_sent(self, top_k: Any, rerank: Any) -> None:
        with model_server(by_second_letter) as server, pytest.raises(InvalidArgumentError, match="top_k must be"):
            rerank(reranker(server), "q", PASSAGES, top_k=top_k)
        assert server.requests == []

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"url": "rerank"}, "url must be an absolute http or https URL"),
            ({"format": "bing"}, "format must be 'auto', 'cohere', 'jina' or 'tei'"),
            ({"model": ""}, "model must be a non-empty str"),
            ({"batch_limit": 0}, "batch_limit must be an int of 1 or more"),
            ({"concurrency": None}, "concurrency must be an int of 1 or more"),
            ({"max_passage_chars": 0}, "max_passage_chars must be None or an int of 1 or more"),
            ({"timeout": "30"}, "timeout must be a number"),
            ({"max_retries": None}, "max_retries must be an int of 0 or more"),
        ],
    )
    def test_bad_arguments(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidArgumentError, match=message):
            HttpReranker(**{"url": "https://example.org/rerank", **options})

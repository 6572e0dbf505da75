"""The HTTP reranker against a real local server, well behaved and not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agora_core.errors import InvalidArgumentError, ModelServerError
from agora_core.protocols import Reranker
from agora_core.records import Passage
from agora_core.rerankers import HttpReranker
from tests.model_server import ModelServer, Reply, Request, model_server

KEY = "sk-very-secret-key"
PRIVATE = "a text that no log may hold"

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
            ({"scores": [1, 2]}, "not a list of objects"),
            ({"results": "x"}, "not a list of objects"),
            ([0.5, 0.25], "not a list of objects"),
            ("text", "not a list of objects"),
            ([{"index": 0, "score": "high"}], "the score of index 0 is not a finite number"),
            ([{"index": 0, "score": None}], "the score of index 0 is not a finite number"),
            ([{"index": 0, "score": float("nan")}], "the score of index 0 is not a finite number"),
            ([{"index": 0, "score": 10**400}], "the score of index 0 is not a finite number"),
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

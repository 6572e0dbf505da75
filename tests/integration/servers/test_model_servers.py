"""The HTTP embedder against a real local server, well behaved and not."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from agora_core.embedders import OpenAICompatibleEmbeddingProvider
from agora_core.errors import InvalidArgumentError, ModelServerError
from agora_core.protocols import EmbeddingProvider
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
            ({"data": [item(0, 1.0), {"index": 1}]}, "index 1 is not a list of numbers"),
            ({"data": [item(0, 1.0), item(1)]}, "index 1 is not a list of numbers"),
            ({"data": [item(0, 1.0), {"index": 1, "embedding": [True]}]}, "index 1 is not a list of numbers"),
            ({"data": [item(0, 1.0), {"index": 1, "embedding": [PRIVATE]}]}, "index 1 is not a list of numbers"),
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

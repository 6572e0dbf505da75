"""The JSON client against a real server that misbehaves."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from agora_core.errors import InvalidArgumentError, ModelServerError
from agora_core.http_json import HttpJsonClient, RequestTooLargeError
from agora_core.http_retry import RetryPolicy
from tests.model_server import ModelServer, Reply, Request, model_server

KEY = "sk-very-secret-key"
GOOD = Reply({"answer": 42})


class Waits:
    """Stands in for sleeping and remembers how long it would have been."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)

    async def asleep(self, seconds: float) -> None:
        self.seconds.append(seconds)


def client(server: ModelServer, waits: Waits | None = None, **options: Any) -> HttpJsonClient:
    waits = waits or Waits()
    settings: dict[str, Any] = {"api_key": KEY, "timeout": 5.0, "sleep": waits.sleep, "asleep": waits.asleep}
    return HttpJsonClient(f"{server.url}/v1/model", **{**settings, "jitter": lambda: 1.0, **options})


@pytest.fixture(params=["sync", "async"])
def post(request: pytest.FixtureRequest) -> Any:
    """Post in either colour."""
    if request.param == "sync":
        return lambda target, payload: target.post(payload)
    return lambda target, payload: asyncio.run(target.apost(payload))


def test_sends_json_and_headers_and_returns_json(post: Any) -> None:
    with model_server([GOOD]) as server:
        assert post(client(server, headers={"X-Team": "search"}), {"text": "héé\n"}) == {"answer": 42}
    (request,) = server.requests
    assert request.path == "/v1/model"
    assert request.body == {"text": "héé\n"}
    assert request.headers["Authorization"] == f"Bearer {KEY}"
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["X-Team"] == "search"


def test_a_header_given_replaces_ours_whatever_its_case() -> None:
    with model_server([GOOD]) as server:
        client(server, headers={"authorization": "Basic abc"}).post({})
    assert server.requests[0].headers["Authorization"] == "Basic abc"


@pytest.mark.parametrize("bad", [Reply(status=500), Reply(status=429), Reply(hang_up=True), Reply(b"[1, 2", cut=2)])
def test_a_passing_failure_is_retried_with_growing_waits(bad: Reply, post: Any) -> None:
    waits = Waits()
    with model_server([bad, bad, GOOD]) as server:
        assert post(client(server, waits), {}) == {"answer": 42}
    assert waits.seconds == [0.5, 1.0]
    assert len(server.requests) == 3


def test_retry_after_is_honoured(post: Any) -> None:
    waits = Waits()
    with model_server([Reply(status=429, headers={"Retry-After": "7"}), GOOD]) as server:
        assert post(client(server, waits), {}) == {"answer": 42}
    assert waits.seconds == [7.0]


def test_a_longer_wait_than_allowed_is_not_begun(post: Any) -> None:
    waits = Waits()
    with (
        model_server([Reply(status=429, headers={"Retry-After": "3600"}), GOOD]) as server,
        pytest.raises(ModelServerError, match=r"status 429; too many requests, send fewer or raise max_retries$"),
    ):
        post(client(server, waits), {})
    assert waits.seconds == []


def test_gives_up_after_max_retries_and_says_so(post: Any) -> None:
    with model_server([Reply(status=503)]) as server:
        target = client(server, retry=RetryPolicy(max_retries=2))
        with pytest.raises(ModelServerError, match=r"status 503; .* \(after 3 attempts\)$") as caught:
            post(target, {})
    assert caught.value.status == 503
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("status", "remedy"),
    [(401, "check api_key"), (403, "check api_key"), (404, "check the URL"), (418, "documentation"), (422, "log")],
)
def test_a_refusal_for_good_is_raised_at_once(status: int, remedy: str, post: Any) -> None:
    with model_server([Reply(status=status)]) as server, pytest.raises(ModelServerError, match=remedy) as caught:
        post(client(server), {})
    assert caught.value.status == status
    assert len(server.requests) == 1


def test_a_refusal_shows_the_code_and_neither_key_nor_text(post: Any) -> None:
    echo = {"error": {"message": f"Incorrect API key {KEY} for 'my private text'", "code": "invalid_api_key"}}
    with model_server([Reply(echo, status=401)]) as server, pytest.raises(ModelServerError) as caught:
        post(client(server, headers={"X-Other": "hush"}), {"input": ["my private text"]})
    shown = f"{caught.value!r} {caught.value} {caught.value.__cause__!r}"
    assert "(invalid_api_key)" in shown
    for secret in (KEY, "private", "hush"):
        assert secret not in shown
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("code", [KEY, f"key:{KEY}", "private", KEY[3:9]])
def test_a_code_that_repeats_a_secret_is_not_shown(code: str) -> None:
    body = {"error": {"code": code}}
    with model_server([Reply(body, status=400)]) as server, pytest.raises(ModelServerError) as caught:
        client(server).post({"input": "private"})
    assert code not in str(caught.value)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=413),
        Reply({"error": "batch size 64 > maximum allowed batch size 32", "error_type": "Validation"}, status=422),
        Reply({"error": {"message": "Too many inputs. Max 128."}}, status=400),
        Reply({"message": "payload too large"}, status=400),
        Reply({"error": {"message": "Invalid 'input': maximum array length 2048"}}, status=400),
    ],
)
def test_a_refusal_for_size_has_its_own_class(reply: Reply) -> None:
    with model_server([reply]) as server, pytest.raises(RequestTooLargeError, match="send fewer or shorter texts"):
        client(server).post({})


@pytest.mark.parametrize("message", ["maximum context length is 8192 tokens", "inputs must have less than 512 tokens"])
def test_a_text_too_long_for_the_model_is_told_apart(message: str) -> None:
    refusal = Reply({"error": {"message": message}}, status=400)
    with model_server([refusal]) as server, pytest.raises(ModelServerError, match="lower the limit on its characters"):
        client(server).post({})


@pytest.mark.parametrize(
    "reply",
    [
        Reply({"error": {"message": "model not found"}}, status=400),
        Reply({"error": {"message": "maximum context length is 8192 tokens"}}, status=400),
        Reply({"error": "batch size"}, status=401),
    ],
)
def test_other_refusals_do_not(reply: Reply) -> None:
    with model_server([reply]) as server, pytest.raises(ModelServerError) as caught:
        client(server).post({})
    assert type(caught.value) is ModelServerError


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"a": ', b"\xff\xfe", b"[" * 100_000])
def test_a_whole_answer_that_is_no_json_is_unreadable(body: bytes, post: Any) -> None:
    with model_server([Reply(body)]) as server, pytest.raises(ModelServerError, match="are not JSON") as caught:
        post(client(server), {})
    assert caught.value.status == 502
    assert len(server.requests) == 1


def test_half_a_body_is_retried_and_then_reported(post: Any) -> None:
    # The half sent is JSON by itself; only its length tells.
    with model_server([Reply(b"[1]       ", cut=3)]) as server:
        target = client(server, retry=RetryPolicy(max_retries=1))
        with pytest.raises(ModelServerError, match="cut its answer short: 3 of 10 bytes came") as caught:
            post(target, {})
    assert caught.value.status == 502
    assert len(server.requests) == 2


@pytest.mark.parametrize("slow", [Reply({}, delay=30.0), Reply(b"[1, 2, 3, 4, 5, 6]", pause=0.1)])
def test_a_slow_server_runs_into_the_time_out(slow: Reply, post: Any) -> None:
    with model_server([slow]) as server:
        target = client(server, timeout=0.2, retry=RetryPolicy(max_retries=0))
        with pytest.raises(ModelServerError, match=r"did not answer within 0\.2 s") as caught:
            post(target, {})
    assert caught.value.status is None


def test_no_server_at_all(post: Any) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        waits = Waits()
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/x"
        target = HttpJsonClient(url, retry=RetryPolicy(max_retries=1), sleep=waits.sleep, asleep=waits.asleep)
        with pytest.raises(ModelServerError, match=r"could not be reached: .*refused.* \(after 2 attempts\)") as caught:
            post(target, {})
    assert caught.value.status is None
    assert len(waits.seconds) == 1


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_so_the_key_stays(status: int) -> None:
    with model_server([GOOD]) as other:
        reply = Reply(status=status, headers={"Location": f"{other.url}/elsewhere"})
        with model_server([reply]) as server, pytest.raises(ModelServerError, match="redirects are not followed"):
            client(server).post({})
    assert other.requests == []


def test_cancelling_stops_the_retries() -> None:
    waiting = asyncio.Event()

    async def asleep(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    async def run(server: ModelServer) -> None:
        task = asyncio.create_task(client(server, asleep=asleep).apost({}))
        await waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with model_server([Reply(status=500)]) as server:
        asyncio.run(run(server))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "url", ["", "example.org/x", "ftp://example.org", "file:///etc/passwd", "http://", "http://a b/", "http://[", 5]
)
def test_only_http_urls_are_taken(url: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^url "):
        HttpJsonClient(url)


def test_a_url_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(InvalidArgumentError, match="pass them in `headers`") as caught:
        HttpJsonClient("https://me:hunter2@example.org/")
    assert "hunter2" not in str(caught.value)


class Secret:
    """A secret string as pydantic has it."""

    def get_secret_value(self) -> str:
        return KEY


@pytest.mark.parametrize("key", [Secret(), f"  {KEY}\n"])
def test_keys_come_as_text_or_wrapped_and_are_trimmed(key: Any) -> None:
    with model_server([GOOD]) as server:
        client(server, api_key=key).post({})
    assert server.requests[0].headers["Authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("key", [None, "", "  "])
def test_no_key_sends_no_authorization(key: str | None) -> None:
    with model_server([GOOD]) as server:
        client(server, api_key=key).post({})
    assert "Authorization" not in server.requests[0].headers


@pytest.mark.parametrize("key", [f"{KEY}\r\nX: y", f"{KEY}\u20ac", 5])
def test_a_key_that_no_header_carries_is_refused_without_showing_it(key: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^api_key ") as caught:
        HttpJsonClient("https://example.org/", api_key=key)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("headers", [{"A b": "c"}, {"A": "b\r\nC: d"}, {"A": 1}, {1: "a"}, ["A"]])
def test_bad_headers_are_refused(headers: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^headers"):
        HttpJsonClient("https://example.org/", headers=headers)


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), float("inf"), True, "5", None])
def test_a_time_out_is_a_positive_number(timeout: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^timeout must be"):
        HttpJsonClient("https://example.org/", timeout=timeout)


def test_repr_shows_neither_key_nor_query() -> None:
    shown = repr(HttpJsonClient(f"https://example.org/v1?key={KEY}", api_key=KEY))
    assert shown == "HttpJsonClient('https://example.org/v1')"


def test_the_query_of_the_url_is_sent() -> None:
    with model_server([GOOD]) as server:
        HttpJsonClient(f"{server.url}/v1?api-version=1").post({})
    assert server.requests[0].path == "/v1?api-version=1"


def test_threads_share_a_client() -> None:
    def double(request: Request) -> Reply:
        return Reply(request.body * 2)

    async def run(target: HttpJsonClient) -> list[Any]:
        return await asyncio.gather(*(target.apost(n) for n in range(20)))

    with model_server(double) as server:
        assert asyncio.run(run(client(server))) == [2 * n for n in range(20)]

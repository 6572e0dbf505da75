"""A real HTTP server on a free local port that answers as a test tells it to, well or badly."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest import mock


@dataclass(frozen=True)
class Request:
    """What a client sent."""

    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass(frozen=True)
class Reply:
    """What to answer: `body` as JSON, or as it is where it is bytes.

    `delay` seconds pass before the answer and `pause` seconds after each of its bytes; `cut` is how many bytes of the
    body are really sent, though all are promised; `hang_up` closes the connection without a word.
    """

    body: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    pause: float = 0.0
    cut: int | None = None
    hang_up: bool = False


class ModelServer:
    """The server of one test: `requests` are those received, `most_at_once` the most that were being answered."""

    def __init__(self, behave: Callable[[Request], Reply]) -> None:
        self.behave = behave
        self.requests: list[Request] = []
        self.most_at_once = 0
        self._under_way = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _handler_for(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.01)

    def stop(self) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()

    def wait(self, seconds: float) -> None:
        """Wait, but no longer than the server lives."""
        if seconds:
            self._stopping.wait(seconds)

    def answer(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            self._under_way += 1
            self.most_at_once = max(self.most_at_once, self._under_way)
        try:
            reply = self.behave(request)
            self.wait(reply.delay)
            return reply
        finally:
            with self._lock:
                self._under_way -= 1


@contextmanager
def model_server(behave: Callable[[Request], Reply] | list[Reply]) -> Iterator[ModelServer]:
    """Run a server that answers by a function, or with a list of replies of which the last repeats."""
    script = behave if callable(behave) else _in_turn(behave)
    server = ModelServer(script)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        # A proxy set for the machine must not stand between the test and its own server.
        with mock.patch.dict(os.environ, {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}):
            yield server
    finally:
        server.stop()
        thread.join()


def embeddings_of(request: Request) -> Reply:
    """Answer an embeddings request as a good server does: the vector of a text is [its length, 1]."""
    data = [{"index": n, "embedding": [float(len(text)), 1.0]} for n, text in enumerate(request.body["input"])]
    return Reply({"data": data, "model": request.body["model"]})


def _in_turn(replies: list[Reply]) -> Callable[[Request], Reply]:
    remaining = list(replies)
    lock = threading.Lock()

    def behave(_request: Request) -> Reply:
        with lock:
            return remaining.pop(0) if len(remaining) > 1 else remaining[0]

    return behave


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Of many that connect at once, the sixth would otherwise try again after a second.
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients of these tests hang up early on purpose."""


def _handler_for(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            reply = server.answer(Request(self.path, dict(self.headers), json.loads(raw)))
            if reply.hang_up:
                self.close_connection = True
                return
            body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self._send(body[: reply.cut], reply.pause)

        def _send(self, body: bytes, pause: float) -> None:
            if not pause:
                self.wfile.write(body)
                return
            for start in range(len(body)):
                self.wfile.write(body[start : start + 1])
                self.wfile.flush()
                server.wait(pause)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    return Handler

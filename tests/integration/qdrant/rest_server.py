"""Qdrant's REST interface over a client in this process, so that requests travel as they would to a server.

Bodies are read with the client's own models. What a cluster alone can do (shards, consistency) is only recorded.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pydantic import BaseModel, TypeAdapter
from qdrant_client import QdrantClient, models

# The client's version check runs in a thread of its own, which may outlive a test and then warn.
# The server speaks plain HTTP, and a TLS context for each client would cost more than the tests themselves.
CLIENT_OPTIONS = {"check_compatibility": False, "verify": False}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # Of many that connect at once, the sixth would otherwise try again after a second, and after a minute at last.
    request_queue_size = 256


class RestServer:
    """Answers REST calls from `points`: local mode, or the engine.

    `failures` holds statuses to answer with first, `dropped` how many answers get lost, `requests` what was asked.
    """

    def __init__(self, points: Any = None, *, port: int = 0, keep: bool = True) -> None:
        # Local mode describes collections, whoever holds the points.
        self.local = QdrantClient(":memory:")
        self.points = self.local if points is None else points
        self.dropped = self.connections = 0
        self._keep = keep
        self.requests: list[tuple[str, str, Any]] = []
        self.queries: list[dict[str, list[str]]] = []
        self.failures: list[int] = []
        self.indexes: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._http = _Server(("127.0.0.1", port), self._handler())
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        self.local.close()
        if self.points is not self.local:
            self.points.close()

    def asked(self, method: str, path_end: str) -> list[Any]:
        """Return the bodies of the requests to a path."""
        return [body for verb, path, body in self.requests if verb == method and path.endswith(path_end)]

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, Any]:
        with self._lock:
            parts = urlsplit(target)
            given = json.loads(body) if body else None
            if self._keep:
                self.requests.append((method, parts.path, given))
                self.queries.append(parse_qs(parts.query))
            if parts.path == "/faults":
                if given is not None:
                    self.failures, self.dropped = given["failures"], given["dropped"]
                return 200, {"connections": self.connections}
            if self.failures and method != "GET":
                return self.failures.pop(0), {"status": {"error": "injected"}}
            if parts.path == "/":
                return 200, {"title": "qdrant", "version": version("qdrant-client")}
            match = re.fullmatch(r"/collections/([^/]+)(/.*)?", parts.path)
            if match is None:
                return 404, {"status": {"error": "Not found"}}
            name, rest = match.group(1), match.group(2) or ""
            if (method, rest) not in _ROUTES:
                return 404, {"status": {"error": f"no route {method} {rest}"}}
            try:
                result = _ROUTES[method, rest](self, name, given)
            except ValueError as error:
                if "not found" in str(error):
                    return 404, {"status": {"error": f"Not found: Collection `{name}` doesn't exist!"}}
                return 400, {"status": {"error": str(error)}}
            return 200, {"result": _plain(result), "status": "ok", "time": 0.0}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # One packet an answer: a second one would wait for the first to be acknowledged.
            wbufsize = -1

            def handle(self) -> None:
                with server._lock:
                    server.connections += 1
                try:
                    with suppress(ConnectionError):
                        super().handle()
                finally:
                    with server._lock:
                        server.connections -= 1

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                status, result = server.answer(self.command, self.path, body)
                if server.dropped and self.path != "/faults":
                    # Done, and nobody hears of it.
                    server.dropped -= 1
                    self.close_connection = True
                    return
                data = json.dumps(result).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815 # what http.server calls

            def log_message(self, *arguments: Any) -> None:
                pass

        return Handler


_COMPLETED = {"operation_id": 0, "status": "completed"}
Route = Callable[[RestServer, str, Any], Any]


def _create(server: RestServer, name: str, body: Any) -> Any:
    given = models.CreateCollection.model_validate(body)
    assert given.vectors is not None
    for client in {id(one): one for one in (server.points, server.local)}.values():
        client.create_collection(
            name, given.vectors, sparse_vectors_config=given.sparse_vectors, metadata=given.metadata
        )
    return True


def _info(server: RestServer, name: str, body: Any) -> Any:
    info = server.local.get_collection(name)
    schema = {
        field: {"data_type": "keyword" if isinstance(kind, dict) else kind, "points": 0}
        for field, kind in server.indexes.get(name, {}).items()
    }
    return {**_plain(info), "payload_schema": schema}


def _index(server: RestServer, name: str, body: Any) -> Any:
    server.local.get_collection(name)
    server.indexes.setdefault(name, {})[body["field_name"]] = body["field_schema"]
    if server.points is not server.local:
        server.points.create_payload_index(name, body["field_name"], _SCHEMA.validate_python(body["field_schema"]))
    return _COMPLETED


def _upsert(server: RestServer, name: str, body: Any) -> Any:
    given = models.PointsList.model_validate(body)
    server.points.upsert(name, given.points, update_filter=given.update_filter)
    return _COMPLETED


def _retrieve(server: RestServer, name: str, body: Any) -> Any:
    given = models.PointRequest.model_validate(body)
    assert given.with_payload is not None
    return server.points.retrieve(
        name, given.ids, with_payload=given.with_payload, with_vectors=bool(given.with_vector)
    )


def _scroll(server: RestServer, name: str, body: Any) -> Any:
    given = models.ScrollRequest.model_validate(body)
    points, after = server.points.scroll(
        name,
        given.filter,
        limit=given.limit or 10,
        offset=given.offset,
        with_payload=given.with_payload or False,
        with_vectors=bool(given.with_vector),
    )
    return {"points": [_plain(point) for point in points], "next_page_offset": after}


def _count(server: RestServer, name: str, body: Any) -> Any:
    return server.points.count(name, models.CountRequest.model_validate(body).filter)


def _facet(server: RestServer, name: str, body: Any) -> Any:
    given = models.FacetRequest.model_validate(body)
    return server.points.facet(name, given.key, given.filter, given.limit or 10)


def _update(server: RestServer, name: str, body: Any) -> Any:
    return server.local.update_collection(name, metadata=body["metadata"])


def _query(server: RestServer, name: str, body: Any) -> Any:
    return _answer_query(server, name, models.QueryRequest.model_validate(body))


def _query_batch(server: RestServer, name: str, body: Any) -> Any:
    given = models.QueryRequestBatch.model_validate(body)
    return [_answer_query(server, name, search) for search in given.searches]


def _answer_query(server: RestServer, name: str, given: models.QueryRequest) -> Any:
    response = server.points.query_points(
        name,
        # A plain vector, which the client wraps before it sends it.
        query=given.query.nearest if isinstance(given.query, models.NearestQuery) else given.query,
        using=given.using,
        query_filter=given.filter,
        limit=given.limit or 10,
        with_payload=given.with_payload or False,
        search_params=given.params,
    )
    return {"points": [_plain(point) for point in response.points]}


_SCHEMA: TypeAdapter[Any] = TypeAdapter(models.PayloadFieldSchema)
_SELECTOR: TypeAdapter[Any] = TypeAdapter(models.PointsSelector)


def _delete(server: RestServer, name: str, body: Any) -> Any:
    server.points.delete(name, _SELECTOR.validate_python(body))
    return _COMPLETED


def _batch(server: RestServer, name: str, body: Any) -> Any:
    operations = models.UpdateOperations.model_validate(body).operations
    server.points.batch_update_points(name, operations)
    return [_COMPLETED for _ in operations]


_ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "/exists"): lambda server, name, body: {"exists": server.local.collection_exists(name)},
    ("GET", ""): _info,
    ("PUT", ""): _create,
    ("PATCH", ""): _update,
    ("POST", "/facet"): _facet,
    ("DELETE", ""): lambda server, name, body: server.local.delete_collection(name),
    ("PUT", "/index"): _index,
    ("PUT", "/shards"): lambda server, name, body: True,
    ("GET", "/shards"): lambda server, name, body: {"shard_keys": []},
    ("PUT", "/points"): _upsert,
    ("POST", "/points"): _retrieve,
    ("POST", "/points/scroll"): _scroll,
    ("POST", "/points/count"): _count,
    ("POST", "/points/query"): _query,
    ("POST", "/points/query/batch"): _query_batch,
    ("POST", "/points/delete"): _delete,
    ("POST", "/points/batch"): _batch,
}


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return json.loads(value.model_dump_json(exclude_none=True))
    if isinstance(value, SimpleNamespace):
        return {key: _plain(item) for key, item in vars(value).items() if item is not None}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


@contextmanager
def rest_server(points: Any = None) -> Iterator[RestServer]:
    """Run a server for as long as the block lasts."""
    server = RestServer(points)
    try:
        yield server
    finally:
        server.close()

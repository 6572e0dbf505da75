"""Clients over real HTTP: opened late, one an event loop, retried, closed by whoever opened them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import AsyncQdrantClient, QdrantClient

from agora_core import (
    InvalidArgumentError,
    QdrantLexicalVectorStore,
    QdrantStore,
    SchemaError,
    StoreClosedError,
    StoreUnavailableError,
    UnsafeRemovalError,
    UnsupportedOperationError,
    VectorRecord,
)
from agora_core.stores.qdrant import connection
from agora_core.stores.qdrant.requests import Call
from tests.integration.qdrant.rest_server import CLIENT_OPTIONS, RestServer, rest_server

pytestmark = pytest.mark.qdrant

RECORD = VectorRecord("a#0", "text", [1, 0], None, {"k": 1})


@pytest.fixture
def server() -> Iterator[RestServer]:
    with rest_server() as running:
        yield running


@pytest.fixture
def store(server: RestServer) -> Iterator[QdrantStore]:
    with QdrantStore(
        server.url, client_options=CLIENT_OPTIONS, dimension=2, retry_backoff=0, index_metadata=False
    ) as opened:
        opened.ensure_collection()
        yield opened


def test_nothing_is_opened_before_the_first_use(server: RestServer) -> None:
    store = QdrantStore(server.url, client_options=CLIENT_OPTIONS, dimension=2)
    assert store.search([1, 0], top_k=1, filter={"k": []}) == []
    assert store.count({"k": []}) == 0
    assert store.upsert([]) == 0
    with pytest.raises(UnsafeRemovalError):
        store.remove_where({})
    with pytest.raises(ValueError, match="numbers"):
        store.search([1], top_k=1)
    assert server.requests == []
    store.close()


def test_errors_that_pass_are_retried(server: RestServer, store: QdrantStore) -> None:
    server.failures = [503, 500, 502]
    assert store.upsert([RECORD]) == 1
    server.failures = [504]
    assert store.count() == 1
    assert len(server.asked("PUT", "/points")) == 4


async def test_errors_that_pass_are_retried_in_async_code(server: RestServer, store: QdrantStore) -> None:
    server.failures = [503, 500, 502]
    assert await store.aupsert([RECORD]) == 1
    assert len(server.asked("PUT", "/points")) == 4
    await store.aclose()


def test_errors_that_stay_end_in_one_that_says_so(server: RestServer, store: QdrantStore) -> None:
    server.failures = [503] * 9
    with pytest.raises(StoreUnavailableError, match=r"did not answer upsert after 4 attempts"):
        store.upsert([RECORD])
    assert len(server.failures) == 5


def test_a_refusal_is_not_repeated(server: RestServer, store: QdrantStore) -> None:
    server.failures = [400, 400]
    with pytest.raises(Exception, match="400"):
        store.upsert([RECORD])
    assert len(server.failures) == 1


def test_no_retries_where_none_are_wanted(server: RestServer, store: QdrantStore) -> None:
    with QdrantStore(server.url, client_options=CLIENT_OPTIONS, dimension=2, max_retries=0) as impatient:
        server.failures = [503]
        with pytest.raises(StoreUnavailableError):
            impatient.count()


def test_waits_double_with_jitter_and_obey_the_server() -> None:
    made = connection.QdrantConnection("http://nowhere", options={}, max_retries=9, retry_backoff=0.5)
    call = Call("count", {})
    for attempt, base in enumerate((0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0)):
        assert base / 2 <= made._wait_after(ConnectionError(), attempt, call) <= base

    class ToldError(Exception):
        retry_after_s = 3

    assert made._wait_after(ToldError(), 0, call) == 3


def test_a_server_that_is_not_there() -> None:
    store = QdrantStore("http://127.0.0.1:9", dimension=2, retry_backoff=0, client_options=CLIENT_OPTIONS)
    with store, pytest.raises(StoreUnavailableError, match="check that the server is up"):
        store.count()


def test_a_missing_collection_is_named(server: RestServer) -> None:
    with QdrantStore(server.url, client_options=CLIENT_OPTIONS, dimension=2, collection="nowhere") as store:
        for call in (store.count, lambda: store.search([1, 0], top_k=1), lambda: store.upsert([RECORD])):
            with pytest.raises(SchemaError, match=r"'nowhere' does not exist; call ensure_collection"):
                call()
    with QdrantStore(":memory:") as store, pytest.raises(SchemaError, match="'agent_rag_chunks' does not exist"):
        store.count()


def test_a_store_survives_one_event_loop_after_another(server: RestServer, store: QdrantStore) -> None:
    store.upsert([RECORD])

    async def once() -> int:
        try:
            return await store.acount({"k": 1})
        finally:
            # Only the connections of this loop: the store itself stays open for the next.
            await store._connection._async_clients.pop(asyncio.get_running_loop()).close()

    assert [asyncio.run(once()) for _ in range(3)] == [1, 1, 1]
    assert store.count() == 1


def test_loops_in_threads_have_clients_of_their_own(server: RestServer, store: QdrantStore) -> None:
    store.upsert([RECORD])
    counts: list[int] = []

    async def work() -> None:
        counts.extend([await store.acount() for _ in range(5)])
        await store._connection._async_clients.pop(asyncio.get_running_loop()).close()

    threads = [threading.Thread(target=asyncio.run, args=(work(),)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [1] * 15


def test_a_given_async_client_serves_its_loop_and_others_get_copies(server: RestServer, store: QdrantStore) -> None:
    store.upsert([RECORD])
    given = AsyncQdrantClient(server.url, check_compatibility=False)
    native = QdrantStore(async_client=given, dimension=2)
    used: list[Any] = []

    async def once() -> int:
        count = await native.acount()
        client = native._connection._async_clients[asyncio.get_running_loop()]
        used.append(client)
        await client.close()
        return count

    assert [asyncio.run(once()) for _ in range(3)] == [1, 1, 1]
    assert used[0] is given
    assert len(set(map(id, used))) == 3
    with pytest.raises(UnsupportedOperationError, match="only an async client"):
        native.count()


def test_an_async_client_given_as_the_client(server: RestServer) -> None:
    store = QdrantStore(AsyncQdrantClient(":memory:"), dimension=2)

    async def use() -> list[str]:
        await store.aensure_collection()
        await store.aupsert([RECORD])
        return [p.id for p in await store.asearch([1, 0], top_k=1)]

    assert asyncio.run(use()) == ["a#0"]


async def test_both_colours_see_the_same_in_local_mode() -> None:
    local, unused = QdrantClient(":memory:"), AsyncQdrantClient(":memory:")
    store = QdrantStore(local, async_client=unused, dimension=2)
    store.ensure_collection()
    assert await store.aupsert([RECORD]) == 1
    assert store.count() == await store.acount() == 1
    local.close()
    await unused.close()


def test_only_what_the_store_opened_is_closed(server: RestServer) -> None:
    client = QdrantClient(":memory:")
    with QdrantStore(client, dimension=2) as store:
        store.ensure_collection()
    assert client.collection_exists("agent_rag_chunks")
    with pytest.raises(StoreClosedError):
        store.count()
    with pytest.raises(StoreClosedError):
        asyncio.run(store.acount())
    store.close()
    client.close()


def test_a_folder_keeps_what_was_written(tmp_path: Path) -> None:
    with QdrantStore(tmp_path / "index", dimension=2) as store:
        store.ensure_collection()
        store.upsert([RECORD])
        store.update_metadata("a", {"k": 2})
        found = store.search([1, 0], top_k=1)
    with QdrantStore(str(tmp_path / "index"), dimension=2) as store:
        store.ensure_collection()
        assert store.search([1, 0], top_k=1, filter={"k": 2}) == found
        assert asyncio.run(store.acount({"k": 2})) == 1


def test_a_folder_keeps_text_too(tmp_path: Path) -> None:
    for _ in range(2):
        with QdrantLexicalVectorStore(tmp_path, dimension=2) as store:
            store.ensure_collection()
            store.upsert([RECORD])
            assert [p.id for p in store.search_text("text", top_k=1)] == ["a#0"]
            assert len(store.search_hybrid("text", [1, 0], top_k=1)) == 1


def test_local_mode_is_used_by_one_thread_at_a_time() -> None:
    client = QdrantClient(":memory:")
    stores = [QdrantStore(client, dimension=2) for _ in range(2)]
    stores[0].ensure_collection()
    failures: list[Exception] = []

    def work(store: QdrantStore, name: str) -> None:
        try:
            for n in range(15):
                store.upsert([VectorRecord(f"{name}#{n}", "t", [1, n])])
                store.search([1, 0], top_k=3)
                store.count({"k": 1})
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(stores[n % 2], f"d{n}")) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert stores[1].count() == 90
    client.close()


def test_keys_and_options_reach_the_client(server: RestServer) -> None:
    store = QdrantStore(
        server.url, dimension=2, timeout=7, client_options={**CLIENT_OPTIONS, "headers": {"x-team": "search"}}
    )
    store.ensure_collection()
    assert store._connection.sync_client().init_options["timeout"] == 7
    store.close()


@pytest.mark.parametrize(
    ("client", "options", "message"),
    [
        (None, {}, "client is missing"),
        ("", {}, "must be a URL, a path"),
        (":memory:", {"api_key": "k"}, "api_key has no meaning for local mode"),
        (":memory:", {"metric": "euclid"}, "metric must be one of cosine, l2, inner"),
        (":memory:", {"dimension": 0}, "dimension must be 1 or more"),
        (":memory:", {"collection": "a/b"}, "collection must be 1 to 255 characters"),
        (":memory:", {"collection": ""}, "collection must be 1 to 255 characters"),
        (":memory:", {"upsert_batch_size": 0}, "upsert_batch_size must be 1 or more"),
        (":memory:", {"max_retries": -1}, "max_retries must be an int of 0 or more"),
        (":memory:", {"retry_backoff": float("nan")}, "retry_backoff must be a number"),
        (":memory:", {"collection_options": {"shards": 2}}, "unknown collection options shards"),
        (":memory:", {"ordering": "fast"}, "WriteOrdering must be one of weak, medium, strong, got 'fast'"),
        (":memory:", {"consistency": "some"}, "ReadConsistencyType must be one of"),
    ],
)
def test_arguments_out_of_range_are_refused(client: Any, options: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        QdrantStore(client, **options)


async def test_clients_of_two_places_are_refused(server: RestServer) -> None:
    local, remote = QdrantClient(":memory:"), AsyncQdrantClient(server.url, check_compatibility=False)
    with pytest.raises(InvalidArgumentError, match="different places"):
        QdrantStore(local, async_client=remote)
    with pytest.raises(InvalidArgumentError, match="belongs to the client"):
        QdrantStore(local, api_key="secret")
    await remote.close()
    local.close()


def test_a_folder_is_shared_in_a_process(tmp_path: Path) -> None:
    first = QdrantStore(tmp_path / "q", collection="c", dimension=2)
    second = QdrantStore(str(tmp_path / "." / "q"), collection="c", dimension=2)
    first.ensure_collection()
    first.upsert([RECORD])
    assert second.count() == 1
    first.close()
    assert second.count() == 1
    second.close()
    with QdrantStore(tmp_path / "q", collection="c", dimension=2) as third:
        assert third.count() == 1


# qdrant-client leaves the lock file open when it refuses.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_folder_of_another_process_is_refused_with_the_way_out(tmp_path: Path) -> None:
    code = (
        "import sys; from agora_core import QdrantStore\n"
        "store = QdrantStore(sys.argv[1], collection='c', dimension=2); store.ensure_collection()\n"
        "print('open', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen(  # our own code
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        store = QdrantStore(tmp_path, collection="c", dimension=2)
        with pytest.raises(StoreUnavailableError, match=r"open in another process.*run a Qdrant server"):
            store.count()
    finally:
        other.communicate()
    assert store.count() == 0
    store.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform cannot fork")
def test_a_forked_child_has_clients_of_its_own(server: RestServer, store: QdrantStore) -> None:
    """Process state inherited by a fork: both would read each other's answers."""
    store.upsert([RECORD])
    options: dict[str, Any] = {**CLIENT_OPTIONS}
    given = QdrantClient(server.url, **options)
    handed = QdrantStore(given, dimension=2)
    before = store._connection.sync_client(), handed._connection.sync_client()
    assert handed.count() == 1
    child = os.fork()
    if child == 0:
        try:
            after = store._connection.sync_client(), handed._connection.sync_client()
            fine = not any(a is b for a, b in zip(after, before, strict=True))
            fine = fine and store.count() == 1 and handed.count() == 1
            os._exit(0 if fine else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (store._connection.sync_client(), handed._connection.sync_client()) == before
    assert store.count() == handed.count() == 1
    given.close()


def test_requests_are_bounded_by_bytes_and_halved_where_they_are_too_large(
    server: RestServer, store: QdrantStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = [VectorRecord(f"a{n}#0", "x" * 3_000_000, [1, 0]) for n in range(7)]
    store.upsert(big)
    assert [len(body["points"]) for body in server.asked("PUT", "/points")] == [2, 2, 2, 1]
    run_call = store._connection._call

    class TooLargeError(Exception):
        status_code = 413

    def strict(client: Any, call: Call) -> Any:
        if call.method == "upsert" and sum(len(p.payload["text"]) for p in call.arguments["points"]) > 40:
            store._connection._wait_after(TooLargeError(), 0, call)
        return run_call(client, call)

    monkeypatch.setattr(store._connection, "_call", strict)
    assert store.upsert([VectorRecord(f"b#{n}", "x" * 15, [1, 0]) for n in range(9)]) == 9
    assert store.count() == 16
    with pytest.raises(InvalidArgumentError, match="'c' is larger than the Qdrant server takes"):
        store.upsert([VectorRecord("c", "x" * 50, [1, 0])])

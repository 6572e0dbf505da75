"""Connections that end, hang or belong to another process. Kind: a state that is assumed where it can be asked."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, cast

import psycopg
import pytest
from psycopg import errors
from psycopg_pool import ConnectionPool

from agora_core import PgVectorStore, VectorRecord
from agora_core.errors import SchemaError, StoreUnavailableError, UnsupportedOperationError
from agora_core.stores.postgres.failures import KINDS, Kind, PostgresError, kind_of, translated

ROWS = [VectorRecord(f"{t}{n}", "x", [1.0, n, 0.0], None, {"tenant": t}) for t in "AB" for n in range(40)]


def test_a_session_that_the_server_ended_is_replaced_unseen(make_store: Any, pg_conninfo: str) -> None:
    """57P05 and every other code: the connection is asked whether it is lost."""
    conninfo = psycopg.conninfo.make_conninfo(pg_conninfo, options="-c idle_session_timeout=150ms")
    store = make_store(conninfo, index=None)
    store.upsert(ROWS)

    async def asyncly() -> None:
        for _ in range(3):
            await asyncio.gather(*(store.acount() for _ in range(4)))
            await asyncio.sleep(0.35)
        assert await store.aupdate_metadata("A1", {"k": 1}) == 1

    for _ in range(3):
        assert store.count() == 80
        time.sleep(0.35)
    assert store.upsert(ROWS) == 80
    asyncio.run(asyncly())


def test_a_connection_to_a_server_that_became_read_only_does_not_stay(make_store: Any, admin: Any) -> None:
    store = make_store(index=None, max_connections=1)
    store.upsert(ROWS)
    with store._connections._connection() as connection:
        before = connection.info.backend_pid
        connection.execute("SET default_transaction_read_only = on")
    assert store.update_metadata("A1", {"k": 1}) == 1
    with store._connections._connection() as connection:
        assert connection.info.backend_pid != before


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a host that accepts and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        yield f"postgresql://u:s3cr3t@127.0.0.1:{listener.getsockname()[1]}/x"


def test_a_silent_host_holds_up_neither_the_loop_nor_longer_than_the_pool_timeout(silent: str) -> None:
    """Kind: a lock held over I/O."""
    store = PgVectorStore(silent, dimension=3, pool_timeout=2)
    began = time.monotonic()
    failed: list[BaseException] = []

    def count() -> None:
        try:
            store.count()
        except StoreUnavailableError as error:
            failed.append(error)

    thread = threading.Thread(target=count)
    thread.start()
    time.sleep(0.1)

    async def asyncly() -> float:
        worst, last = 0.0, time.monotonic()
        task = asyncio.ensure_future(store.acount())
        while not task.done():
            await asyncio.sleep(0.01)
            worst, last = max(worst, time.monotonic() - last), time.monotonic()
        assert isinstance(task.exception(), StoreUnavailableError)
        return worst

    worst = asyncio.run(asyncly())
    thread.join(30)
    assert failed
    assert worst < 1
    assert time.monotonic() - began < 8
    store.close()


def test_both_fail_at_once_with_the_cause() -> None:
    store = PgVectorStore("postgresql://127.0.0.1:1/x", dimension=3)
    began = time.monotonic()
    calls: list[Callable[[], Any]] = [store.count, lambda: asyncio.run(store.acount())]
    for call in calls:
        with pytest.raises(StoreUnavailableError, match="refused"):
            call()
    assert time.monotonic() - began < 5


def in_child(work: Callable[[], None]) -> None:
    """Run `work` in a forked process; what it raises fails the test."""
    child = os.fork()
    if not child:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    deadline = time.monotonic() + 60
    while True:
        done, code = os.waitpid(child, os.WNOHANG)
        if done:
            assert code == 0
            return
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            raise AssertionError("the child hangs")
        time.sleep(0.05)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_has_connections_of_its_own(make_store: Any, admin: Any) -> None:
    """Kind: process state inherited by a fork. Both keep asking at the same time, sync and async."""
    store = make_store(index=None)
    store.upsert(ROWS)
    asyncio.run(store.acount())
    assert store.scoped({"tenant": "A"}).count() == 40

    def ask(tenant: str) -> None:
        view = store.scoped({"tenant": tenant})

        async def asyncly() -> None:
            for n in range(30):
                assert all(p.id[0] == tenant for p in await view.asearch([1.0, n, 0.0], top_k=5))

        for n in range(60):
            found = view.search([1.0, n, 0.0], top_k=5)
            assert len(found) == 5
            assert all(p.id[0] == tenant for p in found)
        asyncio.run(asyncly())

    with store._connections._connection() as connection:
        parents = connection.info.backend_pid
    failed: list[BaseException] = []

    def parent() -> None:
        try:
            ask("A")
        except BaseException as error:
            failed.append(error)

    # Locks that are held while the process is forked are nobody's in the child.
    with store._connections._lock, store._selectivity._lock:
        in_child(lambda: ask("B"))
    thread = threading.Thread(target=parent)
    thread.start()
    in_child(lambda: ask("B"))
    thread.join(60)
    assert not failed
    # The parent's session was not ended by its children.
    assert admin.execute("SELECT count(*) FROM pg_stat_activity WHERE pid = %s", (parents,)).fetchone() == (1,)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_pool_made_before_a_fork_is_refused_in_the_child(make_store: Any, pg_conninfo: str) -> None:
    make_store(index=None)
    with ConnectionPool(pg_conninfo, min_size=1, open=False) as pool:
        store = make_store(pool, index=None)

        def child() -> None:
            with pytest.raises(UnsupportedOperationError, match="made before this process was forked"):
                store.count()

        in_child(child)
        assert store.count() == 0


def test_errors_are_classed_by_their_code() -> None:
    """Every code of PostgreSQL that psycopg knows has one kind; the table names those that are not refusals."""
    seen: dict[Kind, set[str]] = {kind: set() for kind in Kind}
    for name in dir(errors):
        kind = getattr(errors, name)
        code = getattr(kind, "sqlstate", None)
        if not isinstance(kind, type) or not isinstance(code, str):
            continue
        seen[kind_of(code)].add(code)
        said = translated(cast("Any", kind)("m"))
        expected: type[Exception] = PostgresError
        if kind_of(code) is Kind.UNAVAILABLE:
            expected = StoreUnavailableError
        elif kind_of(code) is Kind.SCHEMA:
            expected = SchemaError
        assert isinstance(said, expected), code
    assert {"54000", "53100", "53200", "28000", "28P01", "22P02", "25006"} <= seen[Kind.REFUSED]
    assert {"57P01", "57P03", "57014", "08006", "08P01", "53300", "40001"} <= seen[Kind.UNAVAILABLE]
    assert all(any(code.startswith(key) for code in seen[KINDS[key]]) for key in KINDS)


def test_an_unknown_role_is_no_outage(pg_conninfo: str) -> None:
    conninfo = psycopg.conninfo.make_conninfo(pg_conninfo, user="nobody_of_that_name")
    store = PgVectorStore(conninfo, dimension=3)
    calls: list[Callable[[], Any]] = [store.count, lambda: asyncio.run(store.acount())]
    for call in calls:
        with pytest.raises(PostgresError, match=r"refused the connection: .*check user, password and database"):
            call()


def test_the_loop_of_windows_is_served_from_threads_and_told_once(
    make_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store(index=None)
    store.upsert(ROWS)

    class ProactorEventLoop(asyncio.SelectorEventLoop):
        pass

    loop = ProactorEventLoop()
    try:
        with pytest.warns(RuntimeWarning, match="run in worker threads"):
            assert loop.run_until_complete(store.acount()) == 80
        assert loop.run_until_complete(store.acount()) == 80
        assert not store._connections._pools
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()

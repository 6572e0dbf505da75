"""What a store can be opened with, what it opens itself, and what it leaves behind."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from agora_core import PgVectorStore, VectorRecord
from agora_core.errors import StoreClosedError, StoreUnavailableError, UnsupportedOperationError

ROWS = [VectorRecord(f"r{n}", f"text {n}", [1.0, n, 0.0], None, {"n": n}) for n in range(300)]


def use(store: PgVectorStore) -> None:
    assert store.upsert(ROWS) == 300
    assert [p.id for p in store.search([1, 0, 0], top_k=2, filter={"n": [0, 1]})] == ["r0", "r1"]
    assert store.update_metadata("r5", {"x": 1}) == 1
    assert len(list(store.scan())) == 300
    assert store.remove("r5") == 1


async def ause(store: PgVectorStore) -> None:
    assert await store.aupsert(ROWS) == 300
    assert [p.id for p in await store.asearch([1, 0, 0], top_k=2, filter={"n": [0, 1]})] == ["r0", "r1"]
    assert await store.aupdate_metadata("r5", {"x": 1}) == 1
    assert len([record async for record in store.ascan()]) == 300
    assert await store.aremove("r5") == 1


def test_one_store_serves_loops_one_after_another_and_threads_and_sync_code(make_store: Any, admin: Any) -> None:
    store = make_store(index=None)
    use(store)
    for _ in range(3):
        asyncio.run(ause(store))
    threads = [threading.Thread(target=asyncio.run, args=(store.acount(),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    use(store)
    loop = asyncio.new_event_loop()
    try:
        # A loop that is closed without a farewell.
        assert loop.run_until_complete(store.acount()) == 299
    finally:
        loop.close()
    store.close()


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_pool_that_was_handed_in_is_used_and_not_closed(make_store: Any, pg_conninfo: str, autocommit: bool) -> None:
    make_store(index=None)
    with ConnectionPool(pg_conninfo, min_size=1, open=False, kwargs={"autocommit": autocommit}) as pool:
        store = make_store(pool, index=None)
        use(store)
        asyncio.run(ause(store))
        store.close()
        with pool.connection() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(StoreClosedError, match="the store is closed"):
            store.count()


@pytest.mark.parametrize("autocommit", [True, False])
def test_a_connection_that_was_handed_in(make_store: Any, pg_conninfo: str, autocommit: bool) -> None:
    with psycopg.connect(pg_conninfo, autocommit=autocommit) as connection:
        store = make_store(connection, index=None)
        use(store)
        # Nothing is held between calls, and nothing is left registered.
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        store.close()
        assert not connection.closed


def test_writes_stand_in_a_callers_own_transaction(make_store: Any, pg_conninfo: str) -> None:
    with psycopg.connect(pg_conninfo, autocommit=True) as connection:
        store = make_store(connection, index=None)
        with connection.transaction(force_rollback=True):
            store.upsert(ROWS)
            store.upsert(ROWS)
            assert store.count() == 300
        assert store.count() == 0


async def test_async_pools_and_connections(make_store: Any, pg_conninfo: str) -> None:
    make_store(index=None)
    async with AsyncConnectionPool(pg_conninfo, min_size=1, open=False) as pool:
        store = make_store(pool, ensure=False, index=None)
        await ause(store)
        with pytest.raises(UnsupportedOperationError, match="opened with an AsyncConnectionPool, so only its async"):
            store.count()
        await store.aclose()
        async with pool.connection() as connection:
            assert await (await connection.execute("SELECT 1")).fetchone() == (1,)
    async with await psycopg.AsyncConnection.connect(pg_conninfo) as single:
        store = make_store(single, ensure=False, index=None)
        await ause(store)
        await asyncio.gather(*(store.acount() for _ in range(5)))

        def elsewhere() -> None:
            with pytest.raises(UnsupportedOperationError, match="belongs to another event loop"):
                asyncio.run(store.acount())

        await asyncio.to_thread(elsewhere)


def test_nothing_is_connected_before_the_first_call_and_a_bad_address_is_told_at_once() -> None:
    store = PgVectorStore("postgresql://u:s3cr3t@127.0.0.1:1/x?connect_timeout=2", dimension=3)
    with pytest.raises(StoreUnavailableError, match="PostgreSQL is not available") as caught:
        store.count()
    with pytest.raises(StoreUnavailableError) as acaught:
        asyncio.run(store.acount())
    for error in (caught.value, acaught.value):
        assert "s3cr3t" not in f"{error}{error.__cause__}{error.args}"
    store.close()


def test_closing(make_store: Any, admin: Any) -> None:
    with make_store(index=None) as store:
        assert store.count() == 0
    store.close()
    with pytest.raises(StoreClosedError, match="the store is closed; open another one"):
        store.count()
    with pytest.raises(StoreClosedError):
        asyncio.run(store.acount())

    async def use_and_leave() -> None:
        async with make_store(index=None) as other:
            assert await other.acount() == 0

    asyncio.run(use_and_leave())


def test_no_session_is_left_in_a_transaction(make_store: Any, admin: Any) -> None:
    store = make_store()
    for _ in range(50):
        store.search([1, 0, 0], top_k=3)
        store.get(["nothing"])
        store.upsert([VectorRecord("a", "", [1, 0, 0])])
    row = admin.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' AND pid <> pg_backend_pid()"
    ).fetchone()
    assert row == (0,)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A folder whose sockets have short names."""
    folder = Path(tempfile.mkdtemp(prefix="agora-embedded-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_an_embedded_server_keeps_its_folder(short_folder: Path) -> None:
    with PgVectorStore.embedded(short_folder / "data", dimension=3) as store:
        with PgVectorStore.embedded(short_folder / "data", dimension=3) as other:
            other.upsert(ROWS)
        assert store.count() == 300
    with PgVectorStore.embedded(short_folder / "data", dimension=3) as again:
        assert again.count() == 300


def killed(pid: int) -> None:
    """Kill a server and wait for its children too: a backend may answer for a moment after its postmaster."""
    children = psutil.Process(pid).children(recursive=True)
    os.kill(pid, signal.SIGKILL)
    psutil.wait_procs(children, timeout=60)
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.05)


def test_an_embedded_server_that_died_is_opened_again(short_folder: Path) -> None:
    store = PgVectorStore.embedded(short_folder / "data", dimension=3)
    store.upsert(ROWS)
    killed(int((short_folder / "data" / "postmaster.pid").read_text().split()[0]))
    with pytest.raises(StoreUnavailableError):
        store.count()
    # Opened by another store while the first is held, and after both were closed.
    with PgVectorStore.embedded(short_folder / "data", dimension=3) as other:
        assert other.count() == store.count() == 300
    store.close()
    with PgVectorStore.embedded(short_folder / "data", dimension=3) as again:
        assert again.count() == 300


CLIENT = """
import sys, time
from agora_core import PgVectorStore
store = PgVectorStore.embedded(sys.argv[1], dimension=3)
print("ready", flush=True)
time.sleep(600)
"""


def test_an_embedded_server_ends_with_a_killed_client(short_folder: Path) -> None:
    command = [sys.executable, "-c", CLIENT, str(short_folder / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"ready\n"
        server = int((short_folder / "data" / "postmaster.pid").read_text().split()[0])
        client.kill()
    deadline = time.monotonic() + 60
    while psutil.pid_exists(server):
        assert time.monotonic() < deadline, "the server lives on"
        time.sleep(0.1)


def test_the_connection_string_is_public_and_its_password_not_shown(pg_conninfo: str) -> None:
    with PgVectorStore(pg_conninfo, dimension=3) as store:
        assert store.conninfo == pg_conninfo
    store = PgVectorStore("postgresql://u:s3cr3t@h/db?sslpassword=t0p", dimension=3)
    assert store.conninfo == "postgresql://u:s3cr3t@h/db?sslpassword=t0p"
    for shown in (repr(store.conninfo), repr(store)):
        assert "s3cr3t" not in shown
        assert "t0p" not in shown
    with ConnectionPool(pg_conninfo, open=False) as pool:
        assert PgVectorStore(pool, dimension=3).conninfo == pg_conninfo

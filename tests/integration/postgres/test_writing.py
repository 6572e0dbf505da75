"""Writes: all or nothing, in any number, side by side, within bounds."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg import sql

from agora_core import VectorRecord
from agora_core.errors import InvalidArgumentError, InvalidMetadataError, ScopeViolationError
from agora_core.stores.postgres import loading
from agora_core.stores.postgres.failures import PostgresError


def records(number: int, prefix: str = "r", **metadata: Any) -> list[VectorRecord]:
    return [VectorRecord(f"{prefix}{n}", f"text {n}", [1.0, n, 0.0], "s", {"n": n, **metadata}) for n in range(number)]


@pytest.mark.parametrize("number", [0, 1, 100, 101, 5_000, 5_001, 12_000])
@pytest.mark.parametrize("shape", ["list", "iterator"])
def test_any_number_of_records_of_any_shape(make_store: Any, number: int, shape: str) -> None:
    store = make_store(index=None)
    for _ in range(2):
        # The first time all are new, the second time all are replaced.
        given = records(number)
        assert store.upsert(given if shape == "list" else iter(given)) == number
        assert store.count() == number
    if number:
        assert store.get([f"r{number - 1}"])[0] == given[-1]


def test_of_one_id_the_last_wins_however_far_apart(make_store: Any) -> None:
    store = make_store(index=None)
    first = VectorRecord("same", "old", [1, 1, 1])
    last = VectorRecord("same", "new", [2.0, 2.0, 2.0])
    for given in ([first, last], [first, *records(11_000), last]):
        assert store.upsert(given) == len(given) - 1
        assert store.get(["same"]) == [last]


def test_a_load_takes_bounded_memory(make_store: Any) -> None:
    store = make_store(index=None)

    def stream() -> Iterator[VectorRecord]:
        for n in range(30_000):
            yield VectorRecord(f"r{n}", "x" * 1_000, [1.0, n, 0.0])

    store.upsert(records(200))
    tracemalloc.start()
    try:
        assert store.upsert(stream()) == 30_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The texts alone are 30 MB.
    assert peak < 25_000_000


@pytest.mark.parametrize("known", [False, True])
def test_an_error_in_row_900_writes_nothing(make_store: Any, admin: Any, known: bool) -> None:
    store = make_store()
    admin.execute(
        sql.SQL("ALTER TABLE {} ADD CONSTRAINT no_secret CHECK (text <> 'secret text')").format(
            sql.Identifier(store.table)
        )
    )
    if known:
        store.upsert([VectorRecord("r1", "before", [1, 0, 0])])
    given = records(1_000)
    given[900] = VectorRecord("r900", "secret text", [1, 0, 0])
    with pytest.raises(PostgresError, match="no_secret") as caught:
        store.upsert(given)
    assert "secret text" not in str(caught.value)
    assert caught.value.sqlstate == "23514"
    assert store.count() == int(known)
    assert store.upsert(records(1_000)) == 1_000


def test_a_bad_record_late_in_a_stream_writes_nothing(make_store: Any) -> None:
    store = make_store(index=None)

    def stream() -> Iterator[VectorRecord]:
        yield from records(7_000)
        yield VectorRecord("bad", "", [1, 0, 0], None, {"k": {1, 2}})

    with pytest.raises(InvalidMetadataError, match=r"record 'bad': metadata\['k'\] is a set"):
        store.upsert(stream())

    def breaking() -> Iterator[VectorRecord]:
        yield from records(7_000)
        raise LookupError("the source broke")

    with pytest.raises(LookupError, match="the source broke"):
        store.upsert(breaking())
    with pytest.raises(InvalidArgumentError):
        store.upsert(VectorRecord("one", "", [1, 0, 0]))
    assert store.count() == 0


def test_another_writer_between_looking_and_copying(make_store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A COPY that meets an id which was not there a moment ago goes on as a merge."""
    store, other = make_store(index=None), make_store(index=None)
    original = loading._Loader._copied

    def interrupted(self: Any, batch: Any) -> Any:
        other.upsert([VectorRecord("r7", "other", [1, 0, 0])])
        return original(self, batch)

    monkeypatch.setattr(loading._Loader, "_copied", interrupted)
    assert store.upsert(records(500)) == 500
    assert store.count() == 500
    assert store.get(["r7"])[0].text == "text 7"


def test_a_role_without_temporary_tables_loads_too(make_store: Any, admin: Any, pg_conninfo: str) -> None:
    owner = make_store(index=None)
    table = sql.Identifier(owner.table)
    role = sql.Identifier(owner.table[:40] + "_role")
    admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
    admin.execute(sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON {} TO {}").format(table, role))
    admin.execute("REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC")
    try:
        limited = psycopg.conninfo.make_conninfo(pg_conninfo, user=owner.table[:40] + "_role")
        store = make_store(limited, index=None)
        assert store.upsert(records(1_200)) == 1_200
        assert store.upsert(records(1_200, new=True)) == 1_200
        assert store.count({"new": True}) == 1_200
    finally:
        admin.execute("GRANT TEMPORARY ON DATABASE postgres TO PUBLIC")


def test_row_level_security_bounds_a_store(make_store: Any, admin: Any, pg_conninfo: str) -> None:
    """A policy of one's own, beside those of `rls_statements`: the database itself keeps tenants apart."""
    owner = make_store()
    table, name = sql.Identifier(owner.table), owner.table[:40] + "_tenant"
    role = sql.Identifier(name)
    admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(role))
    admin.execute(sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON {} TO {}").format(table, role))
    admin.execute(sql.SQL("ALTER TABLE {} ENABLE ROW LEVEL SECURITY").format(table))
    admin.execute(
        sql.SQL(
            "CREATE POLICY by_tenant ON {} USING (tokens && string_to_array(current_setting('app.tokens', true), ','))"
        ).format(table)
    )
    owner.upsert([VectorRecord(f"{t}{n}", "", [1, n, 0], None, {"tenant": t}) for t in "ab" for n in range(200)])
    conninfo = psycopg.conninfo.make_conninfo(pg_conninfo, user=name, options="-c app.tokens==6:tenantsa")
    store = make_store(conninfo)
    assert store.count() == 200
    assert {p.metadata["tenant"] for p in store.search([1, 1, 0], top_k=300)} == {"a"}
    assert store.remove("b1") == 0
    assert store.upsert([VectorRecord(f"a{n}", "new", [1, n, 0], None, {"tenant": "a"}) for n in range(200)]) == 200
    with pytest.raises(ScopeViolationError, match="row security refused a write"):
        store.upsert([VectorRecord(f"new{n}", "", [1, n, 0], None, {"tenant": "b"}) for n in range(200)])
    assert owner.count({"tenant": "b"}) == 200


@pytest.mark.parametrize("number", [3, 300])
def test_a_write_cannot_take_over_a_record_of_another_tenant(make_store: Any, number: int) -> None:
    store = make_store()
    store.upsert([VectorRecord("r2", "theirs", [1, 0, 0], None, {"tenant": "b"})])
    mine = store.scoped({"tenant": "a"})
    given = [VectorRecord(f"r{n}", "", [1, 0, 0], None, {"tenant": "a"}) for n in range(number)]
    writes: list[Callable[[], int]] = [
        lambda: mine.upsert(given),
        lambda: mine.replace_documents(["r2"], given),
    ]
    for write in writes:
        with pytest.raises(ScopeViolationError, match="nothing was written"):
            write()
    assert store.count() == 1
    assert store.get(["r2"])[0].text == "theirs"


def test_threads_on_the_same_documents(make_store: Any) -> None:
    """16 threads upsert, patch, replace and remove the same documents: no deadlock surfaces, no patch is lost."""
    store = make_store(max_connections=16, index=None)
    chunks = [VectorRecord(f"d{d}#{c}", "t", [1, d, c]) for d in range(4) for c in range(6)]
    store.upsert([*chunks, VectorRecord("counted", "", [1, 1, 1])])
    start = threading.Barrier(16)

    def work(worker: int) -> None:
        start.wait()
        for turn in range(12):
            document = f"d{(worker + turn) % 4}"
            kind = (worker + turn) % 4
            if kind == 0:
                store.upsert(list(reversed(chunks)))
            elif kind == 1:
                store.update_metadata(document, {f"w{worker}": turn})
            elif kind == 2:
                store.replace_documents([document, "d0"], [r for r in chunks if r.id.startswith((document, "d0"))])
            else:
                store.remove(document)
            store.update_metadata("counted", {f"w{worker}_{turn}": True})

    with ThreadPoolExecutor(16) as pool:
        for future in [pool.submit(work, worker) for worker in range(16)]:
            future.result(timeout=120)
    assert len(store.get(["counted"])[0].metadata or {}) == 16 * 12


async def test_tasks_on_the_same_documents(make_store: Any) -> None:
    """The same with 64 tasks over one pool of the loop."""
    store = make_store(index=None)
    chunks = [VectorRecord(f"d{d}#{c}", "t", [1, d, c]) for d in range(4) for c in range(6)]
    await store.aupsert([*chunks, VectorRecord("counted", "", [1, 1, 1])])

    async def work(worker: int) -> None:
        for turn in range(3):
            document = f"d{(worker + turn) % 4}"
            kind = (worker + turn) % 4
            if kind == 0:
                await store.aupsert(list(reversed(chunks)))
            elif kind == 1:
                await store.aupdate_metadata(document, {f"w{worker}": turn})
            elif kind == 2:
                await store.areplace_documents([document], [r for r in chunks if r.id.startswith(document)])
            else:
                await store.aremove(document)
            await store.aupdate_metadata("counted", {f"w{worker}_{turn}": True})

    await asyncio.gather(*(work(worker) for worker in range(64)))
    assert len((await store.aget(["counted"]))[0].metadata or {}) == 64 * 3
    await store.aclose()


def test_replacements_of_one_document_leave_the_chunks_of_one_of_them(make_store: Any) -> None:
    store = make_store(max_connections=8, index=None)

    def replace(version: int) -> None:
        size = 3 + version
        store.replace_documents(["d"], [VectorRecord(f"d#{n}", f"v{version}", [1, n, 0]) for n in range(size)])

    for _ in range(6):
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(replace, range(8)))
        found = list(store.scan())
        assert len({record.text for record in found}) == 1
        assert len(found) == 3 + int(found[0].text[1:])

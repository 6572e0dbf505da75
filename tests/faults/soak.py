"""Many callers at once on one store, with time-outs, cancelled calls, killed sessions, restarts and a read-only phase.

    python -m tests.faults.soak postgres --seconds 900

Each caller has documents of its own, of which it knows what every acknowledged write left; all patch and replace a few
shared ones, which are always there, so that no patch of them may return 0.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import threading
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any, Final

import psycopg
from psycopg import sql

from agora_core.errors import AgoraError
from tests.faults.engine_server import EngineServer
from tests.faults.stores import DIMENSION, KINDS, Place, State, chunks, expected, observed, opened

TASKS: Final = 64
THREADS: Final = 16
SHARED: Final = [f"shared{n}" for n in range(4)]
_TOLD: Final = (AgoraError, TimeoutError, asyncio.TimeoutError)
"""What a caller may be told while sessions are killed and calls are cut; anything else is a fault."""


_calling: ContextVar[Caller] = ContextVar("calling")


class _Threads(ThreadPoolExecutor):
    """Worker threads that tell whose call runs in them: it runs on when its caller is cut off."""

    def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        """Remember the call under its caller."""
        future = super().submit(function, *arguments, **options)
        _calling.get().running = future
        return future


class Caller:
    """One caller: what its documents may be. An acknowledged write leaves one possibility, a cut one leaves two."""

    def __init__(self, name: str, seed: int) -> None:
        """Begin with nothing written."""
        self.chance = random.Random(seed)
        self.names = [f"{name}-{n}" for n in range(2)]
        self.running: Future[Any] | None = None
        self.may_be: dict[str, list[State | None]] = {name: [None] for name in self.names}

    def step(self, faults: list[str], store: Any) -> tuple[str, tuple[Any, ...], Any]:
        """Return a method, its arguments, and what to do with its answer."""
        chance = self.chance
        version, label, name = chance.randrange(1, 40), chance.choice("abc"), chance.choice(self.names)
        was, shared = self.may_be[name], chance.choice(SHARED)
        kind = chance.choice(
            ["search", "search", "count", "patch", "patch", "replace", "own", "own", "relabel", "remove"]
        )

        def never_none(answer: int) -> None:
            if not answer:
                faults.append(f"a patch of {shared}, which is there, returned 0")

        def becomes(state: State | None) -> Any:
            self.may_be[name] = [*was, state]

            def acknowledged(answer: int) -> None:
                if not answer and len(was) == 1 and was[0] is not None:
                    faults.append(f"{kind} of {name}, which is there, returned 0")
                self.may_be[name] = [state]

            return acknowledged

        vector = [chance.random() for _ in range(DIMENSION)]
        if kind == "patch":
            return "update_metadata", (shared, {"label": label, "x": version}), never_none
        if kind == "replace":
            return "replace_documents", ([shared], chunks(shared, (version, label))), None
        if kind == "own":
            return "replace_documents", ([name], chunks(name, (version, label))), becomes((version, label))
        if kind == "relabel" and len(was) == 1 and (state := was[0]) is not None:
            return "update_metadata", (name, {"label": label}), becomes((state[0], label))
        if kind == "remove":
            return "remove", (name,), becomes(None)
        if kind == "count":
            return "count", ({"label": label},), None
        return "search", (vector, {"label": [label, "b"]}), None


def called(store: Any, method: str, arguments: tuple[Any, ...], prefix: str = "") -> Any:
    """Call a method, sync or (prefix `a`) async."""
    function = getattr(store, prefix + method)
    return function(arguments[0], top_k=5, filter=arguments[1]) if method == "search" else function(*arguments)


def soak(place: Place, seconds: float, seed: int) -> Counter[str]:
    """Run for so long. Return how many calls were acknowledged, cut and refused.

    Raises:
        AssertionError: a write was lost, a document was said to be missing, or something is left behind.
    """
    store = opened(place.kind, place.address)
    for name in SHARED:
        store.replace_documents([name], chunks(name, (1, "a")))
    faults: list[str] = []
    counts: Counter[str] = Counter()
    callers = [Caller(f"c{n}", seed + n) for n in range(TASKS + THREADS)]
    end = time.monotonic() + seconds
    threads_before = threading.active_count()

    def in_thread(caller: Caller) -> None:
        while time.monotonic() < end:
            method, arguments, then = caller.step(faults, store)
            try:
                answer = called(store, method, arguments)
            except _TOLD:
                counts["refused"] += 1
            except Exception as error:
                faults.append(f"{method}: {error!r}")
            else:
                counts["done"] += 1
                if then is not None:
                    then(answer)

    async def in_task(caller: Caller) -> None:
        _calling.set(caller)
        while time.monotonic() < end:
            method, arguments, then = caller.step(faults, store)
            call = asyncio.ensure_future(called(store, method, arguments, "a"))
            limit = caller.chance.choice([None, None, None, caller.chance.random() * 0.3])
            try:
                # Cut as `asyncio.timeout` cuts; a write that runs on in a worker thread is waited for.
                answer = await asyncio.wait_for(call, limit)
            except asyncio.CancelledError:
                raise
            except _TOLD as error:
                counts["cut" if isinstance(error, asyncio.TimeoutError) else "refused"] += 1
                if caller.running is not None:
                    await asyncio.gather(asyncio.wrap_future(caller.running), return_exceptions=True)
            except Exception as error:
                faults.append(f"{method}: {error!r}")
            else:
                counts["done"] += 1
                if then is not None:
                    then(answer)
            await asyncio.sleep(0)

    async def tasks() -> None:
        asyncio.get_running_loop().set_default_executor(_Threads(TASKS))
        await asyncio.gather(*(in_task(caller) for caller in callers[:TASKS]))
        await asyncio.sleep(1)
        assert len(asyncio.all_tasks()) == 1, "tasks are left"

    threads = [threading.Thread(target=in_thread, args=(caller,)) for caller in callers[TASKS:]]
    if place.server is not None:
        trouble = _engine_trouble if isinstance(place.server, EngineServer) else _trouble
        threads.append(threading.Thread(target=trouble, args=(place, end, random.Random(seed))))
    for thread in threads:
        thread.start()
    asyncio.run(tasks())
    for thread in threads:
        thread.join()
    _looked_at(store, callers, faults)
    if place.kind in ("qdrant", "engine"):
        store.reindex_filters()
        assert not store.reindex_filters(), "changes are left half done"
        _looked_at(store, callers, faults)
    store.close()
    _nothing_left(place, threads_before)
    return counts


def _trouble(place: Place, end: float, chance: random.Random) -> None:
    """Kill sessions and the server, and make it read-only for a while."""
    assert place.server is not None
    settle = min(6.0, (end - time.monotonic()) / 3)
    while time.monotonic() < end - settle:
        time.sleep(chance.random() * 2)
        what = chance.choice(["sessions", "sessions", "server", "read-only"])
        if what == "server":
            place.server.kill()
            place.server.start()
            continue
        with contextlib.suppress(psycopg.Error), psycopg.connect(place.address, autocommit=True) as admin:
            if what == "sessions":
                admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND random() < 0.5"
                )
                continue
            for state in ("on", "off"):
                setting = sql.SQL("ALTER SYSTEM SET default_transaction_read_only = {}").format(sql.SQL(state))
                admin.execute("SET default_transaction_read_only = off")
                admin.execute(setting)
                admin.execute("SELECT pg_reload_conf()")
                time.sleep(0.5)


def _engine_trouble(place: Place, end: float, chance: random.Random) -> None:
    """Kill the server, refuse requests for a while, and lose answers of what was done."""
    assert isinstance(place.server, EngineServer)
    settle = min(6.0, (end - time.monotonic()) / 3)
    while time.monotonic() < end - settle:
        time.sleep(chance.random() * 4)
        what = chance.choice(["refuse", "drop", "drop", "server"])
        if what == "server":
            place.server.kill()
            place.server.start()
        else:
            number = chance.randrange(1, 30)
            place.server.fail(failures=[503] * number * (what == "refuse"), dropped=number * (what == "drop"))
    place.server.fail(failures=[], dropped=0)


def _looked_at(store: Any, callers: list[Caller], faults: list[str]) -> None:
    found = observed(store)
    for caller in callers:
        for name, states in caller.may_be.items():
            if found.get(name, frozenset()) not in [expected(name, state) for state in states]:
                faults.append(f"{name} is none of {states}: {len(found.get(name, ()))} chunks")
    for name in SHARED:
        labels = {label for _, _, label in found.get(name, ())}
        whole = [expected(name, (version, label)) for label in labels for version in range(40)]
        if len(labels) != 1 or found[name] not in whole:
            versions = Counter((text.split(" of version ")[-1].split()[0], label) for _, text, label in found[name])
            faults.append(f"{name} is a mixture: {versions}")
    assert not faults, f"{len(faults)} faults: {faults[:5]}"


def _nothing_left(place: Place, threads: int) -> None:
    deadline = time.monotonic() + 10
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.1)
    assert threading.active_count() <= threads, "threads are left"
    assert not place.left_files(), "files are left"
    if place.server is None:
        return
    if isinstance(place.server, EngineServer):
        while place.server.connections() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not place.server.connections(), f"{place.server.connections()} connections are left"
        return
    with psycopg.connect(place.address) as admin:
        while time.monotonic() < deadline:
            left = admin.execute(
                "SELECT (SELECT count(*) FROM pg_stat_activity "
                "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()), "
                "(SELECT count(*) FROM pg_locks WHERE locktype = 'advisory')"
            ).fetchone()
            if left == (0, 0):
                return
            admin.rollback()
            time.sleep(0.1)
    raise AssertionError(f"sessions and locks are left: {left}")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=list(KINDS), metavar="store")
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    for kind in options.kinds:
        place = Place(kind)
        try:
            counts = soak(place, options.seconds, options.seed)
        finally:
            place.remove()
        print(
            f"{kind}: {options.seconds:.0f} s, {dict(counts)}, 0 lost writes, 0 wrong zeros, nothing left", flush=True
        )


if __name__ == "__main__":
    main()

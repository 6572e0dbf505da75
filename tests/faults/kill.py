"""Kills a client, and now and then its server, at random moments of its writes, and looks at what is left.

    python -m tests.faults.kill postgres --kills 300 --seed 7

A document is whole when it is as the last acknowledged write left it, or as the one that was killed would have.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import time
from collections import Counter
from typing import Any, Final

from agora_core import ingest_documents
from agora_core.corpus import sync_documents
from tests.faults.stores import (
    CHUNKING,
    EMBEDDER,
    KINDS,
    Model,
    Place,
    chunks,
    document,
    expected,
    kept,
    observed,
    opened,
)

NAMES: Final = [f"doc{n}" for n in range(12)]
_SERVER_EVERY: Final = 8


def changes_of(operation: str, model: Model, chance: random.Random) -> dict[str, Any]:
    """Choose what an operation does: the documents it changes, and what they will be."""
    version, label = chance.randrange(1, 1_000), chance.choice("abc")
    present = [name for name in NAMES if model.get(name) is not None]
    if operation == "patch":
        return {
            name: (state[0], label) for name in chance.sample(present, min(1, len(present))) if (state := model[name])
        }
    if operation == "remove":
        return dict.fromkeys(chance.sample(present, min(1, len(present))))
    number = {"replace": 1, "ingest": 3, "sync": 5}[operation]
    made: dict[str, Any] = dict.fromkeys(chance.sample(NAMES, number), (version, label))
    if operation == "sync" and present:
        made[chance.choice(present)] = None
    return made


def perform(store: Any, operation: str, model: Model, changes: Model) -> None:
    """Perform it."""
    for name, state in changes.items() if operation in ("replace", "patch", "remove") else ():
        if operation == "remove":
            store.remove(name)
        elif state is not None and operation == "patch":
            store.update_metadata(name, {"label": state[1]})
        elif state is not None:
            store.replace_documents([name], chunks(name, state))
    after = {**model, **changes}
    if operation == "ingest":
        new = [document(name, state) for name, state in changes.items() if state is not None]
        ingest_documents(new, embedder=EMBEDDER, store=store, **CHUNKING)
    elif operation == "sync":
        whole = [document(name, state) for name, state in after.items() if state is not None]
        sync_documents(whole, embedder=EMBEDDER, store=store, allow_empty=True, **CHUNKING)


def work(kind: str, address: str, seed: int, model: dict[str, Any]) -> None:
    """Write until killed, telling before and after each write."""
    chance = random.Random(seed)
    store = opened(kind, address)
    model = {name: None if state is None else tuple(state) for name, state in model.items()}
    while True:
        operation = chance.choice(["replace", "ingest", "patch", "remove", "sync"])
        changes = changes_of(operation, model, chance)
        if not changes:
            continue
        print(json.dumps({"begin": operation, "changes": changes}), flush=True)
        perform(store, operation, model, changes)
        kept(store, kind, address)
        print(json.dumps({"done": operation}), flush=True)
        model.update(changes)


def one_kill(place: Place, model: dict[str, Any], chance: random.Random, *, server: bool) -> str | None:
    """Let a client write, kill it or the server, and bring `model` up to date. Return the operation that was cut."""
    command = [sys.executable, "-m", "tests.faults.kill", place.kind, "--worker", place.address]
    command += ["--seed", str(chance.randrange(10**9)), "--model", json.dumps(model)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as client:
        assert client.stdout is not None
        lines = [client.stdout.readline()]
        time.sleep(chance.random() * chance.choice([0.02, 0.2, 0.6]))
        if server and place.server is not None:
            place.server.kill()
            place.server.start()
        client.kill()
        lines += client.stdout.readlines()
    cut: tuple[str, dict[str, Any]] | None = None
    for line in lines:
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if "begin" in said:
            cut = said["begin"], {n: None if s is None else tuple(s) for n, s in said["changes"].items()}
        elif cut is not None:
            model.update(cut[1])
            cut = None
    looked_at(place, model, cut[1] if cut is not None else {})
    return None if cut is None else cut[0]


def looked_at(place: Place, model: dict[str, Any], cut: dict[str, Any]) -> None:
    """Compare a store with the model, and bring the model up to date with what the cut write did."""
    store = opened(place.kind, place.address)
    try:
        found = observed(store)
        for name in NAMES:
            seen = found.pop(name, frozenset())
            if seen == expected(name, model.get(name)):
                continue
            assert name in cut, f"{name}: an acknowledged write is lost"
            assert seen == expected(name, cut[name]), f"{name} is half written: {len(seen)} chunks"
            model[name] = cut[name]
        assert not found, f"nobody wrote {sorted(found)}"
        for label in "abc":
            states = {name: state for name, state in model.items() if state is not None and state[1] == label}
            assert store.count({"label": label}) == sum(len(expected(n, s)) for n, s in states.items()), "filter"
    finally:
        store.close()


def run(kind: str, kills: int, seed: int) -> Counter[str]:
    """Kill so many times. Return how many kills cut each operation.

    Raises:
        AssertionError: a document is half there, or an acknowledged write is lost.
    """
    chance, place, model = random.Random(seed), Place(kind), dict[str, Any]()
    cut: Counter[str] = Counter()
    try:
        for number in range(kills):
            operation = one_kill(place, model, chance, server=number % _SERVER_EVERY == _SERVER_EVERY - 1)
            cut[operation or "between two"] += 1
        if kind == "memory":
            # What a killed save leaves, the next one may sweep.
            kept(opened(kind, place.address), kind, place.address)
            cut["files left"] = place.left_files()
    finally:
        place.remove()
    return cut


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=list(KINDS), metavar="store", help=", ".join(KINDS))
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--model", default="{}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.kinds[0], options.worker, options.seed, json.loads(options.model))
    for kind in options.kinds:
        cut = run(kind, options.kills, options.seed)
        inside = options.kills - cut["between two"]
        print(f"{kind}: {options.kills} kills, {inside} inside a call, 0 half documents, 0 lost writes; {dict(cut)}")


if __name__ == "__main__":
    main()

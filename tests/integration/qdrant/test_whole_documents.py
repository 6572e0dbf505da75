"""Readers see documents whole, old or new, after every operation of every write, and after a death at each of them.

The kind of fault: derived or related data written apart from its source. A write is cut off after each single change
of a point in turn; what is left is read by every way of reading, then ended by the next write or `reindex_filters()`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from qdrant_client import QdrantClient

from agora_core import QdrantLexicalVectorStore, QdrantStore, VectorRecord
from tests.integration.qdrant.edge_client import EdgeClient

pytestmark = pytest.mark.qdrant

OLD, NEW = {"acl": "old", "keep": 1}, {"acl": "new", "keep": 1}


class KilledError(BaseException):
    """The process dies here."""


class Mortal:
    """A client that lets so many changes through, one point or operation each, and dies at the next."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.left: int | None = None
        self.between: Callable[[], None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def _step(self, change: Callable[[], Any]) -> None:
        if self.left == 0:
            raise KilledError
        self.left = None if self.left is None else self.left - 1
        change()
        if self.between is not None:
            self.between()

    def upsert(self, collection_name: str, points: Any, **options: Any) -> None:
        for point in points:
            self._step(partial(self.client.upsert, collection_name, [point], **options))

    def batch_update_points(self, collection_name: str, update_operations: Any, **options: Any) -> None:
        for one in update_operations:
            self._step(partial(self.client.batch_update_points, collection_name, [one], **options))

    def delete(self, *arguments: Any, **options: Any) -> None:
        self._step(lambda: self.client.delete(*arguments, **options))


def chunks(document: str, numbers: Any, metadata: Any, word: str) -> list[VectorRecord]:
    return [VectorRecord(f"{document}#{n}", f"{word} {n}", [1.0, n], None, dict(metadata)) for n in numbers]


BEFORE = [*chunks("d", range(4), OLD, "old"), *chunks("other", range(2), OLD, "other")]
WRITES: dict[str, tuple[Callable[[Any], Any], list[VectorRecord]]] = {
    "replace": (
        lambda store: store.replace_documents(["d"], chunks("d", (0, 2, 9), NEW, "new")),
        [*chunks("d", (0, 2, 9), NEW, "new"), *BEFORE[4:]],
    ),
    "shrink": (
        lambda store: store.replace_documents(["d"], chunks("d", (1,), NEW, "new")),
        [*chunks("d", (1,), NEW, "new"), *BEFORE[4:]],
    ),
    "first": (
        lambda store: store.replace_documents(["n"], chunks("n", range(3), NEW, "new")),
        [*BEFORE[:4], *chunks("n", range(3), NEW, "new"), *BEFORE[4:]],
    ),
    "empty": (lambda store: store.replace_documents(["d"], []), BEFORE[4:]),
    "remove": (lambda store: store.remove("d"), BEFORE[4:]),
    "remove_where": (lambda store: store.remove_where({"acl": "old"}), []),
    "patch": (
        lambda store: store.update_metadata("d", {"acl": "new"}),
        [*chunks("d", range(4), NEW, "old"), *BEFORE[4:]],
    ),
}


def seen(store: Any) -> list[tuple[str, str, str]]:
    """Return what every way of reading shows, having held them against each other."""
    scanned: list[Any] = list(store.scan())
    told = [(str(r.id), str(r.text), str(r.metadata["acl"])) for r in scanned]
    found: list[Any] = store.search([1.0, 1.0], top_k=50)
    assert sorted((p.id, p.text, p.metadata["acl"]) for p in found) == told
    best = store.search([1.0, 3.0], top_k=2)
    assert [p.id for p in best] == [p.id for p in store.search([1.0, 3.0], top_k=50)][:2]
    if isinstance(store, QdrantLexicalVectorStore):
        words: list[Any] = store.search_text("old new other", top_k=50)
        assert sorted((p.id, p.text, p.metadata["acl"]) for p in words) == told
    assert store.count() == len(told)
    assert store.list_document_ids() == sorted({r.id.partition("#")[0] for r in scanned})
    assert [d.metadata["acl"] for d in store.list_documents()] == [
        next(r.metadata["acl"] for r in scanned if r.id.startswith(d)) for d in store.list_document_ids()
    ]
    facets = dict(store.facets("acl"))
    for acl in ("old", "new"):
        ids = [key for key, _, value in told if value == acl]
        assert sorted(p.id for p in store.search([1.0, 1.0], top_k=50, filter={"acl": acl})) == ids
        assert store.count({"acl": acl}) == len(ids) == facets.get(acl, 0)
        assert [r.id for r in store.scan({"acl": acl})] == ids
    every = [f"{document}#{n}" for document in "dn" for n in range(10)] + ["other#0", "other#1"]
    assert sorted((r.id, r.text, r.metadata["acl"]) for r in store.get(every)) == told
    return told


def told(records: list[VectorRecord]) -> list[tuple[str, str, str]]:
    return [(r.id, r.text, str((r.metadata or {})["acl"])) for r in records]


_numbers = itertools.count()


@pytest.fixture(scope="module", params=["local", "engine"])
def mortal(request: pytest.FixtureRequest) -> Any:
    client: Any = EdgeClient() if request.param == "engine" else QdrantClient(":memory:")
    client.kind = request.param
    yield client
    client.close()


def filled(mortal: Any, kind: Any) -> tuple[Mortal, Any]:
    client = mortal
    if mortal.kind == "local":
        # A store asks whether a client is local mode; a wrapper is told so.
        wrapped: Any = Mortal(client)
        wrapped._client = client._client
    else:
        client.drop_all()
        wrapped = Mortal(client)
    store = kind(wrapped, collection=f"whole_{next(_numbers)}", dimension=2)
    store.ensure_collection()
    store.upsert(BEFORE)
    return wrapped, store


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("kind", [QdrantStore, QdrantLexicalVectorStore])
def test_a_death_after_each_change(mortal: Any, write: str, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agora_core.stores.qdrant.journal._PATIENCE", 0.0)
    act, after = WRITES[write]
    turned = False
    for number in itertools.count():
        client, store = filled(mortal, kind)
        client.left = number
        try:
            act(store)
        except KilledError:
            client.left = None
        else:
            assert seen(store) == told(after)
            break
        state = seen(store)
        assert state in (told(BEFORE), told(after)), number
        # Old until one moment, new ever after.
        assert not turned or state == told(after), number
        turned = state == told(after)
        if number % 2:
            store.reindex_filters()
            assert seen(store) == state
            assert store.reindex_filters() == 0
            act(store)
        else:
            act(store)
        assert seen(store) == told(after)
        raw = [p.payload for p in client.scroll(collection_name=store._settings.collection, **_SCROLL)[0]]
        assert all("m" not in payload["agora"] and payload["agora"]["v"] == 1 for payload in raw), number
    assert number > 3


_SCROLL: dict[str, Any] = {
    "scroll_filter": None, "limit": 100, "offset": None, "with_payload": ["agora.m", "agora.v"],
    "with_vectors": False, "shard_key_selector": None,
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
def test_a_reader_between_any_two_changes(mortal: Any, write: str) -> None:
    act, after = WRITES[write]
    client, store = filled(mortal, QdrantStore)
    states: list[Any] = []

    def read() -> None:
        client.between = None
        states.append(seen(store))
        client.between = read

    client.between = read
    act(store)
    client.between = None
    assert [state for state, _ in itertools.groupby(states)] == [told(BEFORE), told(after)]


@pytest.mark.parametrize("write", [name for name in WRITES if name not in ("first", "remove_where")])
@pytest.mark.parametrize("other", ["shrinks", "removes"])
def test_a_writer_that_is_overtaken_at_any_change(write: str, other: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another takes it for dead, ends its change and writes; then it goes on, and its late points stay unseen."""
    monkeypatch.setattr("agora_core.stores.qdrant.journal._PATIENCE", 0.0)
    third = chunks("d", (2, 3), OLD, "third") if other == "shrinks" else []
    engine: Any = EdgeClient()
    engine.kind = "engine"
    act, after = WRITES[write]
    # What was written last stands, and what a patch finds is patched.
    ends = [told([*third, *BEFORE[4:]]), told(after)]
    if write == "patch":
        ends.append(told([*chunks("d", (2, 3), NEW, "third"), *BEFORE[4:]]))
    for number in itertools.count():
        client, store = filled(engine, QdrantStore)
        left = number

        def overtake(store: Any = store, client: Any = client) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                client.between = None
                rival = QdrantStore(engine, collection=store._settings.collection, dimension=2)
                rival.replace_documents(["d"], third) if other == "shrinks" else rival.remove("d")

        client.between = overtake
        act(store)
        over = client.between is not None
        client.between = None
        assert seen(store) in ends, number
        # Nothing is left that a later writer stumbles over.
        store.replace_documents(["d"], chunks("d", range(5), NEW, "last"))
        assert seen(store) == told([*chunks("d", range(5), NEW, "last"), *BEFORE[4:]]), number
        assert store.reindex_filters() == 0, number
        if over:
            break
    engine.close()
    assert number > 3

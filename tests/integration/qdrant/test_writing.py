"""Writes on the engine and on local mode: batches, patches on the server, replacement, scopes."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from qdrant_client import models

from agora_core import UNSET, ScopeViolationError, VectorRecord, chunk_id_to_point_id, field
from agora_core.stores.qdrant.requests import Call, scroll_points
from tests.integration.qdrant.fix_clients import StoreMaker

pytestmark = pytest.mark.qdrant


def chunks(document: str, count: int, **metadata: Any) -> list[VectorRecord]:
    return [VectorRecord(f"{document}#{n}", f"{document} {n}", [1, n], None, dict(metadata)) for n in range(count)]


def test_a_document_of_many_chunks_is_patched_whole(make_store: StoreMaker) -> None:
    store = make_store()
    store.upsert([*chunks("big", 700, label="old", keep=1), *chunks("other", 3, label="old")])
    before = store.get(["big#699"])[0]
    assert store.update_metadata("big", {"label": "new", "gone": None, "ignored": UNSET}) == 700
    assert store.count({"label": "new"}) == 700
    assert store.count({"label": "old"}) == 3
    after = store.get(["big#699"])[0]
    assert after.metadata == {"label": "new", "keep": 1}
    assert (after.text, after.embedding) == (before.text, before.embedding)


def test_a_patch_replaces_values_whole_and_deletes_keys_with_their_tokens(make_store: StoreMaker) -> None:
    store = make_store()
    hostile = {"a.b": {"x": 1, "y": 2}, 'q"t': [1], "": None, "k[]": "v"}
    store.upsert([VectorRecord("d#0", "t", [1, 0], None, hostile)])
    assert store.update_metadata("d", {"a.b": {"z": 3}, 'q"t': None, "k[]": ["w"], "new": 5}) == 1
    assert store.get(["d#0"])[0].metadata == {"a.b": {"z": 3}, "": None, "k[]": ["w"], "new": 5}
    assert store.count(field(["a.b", "z"]) == 3) == 1
    assert store.count(field(["a.b", "x"]).exists()) == 0
    assert store.count(field('q"t').exists()) == 0
    assert store.count({"k[]": ["w"]}) == 1
    assert store.count(field("new") > 4) == 1


def test_a_patch_of_a_record_without_metadata(make_store: StoreMaker) -> None:
    store = make_store()
    store.upsert([VectorRecord("d", "t", [1, 0])])
    assert store.update_metadata("d", {"gone": None}) == 1
    assert not store.get(["d"])[0].metadata
    assert store.update_metadata("d", {"k": "v"}) == 1
    assert store.count({"k": "v"}) == 1
    assert store.update_metadata("unknown", {"k": "v"}) == 0
    assert store.update_metadata("d", {"k": UNSET}) == 0


def test_concurrent_patches_of_different_keys_all_hold(make_store: StoreMaker) -> None:
    store = make_store()
    store.upsert(chunks("d", 6))
    patch = [threading.Thread(target=store.update_metadata, args=("d", {f"k{n}": n})) for n in range(4)]
    for one in patch:
        one.start()
    for one in patch:
        one.join()
    assert store.count({f"k{n}": n for n in range(4)}) == 6


def test_replacing_leaves_nothing_behind(make_store: StoreMaker, qdrant_client: Any) -> None:
    store = make_store()
    store.upsert([*chunks("a", 5), *chunks("b", 2), *chunks("c", 1)])
    written = store.replace_documents(
        ["a", "b"], [VectorRecord("a#0", "new", [1, 1]), VectorRecord("n#0", "n", [1, 1])]
    )
    assert written == 2
    assert [r.id for r in store.scan()] == ["a#0", "c#0", "n#0"]
    assert store.get(["a#0"])[0].text == "new"
    assert store.replace_documents(["a", "unknown"], []) == 0
    assert store.replace_documents(["n"], chunks("n", 3)) == 3
    assert store.list_document_ids() == ["c", "n"]
    # No journal, no mark, no copy: the points are those that an upsert would have written.
    other = make_store()
    other.upsert([*chunks("c", 1), *chunks("n", 3)])

    def points(of: Any) -> Any:
        call = scroll_points(of._settings, None, None)
        found, _ = qdrant_client.scroll(**call.arguments)
        return sorted((str(point.id), point.payload) for point in found)

    assert points(store) == points(other)


def test_everything_is_validated_before_the_first_request(make_store: StoreMaker) -> None:
    store = make_store(upsert_batch_size=2)
    good = chunks("d", 5)
    for bad in (
        VectorRecord("bad", "t", [1, 2, 3]),
        VectorRecord("bad", "t", [1, float("nan")]),
        VectorRecord("bad", "t", [1, 2], None, {"k": object()}),
        VectorRecord("bad", "t\x00", [1, 2]),
    ):
        with pytest.raises(ValueError, match="bad"):
            store.upsert([*good, bad])
        with pytest.raises(ValueError, match="bad"):
            store.replace_documents(["d"], [*good, bad])
    assert store.count() == 0


def test_batches(make_store: StoreMaker) -> None:
    store = make_store(upsert_batch_size=7)
    assert store.upsert(iter(chunks("d", 50))) == 50
    assert store.upsert([*chunks("d", 2), *chunks("d", 2, k=1)]) == 2
    assert store.count() == 50
    assert store.count({"k": 1}) == 2
    assert store.upsert([]) == 0


def test_scans_go_past_every_page(make_store: StoreMaker) -> None:
    store = make_store()
    store.upsert(chunks("d", 1100))
    assert [r.id for r in store.scan()] == sorted(f"d#{n}" for n in range(1100))
    assert store.list_document_ids() == ["d"]
    assert len(store.get([f"d#{n}" for n in range(1100)])) == 1100
    assert store.delete([f"d#{n}" for n in range(600)]) == 600
    assert store.count() == 500
    assert store.remove("d") == 500


def test_a_scope_bounds_what_is_not_exact_natively(make_store: StoreMaker) -> None:
    store = make_store()
    store.upsert([*chunks("a", 2, team="red fox"), *chunks("b", 2, team="blue fox")])
    red = store.scoped(field("team").matches_text("red"))
    assert red.count() == 2
    assert red.remove("b") == 0
    assert red.update_metadata("b", {"x": 1}) == 0
    assert red.update_metadata("a", {"x": 1}) == 2
    with pytest.raises(ScopeViolationError):
        red.update_metadata("a", {"team": "blue"})
    with pytest.raises(ScopeViolationError):
        red.upsert([VectorRecord("b#0", "t", [1, 1], None, {"team": "red"})])
    assert red.replace_documents(["a", "b"], [VectorRecord("a#7", "t", [1, 1], None, {"team": "red"})]) == 1
    assert [r.id for r in store.scan()] == ["a#7", "b#0", "b#1"]
    assert red.delete(["a#7", "b#0"]) == 1
    assert red.remove_where({"team": ["red fox", "blue fox"]}) == 0
    assert store.count() == 2


def test_a_scoped_write_leaves_alone_what_left_the_scope_meanwhile(make_store: StoreMaker, monkeypatch: Any) -> None:
    store = make_store()
    store.upsert([VectorRecord("d#0", "theirs", [1, 0], None, {"tenant": "acme"})])
    run_call = store._connection._call

    def overtaken(client: Any, call: Call) -> Any:
        if call.method == "upsert":
            monkeypatch.setattr(store._connection, "_call", run_call)
            store.update_metadata("d", {"tenant": "beta"})
        return run_call(client, call)

    monkeypatch.setattr(store._connection, "_call", overtaken)
    store.scoped({"tenant": "acme"}).upsert([VectorRecord("d#0", "ours", [0, 1], None, {"tenant": "acme"})])
    (kept,) = store.get(["d#0"])
    assert (kept.text, kept.metadata) == ("theirs", {"tenant": "beta"})


def test_a_scoped_write_replaces_a_point_of_another_writer(make_store: StoreMaker, qdrant_client: Any) -> None:
    store = make_store()
    payload = {"id": "d#0", "documentId": "d", "text": "old", "metadata": {"tenant": "acme"}}
    point = models.PointStruct(id=chunk_id_to_point_id("d#0"), vector=[1.0, 0.0], payload=payload)
    qdrant_client.upsert(store._settings.collection, points=[point], wait=True)
    scope = store.scoped({"tenant": "acme"})
    assert scope.upsert([VectorRecord("d#0", "new", [0, 1], None, {"tenant": "acme"})]) == 1
    assert [r.text for r in scope.get(["d#0"])] == ["new"]


def test_what_is_read_is_a_copy(make_store: StoreMaker) -> None:
    store = make_store()
    given: dict[str, Any] = {"k": [1]}
    store.upsert([VectorRecord("d", "t", [1, 0], None, given)])
    given["k"].append(2)
    for read in (store.get(["d"])[0], store.search([1, 0], top_k=1)[0], store.list_documents()[0], *store.scan()):
        assert read.metadata == {"k": [1]}
        assert read.metadata is not None
        read.metadata["k"].append(3)
    assert store.get(["d"])[0].metadata == {"k": [1]}

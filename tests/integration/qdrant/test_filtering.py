"""Filters on the engine and on local mode say what `matches_filter` says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from qdrant_client import models

from agora_core import VectorRecord, all_of, chunk_id_to_point_id, field, matches_filter, not_
from agora_core.stores.qdrant.journal import JOURNAL_ID
from agora_core.stores.qdrant.requests import Call
from tests.golden_cases import UNDEFINED, GoldenCase, golden_params
from tests.integration.qdrant.fix_clients import StoreMaker
from tests.unit import generated

pytestmark = pytest.mark.qdrant

_PER_FUNCTION = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=15, suppress_health_check=_PER_FUNCTION)
@given(data=st.data())
def test_every_way_to_filter_agrees_with_the_reference(make_store: StoreMaker, data: st.DataObject) -> None:
    store = make_store(collection="filtering")
    store.delete([r.id for r in store.scan()])
    all_metadata = data.draw(st.lists(generated.metadata, min_size=1, max_size=12))
    records = [VectorRecord(f"d{n}#0", "t", [1, n], None, metadata) for n, metadata in enumerate(all_metadata)]
    store.upsert(records)
    for filter in data.draw(st.lists(generated.filters, min_size=8, max_size=8)):
        expected = sorted(r.id for r in records if matches_filter(r.metadata, filter))
        assert [r.id for r in store.scan(filter)] == expected
        assert store.count(filter) == len(expected)
        assert sorted(p.id for p in store.search([1, 0], top_k=20, filter=filter)) == expected
        assert [d.id for d in store.list_documents(filter)] == sorted({i.removesuffix("#0") for i in expected})


# One record and one filter, run by the original on four backends. Where these did not agree, the mapping form follows
# its memory store, except for objects, which the original compares by identity and never matches.
@pytest.mark.parametrize("case", golden_params("backend_filter"))
def test_golden_backend_filters(make_store: StoreMaker, case: GoldenCase) -> None:
    given_metadata = case.input["metadata"]
    metadata = None if given_metadata is UNDEFINED else given_metadata
    filter = case.input["filter"]
    store = make_store()
    store.upsert([VectorRecord("r#0", "t", [1, 0], None, metadata)])
    if any(isinstance(value, str) and "\x00" in value for value in filter.values()):
        with pytest.raises(ValueError, match=r"U\+0000"):
            store.count(filter)
        return
    assert (store.count(filter) == 1) is case.expected["memory"]
    assert bool(store.search([1, 0], top_k=1, filter=filter)) is case.expected["memory"]


def test_a_selective_check_on_the_payload_finds_every_match(make_store: StoreMaker) -> None:
    store = make_store()
    names = [f"name {n:03}" for n in range(300)]
    store.upsert([VectorRecord(f"d{n}", "t", [1, n / 300], None, {"name": name}) for n, name in enumerate(names)])
    found = store.search([1, 0], top_k=3, filter=field("name").matches_text("29"))
    assert [p.id for p in found] == ["d29", "d129", "d229"]
    assert found[0].text == "t"
    late = store.search([1, 0], top_k=2, filter=field("name") >= "name 290")
    assert [p.id for p in late] == ["d290", "d291"]


def test_points_of_another_writer_are_filtered_by_their_metadata(make_store: StoreMaker, qdrant_client: Any) -> None:
    store = make_store()
    store.upsert([VectorRecord("ours#0", "t", [1, 0], None, {"tenant": "acme"})])
    for name, tenant in (("theirs", "acme"), ("others", "beta")):
        payload = {"id": f"{name}#0", "documentId": name, "text": "old", "metadata": {"tenant": tenant, "n": 2}}
        point = models.PointStruct(id=chunk_id_to_point_id(f"{name}#0"), vector=[1.0, 0.0], payload=payload)
        qdrant_client.upsert(store._settings.collection, points=[point], wait=True)

    def finds(filter: Any, *expected: str) -> None:
        assert [p.id for p in store.search([1, 0], top_k=5, filter=filter)] == sorted(expected)
        assert [p.id for p in store.search([1, 0], top_k=1, filter=filter)] == sorted(expected)[:1]
        assert [r.id for r in store.scan(filter)] == sorted(expected)
        assert store.count(filter) == len(expected)

    def look() -> None:
        finds({}, "ours#0", "theirs#0", "others#0")
        finds({"tenant": "acme"}, "ours#0", "theirs#0")
        finds(not_({"tenant": "beta"}), "ours#0", "theirs#0")
        finds(not_(field("tenant").matches_text("ac")), "others#0")
        finds(field("n") > 1, "theirs#0", "others#0")
        finds(field("n").exists() & not_({"tenant": "acme"}), "others#0")

    look()
    assert store.update_metadata("theirs", {"more": 1}) == 1
    finds({"more": 1}, "theirs#0")
    look()
    acme = store.scoped({"tenant": "acme"})
    assert acme.update_metadata("others", {"more": 2}) == 0
    assert acme.remove("others") == 0
    assert store.reindex_filters() == 2
    assert store.reindex_filters() == 0
    look()
    finds({"more": 1}, "theirs#0")
    assert [r.text for r in store.get(["theirs#0"])] == ["old"]


def test_points_of_another_writer_are_removed_by_their_metadata(make_store: StoreMaker, qdrant_client: Any) -> None:
    store = make_store()
    store.upsert([VectorRecord(f"ours#{n}", "t", [1, 0], None, {"tenant": "acme", "n": n}) for n in range(3)])
    for n in range(4):
        payload = {"id": f"d#{n}", "documentId": "d", "text": "old", "metadata": {"tenant": "acme", "n": n}}
        point = models.PointStruct(id=chunk_id_to_point_id(f"d#{n}"), vector=[1.0, 0.0], payload=payload)
        qdrant_client.upsert(store._settings.collection, points=[point], wait=True)
    assert store.update_metadata("d", {"patched": True}) == 4
    assert store.remove_where(all_of({"tenant": "acme"}, field("n") >= 2)) == 3
    assert [r.id for r in store.scan()] == ["d#0", "d#1", "ours#0", "ours#1"]
    assert store.scoped({"n": 1}).remove("d") == 1
    new = [VectorRecord("d#9", "new", [1, 0], None, {"tenant": "acme"})]
    assert store.scoped({"tenant": "acme"}).replace_documents(["d"], new) == 1
    assert [r.id for r in store.scan()] == ["d#9", "ours#0", "ours#1"]


def test_a_record_that_leaves_the_filter_during_a_search_is_not_shown(
    make_store: StoreMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store()
    store.upsert([VectorRecord(f"d{n}#0", "t", [1, 0], None, {"tenant": "acme"}) for n in range(9)])
    run_call = store._connection._call

    def overtaken(client: Any, call: Call) -> Any:
        if call.method == "retrieve" and call.arguments["ids"] != [JOURNAL_ID]:
            monkeypatch.setattr(store._connection, "_call", run_call)
            store.update_metadata("d1", {"tenant": "beta"})
        return run_call(client, call)

    monkeypatch.setattr(store._connection, "_call", overtaken)
    # Nine equal scores: the cut is only decided by looking at all, and the winners are then read again.
    assert [p.id for p in store.search([1, 0], top_k=3, filter={"tenant": "acme"})] == ["d0#0", "d2#0"]


def test_points_that_are_no_records_are_nobodys(make_store: StoreMaker, qdrant_client: Any) -> None:
    store = make_store()
    strangers = [
        models.PointStruct(id=7, vector=[1.0, 0.0], payload={"other": True}),
        models.PointStruct(id=8, vector=[1.0, 0.0]),
    ]
    qdrant_client.upsert(store._settings.collection, points=strangers, wait=True)
    store.upsert([VectorRecord("a", "t", [1, 0])])
    assert [p.id for p in store.search([1, 0], top_k=5)] == ["a"]
    assert [r.id for r in store.scan()] == ["a"]
    assert store.list_document_ids() == ["a"]
    assert store.reindex_filters() == 0

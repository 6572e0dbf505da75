"""Requests are plain values: what is sent can be read without a server."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import models

from agora_core import VectorRecord, chunk_id_to_point_id
from agora_core.stores.qdrant import requests
from agora_core.stores.qdrant.filters import compile_for_qdrant
from agora_core.stores.qdrant.journal import patch_operations
from agora_core.stores.qdrant.payload import point_payload
from agora_core.stores.qdrant.settings import QdrantSettings
from agora_core.validation import prepare_records
from tests.golden_cases import GoldenCase, golden_params

SETTINGS = QdrantSettings(collection="c", dimension=2, metric="cosine")
CLUSTER = replace(
    SETTINGS, shard_key="acme", write_options={"ordering": "strong"}, read_options={"consistency": "quorum"}
)


@pytest.mark.parametrize("case", golden_params("qdrant_point_id"))
def test_golden_point_ids(case: GoldenCase) -> None:
    assert chunk_id_to_point_id(case.input) == case.expected


@given(
    st.lists(
        st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=3, max_size=3),
        min_size=1,
        max_size=5,
    )
)
def test_unit_vectors_have_length_one_or_zero(rows: list[list[float]]) -> None:
    given_rows = np.array(rows, dtype=np.float32)
    lengths = np.linalg.norm(requests.unit_vectors(given_rows).astype(np.float64), axis=1)
    for row, length in zip(given_rows, lengths, strict=True):
        assert length == pytest.approx(1.0 if row.any() else 0.0, abs=1e-6)


def test_short_vectors_are_scaled_too() -> None:
    # The engine takes anything shorter than about 3e-4 for a zero vector.
    assert requests.unit_vectors(np.array([[3e-20, 4e-20]], dtype=np.float32))[0] == pytest.approx([0.6, 0.8])


def test_only_cosine_scales() -> None:
    rows = np.array([[3.0, 4.0]], dtype=np.float32)
    assert requests.stored_vectors(replace(SETTINGS, metric="inner"), rows) is rows
    assert requests.stored_vectors(SETTINGS, rows)[0] == pytest.approx([0.6, 0.8])


def test_points_keep_the_originals_layout() -> None:
    batch = prepare_records([VectorRecord("faq#0", "text", [3, 4], "s.md", {"k": 1})], dimension=2)
    (point,) = requests.points_of(SETTINGS, batch)
    assert point.id == chunk_id_to_point_id("faq#0")
    assert point.payload == point_payload("faq#0", "text", "s.md", {"k": 1})


def test_every_write_waits_and_carries_what_a_cluster_needs() -> None:
    condition = models.Filter(must=[requests.documents_condition(["d"])])
    calls = [
        requests.upsert(CLUSTER, []),
        requests.delete_ids(CLUSTER, ["p"]),
        requests.delete_matching(CLUSTER, condition),
        requests.update(CLUSTER, [requests.set_payload(CLUSTER, {"k": 1}, "metadata", where=[condition])]),
        requests.update(CLUSTER, [requests.delete_operation(CLUSTER, where=condition)]),
        requests.update(CLUSTER, [requests.insert(CLUSTER, "p", {})]),
        requests.set_filter_objects(CLUSTER, {"p": {"v": 1}}),
    ]
    for call in calls:
        assert call.arguments["wait"] is True, call.method
        assert call.arguments["ordering"] == "strong", call.method
    assert all(call.arguments["shard_key_selector"] == "acme" for call in calls[:3])
    for call in calls[3:]:
        for operation in call.arguments["update_operations"]:
            (change,) = [value for _, value in operation]
            assert change.shard_key == "acme"


def test_every_read_carries_what_a_cluster_needs() -> None:
    calls = [
        requests.retrieve(CLUSTER, ["p"], ("id",), vectors=True),
        requests.scroll(CLUSTER, None, ("id",), None),
        requests.query(CLUSTER, [1.0, 0.0], None, limit=3, fields=("id",)),
    ]
    for call in calls:
        assert call.arguments["consistency"] == "quorum"
        assert call.arguments["shard_key_selector"] == "acme"
        assert call.arguments["with_payload"] == ["id"]
    assert requests.count(CLUSTER, None).arguments["exact"] is True
    batch = requests.query_batch(CLUSTER, [calls[2]])
    assert batch.arguments["requests"][0].shard_key == "acme"


def test_a_patch_is_three_merges_and_touches_no_vector() -> None:
    operations = patch_operations(SETTINGS, {"a": 1, "b": None}, {"where": [models.Filter()]})
    merged = [operation.set_payload for operation in operations]
    assert [one.key for one in merged] == ["metadata", "agora.x", "agora"]
    assert merged[0].payload == {"a": 1, "b": None}


def test_search_parameters() -> None:
    assert SETTINGS.search_params(exact=None) is None
    tuned = replace(SETTINGS, hnsw_ef=256, quantization={"rescore": True, "oversampling": 2.0})
    params = tuned.search_params(exact=None)
    assert params.hnsw_ef == 256
    assert params.quantization.oversampling == 2.0
    assert tuned.search_params(exact=True).exact is True
    assert replace(SETTINGS, exact=False).search_params(exact=None).exact is False


def test_narrowing_joins_conditions_and_leaves_out_points() -> None:
    compiled = compile_for_qdrant({"k": 1})
    narrowed = requests.narrowed(compiled.candidates, requests.documents_condition(["a", "b"]), without=["p"])
    assert narrowed.must[0].match == models.MatchAny(any=["a", "b"])
    assert narrowed.must[1] == compiled.candidates
    assert narrowed.must_not == [models.HasIdCondition(has_id=["p"])]

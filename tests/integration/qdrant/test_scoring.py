"""Scores, floors and ties on the engine and on local mode."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from agora_core import UNSET, UnsafeRemovalError, VectorRecord
from tests.golden_cases import UNDEFINED, GoldenCase, GoldenError, golden_params
from tests.integration.qdrant.fix_clients import StoreMaker

pytestmark = pytest.mark.qdrant

# The stored query vector is not unit, so equal directions and integers give scores that a float32 holds.
SHAPES = [(3, 4), (4, 3), (0, 5), (-3, -4), (6, 8)]


# The floor includes its own value here, as in the original's Postgres store; its Qdrant store leaves it out.
@pytest.mark.parametrize("case", golden_params("backend_min_score"))
def test_golden_floors(make_store: StoreMaker, case: GoldenCase) -> None:
    records = [VectorRecord(r["id"], r["text"], r["embedding"]) for r in case.input["records"]]
    store = make_store(dimension=2, metric=case.input["metric"])
    store.upsert(records)
    options = case.input["options"]
    floor = {"min_score": options["minScore"]} if "minScore" in options else {}
    found = store.search(case.input["query"], top_k=options["topK"], **floor)
    expected = sorted(case.expected["pgvector"], key=lambda row: (-row["score"], row["id"]))
    assert [p.id for p in found] == [row["id"] for row in expected]
    assert [p.score for p in found] == pytest.approx([row["score"] for row in expected], abs=1e-6)


@pytest.mark.parametrize("metric", ["cosine", "l2", "inner"])
def test_a_floor_keeps_its_own_value_and_nothing_below(make_store: StoreMaker, metric: str) -> None:
    store = make_store(metric=metric)
    store.upsert([VectorRecord(f"d{n}", "t", list(shape)) for n, shape in enumerate(SHAPES)])
    whole = store.search([3, 4], top_k=9)
    for passage in whole:
        at = store.search([3, 4], top_k=9, min_score=passage.score)
        assert [p.id for p in at] == [p.id for p in whole if p.score >= passage.score]
        above = store.search([3, 4], top_k=9, min_score=math.nextafter(passage.score, math.inf) + 1e-6)
        assert passage.id not in [p.id for p in above]


def test_the_same_direction_reaches_a_floor_of_one(make_store: StoreMaker) -> None:
    rng = np.random.default_rng(5)
    store = make_store(dimension=48)
    vectors = rng.normal(size=(40, 48))
    store.upsert([VectorRecord(f"d{n}", "t", vector) for n, vector in enumerate(vectors)])
    for n, vector in enumerate(vectors):
        assert [p.id for p in store.search(vector * 3, top_k=5, min_score=1.0)] == [f"d{n}"]


def test_an_exact_l2_match_scores_zero_and_not_minus_zero(make_store: StoreMaker) -> None:
    store = make_store(metric="l2")
    store.upsert([VectorRecord("a", "t", [1, 2])])
    (found,) = store.search([1, 2], top_k=1, min_score=0)
    assert math.copysign(1, found.score) == 1.0


def test_ties_go_by_id_through_the_cut(make_store: StoreMaker) -> None:
    store = make_store()
    ids = [f"{name}#{n}" for name in ("b", "a", "é", "Z", "z") for n in (0, 2, 10)]
    for record_id in ids:
        store.upsert([VectorRecord(record_id, f"text of {record_id}", [2, 2], "s", {"k": 1})])
        store.search([1, 2], top_k=1)
    store.upsert([VectorRecord("first", "t", [1, 1.01])])
    for top_k in (1, 2, 3, 7, 16, 99):
        found = store.search([1, 1.01], top_k=top_k)
        assert [p.id for p in found] == ["first", *sorted(ids)][:top_k]
        assert all(p.text.startswith("t") and (p.source == "s" or p.id == "first") for p in found)


def test_zero_vectors_score_zero_and_are_never_lost(make_store: StoreMaker) -> None:
    store = make_store()
    store.upsert([VectorRecord("z", "t", [0, 0]), VectorRecord("y", "t", [1, 0]), VectorRecord("x", "t", [-1, 0])])
    assert [(p.id, p.score) for p in store.search([1, 0], top_k=3)] == [("y", 1.0), ("z", 0.0), ("x", -1.0)]
    assert [(p.id, p.score) for p in store.search([0, 0], top_k=3)] == [("x", 0.0), ("y", 0.0), ("z", 0.0)]
    assert [p.id for p in store.search([1, 0], top_k=3, min_score=0)] == ["y", "z"]
    assert [r.embedding for r in store.get(["z"])] == [[0.0, 0.0]]


def test_very_short_and_very_long_vectors_keep_their_direction(make_store: StoreMaker) -> None:
    store = make_store()
    store.upsert([VectorRecord("short", "t", [3e-20, 4e-20]), VectorRecord("long", "t", [4e18, 3e18])])
    found = store.search([3e-10, 4e-10], top_k=2)
    assert [p.id for p in found] == ["short", "long"]
    assert [p.score for p in found] == pytest.approx([1.0, 0.96], abs=1e-6)


@pytest.mark.parametrize("metric", ["cosine", "l2", "inner"])
def test_searching_again_and_again_gives_the_same(make_store: StoreMaker, metric: str) -> None:
    rng = np.random.default_rng(3)
    store = make_store(dimension=8, metric=metric)
    store.upsert([VectorRecord(f"d{n}", "t", rng.integers(-2, 3, 8)) for n in range(60)])
    query = rng.normal(size=8)
    first = store.search(query, top_k=60)
    for _ in range(4):
        assert store.search(query, top_k=60) == first


def test_many_searches_are_as_one_by_one(make_store: StoreMaker) -> None:
    rng = np.random.default_rng(6)
    store = make_store(dimension=4)
    store.upsert([VectorRecord(f"d{n}", "t", rng.integers(-2, 3, 4), None, {"g": n % 2}) for n in range(90)])
    queries = rng.integers(-2, 3, (70, 4))
    choices: list[dict[str, Any]] = [{}, {"filter": {"g": 1}}, {"min_score": 0.5}, {"filter": {"g": []}}]
    for options in choices:
        assert store.search_many(queries, top_k=7, **options) == [
            store.search(query, top_k=7, **options) for query in queries
        ]
    assert store.search_many([], top_k=3) == []
    assert store.scoped({"g": 0}).search_many(queries[:2], top_k=3) == [
        store.search(query, top_k=3, filter={"g": 0}) for query in queries[:2]
    ]
    with pytest.raises(ValueError, match=r"embeddings\[1\]"):
        store.search_many([[1, 2, 3, 4], [1]], top_k=3)
    with pytest.raises(ValueError, match="embeddings must be a list"):
        store.search_many("text", top_k=3)


def test_engine_scores_are_float32(make_store: StoreMaker) -> None:
    store = make_store(metric="inner")
    store.upsert([VectorRecord("a", "t", [0.1, 0.2])])
    (found,) = store.search([0.3, 0.4], top_k=1)
    assert found.score == float(np.float32(found.score))
    assert found.score == pytest.approx(0.11, abs=1e-6)


def outcomes(steps: list[dict[str, Any]], store: Any) -> list[Any]:
    """Run the steps of a golden sequence."""
    return [_step(step, store) for step in steps]


def _step(step: dict[str, Any], store: Any) -> Any:
    filter = {"filter": step["filter"]} if "filter" in step else {}
    if step["op"] == "upsert":
        records = [
            VectorRecord(r["id"], r["text"], r["embedding"], r.get("source"), r.get("metadata"))
            for r in step["records"]
        ]
        store.upsert(records)
        return None
    if step["op"] == "search":
        options = step["options"]
        more = {name: options[key] for name, key in (("filter", "filter"), ("min_score", "minScore")) if key in options}
        found = store.search(step["embedding"], top_k=options["topK"], **more)
        return {p.id: round(p.score, 4) for p in found}
    if step["op"] == "listDocumentIds":
        return store.list_document_ids(**filter)
    if step["op"] == "listDocuments":
        return [d.id for d in store.list_documents(**filter)]
    if step["op"] == "removeWhere":
        try:
            return store.remove_where(step["filter"])
        except UnsafeRemovalError as error:
            return GoldenError("UnsafeRemovalError", {"reason": error.reason})
    if step["op"] == "remove":
        store.remove(step["documentId"])
        return None
    assert step["op"] == "updateMetadata"
    patch = {key: UNSET if value is UNDEFINED else value for key, value in step["patch"].items()}
    return store.update_metadata(step["documentId"], patch)


# The original's memory store is the yardstick: its engines agreed with it on these sequences. Lists are ordered here,
# and the metadata of a document is that of its first chunk, so ids and rounded scores are compared.
@pytest.mark.parametrize("case", golden_params("backend_sequences"))
def test_golden_sequences(make_store: StoreMaker, case: GoldenCase) -> None:
    steps = case.input["steps"]
    actual = outcomes(steps, make_store(dimension=3))
    for step, mine, theirs in zip(steps, actual, case.expected["memory"], strict=True):
        if step["op"] == "search":
            assert mine == pytest.approx({row["id"]: round(row["score"], 4) for row in theirs}, abs=1e-4), step
        elif step["op"] == "listDocuments":
            assert mine == sorted(row["id"] for row in theirs)
        elif step["op"] == "listDocumentIds":
            assert mine == sorted(theirs)
        else:
            assert mine == theirs, step

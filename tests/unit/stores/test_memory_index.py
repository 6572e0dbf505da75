"""The index answers every filter as a walk over the records would, after any history."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import (
    Expression,
    MemoryVectorStore,
    VectorRecord,
    all_of,
    any_of,
    compile_filter,
    field,
    matches_filter,
    not_,
)
from agora_core.errors import UnsupportedFilterError
from agora_core.filters.expressions import And
from agora_core.filters.matching import predicate
from agora_core.metadata_index.index import MetadataIndex
from agora_core.metadata_index.postings import Posting
from tests.unit import generated as some


def record(id: str, metadata: Any) -> VectorRecord:
    return VectorRecord(id, "", [1.0], None, metadata)


def found(store: MemoryVectorStore, filter: Any) -> list[str]:
    # By searching: a scan asks the records themselves once more.
    return sorted(passage.id for passage in store.search([1.0], top_k=10**6, filter=filter))


@given(metadata=st.lists(some.metadata, max_size=12), asked=st.lists(some.filters, min_size=1, max_size=4))
def test_the_index_answers_as_a_walk_does(metadata: list[Any], asked: list[Any]) -> None:
    store = MemoryVectorStore(dimension=1)
    half = len(metadata) // 2
    store.upsert([record(f"{n:02}", one) for n, one in enumerate(metadata[:half])])
    for filter in asked:
        store.count(filter)  # paths and compound values are indexed from here on
    store.upsert([record(f"{n:02}", one) for n, one in enumerate(metadata[half:], half)])
    for filter in asked:
        walked = [f"{n:02}" for n, one in enumerate(metadata) if matches_filter(one, filter)]
        assert found(store, filter) == walked
        assert store.count(filter) == len(walked)


FILTERS: list[Any] = [
    {"user": "u3"},
    {"user": ["u1", "u2", "u500"]},
    {"team": ["t1"]},
    {"team": ["t0", "t1", "t2", "t3"]},
    {"team": [["t1", "t2"]]},
    {"box": {"size": 1}},
    {"flag": True},
    {"none": None},
    field("year") >= 2010,
    field("year").between(2003, 2004),
    field("user").matches_text("u1"),
    field("box.size") == 2,
    field("box.size").exists(),
    field("team").contains_all(["t1", "t2"]),
    field("team").contains_all([]),
    field("team").contains_any(["t5", 7, None]),
    field("year").exists(),
    not_(field("year").exists()),
    not_({"team": ["t1"]}) & (field("year") < 2005),
    any_of({"user": "u3"}, field("year") == 2001, not_(field("flag") == True)),  # noqa: E712
    all_of({"team": ["t1", "t2"]}, {"year": [2001, 2002, 2003]}, field("box.size") != 1),
]


def metadata_of(rng: np.random.Generator) -> dict[str, Any] | None:
    if rng.random() < 0.05:
        return None
    made: dict[str, Any] = {"user": f"u{rng.integers(600)}", "year": int(2000 + rng.integers(20))}
    made["team"] = [f"t{n}" for n in rng.integers(0, 8, rng.integers(0, 4))]
    if rng.random() < 0.3:
        made["box"] = {"size": int(rng.integers(3))}
    if rng.random() < 0.5:
        made["flag"] = bool(rng.random() < 0.5)
    if rng.random() < 0.1:
        made["none"] = None
    if rng.random() < 0.1:
        made["team"] = "t1"
    if rng.random() < 0.1:
        del made["year"]
    return made


def test_many_rows_through_writes_patches_and_sweeps() -> None:
    rng = np.random.default_rng(5)
    store = MemoryVectorStore()
    model: dict[str, dict[str, Any] | None] = {}

    def check() -> None:
        for filter in FILTERS:
            test = predicate(compile_filter(filter))
            wanted = sorted(id for id, one in model.items() if test(one or {}))
            assert found(store, filter) == wanted, filter

    for round_ in range(3):
        fresh = {f"d{rng.integers(4000)}#{rng.integers(3)}": metadata_of(rng) for _ in range(800)}
        model.update(fresh)
        store.upsert([record(id, one) for id, one in fresh.items()])
        check()
        for id in rng.choice(sorted(model), 80).tolist():
            document = id.partition("#")[0]
            patch = {k: v for k, v in (metadata_of(rng) or {}).items() if rng.random() < 0.7}
            patch["flag"] = None
            patched = [one for one in model if one.partition("#")[0] == document]
            assert store.update_metadata(document, patch) == len(patched)
            for one in patched:
                merged = {**(model[one] or {}), **patch}
                model[one] = {k: v for k, v in merged.items() if v is not None or k not in patch}
        check()
        doomed = rng.choice(sorted(model), 400 if round_ % 2 else 100, replace=False).tolist()
        assert store.delete(doomed) == len(doomed)
        for id in doomed:
            del model[id]
        check()


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9999)), max_size=60), st.integers(0, 1))
def test_postings_are_sets_of_rows(edits: list[tuple[bool, int]], long: int) -> None:
    start = list(range(0, 10_000, 2)) if long else [1, 5]
    posting, model = Posting(start), set(start)
    for add, row in edits:
        if add:
            posting.insert(row)
            model.add(row)
        else:
            posting.discard(row)
            model.discard(row)
        if row % 7 == 0:
            assert posting.read().tolist() == sorted(model)
    posting.append(10_000)
    posting.append(10_000)
    assert posting.read().tolist() == [*sorted(model), 10_000]


def test_nested_paths_are_forgotten_beyond_a_number() -> None:
    store = MemoryVectorStore()
    store.upsert([record("a", {"k": {f"x{n}": n for n in range(200)}})])
    for _ in range(2):
        for n in range(200):
            assert store.count(field(["k", f"x{n}"]) == n) == 1


def test_a_condition_the_index_does_not_know_is_refused() -> None:
    class Strange(Expression):
        pass

    index = MetadataIndex([{"k": 1}])
    index.append(0)
    for unknown in (Strange(), And((Strange(),))):
        with pytest.raises(UnsupportedFilterError, match="is not a condition of the filter language"):
            index.select(unknown)


def test_true_is_no_number_inside_lists_either() -> None:
    store = MemoryVectorStore()
    store.upsert(
        [record("b", {"k": [True]}), record("n", {"k": [1]}), record("f", {"k": [0.0]}), record("s", {"k": [False]})]
    )
    assert found(store, {"k": [True]}) == ["b"]
    assert found(store, {"k": [1.0]}) == ["n"]
    assert found(store, field("k").contains_any([0])) == ["f"]
    assert found(store, field("k").contains_all([False])) == ["s"]


def test_a_value_whose_only_row_is_gone_is_forgotten_by_a_sweep() -> None:
    store = MemoryVectorStore()
    store.upsert([record(f"{n:04}", {"only": n, "name": f"n{n}", "tags": [f"t{n}"]}) for n in range(400)])
    store.delete([f"{n:04}" for n in range(0, 400, 2)])
    assert store._table.dead_count == 0
    for n in range(400):
        wanted = [f"{n:04}"] if n % 2 else []
        for filter in ({"only": n}, {"name": f"n{n}"}, {"tags": [f"t{n}"]}):
            assert found(store, filter) == wanted
    assert found(store, field("only").exists()) == [f"{n:04}" for n in range(1, 400, 2)]
    assert found(store, field("only") < 4) == ["0001", "0003"]


def test_patches_follow_lists_and_objects_once_they_are_indexed() -> None:
    store = MemoryVectorStore()
    store.upsert([record("a", {"k": [["x"], {"y": 1}]}), record("b", {"k": {"y": 1}})])
    by_member, by_object, by_list = {"k": [["x"]]}, {"k": {"y": 1}}, field("k") == [["x"], {"y": 1}]
    assert (found(store, by_member), found(store, by_object), found(store, by_list)) == (["a"], ["b"], ["a"])
    store.update_metadata("a", {"k": [["z"]]})
    store.update_metadata("b", {"k": [["x"], {"y": 1.0}]})
    assert (found(store, by_member), found(store, by_object), found(store, by_list)) == (["b"], [], ["b"])
    assert found(store, {"k": [["z"]]}) == ["a"]
    store.update_metadata("a", {"k": {"y": 1}})
    store.update_metadata("b", {"k": None})
    assert (found(store, by_member), found(store, by_object), found(store, by_list)) == ([], ["a"], [])
    assert found(store, field("k").contains_all([])) == []

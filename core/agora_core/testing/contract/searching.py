"""Scores, their order, the floor, filters, and listing."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import pytest

from agora_core.errors import AgoraError
from agora_core.filters import all_of, any_of, field, matches_filter
from agora_core.protocols import AnyFilter
from agora_core.testing.contract.base import Caller, ContractBase, Opener, record
from agora_core.testing.examples import FILTER_EXAMPLES, METADATA_EXAMPLES

_ABSENT: Final = object()


def _facet_text(value: Any) -> str:
    """Return the JSON of a value as facets are told apart and ordered by it: a whole number is an int."""

    def plain(item: Any) -> Any:
        if isinstance(item, float) and item.is_integer() and abs(item) < 2**63:
            return int(item)
        if isinstance(item, dict):
            return {key: plain(inner) for key, inner in item.items()}
        return [plain(inner) for inner in item] if isinstance(item, list) else item

    return json.dumps(plain(value), ensure_ascii=False, sort_keys=True, separators=(",", ":"))


class SearchingLaws(ContractBase):
    """Scores, their order, the floor, filters, and listing."""

    def test_scores(self, open_store: Opener) -> None:
        """cosine is `1 - distance`, l2 is `-distance`, inner is the inner product: higher is always better."""
        expected = {
            "cosine": {"same": 1.0, "near": 0.6, "orthogonal": 0.0, "opposite": -1.0},
            "l2": {"same": 0.0, "near": -math.sqrt(17), "orthogonal": -math.sqrt(5), "opposite": -4.0},
            "inner": {"same": 4.0, "near": 6.0, "orthogonal": 0.0, "opposite": -4.0},
        }
        for metric in self.metrics:
            store = open_store(metric)
            store.upsert(
                [
                    record("same", [2, 0, 0]),
                    record("near", [3, 4, 0]),
                    record("orthogonal", [0, 0, 1]),
                    record("opposite", [-2, 0, 0]),
                ]
            )
            found = store.search([2, 0, 0], top_k=10)
            assert {p.id: p.score for p in found} == pytest.approx(expected[metric], abs=1e-5)
            assert [p.score for p in found] == sorted((p.score for p in found), reverse=True)
            assert all(type(p.score) is float for p in found)

    def test_equal_scores_break_by_id(self, open_store: Opener) -> None:
        """Equal scores stand in code-point order of their ids, also through the cut."""
        for metric in self.metrics:
            store = open_store(metric)
            ids = ["b", "B", "a", "ä", "Z", "z", "a#10", "a#9", "_", "😀"]
            store.upsert([record(id, [0, 1, 0]) for id in ids])
            for top_k in (1, 3, 5, 10, 20):
                found = [p.id for p in store.search([0, 1, 0], top_k=top_k)]
                assert found == sorted(ids)[:top_k], (metric, top_k)

    def test_zero_vector_is_never_lost(self, open_store: Opener) -> None:
        """Under cosine a zero vector scores 0, stored or asked for; it passes a floor of 0 and no higher one."""
        if "cosine" not in self.metrics:
            pytest.skip("the store has no cosine")
        store = open_store("cosine")
        store.upsert([record("zero", [0, 0, 0]), record("one", [1, 0, 0]), record("minus", [-1, 0, 0])])
        found = store.search([1, 0, 0], top_k=3)
        assert [p.id for p in found] == ["one", "zero", "minus"]
        assert found[1].score == 0.0
        assert [p.id for p in store.search([1, 0, 0], top_k=3, min_score=0.0)] == ["one", "zero"]
        assert [p.id for p in store.search([1, 0, 0], top_k=3, min_score=0.1)] == ["one"]
        assert [(p.id, p.score) for p in store.search([0, 0, 0], top_k=3)] == [("minus", 0), ("one", 0), ("zero", 0)]
        assert store.search([0, 0, 0], top_k=3, min_score=0.01) == []

    def test_floor_is_inclusive(self, open_store: Opener) -> None:
        """`min_score` keeps `score >= min_score`, and is applied before the cut."""
        floors = {"cosine": 1.0, "l2": -5.0, "inner": 25.0}
        query = {"cosine": [0, 2, 0], "l2": [0, 5, 0], "inner": [0, 5, 0]}
        stored = {"cosine": [0, 1, 0], "l2": [0, 0, 0], "inner": [0, 5, 0]}
        for metric in self.metrics:
            store = open_store(metric)
            lower: dict[str, list[float]] = {"cosine": [1, 1, 0], "l2": [-1, -1, 0], "inner": [1, 4.5, 0]}
            store.upsert([record("at", stored[metric]), record("below", lower[metric])])
            floor = floors[metric]
            assert [p.id for p in store.search(query[metric], top_k=5, min_score=floor)] == ["at"], metric
            assert store.search(query[metric], top_k=5, min_score=floor + 0.01) == []
            assert len(store.search(query[metric], top_k=5, min_score=-math.inf)) == 2
            assert store.search(query[metric], top_k=5, min_score=math.inf) == []

    def test_filter_narrows_before_the_cut(self, store: Caller) -> None:
        """A filtered search gives `min(top_k, matching)` rows, however far down they rank."""
        store.upsert([record(f"near#{n}", [1, n / 100, 0], {"who": "other"}) for n in range(60)])
        store.upsert([record(f"far#{n}", [-1, n / 100, 0], {"who": ["me", "you"]}) for n in range(5)])
        found = store.search([1, 0, 0], top_k=3, filter={"who": ["me"]})
        assert len(found) == 3
        assert all(p.id.startswith("far#") for p in found)
        assert len(store.search([1, 0, 0], top_k=50, filter={"who": ["me"]})) == 5

    @pytest.mark.parametrize("name", list(FILTER_EXAMPLES))
    def test_filter_means_the_same_everywhere(self, filled: Caller, name: str) -> None:
        """Every filtered call answers what `matches_filter` answers, for every example record."""
        self.need("count", "list_document_ids", "scan")
        filter = FILTER_EXAMPLES[name]
        expected = [f"r{n:02}" for n, metadata in enumerate(METADATA_EXAMPLES) if matches_filter(metadata, filter)]
        ids = [f"{document_id}#0" for document_id in expected]
        assert [p.id for p in filled.search([1, 0, 0], top_k=100, filter=filter)] == ids
        assert filled.list_document_ids(filter) == expected
        assert [d.id for d in filled.list_documents(filter)] == expected
        assert filled.count(filter) == len(expected)
        assert [r.id for r in filled.scan(filter)] == ids

    def test_deny_answers_nothing(self, store: Caller) -> None:
        """`[]` denies: nothing is found, listed or removed, for a missing key and an empty list too."""
        self.need("remove_where", "count")
        store.upsert([record("a", metadata={"k": []}), record("b", metadata={"k": "x"}), record("c")])
        denied: tuple[AnyFilter, ...] = ({"k": []}, any_of(), all_of({"k": []}, {"k": "x"}), {"k": [], "z": 1})
        for deny in denied:
            assert store.search([1, 0, 0], top_k=5, filter=deny) == []
            assert store.list_documents(deny) == []
            assert store.remove_where(deny) == 0
        assert store.count() == 3
        assert store.count({}) == 3

    def test_facets_are_exact(self, filled: Caller) -> None:
        """Counts of values, each member of a list once a record, under filter and scope, ties by their JSON."""
        self.need("facets")
        filters: tuple[Any, ...] = (None, {}, {"k": []}, field("k") > 0, any_of({"k": ["a"]}, {"j": 2}))
        for filter in filters:
            chosen = [m for m in METADATA_EXAMPLES if filter is None or matches_filter(m, filter)]
            for key in ("k", "j", "k.a", ["k.a"], ["k", "a.b"], "none", "", ['it\'s "q"']):
                counts: dict[str, int] = {}
                for metadata in chosen:
                    place: Any = metadata
                    for segment in field(key).path:
                        place = place.get(segment, _ABSENT) if isinstance(place, dict) else _ABSENT
                    values = place if isinstance(place, list) else [] if place is _ABSENT else [place]
                    for text in dict.fromkeys(map(_facet_text, values)):
                        counts[text] = counts.get(text, 0) + 1
                ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
                for limit in (1, 3, 100):
                    found = filled.facets(key, filter=filter, limit=limit)
                    assert [(_facet_text(value), n) for value, n in found] == ranked[:limit], (key, filter)
                view = filled.of(filled.scoped({"j": 2}))
                inside = {_facet_text(value): n for value, n in view.facets(key, filter=filter, limit=100)}
                assert set(inside) <= set(counts)
                assert all(n <= counts[text] for text, n in inside.items())
        assert filled.of(filled.scoped({"j": 2})).facets("k") == [("ab", 1), ("b", 1)]
        assert filled.facets("none", limit=1) == []
        for bad in (0, -1, True, "1"):
            with pytest.raises(AgoraError):
                filled.facets("k", limit=bad)
        self.fails(lambda: filled.facets([]), AgoraError)

    def test_list_documents(self, store: Caller) -> None:
        """Documents stand in code-point order, each with the metadata of its chunk with the smallest number."""
        self.need("list_document_ids")
        store.upsert([record(f"doc#{n}", metadata={"n": n}) for n in (10, 9, 2)])
        store.upsert([record("Z"), record("ä#0", metadata={"n": 1}), record("a#0")])
        documents = store.list_documents()
        assert [d.id for d in documents] == ["Z", "a", "doc", "ä"]
        assert documents[2].metadata == {"n": 2}
        assert not documents[0].metadata
        assert store.list_document_ids() == ["Z", "a", "doc", "ä"]
        (filtered,) = store.list_documents(field("n") > 2)
        assert (filtered.id, filtered.metadata) == ("doc", {"n": 9})

    def test_scan_reads_everything_once(self, store: Caller) -> None:
        """`scan` gives every matching record once, whole, in code-point order of ids."""
        self.need("scan")
        ids = [f"d{n % 7}#{n}" for n in range(600)]
        store.upsert([record(id, [1, 0, 0], {"odd": n % 2 == 1}) for n, id in enumerate(ids)])
        assert [r.id for r in store.scan()] == sorted(ids)
        assert len(store.scan({"odd": True})) == 300
        assert all(list(r.embedding) == pytest.approx([1, 0, 0]) for r in store.scan({"odd": True}))

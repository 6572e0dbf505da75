"""Removal, replacement and patches touch what they name, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from agora_core.errors import (
    DimensionMismatchError,
    InvalidMetadataError,
    UnsafeRemovalError,
)
from agora_core.filters import all_of, field, not_
from agora_core.metadata import UNSET, apply_metadata_patch
from agora_core.testing.contract.base import Caller, ContractBase, record
from agora_core.testing.examples import METADATA_EXAMPLES


class ChangingLaws(ContractBase):
    """Removal, replacement and patches touch what they name, and nothing else."""

    def test_remove_goes_by_document(self, store: Caller) -> None:
        """`remove` takes every chunk whose `document_id_of` is the id, and nothing else."""
        self.need("count")
        ids = ["a", "a#0", "a#10", "a#x", "a#1#0", "b#0", "a#1 ", "A#0", "a%#0", "a_#0"]
        store.upsert([record(id) for id in ids])
        assert store.remove("a") in (3, None)
        assert sorted(p.id for p in store.search([1, 0, 0], top_k=20)) == sorted(set(ids) - {"a", "a#0", "a#10"})
        assert store.remove("a") in (0, None)
        assert store.remove("a%") in (1, None)
        assert store.remove("a#1") in (1, None)
        assert store.count() == 5

    def test_delete_goes_by_id(self, store: Caller) -> None:
        """`delete` takes exactly the ids given, counts what there was, and does not mind what there was not."""
        self.need("delete", "count")
        store.upsert([record(f"a#{n}") for n in range(4)])
        assert store.delete(["a#1", "nobody", "a#1", "a"]) == 1
        assert store.delete([]) == 0
        assert store.count() == 3
        self.fails(lambda: store.delete("a#2"), ValueError)
        assert store.count() == 3

    def test_remove_where_counts_exactly(self, store: Caller) -> None:
        """`remove_where` removes what matches and says how many."""
        self.need("remove_where", "count")
        store.upsert([record(f"d{n}#0", metadata={"even": n % 2 == 0, "n": n}) for n in range(10)])
        assert store.remove_where({"even": True}) == 5
        assert store.remove_where(field("n") >= 7) == 2
        assert store.remove_where({"even": True}) == 0
        assert store.count() == 3

    @pytest.mark.parametrize(
        ("filter", "reason"),
        [
            ({}, "empty-filter"),
            (all_of(), "unbounded-filter"),
            (not_({"k": []}), "unbounded-filter"),
            (field("k") != 1, "unbounded-filter"),
        ],
        ids=str,
    )
    def test_unbounded_removal_is_refused(self, filled: Caller, filter: Any, reason: str) -> None:
        """A removal that a record without metadata would satisfy is refused, and removes nothing."""
        self.need("remove_where", "count")
        with pytest.raises(UnsafeRemovalError) as caught:
            filled.remove_where(filter)
        assert caught.value.reason == reason
        assert filled.count() == len(METADATA_EXAMPLES)

    def test_replace_documents(self, store: Caller) -> None:
        """Old chunks go, new ones come; a shrunken document leaves no tail, other documents stay."""
        self.need("replace_documents", "list_document_ids", "count")
        store.upsert([record(f"a#{n}", text=f"old {n}") for n in range(4)] + [record("b#0")])
        assert store.replace_documents(["a"], [record("a#0", text="new"), record("c#0")]) == 2
        assert store.list_document_ids() == ["a", "b", "c"]
        assert store.count() == 3
        assert store.replace_documents(["a", "nobody"], []) == 0
        assert store.list_document_ids() == ["b", "c"]
        self.fails(lambda: store.replace_documents(["b"], [record("b#0", [1, 0])]), DimensionMismatchError)
        assert store.list_document_ids() == ["b", "c"]
        self.fails(lambda: store.replace_documents("b", []), ValueError)
        assert store.list_document_ids() == ["b", "c"]

    def test_patch_touches_metadata_only(self, store: Caller) -> None:
        """A patch is a shallow merge on every chunk of the document; text, source and embedding stay."""
        self.need("update_metadata", "get")
        old = {"keep": 1, "gone": "x", "whole": {"a": 1, "b": 2}}
        store.upsert([record("a#0", [1, 0, 0], old, source="s"), record("a#1", [0, 1, 0]), record("b#0", metadata=old)])
        patch = {"gone": None, "whole": {"a": None}, "new": ["x", 1.5], "skip": UNSET, "missing": None}
        assert store.update_metadata("a", patch) == 2
        first, second, other = store.get(["a#0", "a#1", "b#0"])
        assert (
            first.metadata == apply_metadata_patch(old, patch) == {"keep": 1, "whole": {"a": None}, "new": ["x", 1.5]}
        )
        assert second.metadata == apply_metadata_patch(None, patch)
        assert other.metadata == old
        assert (first.text, first.source) == ("text of a#0", "s")
        assert list(first.embedding) == pytest.approx([1, 0, 0])
        assert [p.id for p in store.search([1, 0, 0], top_k=5, filter={"new": ["x"]})] == ["a#0", "a#1"]
        assert store.search([1, 0, 0], top_k=5, filter={"gone": "x"})[0].id == "b#0"

    def test_patch_counts_chunks_written(self, store: Caller) -> None:
        """0 for an unknown document and for a patch without effective keys; a deletion counts as written."""
        self.need("update_metadata")
        store.upsert([record("a#0", metadata={"k": 1}), record("a#1")])
        assert store.update_metadata("nobody", {"k": 1}) == 0
        assert store.update_metadata("a", {}) == 0
        assert store.update_metadata("a", {"k": UNSET}) == 0
        assert store.update_metadata("a", {"k": None}) == 2
        self.fails(lambda: store.update_metadata("a", {"k": {1}}), InvalidMetadataError)
        self.fails(lambda: store.update_metadata("a", [("k", 1)]), ValueError)

    def test_patch_keys_are_literal(self, store: Caller) -> None:
        """Every key is patched, matched and deleted as it stands."""
        self.need("update_metadata", "count", "get")
        store.upsert([record("a", metadata={"a": {"b": 0}, "other": 1})])
        for key in ["", "a.b", "a b", "it's", '"', "\\", "%s", "a[0]", "__proto__", "é", "😀", "$set", "a,b"]:
            assert store.update_metadata("a", {key: ["x"]}) == 1
            assert store.count({key: "x"}) == 0, key
            assert store.count({key: ["x"]}) == 1, key
            assert store.count({"a": {"b": 0}, "other": 1}) == 1, key
            assert store.update_metadata("a", {key: None}) == 1
            assert store.get(["a"])[0].metadata == {"a": {"b": 0}, "other": 1}
            assert store.count({key: ["x"]}) == 0, key

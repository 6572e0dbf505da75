"""A scope bounds everything done through it; a store closes cleanly."""

from __future__ import annotations

import pytest

from agora_core.errors import (
    AgoraError,
    ScopeViolationError,
    UnsafeRemovalError,
)
from agora_core.filters import any_of, field, not_
from agora_core.protocols import AnyFilter
from agora_core.testing.contract.base import Caller, ContractBase, record


class ScopingLaws(ContractBase):
    """A scope bounds everything done through it; a store closes cleanly."""

    def test_scope_bounds_every_read(self, store: Caller) -> None:
        """Through a scope only what matches is seen, whatever the call's own filter says."""
        self.need("get", "count", "list_document_ids", "scan")
        store.upsert([record("a#0", metadata={"t": "a"}), record("b#0", metadata={"t": "b"}), record("c#0")])
        view = store.of(store.scoped({"t": "a"}))
        for filter in (None, {}, {"t": ["a", "b"]}, any_of({"t": "a"}, {"t": "b"}), not_({"t": "c"})):
            assert [p.id for p in view.search([1, 0, 0], top_k=5, filter=filter)] == ["a#0"]
            assert view.list_document_ids(filter) == ["a"]
            assert [d.id for d in view.list_documents(filter)] == ["a"]
            assert view.count(filter) == 1
            assert [r.id for r in view.scan(filter)] == ["a#0"]
        assert view.search([1, 0, 0], top_k=5, filter={"t": "b"}) == []
        assert [r.id for r in view.get(["b#0", "a#0", "c#0"])] == ["a#0"]
        narrower = store.of(view.scoped({"t": "b"}))
        assert narrower.count() == 0

    def test_scope_bounds_every_removal(self, store: Caller) -> None:
        """Through a scope nothing outside it is removed or patched."""
        self.need("delete", "remove_where", "update_metadata", "count", "replace_documents")
        store.upsert([record("x#0", metadata={"t": "a"}), record("x#1", metadata={"t": "b"}), record("y#0")])
        view = store.of(store.scoped({"t": "a"}))
        assert view.delete(["x#1", "y#0"]) == 0
        assert view.remove("y") == 0
        assert view.remove_where(field("t").exists()) == 1
        assert store.count() == 2
        self.fails(lambda: view.remove_where({}), UnsafeRemovalError)
        store.upsert([record("x#0", metadata={"t": "a"})])
        assert view.update_metadata("x", {"seen": 1}) == 1
        assert view.update_metadata("y", {"seen": 1}) == 0
        assert store.count({"seen": 1}) == 1
        assert view.replace_documents(["x", "y"], []) == 0
        assert [r.id for r in store.scan()] == ["x#1", "y#0"]
        assert view.remove("x") == 0

    def test_scope_that_denies_everything_touches_nothing(self, store: Caller) -> None:
        """An actor without a single right sees, counts, changes and removes nothing, by any call."""
        self.need("get", "delete", "remove_where", "update_metadata", "count", "replace_documents", "scan")
        store.upsert([record("x#0", metadata={"t": "a"}), record("y#0")])
        whole = store.scan()
        denials: tuple[AnyFilter, ...] = ({"t": []}, any_of(), not_({}), {"t": [], "u": 1})
        for deny in denials:
            for view in (store.of(store.scoped(deny)), store.of(store.scoped({"t": "a"}).scoped(deny))):
                assert view.replace_documents(["x", "y"], []) == 0
                with pytest.raises(ScopeViolationError):
                    view.replace_documents(["x"], [record("x#0")])
                with pytest.raises(ScopeViolationError):
                    view.upsert([record("z#0")])
                assert view.delete(["x#0", "y#0"]) == view.remove("x") == view.remove_where({"t": "a"}) == 0
                assert view.update_metadata("x", {"t": "b"}) == 0
                assert view.get(["x#0"]) == view.scan() == view.search([1, 0, 0], top_k=5) == []
                assert view.count() == 0
                assert view.list_documents() == view.list_document_ids() == view.facets("t") == []
                assert store.scan() == whole

    def test_scope_refuses_writes_outside(self, store: Caller) -> None:
        """A record outside the scope, a take-over of one that lies outside, and a move out: each refused, whole."""
        self.need("get", "update_metadata", "replace_documents", "count")
        store.upsert([record("theirs#0", metadata={"t": "b"}), record("mine#0", metadata={"t": "a"})])
        view = store.of(store.scoped({"t": "a"}))
        good = record("new#0", metadata={"t": "a"})
        for call in (
            lambda: view.upsert([good, record("bad#0", metadata={"t": "b"})]),
            lambda: view.upsert([good, record("bad#0")]),
            lambda: view.upsert([good, record("theirs#0", metadata={"t": "a"})]),
            lambda: view.replace_documents(["mine"], [good, record("theirs#0", metadata={"t": "a"})]),
            lambda: view.replace_documents(["mine"], [good, record("bad#0", metadata={"t": "b"})]),
            lambda: view.update_metadata("mine", {"t": "b"}),
            lambda: view.update_metadata("mine", {"t": None}),
        ):
            self.fails(call, ScopeViolationError)
            assert [r.id for r in store.scan()] == ["mine#0", "theirs#0"]
            assert [r.metadata for r in store.get(["mine#0", "theirs#0"])] == [{"t": "a"}, {"t": "b"}]
        assert view.upsert([good, record("mine#0", metadata={"t": "a", "n": 1})]) == 2
        assert view.update_metadata("mine", {"t": "a", "n": 2}) == 1

    def test_scope_stamps(self, store: Caller) -> None:
        """`on_write="stamp"` writes the scope's plain values into each record; what it cannot stamp it checks."""
        self.need("get", "count")
        view = store.of(store.scoped({"t": "a", "level": ["x", "y"]}, on_write="stamp"))
        mine = {"level": "x", "t": "b"}
        assert view.upsert([record("r#0", metadata=mine)]) == 1
        assert mine == {"level": "x", "t": "b"}
        assert store.get(["r#0"])[0].metadata == {"level": "x", "t": "a"}
        self.fails(lambda: view.upsert([record("s#0", metadata={"level": "z"})]), ScopeViolationError)
        self.fails(lambda: view.upsert([record("s#0")]), ScopeViolationError)
        assert store.count() == 1

    def test_errors_have_one_root(self, filled: Caller) -> None:
        """Everything the store refuses is an `AgoraError`."""
        for call in (
            lambda: filled.search([1, 0, 0], top_k=0),
            lambda: filled.search([1], top_k=1),
            lambda: filled.search([1, 0, 0], top_k=1, filter=3),
            lambda: filled.upsert([record("")]),
        ):
            self.fails(call, AgoraError)

    def test_close_twice(self, store: Caller) -> None:
        """Closing is allowed at any time, and again."""
        store.upsert([record("a")])
        store.close()
        store.close()

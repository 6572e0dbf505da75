"""Random operations on the memory store and on a plain dict give the same answers, step by step."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agora_core import MemoryVectorStore, ScopeViolationError, UnsafeRemovalError, VectorRecord
from tests.contract.model import PlainModelStore
from tests.unit import generated as some

DIMENSION = 3


def plain(record: Any) -> Any:
    return (record.id, record.text, list(record.embedding), record.source, record.metadata or {})


def documents(store: Any, filter: Any) -> Any:
    return [(document.id, document.metadata or {}) for document in store.list_documents(filter)]


class MemoryMachine(RuleBasedStateMachine):
    @initialize(metric=st.sampled_from(["cosine", "l2", "inner"]))
    def start(self, metric: Any) -> None:
        self.store = MemoryVectorStore(metric=metric)
        self.model = PlainModelStore(metric=metric)

    def both(self, call: Callable[[Any], Any]) -> Any:
        """Run one call on both; they return the same or are refused alike."""
        outcomes = []
        for store in (self.store, self.model):
            try:
                outcomes.append(call(store))
            except (ScopeViolationError, UnsafeRemovalError) as error:
                outcomes.append(type(error))
        assert outcomes[0] == outcomes[1]
        return outcomes[0]

    @rule(records=st.lists(some.records(DIMENSION), max_size=6), within=st.none() | some.filters)
    def upsert(self, records: list[VectorRecord], within: Any) -> None:
        given = copy.deepcopy(records)
        self.both(lambda store: store.upsert(records, within=within))
        assert records == given

    @rule(
        documents=st.lists(st.sampled_from(some.DOCUMENTS), max_size=2),
        records=st.lists(some.records(DIMENSION), max_size=4),
        within=st.none() | some.filters,
    )
    def replace(self, documents: list[str], records: list[VectorRecord], within: Any) -> None:
        self.both(lambda store: store.replace_documents(documents, records, within=within))

    @rule(ids=st.lists(some.record_ids, max_size=3), within=st.none() | some.filters)
    def delete(self, ids: list[str], within: Any) -> None:
        self.both(lambda store: store.delete(ids, within=within))

    @rule(document=st.sampled_from(some.DOCUMENTS), within=st.none() | some.filters)
    def remove(self, document: str, within: Any) -> None:
        self.both(lambda store: store.remove(document, within=within))

    @rule(filter=some.filters)
    def remove_where(self, filter: Any) -> None:
        self.both(lambda store: store.remove_where(filter))

    @rule(document=st.sampled_from(some.DOCUMENTS), patch=some.patches, within=st.none() | some.filters)
    def patch(self, document: str, patch: dict[str, Any], within: Any) -> None:
        self.both(lambda store: store.update_metadata(document, patch, within=within))

    @rule(
        embedding=some.embeddings(DIMENSION),
        top_k=st.integers(1, 8),
        filter=st.none() | some.filters,
        min_score=st.none() | st.sampled_from([-1.0, 0.0, 0.5, 1.0]),
    )
    def search(self, embedding: list[float], top_k: int, filter: Any, min_score: float | None) -> None:
        found = self.store.search(embedding, top_k=top_k, filter=filter, min_score=min_score)
        (many,) = self.store.search_many([embedding], top_k=top_k, filter=filter, min_score=min_score)
        assert many == found
        exact = {p.id: p.score for p in self.model.search(embedding, top_k=10**6, filter=filter)}
        # What rounding may decide is which of equals comes first and who sits on the floor; nothing else.
        for passage in found:
            record = self.model.records[passage.id]
            assert passage.score == pytest.approx(exact[passage.id], abs=1e-12)
            assert (passage.text, passage.source) == (record.text, record.source)
            assert (passage.metadata or {}) == record.metadata
        reached = [score for score in exact.values() if min_score is None or score >= min_score - 1e-12]
        best = sorted(reached, reverse=True)[:top_k]
        assert [passage.score for passage in found] == pytest.approx(best, abs=1e-12)
        assert found == sorted(found, key=lambda passage: (-passage.score, passage.id))

    @rule(filter=st.none() | some.filters, ids=st.lists(some.record_ids, max_size=4))
    def read(self, filter: Any, ids: list[str]) -> None:
        self.both(lambda store: store.count(filter))
        self.both(lambda store: documents(store, filter))
        self.both(lambda store: store.list_document_ids(filter))
        self.both(lambda store: [plain(record) for record in store.scan(filter)])
        self.both(lambda store: [plain(record) for record in store.get(ids, within=filter)])

    @rule()
    def save_and_load(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.store.save(Path(folder) / "store")
            self.store = MemoryVectorStore.load(Path(folder) / "store")

    @invariant()
    def holds_the_same(self) -> None:
        if hasattr(self, "store"):
            self.both(lambda store: [plain(record) for record in store.scan()])
            assert len(self.store) == len(self.model.records)


TestMemoryStore = MemoryMachine.TestCase
TestMemoryStore.settings = settings(stateful_step_count=30, max_examples=settings().max_examples // 2)

"""What is written comes back, and what is refused writes nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from agora_core.errors import (
    DimensionMismatchError,
    InvalidFilterError,
    InvalidMetadataError,
)
from agora_core.filters import matches_filter
from agora_core.metadata import UNSET
from agora_core.records import VectorRecord
from agora_core.testing.contract.base import Caller, ContractBase, Opener, record
from agora_core.testing.examples import METADATA_EXAMPLES


class WritingLaws(ContractBase):
    """What is written comes back, and what is refused writes nothing."""

    def test_empty_store_answers_nothing(self, store: Caller) -> None:
        """An empty store gives empty answers, and no error."""
        assert store.search([1, 0, 0], top_k=3) == []
        assert store.list_documents() == []
        assert store.remove("nobody") in (0, None)

    def test_get_returns_what_was_written(self, open_store: Opener) -> None:
        """`get` gives each record back whole and once, in the order asked; what is missing is left out."""
        self.need("get")
        for metric in self.metrics:
            store = open_store(metric)
            store.upsert(
                [
                    record("b#0", [3, 4, 0], {"n": 1, "deep": {"list": [1, None, "é"]}}, source="b.md"),
                    record("a#0", [0, -2, 0.5]),
                ]
            )
            first, second = store.get(["a#0", "nobody", "b#0", "a#0"])
            assert (first.id, first.text, first.source, first.metadata or {}) == ("a#0", "text of a#0", None, {})
            assert (second.id, second.source) == ("b#0", "b.md")
            assert second.metadata == {"n": 1, "deep": {"list": [1, None, "é"]}}
            expected = [3.0, 4.0, 0.0] if metric in self.keeps_embeddings else [0.6, 0.8, 0.0]
            assert list(second.embedding) == pytest.approx(expected, abs=1e-6)
            assert store.get([]) == []

    def test_a_context_is_kept_and_never_shown(self, store: Caller) -> None:
        """`get` and `scan` give a context back; no passage, text or metadata holds it, and an upsert replaces it."""
        self.need("get", "scan", "context")
        store.upsert([replace(record("a#0", metadata={"k": 1}), context="Title\nPart"), record("b#0", [0, 1, 0])])
        assert [found.context for found in store.get(["a#0", "b#0"])] == ["Title\nPart", None]
        assert [found.context for found in store.scan()] == ["Title\nPart", None]
        (shown,) = store.search([1, 0, 0], top_k=1)
        assert (shown.text, shown.metadata) == ("text of a#0", {"k": 1})
        store.update_metadata("a", {"k": 2})
        assert store.get(["a#0"])[0].context == "Title\nPart"
        self.fails(lambda: store.upsert([replace(record("c#0"), context="nul\x00")]), InvalidMetadataError)
        store.upsert([record("a#0")])
        assert store.get(["a#0"])[0].context is None

    def test_upsert_replaces_the_whole_record(self, store: Caller) -> None:
        """Writing an id again replaces text, source, metadata and embedding, and adds nothing."""
        self.need("get", "count")
        store.upsert([record("a#0", [1, 0, 0], {"old": 1, "both": 1}, source="s")])
        store.upsert([record("a#0", [0, 1, 0], {"both": 2}, text="new")])
        (found,) = store.get(["a#0"])
        assert (found.text, found.source, found.metadata) == ("new", None, {"both": 2})
        assert store.count() == 1
        assert store.count({"old": 1}) == 0

    def test_last_of_repeated_ids_wins(self, store: Caller) -> None:
        """Of records with one id in one call the last is kept; the count is that of records written."""
        self.need("count", "get")
        assert store.upsert([record("a", text="one"), record("b"), record("a", text="two")]) == 2
        assert store.count() == 2
        assert store.get(["a"])[0].text == "two"

    def test_upsert_of_nothing(self, store: Caller) -> None:
        """An empty write writes nothing; a generator is as good as a list."""
        assert store.upsert([]) == 0
        assert store.upsert(record(f"g#{n}") for n in range(3)) == 3

    def test_nothing_is_shared_with_the_caller(self, store: Caller) -> None:
        """Changing what was handed in or given out changes nothing in the store."""
        self.need("get")
        metadata: dict[str, Any] = {"tags": ["x"], "deep": {"k": 1}}
        embedding = [1.0, 0.0, 0.0]
        store.upsert([record("a", embedding, metadata)])
        metadata["tags"].append("y")
        embedding[0] = -1.0
        for found in (store.get(["a"])[0].metadata, store.search([1, 0, 0], top_k=1)[0].metadata):
            assert found == {"tags": ["x"], "deep": {"k": 1}}
            found["tags"].append("z")
            found["deep"]["k"] = 2
        assert store.get(["a"])[0].metadata == {"tags": ["x"], "deep": {"k": 1}}
        assert store.list_documents()[0].metadata == {"tags": ["x"], "deep": {"k": 1}}

    def test_metadata_comes_back_equal(self, filled: Caller) -> None:
        """Every JSON metadata comes back equal as JSON, types included; none and `{}` mean the same."""
        found = {passage.id: passage.metadata for passage in filled.search([1, 0, 0], top_k=100)}
        assert [document.id for document in filled.list_documents()] == [id.removesuffix("#0") for id in sorted(found)]
        assert len(found) == len(METADATA_EXAMPLES)
        for n, metadata in enumerate(METADATA_EXAMPLES):
            assert matches_filter({"m": found[f"r{n:02}#0"] or {}}, {"m": metadata}), metadata

    def test_ids_are_any_text(self, store: Caller) -> None:
        """Ids are text like any other, and come back as they were."""
        ids = ["a", "a#0", "a#1#2", "#3", "a b", "ä#0", "日本#1", 'it\'s "x"', "%s;--", "\\", "😀#0", "a#01"]
        places = [[math.cos(n / 4), math.sin(n / 4), 0.0] for n in range(len(ids))]
        store.upsert([record(id, place) for id, place in zip(ids, places, strict=True)])
        assert [store.search(place, top_k=1)[0].id for place in places] == ids

    @pytest.mark.parametrize(
        "bad",
        [
            record("x", [1, 0]),
            record("x", [1, 0, 0, 0]),
            record("x", []),
            record("x", [math.nan, 0, 0]),
            record("x", [math.inf, 0, 0]),
            record("x", ["1", "0", "0"]),  # type: ignore[list-item]
            record("", [1, 0, 0]),
            record("nul\x00", [1, 0, 0]),
            record("x\ud800", [1, 0, 0]),
            record("x", text="nul\x00"),
            record("x", source="\ud800"),
            record("x", metadata={"when": {1, 2}}),
            record("x", metadata={"n": math.nan}),
            record("x", metadata={1: "a"}),  # type: ignore[dict-item]
            record("x", metadata={"deep": [{"k": b"bytes"}]}),
            record("x", metadata={"n": 2**63}),
            record("x", metadata={"a\x00": 1}),
            record("x", metadata={"a": "\udfff"}),
        ],
        ids=lambda bad: f"{bad.id!r}-{len(bad.embedding)}-{bad.metadata!r}"[:60],
    )
    def test_bad_record_writes_nothing(self, filled: Caller, bad: VectorRecord) -> None:
        """One record that is not storable refuses the whole write, with an error that is a ValueError."""
        self.need("count")
        self.fails(lambda: filled.upsert([record("good"), bad, record("r00#0", text="changed")]), ValueError)
        assert filled.count() == len(METADATA_EXAMPLES)
        assert filled.search([1, 0, 0], top_k=1)[0].text == "text of r00#0"

    def test_message_names_record_and_key(self, filled: Caller) -> None:
        """A refusal of metadata names the record, the key and the type."""
        unstorable = record("doc#7", metadata={"when": object()})
        message = self.fails(lambda: filled.upsert([unstorable]), InvalidMetadataError)
        assert "doc#7" in message
        assert "when" in message
        assert "object" in message

    def test_top_k_is_a_positive_int(self, store: Caller) -> None:
        """`top_k` below 1, or not an int, is refused on an empty store too."""
        for top_k in (0, -1, True, 1.5, "3", None):
            with pytest.raises(ValueError, match="top_k"):
                store.search([1, 0, 0], top_k=top_k)

    @pytest.mark.parametrize(
        "filter", [[], "x", 3, {1: "a"}, {"k": {1, 2}}, {"k": UNSET}, {"k": [UNSET]}, {"k": math.nan}]
    )
    def test_bad_filter_is_refused_everywhere(self, filled: Caller, filter: Any) -> None:
        """A filter that could not be built raises; it is never dropped, in reads or in removals."""
        self.need("count", "remove_where", "list_document_ids", "scan")
        for call in (
            lambda: filled.search([1, 0, 0], top_k=1, filter=filter),
            lambda: filled.list_documents(filter),
            lambda: filled.list_document_ids(filter),
            lambda: filled.count(filter),
            lambda: filled.scan(filter),
            lambda: filled.remove_where(filter),
        ):
            self.fails(call, InvalidFilterError)
        assert filled.count() == len(METADATA_EXAMPLES)

    def test_bad_query_is_refused(self, filled: Caller) -> None:
        """A query of another dimension, or with NaN, is refused; so is a floor of NaN."""
        self.fails(lambda: filled.search([1, 0], top_k=1), DimensionMismatchError)
        self.fails(lambda: filled.search([math.nan, 0, 0], top_k=1), ValueError)
        self.fails(lambda: filled.search([1, 0, 0], top_k=1, min_score=math.nan), ValueError)

    def test_unknown_argument_is_refused(self, filled: Caller) -> None:
        """A misspelt keyword is an error and never an unfiltered search."""
        self.fails(lambda: filled.search([1, 0, 0], top_k=1, fitler={"k": []}), TypeError)

"""The laws of a vector store as a pytest class. Inherit it, give `make_store`, and your store is held to them.

```python
class TestMyStore(VectorStoreContract):
    def make_store(self, *, dimension: int, metric: str) -> MyStore:
        return MyStore(dimension=dimension, metric=metric)
```

Every test runs in both colours. A store that lacks an optional method names it in `lacks`, with the reason.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from agora_core.errors import (
    AgoraError,
    DimensionMismatchError,
    InvalidFilterError,
    InvalidMetadataError,
    ScopeViolationError,
    UnsafeRemovalError,
)
from agora_core.filters import all_of, any_of, field, matches_filter, not_
from agora_core.metadata import UNSET, apply_metadata_patch
from agora_core.records import VectorRecord
from agora_core.testing.examples import FILTER_EXAMPLES, METADATA_EXAMPLES

Opener = Callable[..., "Caller"]


class Caller:
    """A store whose methods are called in one colour, so that each law is written once."""

    def __init__(self, store: Any, colour: str, loop: asyncio.AbstractEventLoop) -> None:
        self.store, self.colour, self._loop = store, colour, loop

    def __getattr__(self, name: str) -> Any:
        if name in ("scoped", "metric", "dimension"):
            return getattr(self.store, name)
        if self.colour == "sync":
            return getattr(self.store, name)
        native = getattr(self.store, "a" + name)
        return lambda *args, **options: self._loop.run_until_complete(native(*args, **options))

    def scan(self, *args: Any, **options: Any) -> list[VectorRecord]:
        """Read a whole scan."""
        if self.colour == "sync":
            return list(self.store.scan(*args, **options))

        async def collect() -> list[VectorRecord]:
            return [record async for record in self.store.ascan(*args, **options)]

        return self._loop.run_until_complete(collect())

    def of(self, store: Any) -> Caller:
        """Return a caller of the same colour for another store, such as a scoped view."""
        return Caller(store, self.colour, self._loop)


def record(
    id: str,
    embedding: Sequence[float] = (1.0, 0.0, 0.0),
    metadata: Mapping[str, Any] | None = None,
    *,
    text: str | None = None,
    source: str | None = None,
) -> VectorRecord:
    """Return a record with a text of its own."""
    return VectorRecord(id, text if text is not None else f"text of {id}", list(embedding), source, metadata)


class VectorStoreContract:
    """The laws. Override `make_store`; set `metrics` to those the store knows and `lacks` to what it has not."""

    metrics: ClassVar[tuple[str, ...]] = ("cosine", "l2", "inner")
    lacks: ClassVar[Mapping[str, str]] = {}
    keeps_embeddings: ClassVar[tuple[str, ...]] = ("cosine", "l2", "inner")
    """The metrics under which `get` gives back the embedding that was written, and not its unit vector."""

    def make_store(self, *, dimension: int, metric: str) -> Any:
        """Return an empty store."""
        raise NotImplementedError("override make_store(self, *, dimension, metric)")

    @pytest.fixture(params=["sync", "async"])
    def open_store(self, request: pytest.FixtureRequest) -> Iterator[Opener]:
        """Return a function that opens empty stores; they are closed when the test ends."""
        loop = asyncio.new_event_loop()
        opened: list[Caller] = []

        def open_one(metric: str | None = None, dimension: int = 3) -> Caller:
            store = self.make_store(dimension=dimension, metric=metric or self.metrics[0])
            opened.append(Caller(store, request.param, loop))
            return opened[-1]

        try:
            yield open_one
        finally:
            for caller in opened:
                if hasattr(caller.store, "aclose" if caller.colour == "async" else "close"):
                    caller.close()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    @pytest.fixture
    def store(self, open_store: Opener) -> Caller:
        """Return an empty store of dimension 3."""
        return open_store()

    def need(self, *methods: str) -> None:
        """Skip a law about a method that the store says it lacks."""
        for method in methods:
            if method in self.lacks:
                pytest.skip(f"no {method}: {self.lacks[method]}")

    def fails(self, call: Callable[[], Any], *errors: type[BaseException]) -> str:
        """Demand that a call fails with one of `errors`; return the message."""
        with pytest.raises(errors) as caught:
            call()
        return str(caught.value)

    # ---------------------------------------------------------------- writing and reading back

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

    @pytest.mark.parametrize("metadata", METADATA_EXAMPLES, ids=str)
    def test_metadata_comes_back_equal(self, store: Caller, metadata: dict[str, Any]) -> None:
        """Every JSON metadata comes back equal as JSON, types included; none and `{}` mean the same."""
        store.upsert([record("m#0", metadata=metadata)])
        (found,) = store.search([1, 0, 0], top_k=1)
        assert matches_filter({"m": found.metadata or {}}, {"m": metadata})
        assert store.list_documents()[0].id == "m"

    @pytest.mark.parametrize(
        "id", ["a", "a#0", "a#1#2", "#3", "a b", "ä#0", "日本#1", 'it\'s "x"', "%s;--", "\\", "😀#0", "a#01"]
    )
    def test_ids_are_any_text(self, store: Caller, id: str) -> None:
        """Ids are text like any other, and come back as they were."""
        store.upsert([record(id), record("other", [0, 1, 0])])
        assert store.search([1, 0, 0], top_k=1)[0].id == id

    # ---------------------------------------------------------------- refusals, and nothing half written

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
    def test_bad_record_writes_nothing(self, store: Caller, bad: VectorRecord) -> None:
        """One record that is not storable refuses the whole write, with an error that is a ValueError."""
        self.need("count")
        store.upsert([record("kept")])
        self.fails(lambda: store.upsert([record("good"), bad, record("kept", text="changed")]), ValueError)
        assert store.count() == 1
        assert store.search([1, 0, 0], top_k=5)[0].text == "text of kept"

    def test_message_names_record_and_key(self, store: Caller) -> None:
        """A refusal of metadata names the record, the key and the type."""
        message = self.fails(lambda: store.upsert([record("doc#7", metadata={"when": object()})]), InvalidMetadataError)
        assert "doc#7" in message
        assert "when" in message
        assert "object" in message

    @pytest.mark.parametrize("top_k", [0, -1, True, 1.5, "3", None])
    def test_top_k_is_a_positive_int(self, store: Caller, top_k: Any) -> None:
        """`top_k` below 1, or no int, is refused on an empty store too."""
        message = self.fails(lambda: store.search([1, 0, 0], top_k=top_k), ValueError)
        assert "top_k" in message

    @pytest.mark.parametrize(
        "filter", [[], "x", 3, {1: "a"}, {"k": {1, 2}}, {"k": UNSET}, {"k": [UNSET]}, {"k": math.nan}]
    )
    def test_bad_filter_is_refused_everywhere(self, store: Caller, filter: Any) -> None:
        """A filter that could not be built raises; it is never dropped, in reads or in removals."""
        self.need("count", "remove_where", "list_document_ids", "scan")
        store.upsert([record("a", metadata={"k": 1})])
        for call in (
            lambda: store.search([1, 0, 0], top_k=1, filter=filter),
            lambda: store.list_documents(filter),
            lambda: store.list_document_ids(filter),
            lambda: store.count(filter),
            lambda: store.scan(filter),
            lambda: store.remove_where(filter),
        ):
            self.fails(call, InvalidFilterError)
        assert store.count() == 1

    def test_bad_query_is_refused(self, store: Caller) -> None:
        """A query of another dimension, or with NaN, is refused; so is a floor of NaN."""
        store.upsert([record("a")])
        self.fails(lambda: store.search([1, 0], top_k=1), DimensionMismatchError)
        self.fails(lambda: store.search([math.nan, 0, 0], top_k=1), ValueError)
        self.fails(lambda: store.search([1, 0, 0], top_k=1, min_score=math.nan), ValueError)

    def test_unknown_argument_is_refused(self, store: Caller) -> None:
        """A misspelt keyword is an error and never an unfiltered search."""
        store.upsert([record("a")])
        self.fails(lambda: store.search([1, 0, 0], top_k=1, fitler={"k": []}), TypeError)

    # ---------------------------------------------------------------- scores, order, floor

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
            below = {"cosine": [1, 1, 0], "l2": [-1, -1, 0], "inner": [1, 4.5, 0]}[metric]
            store.upsert([record("at", stored[metric]), record("below", below)])
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

    # ---------------------------------------------------------------- filters

    @pytest.mark.parametrize("name", list(FILTER_EXAMPLES))
    def test_filter_means_the_same_everywhere(self, store: Caller, name: str) -> None:
        """Every filtered call answers what `matches_filter` answers, for every example record."""
        self.need("count", "list_document_ids", "scan")
        filter = FILTER_EXAMPLES[name]
        records = {f"r{n:02}": metadata for n, metadata in enumerate(METADATA_EXAMPLES)}
        store.upsert([record(id, [1, 0, 0], metadata) for id, metadata in records.items()])
        expected = [id for id, metadata in records.items() if matches_filter(metadata, filter)]
        assert [p.id for p in store.search([1, 0, 0], top_k=100, filter=filter)] == expected
        assert store.list_document_ids(filter) == expected
        assert [d.id for d in store.list_documents(filter)] == expected
        assert store.count(filter) == len(expected)
        assert [r.id for r in store.scan(filter)] == expected

    def test_deny_answers_nothing(self, store: Caller) -> None:
        """`[]` denies: nothing is found, listed or removed, for a missing key and an empty list too."""
        self.need("remove_where", "count")
        store.upsert([record("a", metadata={"k": []}), record("b", metadata={"k": "x"}), record("c")])
        for deny in ({"k": []}, any_of(), all_of({"k": []}, {"k": "x"}), {"k": [], "z": 1}):
            assert store.search([1, 0, 0], top_k=5, filter=deny) == []
            assert store.list_documents(deny) == []
            assert store.remove_where(deny) == 0
        assert store.count() == 3
        assert store.count({}) == 3

    # ---------------------------------------------------------------- removal

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
    def test_unbounded_removal_is_refused(self, store: Caller, filter: Any, reason: str) -> None:
        """A removal that a record without metadata would satisfy is refused, and removes nothing."""
        self.need("remove_where", "count")
        store.upsert([record("a", metadata={"k": 2}), record("b")])
        with pytest.raises(UnsafeRemovalError) as caught:
            store.remove_where(filter)
        assert caught.value.reason == reason
        assert store.count() == 2

    # ---------------------------------------------------------------- replace_documents

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

    # ---------------------------------------------------------------- update_metadata

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

    @pytest.mark.parametrize(
        "key", ["", "a.b", "a b", "it's", '"', "\\", "%s", "a[0]", "__proto__", "é", "😀", "$set", "a,b"]
    )
    def test_patch_keys_are_literal(self, store: Caller, key: str) -> None:
        """Every key is patched, matched and deleted as it stands."""
        self.need("update_metadata", "count", "get")
        store.upsert([record("a", metadata={"a": {"b": 0}, "other": 1})])
        assert store.update_metadata("a", {key: ["x"]}) == 1
        assert store.count({key: "x"}) == 0
        assert store.count({key: ["x"]}) == 1
        assert store.count({"a": {"b": 0}, "other": 1}) == 1
        assert store.update_metadata("a", {key: None}) == 1
        assert store.get(["a"])[0].metadata == {"a": {"b": 0}, "other": 1}
        assert store.count({key: ["x"]}) == 0

    # ---------------------------------------------------------------- listing

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

    # ---------------------------------------------------------------- scopes

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

    # ---------------------------------------------------------------- life

    def test_errors_have_one_root(self, store: Caller) -> None:
        """Everything the store refuses is an `AgoraError`."""
        for call in (
            lambda: store.search([1, 0, 0], top_k=0),
            lambda: store.search([1], top_k=1),
            lambda: store.search([1, 0, 0], top_k=1, filter=3),
            lambda: store.upsert([record("")]),
        ):
            self.fails(call, AgoraError)

    def test_close_twice(self, store: Caller) -> None:
        """Closing is allowed at any time, and again."""
        store.upsert([record("a")])
        store.close()
        store.close()

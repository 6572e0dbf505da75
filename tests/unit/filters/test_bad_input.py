"""Filters and records made of what nobody should hand in: none of it may widen, be misread or stay shared."""

from __future__ import annotations

import copy
import datetime as dt
import enum
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from agora_core import (
    ChunkRecord,
    ContextInjector,
    IngestDocument,
    InvalidArgumentError,
    InvalidFilterError,
    KeywordRetriever,
    MemoryVectorStore,
    Passage,
    UnsafeRemovalError,
    VectorRecord,
    all_of,
    any_of,
    apply_metadata_patch,
    chunk_documents,
    compile_filter,
    conjoin,
    field,
    filter_from_json,
    ingest_documents,
    matches_filter,
    not_,
)
from agora_core.filters.expressions import Leaf
from agora_core.retrievers.keyword import _plain_key
from agora_core.retrievers.scoped import ScopedRetriever
from agora_core.stores.memory.reading import cheap_key
from agora_core.stores.scoped import ScopedVectorStore
from agora_core.testing import FakeEmbeddingProvider


class Key(str, enum.Enum):
    """Printed it is `Key.TENANT`; as a string it is `tenant`."""

    TENANT = "tenant"


class Loud(str):
    """A string that says something else than it is."""

    def __str__(self) -> str:
        return "loud"

    def __contains__(self, part: str) -> bool:  # type: ignore[override]
        return False


class Changing(Mapping[str, Any]):
    """A mapping that is another one at each reading; the last stays."""

    def __init__(self, *states: dict[str, Any]) -> None:
        self._states = list(states)

    def _next(self) -> dict[str, Any]:
        return self._states.pop(0) if len(self._states) > 1 else self._states[0]

    def items(self) -> Any:
        return self._next().items()

    def keys(self) -> Any:
        return self._next().keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self._next())

    def __getitem__(self, key: str) -> Any:
        return self._states[-1][key]

    def __len__(self) -> int:
        return len(self._next())


class Twice(Mapping[str, Any]):
    """A mapping that gives one key twice."""

    def items(self) -> Any:
        return [("k", ["a", "b"]), ("k", ["b", "c"])]

    def __iter__(self) -> Iterator[str]:
        return iter(("k", "k"))

    def __getitem__(self, key: str) -> Any:
        return ["b", "c"]

    def __len__(self) -> int:
        return 2


def record(key: str, metadata: Any) -> VectorRecord:
    return VectorRecord(key, "text", [1.0, 0.0], metadata=metadata)


def two_tenants() -> MemoryVectorStore:
    store = MemoryVectorStore()
    store.upsert([record("a", {"tenant": "a"}), record("b", {"tenant": "b"})])
    return store


# Strings that are not what they print.


def test_a_key_from_an_enum_is_its_value() -> None:
    metadata = {"tenant": "a"}
    assert matches_filter(metadata, {Key.TENANT: "a"})
    assert not matches_filter(metadata, not_({Key.TENANT: "a"}))
    assert matches_filter(metadata, field(Key.TENANT) == "a")
    assert matches_filter(metadata, field([Key.TENANT]) == "a")
    assert apply_metadata_patch(metadata, {Key.TENANT: None}) == {}
    assert apply_metadata_patch({Key.TENANT: "b"}, {}) == {"tenant": "b"}


def test_an_id_from_an_enum_is_its_value_in_store_and_keyword_index() -> None:
    store = MemoryVectorStore()
    store.upsert([VectorRecord(Key.TENANT, Key.TENANT, [1.0], source=Key.TENANT, metadata={Key.TENANT: Key.TENANT})])
    (stored,) = store.get([Key.TENANT])
    kinds = {type(value) for value in (stored.id, stored.text, stored.source, *(stored.metadata or {}))}
    assert kinds == {str}
    assert stored.metadata == {"tenant": "tenant"}
    assert store.remove(Key.TENANT) == 1
    keyword = KeywordRetriever()
    keyword.add([ChunkRecord(Key.TENANT, Loud("some words"), metadata={Loud("k"): 1})])
    (found,) = keyword.retrieve("words", filter={"k": 1})
    assert (type(found.id), type(found.text), found.text) == (str, str, "some words")
    assert keyword.remove(Key.TENANT) == 1


def test_a_document_id_from_an_enum_is_its_value() -> None:
    document = IngestDocument(Key.TENANT, "some words")
    assert [chunk.id for chunk in chunk_documents([document])] == ["tenant#0"]
    store = MemoryVectorStore()
    assert ingest_documents([document, document], embedder=FakeEmbeddingProvider(), store=store) == 1
    assert store.list_document_ids() == ["tenant"]


def test_a_string_that_hides_a_nul_is_found_out() -> None:
    with pytest.raises(InvalidArgumentError, match="U\\+0000"):
        MemoryVectorStore().upsert([VectorRecord(Loud("a\x00b"), "text", [1.0])])
    with pytest.raises(InvalidArgumentError, match="U\\+0000"):
        compile_filter({Loud("a\x00b"): 1})
    with pytest.raises(InvalidArgumentError, match="U\\+0000"):
        field(["a", Loud("b\x00")])


# What was handed in is read once and not kept.


@pytest.mark.parametrize(
    ("given", "change"),
    [
        ({"k": (["a"],)}, lambda given: given["k"][0].append("b")),
        ({"k": ["a"]}, lambda given: given["k"].append("b")),
        ({"k": OrderedDict(a=1)}, lambda given: given["k"].update(a=2)),
        ({"k": [OrderedDict(a=1)]}, lambda given: given["k"][0].update(a=2)),
        ({"k": "a"}, lambda given: given.clear()),
    ],
)
def test_a_scope_does_not_follow_its_giver(given: dict[str, Any], change: Callable[[Any], None]) -> None:
    view, retriever = MemoryVectorStore().scoped(given), KeywordRetriever().scoped(given)
    before = view.scope
    change(given)
    assert view.scope == before
    assert retriever.scope == before


class Greedy:
    """A store and a retriever that change the filter they are handed."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def search(self, embedding: Any, *, top_k: int, filter: Any) -> list[Any]:
        self.seen.append(copy.deepcopy(filter))
        filter["tags"].append("b")
        filter.pop("tenant")
        return []

    def retrieve(self, query: str, *, top_k: int = 5, filter: Any = None, min_score: Any = None) -> list[Any]:
        return self.search([], top_k=top_k, filter=filter)


def test_whoever_answers_in_a_scope_cannot_change_it() -> None:
    greedy, scope = Greedy(), {"tenant": "a", "tags": ["a"]}
    retriever = Greedy()
    store_view, scoped_retriever = ScopedVectorStore(greedy, scope), ScopedRetriever(retriever, scope)
    for filter in (None, {"x": 1}, None):
        store_view.search([1.0], top_k=1, filter=filter)
        scoped_retriever.retrieve("q", filter=filter)
    assert greedy.seen == retriever.seen == [scope, {**scope, "x": 1}, scope]


def test_the_value_in_an_expression_cannot_be_changed_from_outside() -> None:
    expression = field("k") == ["a", {"b": [1]}]
    assert isinstance(expression, Leaf)
    expression.operand.value.append("b")
    expression.operand.value[1]["b"].append(2)
    expression.to_json()["value"].append("c")
    assert matches_filter({"k": ["a", {"b": [1]}]}, expression)
    assert expression == (field("k") == ["a", {"b": [1]}])


def test_a_mapping_that_changes_cannot_widen_a_scope() -> None:
    view = two_tenants().scoped({"tenant": "a"})
    for states in ([{}, {"tenant": "b"}], [{"x": 1}, {"tenant": "b"}], [{"tenant": "b"}, {}]):
        found = view.search([1.0, 0.0], top_k=9, filter=Changing(*states))
        assert [passage.id for passage in found] in ([], ["a"])


def test_a_mapping_that_changes_cannot_unbind_a_removal() -> None:
    for narrow in (True, False):
        store = two_tenants()
        target: Any = store.scoped({}) if narrow else store
        assert target.remove_where(Changing({"tenant": "a"}, {})) == 1
        assert [entry.id for entry in store.list_documents()] == ["b"]
    with pytest.raises(UnsafeRemovalError):
        two_tenants().remove_where(Changing({}, {"tenant": "a"}))


def test_a_key_given_twice_holds_twice() -> None:
    assert conjoin(Twice(), None) == all_of({"k": ["a", "b"]}, {"k": ["b", "c"]})
    assert matches_filter({"k": "b"}, Twice())
    assert not matches_filter({"k": "c"}, Twice())


def test_an_answer_of_a_hook_that_changes_is_read_once() -> None:
    class Recording:
        seen: Any = None

        def retrieve(self, query: str, *, filter: Any = None, **options: Any) -> list[Passage]:
            self.seen = filter
            return []

    retriever = Recording()
    ContextInjector(retriever, retrieval_filter=lambda actor: Changing({"tenant": "a"}, {})).inject("q", actor=None)
    assert retriever.seen == {"tenant": "a"}


# Values and shapes.


@pytest.mark.parametrize(
    "build",
    [
        lambda: 1 < field("x") < 3,
        lambda: not field("x"),
        lambda: field("x") in ["a", "b"],
        lambda: bool(field("x") > 1),
        lambda: np.array([1, 2]) == field("x"),
        lambda: any_of({"a": 1}) and any_of({"b": 1}),
    ],
)
def test_what_python_would_decide_by_truth_is_refused(build: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match="no truth value"):
        build()


@pytest.mark.parametrize(
    "value",
    [
        *(np.int64(1), np.bool_(True), np.array([1]), np.float32(1)),
        *(float("nan"), float("-inf"), 2**63, -(2**63) - 1, {"a": {"b": float("nan")}}),
        *({1: 2}, {"a", "b"}, b"a", object(), [[object()]]),
        *("\ud800", {"\ud800": 1}, "a\x00"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_json_is_refused_wherever_it_stands(value: Any) -> None:
    for build in (
        lambda: compile_filter({"k": value}),
        lambda: compile_filter({"k": [value]}),
        lambda: compile_filter({"k": {"deep": value}}),
        lambda: field("k") == value,
        lambda: field("k") != value,
        lambda: field("k").in_([value]),
        lambda: field("k").not_in([value]),
        lambda: field("k") > value,
        lambda: filter_from_json({"field": "k", "op": "==", "value": value}),
        lambda: conjoin({"a": 1}, {"k": value}),
    ):
        with pytest.raises(InvalidFilterError):
            build()


@pytest.mark.parametrize("values", [np.array(1), bytearray(b"ab"), memoryview(b"ab"), b"ab", "ab", {"a": 1}, 1, None])
def test_what_is_no_list_of_values_is_refused(values: Any) -> None:
    for method in (field("k").in_, field("k").not_in, field("k").contains_any, field("k").contains_all):
        with pytest.raises(InvalidFilterError, match="list of values"):
            method(values)


class NoOffset(dt.tzinfo):
    """A time zone that does not know its offset."""

    def utcoffset(self, moment: dt.datetime | None) -> None:
        return None

    def dst(self, moment: dt.datetime | None) -> None:
        return None

    def tzname(self, moment: dt.datetime | None) -> str:
        return "nowhere"


def test_a_datetime_without_an_offset_or_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(InvalidFilterError, match="no time zone"):
        field("at").in_([dt.datetime(2024, 1, 1, tzinfo=NoOffset())])
    with pytest.raises(InvalidFilterError, match="years 1 to 9999"):
        field("at").in_([dt.datetime.min.replace(tzinfo=dt.timezone(dt.timedelta(hours=1)))])


def test_nesting_without_end_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["k"] = loop
    with pytest.raises(InvalidFilterError, match="nested"):
        compile_filter(loop)
    data: Any = {"field": "k", "op": "exists"}
    for _ in range(100_000):
        data = {"not": data}
    with pytest.raises(InvalidFilterError, match="nested"):
        filter_from_json(data)
    data = {"field": "k", "op": "exists"}
    for _ in range(100):
        data = {"any_of": [data, {"all_of": []}]}
    with pytest.raises(InvalidFilterError, match="nested"):
        filter_from_json(data)


@pytest.mark.parametrize(
    "data",
    [
        {"field": "k", "op": "exists", "case_sensitive": True},
        {"field": "k", "op": "exists", "value": None},
        {"field": "k", "op": "==", "value": 1, "case_sensitive": False},
        {"field": "k", "op": "matches_text", "value": "a", "case_sensitive": 1},
        {"field": "k", "op": ["=="], "value": 1},
        {"field": "k", "op": "__ne__", "value": 1},
        {"field": "k", "op": "in", "value": "abc"},
        {"field": [], "op": "exists"},
        {"field": ["a", 1], "op": "exists"},
        {"all_of": {"field": "k"}},
        {"all_of": [], "not": {}},
        {1: []},
        [],
        None,
    ],
    ids=str,
)
def test_json_that_is_no_filter_is_refused_whole(data: Any) -> None:
    with pytest.raises(InvalidFilterError):
        filter_from_json(data)


def test_fields_and_expressions_survive_pickle_and_copy() -> None:
    place = field(["a.b", "c"])
    expression = all_of({"k": [1, {"a": None}]}, place > 3, not_(place.matches_text("\u212a", case_sensitive=False)))
    for again in (pickle.loads(pickle.dumps(place)), copy.copy(place), copy.deepcopy(place)):
        assert again.path == place.path
    for same in (pickle.loads(pickle.dumps(expression)), copy.deepcopy(expression)):
        assert same == expression


def test_no_error_shows_the_values_of_a_filter() -> None:
    secret = field("acl") == "token-of-alice"
    with pytest.raises(InvalidFilterError) as caught:
        field("acl").in_([secret])
    assert "token-of-alice" not in str(caught.value)


def test_a_floor_beyond_every_float_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="min_score"):
        MemoryVectorStore(dimension=1).search([1.0], top_k=1, min_score=10**400)


@pytest.mark.parametrize("on_write", ["check", "stamp"])
@pytest.mark.parametrize("records", [None, 1, "abc", b"abc", [1], [None], {"a": 1}, VectorRecord("a", "t", [1.0])])
def test_what_is_no_record_is_refused_in_a_scope_too(on_write: Any, records: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="must be a"):
        MemoryVectorStore().scoped({"tenant": "a"}, on_write=on_write).upsert(records)


@pytest.mark.parametrize("metadata", [[1], "ab", 0, {"k": object()}, {1: 2}])
def test_a_stamp_does_not_excuse_metadata(metadata: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="'a'"):
        MemoryVectorStore().scoped({"tenant": "a"}, on_write="stamp").upsert([record("a", metadata)])


def test_what_a_mapping_becomes_is_not_remembered_under_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread may change a mapping between the reading of its key and of its values."""
    store, keyword = two_tenants(), KeywordRetriever()
    keyword.add([ChunkRecord(tenant, "words", metadata={"tenant": tenant}) for tenant in ("a", "b")])
    shared = {"tenant": "a"}

    def then_changed(key_of: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def read(filter: Any) -> Any:
            key = key_of(filter)
            if filter is shared:
                shared["tenant"] = "b"
            return key

        return read

    monkeypatch.setattr("agora_core.stores.memory.store.cheap_key", then_changed(cheap_key))
    monkeypatch.setattr("agora_core.retrievers.keyword._plain_key", then_changed(_plain_key))
    store.count(shared)
    shared["tenant"] = "a"
    keyword.retrieve("words", filter=shared)
    assert [passage.id for passage in store.search([1.0, 0.0], top_k=9, filter={"tenant": "a"})] == ["a"]
    assert [passage.id for passage in keyword.retrieve("words", filter={"tenant": "a"})] == ["a"]


OPERATORS: tuple[Any, ...] = (
    {"$in": ["a"]},
    {"$ne": ""},
    {"$not": {"$in": []}},
    {"$gte": 1, "$lt": 3},
    {"$exists": True},
    {"$like": "%"},
    [{"$eq": "a"}],
    ["a", [{"$ne": "b"}]],
    {"inner": {"$nin": []}},
    {"inner": [{"deeper": {"$between": [1, 2]}}]},
    {Loud("$ne"): 1},
)


@pytest.mark.parametrize("value", OPERATORS, ids=repr)
def test_operators_of_other_systems_are_no_values(value: Any) -> None:
    """Data read as syntax, the other way round: as an object to compare with it matched nothing, negated everything."""
    store = MemoryVectorStore(dimension=1)
    store.upsert([VectorRecord("r#0", "text", [1.0], None, {"k": "a"})])
    for call in (
        lambda: compile_filter({"k": value}),
        lambda: all_of({"j": 1, "k": value}),
        lambda: not_({"k": value}),
        lambda: matches_filter({}, {"k": value}),
        lambda: conjoin({"j": 1}, {"k": value}),
        lambda: store.scoped({"k": value}),
        lambda: store.search([1.0], top_k=1, filter={"k": value}),
        lambda: store.count({"k": value}),
    ):
        with pytest.raises(InvalidFilterError, match=r"operator '\$\w+' inside an object, .* has none: write "):
            call()


@pytest.mark.parametrize("filter", [{"$or": [{"k": "a"}]}, {"$and": []}, {"$not": {"k": "a"}}, {"$nor": [{"k": 1}]}])
def test_operators_around_filters_are_no_keys(filter: Any) -> None:
    if filter == {"$and": []}:
        assert compile_filter(filter) == any_of()
        return
    with pytest.raises(InvalidFilterError, match=r"write (all|any|not)_"):
        not_(filter)


@pytest.mark.parametrize("value", [{}, {"$ref": "x"}, {"$in": 1, "plain": 2}, {"a": {"$schema": "x", "$in": 1}}, "$in"])
def test_other_objects_are_compared_as_they_stand(value: Any) -> None:
    assert matches_filter({"k": value}, {"k": value})
    assert not matches_filter({"k": "a"}, {"k": value})


def test_a_field_compares_with_such_an_object_literally() -> None:
    stored = {"k": {"$in": ["a"]}, "l": [{"$ne": 1}]}
    assert matches_filter(stored, field("k") == {"$in": ["a"]})
    assert matches_filter(stored, field("l").contains_any([{"$ne": 1}]))
    assert not matches_filter({"k": "a"}, field("k") == {"$in": ["a"]})

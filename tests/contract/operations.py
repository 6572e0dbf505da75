"""Random operations on stores, hostile on purpose, and the comparison of any store with the plain model."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from agora_core.errors import AgoraError
from agora_core.filters import all_of, any_of, field, not_
from agora_core.metadata import UNSET
from agora_core.protocols import AnyFilter
from agora_core.records import Passage, VectorRecord
from tests.contract.model import PlainModelStore

T = TypeVar("T")
DIMENSION = 3
TOLERANCE = 1e-5

DOCUMENTS = ("a", "A", "b", "a#1", "ä", "日本", 'it\'s "x"', "%s", "a b", "\\", "__proto__", "😀")
KEYS = ("k", "j", "a.b", "a", "", "__proto__", 'it\'s "q"', "a[0]", "é x", "$eq")
PATHS = ("k", "j", "k.b", "k.b.c", r"a\.b", "a.b", "a", "absent")
SCALARS: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    1.0,
    -0.0,
    1.5,
    -3,
    2**53,
    2**53 + 1,
    -(2**63),
    2**63 - 1,
    1e21,
    1e-7,
    "",
    "1",
    "true",
    "a",
    "A",
    "b",
    "ab",
    "é",
    "O'Brien",
    '"\\%_:x;--',
    "😀",
    "y" * 300,
)
COMPOUNDS: tuple[Any, ...] = (
    [],
    ["a"],
    ["a", "b"],
    [1, "1", True, None],
    [["a"]],
    [{"b": 1}],
    {},
    {"b": 1},
    {"b": 1.0, "c": [1]},
    {"b": {"c": "a"}},
    {"b": ["a"]},
    {"b": None},
)
VALUES = SCALARS + COMPOUNDS
COORDINATES = (-2.0, -1.0, 0.0, 0.0, 1.0, 3.0)


class Chooser(Protocol):
    """Where randomness comes from: hypothesis, which shrinks, or a seeded generator, which is fast."""

    def choose(self, among: Sequence[T]) -> T: ...


class SeededChooser:
    """A chooser over `random.Random`."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def choose(self, among: Sequence[T]) -> T:
        return self._random.choice(among)


def some(chooser: Chooser, among: Sequence[T], most: int) -> list[T]:
    return [chooser.choose(among) for _ in range(chooser.choose(range(most + 1)))]


def draw_metadata(chooser: Chooser) -> dict[str, Any] | None:
    if chooser.choose(range(8)) == 0:
        return None
    return {key: chooser.choose(VALUES) for key in some(chooser, KEYS, 3)}


def draw_embedding(chooser: Chooser) -> list[float]:
    return [chooser.choose(COORDINATES) for _ in range(DIMENSION)]


def draw_id(chooser: Chooser) -> str:
    document = chooser.choose(DOCUMENTS)
    number = chooser.choose((None, 0, 1, 2, 10))
    return document if number is None else f"{document}#{number}"


def draw_record(chooser: Chooser) -> VectorRecord:
    source = chooser.choose((None, "", "s.md"))
    text = chooser.choose(("", "some text", "O'Brien % \\ 😀"))
    context = chooser.choose((None, None, "Title"))
    return VectorRecord(draw_id(chooser), text, draw_embedding(chooser), source, draw_metadata(chooser), context)


def draw_leaf(chooser: Chooser) -> AnyFilter:
    place = field(chooser.choose(PATHS))
    kind = chooser.choose(range(13))
    if kind in (0, 1):
        equal: Callable[[Any], AnyFilter] = place.__eq__ if kind == 0 else place.__ne__
        return equal(chooser.choose(VALUES))
    if kind == 2:
        return place.in_(some(chooser, VALUES, 3))
    if kind == 3:
        return place.not_in(some(chooser, VALUES, 3))
    if kind == 4:
        return place.contains_any(some(chooser, VALUES, 3))
    if kind == 5:
        return place.contains_all(some(chooser, VALUES, 2))
    if kind == 6:
        return place.exists()
    if kind == 7:
        return place.is_null()
    if kind == 8:
        return place.matches_text(
            chooser.choose(("", "a", "A", "%", "é", "É")), case_sensitive=chooser.choose((True, False))
        )
    if kind in (9, 10):
        bound = chooser.choose(
            [value for value in SCALARS if isinstance(value, (int, float, str)) and value not in (True, False)]
        )
        compare: Callable[[Any], Any] = chooser.choose((place.__lt__, place.__le__, place.__gt__, place.__ge__))
        result: AnyFilter = compare(bound)
        return result
    return draw_mapping(chooser)


def draw_mapping(chooser: Chooser) -> dict[str, Any]:
    return {
        key: some(chooser, VALUES, 3) if chooser.choose((True, False)) else chooser.choose(SCALARS + COMPOUNDS[6:])
        for key in some(chooser, KEYS, 2)
    }


def draw_filter(chooser: Chooser, depth: int = 2) -> AnyFilter:
    kind = chooser.choose(range(7 if depth else 3))
    if kind < 2:
        return draw_mapping(chooser)
    if kind < 4:
        return draw_leaf(chooser)
    if kind == 4:
        return not_(draw_filter(chooser, depth - 1))
    combine = all_of if kind == 5 else any_of
    return combine(*(draw_filter(chooser, depth - 1) for _ in range(chooser.choose(range(1, 4)))))


def draw_patch(chooser: Chooser) -> dict[str, Any]:
    return {key: chooser.choose((UNSET, None, *VALUES)) for key in some(chooser, KEYS, 3)}


SCOPES: tuple[AnyFilter, ...] = ({"k": "a"}, {"k": ["a", 1]}, field("k").exists(), any_of({"j": 1}, field("k") >= 1))

Operation = tuple[str, tuple[Any, ...], dict[str, Any]]


def draw_operation(chooser: Chooser) -> Operation:
    """Draw one operation as (method, arguments, options); writes are a third, so that stores fill and empty."""
    kind = chooser.choose(range(16))
    within = {"within": chooser.choose(SCOPES)} if chooser.choose(range(4)) == 0 else {}
    if kind in (0, 1):
        return "upsert", ([draw_record(chooser) for _ in range(chooser.choose(range(1, 5)))],), within
    if kind == 2:
        documents = some(chooser, DOCUMENTS, 2)
        return "replace_documents", (documents, [draw_record(chooser) for _ in range(chooser.choose(range(3)))]), within
    if kind in (3, 4):
        return "update_metadata", (chooser.choose(DOCUMENTS), draw_patch(chooser)), within
    if kind == 5:
        return "remove", (chooser.choose(DOCUMENTS),), within
    if kind == 6:
        return "delete", ([draw_id(chooser) for _ in range(chooser.choose(range(3)))],), within
    if kind == 7:
        return "remove_where", (all_of(draw_filter(chooser), {"k": chooser.choose(VALUES)}),), {}
    if kind == 8:
        return "get", ([draw_id(chooser) for _ in range(chooser.choose(range(6)))],), within
    if kind == 9:
        return chooser.choose(("list_documents", "list_document_ids", "count")), (), {}
    if kind == 10:
        return chooser.choose(("list_documents", "list_document_ids", "count", "scan")), (draw_filter(chooser),), {}
    options: dict[str, Any] = {"top_k": chooser.choose((1, 2, 3, 5, 50))}
    if chooser.choose(range(4)):
        options["filter"] = draw_filter(chooser)
    if chooser.choose(range(3)) == 0:
        options["min_score"] = chooser.choose((-3.0, -1.0, 0.0, 0.5, 1.0, 2.0))
    return "search", (draw_embedding(chooser),), options


def run(store: Any, operation: Operation, loop: asyncio.AbstractEventLoop | None = None) -> Any:
    """Run an operation in either colour; an error of ours is an answer, by its kind."""
    method, arguments, options = operation
    try:
        if loop is None:
            result = getattr(store, method)(*arguments, **options)
            return list(result) if method == "scan" else result
        if method == "scan":

            async def collect() -> list[VectorRecord]:
                return [record async for record in store.ascan(*arguments, **options)]

            return loop.run_until_complete(collect())
        return loop.run_until_complete(getattr(store, "a" + method)(*arguments, **options))
    except AgoraError as error:
        return type(error)


def check(model: PlainModelStore, operation: Operation, expected: Any, actual: Any, *, unit_vectors: bool) -> None:
    """Demand that a store answered an operation as the model did."""
    method, arguments, options = operation
    if method == "search" and isinstance(expected, list):
        check_search(model, arguments[0], options, actual)
    elif method in ("get", "scan") and isinstance(expected, list):
        assert [r.id for r in actual] == [r.id for r in expected]
        for theirs, ours in zip(actual, expected, strict=True):
            assert (theirs.text, theirs.source, theirs.context) == (ours.text, ours.source, ours.context)
            assert same_json(theirs.metadata or {}, ours.metadata or {})
            check_embedding(theirs.embedding, ours.embedding, unit=unit_vectors)
    elif method == "list_documents" and isinstance(expected, list):
        assert [d.id for d in actual] == [d.id for d in expected]
        for ours, theirs in zip(expected, actual, strict=True):
            assert same_json(ours.metadata or {}, theirs.metadata or {})
    else:
        assert actual == expected


def check_embedding(actual: Sequence[float], expected: Sequence[float], *, unit: bool) -> None:
    norm = sum(x * x for x in expected) ** 0.5 if unit else 1.0
    assert all(abs(a - e / (norm or 1.0)) < TOLERANCE for a, e in zip(actual, expected, strict=True))


def same_json(left: Any, right: Any) -> bool:
    """Equal as JSON, with no bool taken for a number."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same_json(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same_json, left, right))
    return bool(left == right)


def check_search(model: PlainModelStore, query: Sequence[float], options: dict[str, Any], actual: Any) -> None:
    """Compare a ranking: the same scores place by place; ties may only differ where rounding made them."""
    assert isinstance(actual, list), actual
    whole = {p.id: p for p in model.search(query, top_k=10**6, filter=options.get("filter"))}
    floor = options.get("min_score", float("-inf"))
    sure = [p for p in whole.values() if p.score >= floor + 1e-6]
    possible = [p for p in whole.values() if p.score >= floor - 1e-6]
    exact = [p for p in whole.values() if p.score >= floor]
    top_k = options["top_k"]
    assert min(top_k, len(sure)) <= len(actual) <= min(top_k, len(possible))
    ranked = sorted(exact if len(actual) <= len(exact) else possible, key=lambda p: -p.score)
    for place, found in enumerate(actual):
        assert found.id in whole, f"{found.id} does not match the filter"
        ours = whole[found.id]
        assert abs(found.score - ours.score) < TOLERANCE
        assert abs(found.score - ranked[place].score) < TOLERANCE
        assert (found.text, found.source) == (ours.text, ours.source)
        assert same_json(found.metadata or {}, ours.metadata or {})
    order = [(-p.score, p.id) for p in actual]
    assert order == sorted(order), "equal scores do not stand in the order of their ids"
    assert len({p.id for p in actual}) == len(actual)
    check_cut(model, actual, whole, floor)


def check_cut(model: PlainModelStore, actual: list[Passage], whole: dict[str, Passage], floor: float) -> None:
    """Of records with one and the same embedding, those inside the cut must be the ones with the smallest ids."""
    inside = {p.id for p in actual}
    alike: dict[tuple[float, ...], list[str]] = {}
    for id, passage in sorted(whole.items()):
        if passage.score >= floor:
            alike.setdefault(tuple(model.records[id].embedding), []).append(id)
    for ids in alike.values():
        taken = [id for id in ids if id in inside]
        assert taken == ids[: len(taken)], "a tie at the cut was not broken by id"

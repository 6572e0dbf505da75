"""Every backend under hostile keys, values at the limits, numbers without bounds and tenants that race for one id."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agora_core import Passage, ScopeViolationError, VectorRecord, all_of, any_of, field, matches_filter, not_
from tests.contract.backends import Backend, open_backends


@pytest.fixture(scope="module")
def backends(pg_conninfo: str) -> Iterator[list[Backend]]:
    with open_backends(pg_conninfo) as opened:
        yield [backend for backend in opened.all if backend.colour == "sync"]


def record(key: str, metadata: Any, text: str = "") -> VectorRecord:
    return VectorRecord(key, text, [1.0, 0.0, 0.0], metadata=metadata)


# A token is a mark, the length of the key, a colon, the key, a type and the value: what could be taken for another?
KEYS = ["", "k", "a.b", "1:k", "k:1", "=1:k", "k" * 247, "k" * 248, "k" * 249, "é" * 124, "😀", "\uffff", "\x01", "%s"]
KEYS += ["'\"\\", "{k}", "#", "$eq", "k#0", "agora", "metadata", "\u0130"]
NUMBERS = [0, -0.0, 1, True, 1e308, -1e308, 5e-324, -5e-324, 2**53, 2**53 + 1, float(2**53), 2**63 - 1, float(2**63)]
NUMBERS += [-(2**63), -float(2**63), 0.1, 0.30000000000000004, 1e16, 1e22, 1e23]
# Characters whose case changes their number, or meets another's.
TEXTS = ["", "k", "K", "\u212a", "s", "\u017f", "ß", "ẞ", "ss", "İ", "i\u0307", "i", "ı", "Σ", "σ", "ς", "ﬁ", "fi", "1"]
TEXTS += ["true", "null", "x" * 54, "x" * 55, "x" * 249, "x" * 250, "é" * 125, "á", "a\u0301", "%", "_", "\\"]
SHAPES: list[Any] = [
    None,
    [],
    {},
    [[]],
    [{}],
    [None],
    [True],
    [1.0],
    ["1"],
    {"": 1},
    {"a.b": 1},
    {"a": {"b": 1}},
    ["s"],
]


def test_keys_and_values_mean_the_same_everywhere(backends: list[Backend]) -> None:
    place = field("v")
    records = [record(f"key{n:02}", {key: key, "v": [key]}) for n, key in enumerate(KEYS)]
    records += [record(f"value{n:03}", {"v": value}) for n, value in enumerate([*NUMBERS, *TEXTS, *SHAPES])]
    records.append(record("nothing", None))
    filters: list[Any] = [{key: key} for key in KEYS]
    filters += [{"v": KEYS}, not_({"v": KEYS}), all_of(*(not_(field([key]).exists()) for key in KEYS))]
    filters += [any_of(*({key: [key, 1]} for key in KEYS)), field([KEYS[1], KEYS[2]]).exists()]
    filters += [{"v": value if not isinstance(value, list) else [value]} for value in [*NUMBERS, *TEXTS, *SHAPES]]
    filters += [compare for n in NUMBERS[4:] for compare in (place < n, not_(place >= n))]
    filters += [place <= text for text in TEXTS[1:12]]
    filters += [place.matches_text(text, case_sensitive=False) for text in TEXTS]
    filters += [not_(place.matches_text(text)) for text in ("", "\u212a", "%", "_", "\\")]
    for backend in backends:
        store = backend.empty("cosine")
        store.upsert(records)
        for filter in filters:
            expected = sorted(one.id for one in records if matches_filter(one.metadata, filter))
            assert store.list_document_ids(filter) == expected, (backend.name, filter)
        read = {one.id: one.metadata for one in store.scan()}
        for one in records:
            # Equal as JSON, and of the same types: a float does not come back as an int.
            assert matches_filter(read[one.id], all_of({}, *(field([k]) == v for k, v in (one.metadata or {}).items())))
            if isinstance(value := (one.metadata or {}).get("v"), (int, float)):
                assert type((read[one.id] or {})["v"]) is type(value)


@pytest.mark.parametrize("top_k", [2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**64, 10**30])
def test_a_top_k_without_bounds_means_all(backends: list[Backend], top_k: int) -> None:
    for backend in backends:
        store = backend.empty("cosine")
        store.upsert([record("a", {"v": "x"}), record("b", {"v": "y"})])
        for filter, ids in ((None, ["a", "b"]), ({"v": "x"}, ["a"]), (field("v").matches_text("Y"), [])):
            found: list[Passage] = store.search(
                [1, 0, 0], top_k=top_k, **({} if filter is None else {"filter": filter})
            )
            assert [passage.id for passage in found] == ids, backend.name


@pytest.mark.parametrize("count", [1, 120], ids=["one", "many"])
@pytest.mark.parametrize("exact", [True, False], ids=["exact", "searched"])
def test_of_tenants_that_race_for_an_id_one_has_it(backends: list[Backend], count: int, exact: bool) -> None:
    """Whoever is refused has changed nothing, and nobody takes over what another has."""
    scopes = {t: {"t": t} if exact else all_of({"t": t}, field("t").matches_text(t)) for t in "abc"}
    for backend in backends:
        store, rounds = backend.empty("cosine"), 4
        won: dict[int, list[str]] = {n: [] for n in range(rounds)}
        start = threading.Barrier(len(scopes))

        def write(
            tenant: str, store: Any = store, won: dict[int, list[str]] = won, start: threading.Barrier = start
        ) -> None:
            view = store.scoped(scopes[tenant], on_write="stamp" if exact else "check")
            for n in won:
                records = [record(f"r{n}#{m}", {"t": tenant}, tenant) for m in range(count)]
                start.wait(60)
                try:
                    view.upsert(records) if n % 2 else view.replace_documents([f"r{n}"], records)
                except ScopeViolationError:
                    continue
                won[n].append(tenant)

        threads = [threading.Thread(target=write, args=(tenant,)) for tenant in scopes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        for n, tenants in won.items():
            owners = {(one.text, (one.metadata or {})["t"]) for one in store.get([f"r{n}#{m}" for m in range(count)])}
            assert len(tenants) == 1, (backend.name, n, tenants)
            assert owners == {(tenants[0], tenants[0])}, backend.name
        assert store.count() == rounds * count

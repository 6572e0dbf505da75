"""The cut by document, and the growing loop against cutting the whole ranking."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agora_core.errors import InvalidArgumentError
from agora_core.records import Passage
from agora_core.steps import Steps, run
from agora_core.stores.per_document import check_per_document, cut_per_document, grow

documents = st.lists(st.sampled_from("abcdef"), max_size=80)


def ranking(owners: list[str]) -> list[Passage]:
    return [Passage(f"{owner}#{n}", "", -float(n)) for n, owner in enumerate(owners)]


@example(["a"] * 60 + ["b", "c"], 3, 1, None)
@example(["a", "a", "b"], 2, 1, 1)
@given(documents, st.integers(1, 9), st.integers(1, 4), st.none() | st.integers(1, 30))
def test_growing_gives_what_cutting_the_whole_ranking_gives(
    owners: list[str], top_k: int, per_document: int, first: int | None
) -> None:
    whole = ranking(owners)
    asked: list[int] = []

    def fetch(count: int) -> Steps[list[Passage]]:
        asked.append(count)
        yield from ()
        return whole[:count]

    got = run(grow(fetch, top_k=top_k, per_document=per_document, first=first))
    expected = [p for n, p in enumerate(whole) if owners[:n].count(owners[n]) < per_document][:top_k]
    assert got == expected == cut_per_document(whole, per_document, top_k)
    assert asked == sorted(set(asked))


def test_without_a_bound_the_ranking_is_asked_for_once() -> None:
    asked: list[int] = []

    def fetch(count: int) -> Steps[list[Passage]]:
        asked.append(count)
        yield from ()
        return ranking(["a"] * 50)[:count]

    assert len(run(grow(fetch, top_k=5, per_document=None))) == 5
    assert asked == [5]


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "1", float("nan")])
def test_a_count_below_one_or_of_another_type_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match="per_document"):
        check_per_document(value)

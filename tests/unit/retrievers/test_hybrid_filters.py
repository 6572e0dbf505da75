"""Legs of a hybrid that change the filter they are handed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agora_core import HybridRetriever, InvalidFilterError, Passage


class Greedy:
    """A leg that takes its filter apart, as stores do that pop what they understand."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def retrieve(self, query: str, *, filter: Any = None, **options: Any) -> list[Passage]:
        self.seen.append({key: list(value) for key, value in filter.items()})
        filter["acl"].append("b")
        filter.clear()
        return []


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("scoped", [False, True])
def test_no_leg_changes_the_filter_of_another_nor_of_the_caller(asynchronous: bool, scoped: bool) -> None:
    legs = [Greedy(), Greedy(), Greedy()]
    hybrid, given = HybridRetriever(legs), {"acl": ["a"]}
    target: Any = hybrid.scoped(given) if scoped else hybrid
    options = {} if scoped else {"filter": given}
    for _ in range(2):
        asyncio.run(target.aretrieve("q", **options)) if asynchronous else target.retrieve("q", **options)
    assert [leg.seen for leg in legs] == [[{"acl": ["a"]}] * 2] * 3
    assert given == {"acl": ["a"]}


@pytest.mark.parametrize("filter", [{"k": object()}, [], "k = 1", False, 0], ids=range(5))
def test_a_filter_that_cannot_be_built_reaches_no_leg(filter: Any) -> None:
    leg = Greedy()
    with pytest.raises(InvalidFilterError):
        HybridRetriever([leg]).retrieve("q", filter=filter)
    with pytest.raises(InvalidFilterError):
        asyncio.run(HybridRetriever([leg]).aretrieve("q", filter=filter))
    assert leg.seen == []

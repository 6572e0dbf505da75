"""The kit for adapters: every name it lists is there, and a foreign answer is held to its call."""

from __future__ import annotations

import pytest

from agora_core import Passage
from agora_core import adapting as adapting
from agora_core.errors import MissingExtraError
from agora_core.extras import lazy_attributes


def test_a_foreign_answer_is_matched_floored_and_cut() -> None:
    found = [Passage(f"{'ab'[n % 2]}#{n}", "", 1.0 - n / 10, None, {"n": n % 3}) for n in range(9)]
    cut = adapting.cut_answer(found, top_k=3, filter={"n": [0, 1]}, min_score=0.35, per_document=1)
    assert [passage.id for passage in cut] == ["a#0", "b#1"]
    assert adapting.cut_answer(found) == found
    assert adapting.cut_answer(found, filter={"n": []}) == []


def test_a_late_package_says_what_it_needs() -> None:
    lazily = lazy_attributes("agora_core", {"Passage": "records"}, needs=("json", "none"))
    assert lazily("Passage") is Passage
    with pytest.raises(AttributeError, match="no attribute 'Passages_'"):
        lazily("Passages_")
    with pytest.raises(MissingExtraError, match=r"agora-retrieval\[some-extra\]"):
        lazy_attributes("agora_core", {"Passage": "records"}, needs=("no_such_package", "some-extra"))("Passage")

"""The golden cases of the context block."""

from __future__ import annotations

import pytest

from agora_core import Passage, render_context
from tests.golden_cases import GoldenCase, drop_undefined, golden_params


# `closing_tag`: the original escapes nothing; here a passage cannot close the block it stands in.
@pytest.mark.parametrize("case", golden_params("context_block", without=("fixed/closing_tag",)))
def test_context_block(case: GoldenCase) -> None:
    passages = [Passage(**one) for one in drop_undefined(case.input["passages"])]
    # The original's code puts a blank line between items where its documentation shows none; the design follows the
    # documentation. The texts of these cases hold no blank line before a bracket, so the replacement is exact.
    expected = case.expected
    for number in range(2, len(passages) + 1):
        assert expected.count(f"\n\n[{number}] ") == 1
        expected = expected.replace(f"\n\n[{number}] ", f"\n[{number}] ")
    assert render_context(passages) == expected

"""Fixtures of the adapter's unit tests."""

from __future__ import annotations

import pytest

from tests.unit.langchain_agora.colours import COLOURS, Run, runner


@pytest.fixture(params=COLOURS)
def run(request: pytest.FixtureRequest) -> Run:
    """Call methods in one colour after the other."""
    return runner(request.param)

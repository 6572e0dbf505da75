"""Fixtures of the adapter's integration tests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.langchain.stores import KINDS
from tests.unit.langchain_agora.colours import COLOURS, Run, runner


@pytest.fixture(params=COLOURS)
def run(request: pytest.FixtureRequest) -> Run:
    """Call methods in one colour after the other."""
    return runner(request.param)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of store, one after the other."""
    return str(request.param)


@pytest.fixture
def conninfo(request: pytest.FixtureRequest) -> Any:
    """A function that starts the PostgreSQL server where it is needed, and returns how to reach it."""
    return lambda: str(request.getfixturevalue("pg_conninfo"))

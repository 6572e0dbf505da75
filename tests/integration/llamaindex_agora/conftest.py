"""Fixtures of the adapter's integration tests."""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import Iterator

import pytest

from tests.contract.llamaindex.stores import KINDS, Colour, open_adapter
from tests.integration.llamaindex_agora.scripted import DIMENSION

with warnings.catch_warnings(), contextlib.suppress(ImportError):
    # Where LangChain is installed, an index imports it, and it warns of its own old age.
    warnings.simplefilter("ignore")
    import llama_index.core.bridge.langchain  # noqa: F401


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of store, one after the other."""
    return str(request.param)


@pytest.fixture(params=["sync", "async"])
def store(request: pytest.FixtureRequest, kind: str) -> Iterator[Colour]:
    """An empty store behind the adapter; its server is started where it is needed."""
    conninfo = str(request.getfixturevalue("pg_conninfo")) if kind == "postgres" else ""
    with open_adapter(kind, request.param, conninfo, dimension=DIMENSION) as opened:
        yield opened


@pytest.fixture(autouse=True)
def no_loop_is_made_on_the_side() -> None:
    """Without a current event loop LlamaIndex's sync code runs its own; one that it is made nobody closes."""
    asyncio.set_event_loop(None)

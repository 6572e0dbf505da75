"""Random operations on Qdrant's real engine and over REST, step by step against the plain model."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from agora_core import QdrantLexicalVectorStore, QdrantStore
from tests.contract.model import PlainModelStore
from tests.contract.operations import SeededChooser, check, draw_operation, run
from tests.integration.qdrant.edge_client import EdgeClient
from tests.integration.qdrant.rest_server import CLIENT_OPTIONS, rest_server

pytestmark = pytest.mark.qdrant

STEPS = int(os.environ.get("AGORA_QDRANT_STEPS", "70"))
_numbers = itertools.count()


@pytest.fixture(params=["engine", "engine with text", "rest"])
def make(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return a function that opens an empty store of dimension 3."""
    with ExitStack() as stack:
        if request.param == "rest":
            where: Any = stack.enter_context(rest_server()).url
        else:
            where = stack.enter_context(closing(EdgeClient()))
        kind = QdrantLexicalVectorStore if request.param == "engine with text" else QdrantStore
        options: dict[str, Any] = {"client_options": CLIENT_OPTIONS} if request.param == "rest" else {}

        def opened(metric: Any) -> QdrantStore:
            store = kind(where, collection=f"random_{next(_numbers)}", dimension=3, metric=metric, **options)
            store.ensure_collection()
            stack.callback(store.close)
            return store

        yield opened


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("metric", ["cosine", "l2", "inner"])
def test_every_answer_is_that_of_the_model(make: Any, metric: str, colour: str) -> None:
    model, store = PlainModelStore(metric), make(metric)
    chooser = SeededChooser(seed=len(metric) * 2 + len(colour))
    loop = asyncio.new_event_loop()
    try:
        for number in range(STEPS):
            operation = draw_operation(chooser)
            expected = run(model, operation)
            actual = run(store, operation, loop if colour == "async" else None)
            try:
                check(model, operation, expected, actual, unit_vectors=metric == "cosine")
            except AssertionError as error:
                raise AssertionError(f"step {number}: {operation}\n expected {expected}\n got {actual}") from error
        if colour == "async":
            loop.run_until_complete(store.aclose())
    finally:
        loop.close()

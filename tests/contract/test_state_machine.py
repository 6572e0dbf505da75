"""Random operations on every store side by side with the plain model: after each step all must agree."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from tests.contract.backends import Backend, Backends, open_backends
from tests.contract.model import PlainModelStore
from tests.contract.operations import Operation, SeededChooser, check, draw_operation, run

T = TypeVar("T")

# 12 x 50 = 600 operations on each backend, sync and async; `make fuzz` draws others, and more of them, for an hour.
FUZZ = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"
EXAMPLES = 400 if FUZZ else 12
STEPS = 50
LONG = 7000 if FUZZ else 1500


class DrawnChooser:
    """A chooser that hypothesis steers, so that a failure shrinks to its essence."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def choose(self, among: Sequence[T]) -> T:
        chosen: T = self._data.draw(st.sampled_from(among))
        return chosen


@pytest.fixture(scope="module")
def backends(pg_conninfo: str) -> Iterator[Backends]:
    with open_backends(pg_conninfo) as opened:
        yield opened


class StoresAgree(RuleBasedStateMachine):
    """Each rule step draws one operation, runs it everywhere and compares every answer with the model's."""

    backends: ClassVar[Backends]
    model: PlainModelStore
    stores: list[tuple[Backend, Any]]

    @initialize(metric=st.sampled_from(["cosine", "l2", "inner"]))
    def start(self, metric: str) -> None:
        self.model = PlainModelStore(metric)
        self.stores = [(backend, backend.empty(metric)) for backend in self.backends.all]

    @rule(data=st.data())
    def operate(self, data: Any) -> None:
        step(self.model, self.stores, draw_operation(DrawnChooser(data)), self.backends.loop)


def step(
    model: PlainModelStore,
    stores: list[tuple[Backend, Any]],
    operation: Operation,
    loop: asyncio.AbstractEventLoop,
) -> None:
    expected = run(model, operation)
    for backend, store in stores:
        actual = run(store, operation, loop if backend.colour == "async" else None)
        try:
            check(model, operation, expected, actual, unit_vectors=backend.unit_vectors and model.metric == "cosine")
        except AssertionError as error:
            raise AssertionError(f"{backend.name}: {operation}\n expected {expected}\n got {actual}") from error


@pytest.mark.fuzz
def test_stores_agree_with_the_model(backends: Backends) -> None:
    """The proof: one meaning on memory, Postgres and Qdrant, sync and async."""
    StoresAgree.backends = backends
    run_state_machine_as_test(
        StoresAgree,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=not FUZZ,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.fuzz
@pytest.mark.parametrize("metric", ["cosine", "l2", "inner"])
def test_long_run_on_postgres_and_memory(backends: Backends, metric: str) -> None:
    """A long life of one store under each metric, where a short one hides wear."""
    chosen = [backend for backend in backends.all if backend.name in ("memory", "postgres")]
    model = PlainModelStore(metric)
    stores = [(backend, backend.empty(metric)) for backend in chosen]
    chooser = SeededChooser(seed=random.randrange(2**32) if FUZZ else len(metric))
    for _ in range(LONG):
        step(model, stores, draw_operation(chooser), backends.loop)

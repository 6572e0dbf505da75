"""Set-up for all tests: hypothesis profiles, and the fixtures, which live in one module per concern."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# The contract is library code, so its assertions explain themselves only where pytest is told to rewrite them.
pytest.register_assert_rewrite("agora_core.testing.contract", "tests.contract.operations")

from tests.fix_postgres import fresh_name, pg_conninfo  # noqa: E402

__all__ = ["fresh_name", "pg_conninfo"]


def pytest_configure() -> None:
    """End a terminated run as an interrupted one ends, with its servers."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the garbage collector off what collecting makes: it stays, and looking through it takes half of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let `make fuzz` run whatever draws its examples."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("fuzz")


# Examples are bounded by number and never by time: a slow machine must not fail a test.
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("ci", deadline=None, derandomize=True, max_examples=25, suppress_health_check=_SLOW)
settings.register_profile("dev", deadline=None, max_examples=25, suppress_health_check=_SLOW)
settings.register_profile("fuzz", deadline=None, max_examples=1_000, suppress_health_check=_SLOW)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "dev"))

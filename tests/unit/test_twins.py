"""Every async method takes what its sync twin takes, in all that is public."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

import agora_core
import langchain_agora
import llamaindex_agora


@pytest.mark.parametrize("package", [agora_core, langchain_agora, llamaindex_agora])
def test_twins_take_the_same_arguments(package: ModuleType) -> None:
    """Kind: an option that a subclass adds to one of the two."""
    compared = 0
    for name in package.__all__:
        kind = getattr(package, name)
        if not inspect.isclass(kind):
            continue
        for method in dir(kind):
            one, twin = getattr(kind, method, None), getattr(kind, f"a{method}", None)
            if method.startswith("_") or not callable(one) or not callable(twin):
                continue
            compared += 1
            assert _asked(one) == _asked(twin), f"{name}.{method}"
    assert compared > 10


def _asked(method: object) -> list[tuple[str, object, object]]:
    assert callable(method)
    return [(one.name, one.kind, one.default) for one in inspect.signature(method).parameters.values()]

"""One test for both colours of a method: the sync one, and its `a`-twin in an event loop of its own."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

COLOURS = ("sync", "async")


class Run(Protocol):
    """Calls a method of an object in the colour of the test."""

    def __call__(self, target: Any, name: str, /, *args: Any, **options: Any) -> Any: ...


def runner(colour: str) -> Run:
    """Return what calls methods in `colour`."""

    def run(target: Any, name: str, /, *args: Any, **options: Any) -> Any:
        if colour == "sync":
            return getattr(target, name)(*args, **options)

        async def call() -> Any:
            return await getattr(target, f"a{name}")(*args, **options)

        return asyncio.run(call())

    return run

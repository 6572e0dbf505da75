"""How a law reaches a store: in both colours, through one caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pytest

from agora_core.records import VectorRecord

Opener = Callable[..., "Caller"]


class Caller:
    """A store whose methods are called in one colour, so that each law is written once."""

    def __init__(self, store: Any, colour: str, loop: asyncio.AbstractEventLoop) -> None:
        self.store, self.colour, self._loop = store, colour, loop

    def __getattr__(self, name: str) -> Any:
        if name in ("scoped", "metric", "dimension"):
            return getattr(self.store, name)
        if self.colour == "sync":
            return getattr(self.store, name)
        native = getattr(self.store, "a" + name)
        return lambda *args, **options: self._loop.run_until_complete(native(*args, **options))

    def scan(self, *args: Any, **options: Any) -> list[VectorRecord]:
        """Read a whole scan."""
        if self.colour == "sync":
            return list(self.store.scan(*args, **options))

        async def collect() -> list[VectorRecord]:
            return [record async for record in self.store.ascan(*args, **options)]

        return self._loop.run_until_complete(collect())

    def of(self, store: Any) -> Caller:
        """Return a caller of the same colour for another store, such as a scoped view."""
        return Caller(store, self.colour, self._loop)


def record(
    id: str,
    embedding: Sequence[float] = (1.0, 0.0, 0.0),
    metadata: Mapping[str, Any] | None = None,
    *,
    text: str | None = None,
    source: str | None = None,
) -> VectorRecord:
    """Return a record with a text of its own."""
    return VectorRecord(id, text if text is not None else f"text of {id}", list(embedding), source, metadata)


class ContractBase:
    """What the laws share: how a store is made, opened in each colour, and closed."""

    metrics: ClassVar[tuple[str, ...]] = ("cosine", "l2", "inner")
    lacks: ClassVar[Mapping[str, str]] = {}
    keeps_embeddings: ClassVar[tuple[str, ...]] = ("cosine", "l2", "inner")
    """The metrics under which `get` gives back the embedding that was written, and not its unit vector."""

    def make_store(self, *, dimension: int, metric: str) -> Any:
        """Return an empty store."""
        raise NotImplementedError("override make_store(self, *, dimension, metric)")

    @pytest.fixture(params=["sync", "async"])
    def open_store(self, request: pytest.FixtureRequest) -> Iterator[Opener]:
        """Return a function that opens empty stores; they are closed when the test ends."""
        loop = asyncio.new_event_loop()
        opened: list[Caller] = []

        def open_one(metric: str | None = None, dimension: int = 3) -> Caller:
            store = self.make_store(dimension=dimension, metric=metric or self.metrics[0])
            opened.append(Caller(store, request.param, loop))
            return opened[-1]

        try:
            yield open_one
        finally:
            for caller in opened:
                if hasattr(caller.store, "aclose" if caller.colour == "async" else "close"):
                    caller.close()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    @pytest.fixture
    def store(self, open_store: Opener) -> Caller:
        """Return an empty store of dimension 3."""
        return open_store()

    def need(self, *methods: str) -> None:
        """Skip a law about a method that the store says it lacks."""
        for method in methods:
            if method in self.lacks:
                pytest.skip(f"no {method}: {self.lacks[method]}")

    def fails(self, call: Callable[[], Any], *errors: type[BaseException]) -> str:
        """Demand that a call fails with one of `errors`; return the message."""
        with pytest.raises(errors) as caught:
            call()
        return str(caught.value)

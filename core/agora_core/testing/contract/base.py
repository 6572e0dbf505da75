"""How a law reaches a store: sync and async, through one caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import pytest

from agora_core.records import VectorRecord
from agora_core.testing.examples import METADATA_EXAMPLES

Opener = Callable[..., "Caller"]


class Caller:
    """A store of which one twin of each method is called, so that each law is written once."""

    def __init__(self, store: Any, style: str, loop: asyncio.AbstractEventLoop) -> None:
        self.store, self.style, self._loop = store, style, loop

    def __getattr__(self, name: str) -> Any:
        if name in ("scoped", "metric", "dimension"):
            return getattr(self.store, name)
        if self.style == "sync":
            return getattr(self.store, name)
        native = getattr(self.store, "a" + name)
        return lambda *args, **options: self._loop.run_until_complete(native(*args, **options))

    def scan(self, *args: Any, **options: Any) -> list[VectorRecord]:
        """Read a whole scan."""
        if self.style == "sync":
            return list(self.store.scan(*args, **options))

        async def collect() -> list[VectorRecord]:
            return [record async for record in self.store.ascan(*args, **options)]

        return self._loop.run_until_complete(collect())

    def of(self, store: Any) -> Caller:
        """Return a caller in the same style for another store, such as a scoped view."""
        return Caller(store, self.style, self._loop)


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


def _filled(store: Caller) -> Caller:
    store.upsert([record(f"r{n:02}#0", metadata=metadata) for n, metadata in enumerate(METADATA_EXAMPLES)])
    return store


class ContractBase:
    """What the laws share: how a store is made, opened for sync and async calls, and closed."""

    metrics: ClassVar[tuple[str, ...]] = ("cosine", "l2", "inner")
    lacks: ClassVar[Mapping[str, str]] = {}
    keeps_embeddings: ClassVar[tuple[str, ...]] = ("cosine", "l2", "inner")
    """The metrics under which `get` gives back the embedding that was written, and not its unit vector."""
    shares_filled_store: ClassVar[bool] = False
    """Whether laws that write nothing share one store, for stores that take long to make. `make_store` then uses
    only what lives as long as the class."""

    def make_store(self, *, dimension: int, metric: str) -> Any:
        """Return an empty store."""
        raise NotImplementedError("override make_store(self, *, dimension, metric)")

    @contextmanager
    def opening(self, style: str) -> Iterator[Opener]:
        """Yield a function that opens empty stores; they are closed when the block ends."""
        loop = asyncio.new_event_loop()
        opened: list[Caller] = []

        def open_one(metric: str | None = None, dimension: int = 3) -> Caller:
            store = self.make_store(dimension=dimension, metric=metric or self.metrics[0])
            opened.append(Caller(store, style, loop))
            return opened[-1]

        try:
            yield open_one
        finally:
            for caller in opened:
                if hasattr(caller.store, "aclose" if style == "async" else "close"):
                    caller.close()
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    @pytest.fixture(scope="class", params=["sync", "async"])
    @classmethod
    def style(cls, request: pytest.FixtureRequest) -> str:
        """Return which twin of each method is called."""
        return str(request.param)

    @pytest.fixture
    def open_store(self, style: str) -> Iterator[Opener]:
        """Return a function that opens empty stores; they are closed when the test ends."""
        with self.opening(style) as open_one:
            yield open_one

    @pytest.fixture
    def store(self, open_store: Opener) -> Caller:
        """Return an empty store of dimension 3."""
        return open_store()

    @pytest.fixture(scope="class")
    @classmethod
    def _shared(cls, style: str) -> Iterator[Caller | None]:
        if not cls.shares_filled_store:
            yield None
            return
        with cls().opening(style) as open_one:
            yield _filled(open_one())

    @pytest.fixture
    def filled(self, style: str, _shared: Caller | None) -> Iterator[Caller]:
        """Return a store of the example records, `r00#0` and on; a law that takes it leaves it as it is."""
        if _shared is not None:
            yield _shared
            return
        with self.opening(style) as open_one:
            yield _filled(open_one())

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

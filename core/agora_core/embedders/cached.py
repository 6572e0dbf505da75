"""Vectors that were paid for once are kept in a file, for any number of processes."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from agora_core.embedding import EmbedderPort
from agora_core.errors import InvalidArgumentError
from agora_core.protocols import EmbeddingProvider
from agora_core.records import Embedding
from agora_core.steps import Call, Steps, arun, run
from agora_core.validation import check_top_k

_ASKED: Final = 500
_PATIENCE: Final = 60.0
_CREATE: Final = (
    "CREATE TABLE IF NOT EXISTS vectors (model TEXT NOT NULL, kind TEXT NOT NULL, digest BLOB NOT NULL, "
    "vector BLOB NOT NULL, PRIMARY KEY (model, kind, digest)) WITHOUT ROWID"
)


class CachedEmbeddingProvider:
    """Embeds each text once: what the file at `path` holds is not asked of the provider again.

    Misses go to the provider in batches, and each batch is kept as soon as it is there, so that a failure loses nothing
    that was paid for. Processes may share the file. Texts are kept as digests, vectors with all their digits. Nothing
    is ever thrown away: delete the file to begin anew.

    Examples:
        >>> cached = CachedEmbeddingProvider(embedder, folder / "vectors.db", model="fake-64")
        >>> len(cached.embed(["Everyone has 30 days of leave."])[0])
        64
    """

    def __init__(
        self,
        provider: EmbeddingProvider,
        path: str | os.PathLike[str],
        *,
        model: str,
        batch_size: int = 256,
        batch_characters: int = 200_000,
    ) -> None:
        """Open the cache; the file is made at the first use.

        Args:
            provider: any object with `embed` or `aembed`.
            path: of the SQLite file; its folder must exist.
            model: the name of the model. Two models have vectors of their own, and a store remembers the name.
            batch_size: texts per call of the provider, 1 or more.
            batch_characters: characters per call; a longer text goes alone.

        Raises:
            InvalidArgumentError: an argument is not as described.
        """
        given: Any = model
        if not isinstance(given, str) or not given.strip():
            raise InvalidArgumentError(f"model must name the embedding model, got {model!r}")
        self.provider, self.model = provider, model
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise InvalidArgumentError(f"path {str(self.path)!r}: its folder does not exist; make it first")
        self._port = EmbedderPort(provider)
        self._most = check_top_k(batch_size, argument="batch_size")
        self._characters = check_top_k(batch_characters, argument="batch_characters")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.provider).__name__}, {str(self.path)!r}, model={self.model!r})"

    def embed(self, texts: Sequence[str]) -> list[Embedding]:
        """Return one vector per text, in the same order.

        Raises:
            EmbeddingError: the provider answered with more or fewer vectors than texts.
        """
        return run(self._embed(list(texts)))

    async def aembed(self, texts: Sequence[str]) -> list[Embedding]:
        """Async twin of `embed`; the file is read and written in a worker thread."""
        return await arun(self._embed(list(texts)))

    def embed_query(self, text: str) -> Embedding:
        """Return the vector of a query, by the provider's `embed_query` where it has one."""
        return run(self._embed_query(text))

    async def aembed_query(self, text: str) -> Embedding:
        """Async twin of `embed_query`."""
        return await arun(self._embed_query(text))

    def _embed(self, texts: list[str]) -> Steps[list[Embedding]]:
        known: dict[str, Embedding] = yield _in_thread(self._read, "text", texts)
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        for batch in self._batches(missing):
            vectors = yield from self._port.embed(batch)
            fresh = dict(zip(batch, vectors, strict=True))
            yield _in_thread(self._write, "text", fresh)
            known |= fresh
        return [known[text] for text in texts]

    def _embed_query(self, text: str) -> Steps[Embedding]:
        special = getattr(self.provider, "embed_query", None) or getattr(self.provider, "aembed_query", None)
        kind = "text" if special is None else "query"
        known: dict[str, Embedding] = yield _in_thread(self._read, kind, [text])
        if text not in known:
            vector = yield from self._port.embed_query(text)
            yield _in_thread(self._write, kind, {text: vector})
            known[text] = vector
        return known[text]

    def _batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        batch: list[str] = []
        characters = 0
        for text in texts:
            if batch and (len(batch) == self._most or characters + len(text) > self._characters):
                yield batch
                batch, characters = [], 0
            batch.append(text)
            characters += len(text)
        if batch:
            yield batch

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        # A connection for each use: none crosses a thread or a fork.
        with closing(sqlite3.connect(self.path, timeout=_PATIENCE)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            with connection:
                connection.execute(_CREATE)
            yield connection

    def _read(self, kind: str, texts: Sequence[str]) -> dict[str, Embedding]:
        by_digest = {_digest(text): text for text in texts}
        found: dict[str, Embedding] = {}
        digests = list(by_digest)
        with self._opened() as connection:
            for start in range(0, len(digests), _ASKED):
                some = digests[start : start + _ASKED]
                marks = ", ".join("?" * len(some))
                statement = f"SELECT digest, vector FROM vectors WHERE model = ? AND kind = ? AND digest IN ({marks})"  # noqa: S608 # only question marks
                for digest, data in connection.execute(statement, (self.model, kind, *some)):
                    found[by_digest[digest]] = _unpacked(data)
        return found

    def _write(self, kind: str, vectors: dict[str, Embedding]) -> None:
        rows = [(self.model, kind, _digest(text), _packed(vector)) for text, vector in vectors.items()]
        with self._opened() as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", rows)


def _in_thread(function: Any, *arguments: Any) -> Call:
    return Call(lambda: function(*arguments), lambda: asyncio.to_thread(function, *arguments))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _packed(vector: Any) -> bytes:
    """Return a vector as bytes: four a number where that keeps every digit, else eight."""
    exact = np.asarray(vector, np.float64)
    short = exact.astype(np.float32)
    return b"4" + short.tobytes() if np.array_equal(short, exact) else b"8" + exact.tobytes()


def _unpacked(data: bytes) -> list[float]:
    numbers: list[float] = np.frombuffer(data[1:], np.float32 if data[:1] == b"4" else np.float64).tolist()
    return numbers

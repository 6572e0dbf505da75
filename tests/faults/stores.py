"""The stores that are put to the test, by name, and the documents that are written into them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from agora_core import (
    IngestDocument,
    MemoryVectorStore,
    PgVectorStore,
    QdrantStore,
    VectorRecord,
    chunk_documents,
    document_id_of,
)
from agora_core.testing import FakeEmbeddingProvider
from tests.faults.engine_server import EngineServer
from tests.faults.killable import Killable

State = tuple[int, str]
"""Version and label of a document."""
Model = Mapping[str, State | None]
KINDS: Final = ("postgres", "memory", "qdrant", "engine")
"""Qdrant twice: a folder in local mode, and its engine behind a server."""

FOLDER: Final = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where folders are made: what is killed is the process and not the machine, so no disk need be waited for."""

DIMENSION: Final = 8
CHUNKING: Final[dict[str, Any]] = {"chunk_size": 60, "overlap": 0}
EMBEDDER: Final = FakeEmbeddingProvider(DIMENSION)


def document(name: str, state: State) -> IngestDocument:
    """Return a document whose text and number of chunks follow from its version."""
    version, label = state
    text = " ".join(f"word{n} of version {version} in {name}" for n in range(20 + 13 * version % 60))
    return IngestDocument(name, text, f"{name}.md", {"label": label, "version": version})


def chunks(name: str, state: State) -> list[VectorRecord]:
    """Return its chunks, embedded."""
    cut = chunk_documents([document(name, state)], **CHUNKING)
    vectors = EMBEDDER.embed([chunk.text for chunk in cut])
    return [VectorRecord(c.id, c.text, v, c.source, c.metadata) for c, v in zip(cut, vectors, strict=True)]


def expected(name: str, state: State | None) -> frozenset[tuple[str, str, str]]:
    """Return what a store shows of a document: id, text and label of every chunk."""
    if state is None:
        return frozenset()
    return frozenset((record.id, record.text, state[1]) for record in chunks(name, state))


def observed(store: Any) -> dict[str, frozenset[tuple[str, str, str]]]:
    """Return what a store shows of every document."""
    found: dict[str, set[tuple[str, str, str]]] = {}
    for record in store.scan():
        found.setdefault(document_id_of(record.id), set()).add((record.id, record.text, record.metadata["label"]))
    return {name: frozenset(some) for name, some in found.items()}


class Place:
    """Where the records of one kind of store outlive its process."""

    def __init__(self, kind: str) -> None:
        """Make it: a server for `postgres` and `engine`, a folder for `memory` and `qdrant`."""
        self.kind = kind
        self.server: Any = None
        if kind in ("postgres", "engine"):
            self.server = Killable() if kind == "postgres" else EngineServer(FOLDER)
        self._folder = Path(tempfile.mkdtemp(prefix="agora-faults-", dir=FOLDER))
        self.address = self.server.address if self.server is not None else str(self._folder / "records")

    def remove(self) -> None:
        """Take it down."""
        if self.server is not None:
            self.server.remove()
        shutil.rmtree(self._folder, ignore_errors=True)

    def left_files(self) -> int:
        """How many files there are that no store needs."""
        return len([path for path in self._folder.glob("*") if "partial" in path.name])


def opened(kind: str, address: str) -> Any:
    """Open the store of a place."""
    if kind == "postgres":
        store: Any = PgVectorStore(address, table="faults", dimension=DIMENSION, index=None)
        store.ensure_schema()
        return store
    if kind in ("qdrant", "engine"):
        # The server is one Python process, and 80 callers wait for their turn.
        timeout = 60 if kind == "engine" else None
        store = QdrantStore(address, collection="faults", dimension=DIMENSION, timeout=timeout)
        store.ensure_collection()
        return store
    return MemoryVectorStore.load(address) if Path(address).exists() else MemoryVectorStore(dimension=DIMENSION)


def kept(store: Any, kind: str, address: str) -> None:
    """Make what was written outlive the process; a file has to be saved for that."""
    if kind == "memory":
        store.save(address)

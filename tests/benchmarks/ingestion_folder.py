"""`python -m tests.benchmarks.ingestion_folder FOLDER CONNINFO`: sync a folder, and print the megabytes that it took.

A process of its own, which imports nothing but what a sync needs: what others import would hide what is measured.
"""

from __future__ import annotations

import hashlib
import resource
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import psutil

from agora_core import PgVectorStore, read_files, sync_documents


class Digests:
    """Vectors of 64 dimensions that cost next to nothing."""

    def embed(self, texts: Sequence[str]) -> Any:
        """Return one vector a text."""
        digests = b"".join(hashlib.blake2b(text.encode(), digest_size=64).digest() for text in texts)
        return np.frombuffer(digests, np.int8).reshape(len(texts), 64).astype(np.float32)


def main(folder: str, conninfo: str) -> None:
    """Print the peak of resident memory above what is resident before the sync, in megabytes."""
    with PgVectorStore(conninfo, table="bench_folder", dimension=64, index=None) as store:
        store.ensure_schema()
        before = psutil.Process().memory_info().rss // 1024
        report = sync_documents(read_files(folder), embedder=Digests(), store=store, chunk_size=4_000)
        assert report.embedded
        assert not report.failed
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Filters over lists of 1 to 100,000 values: milliseconds of a search on each store, beside no filter at all.

`python -m tests.benchmarks lists [--records 20000]`: a list of ids or groups is the commonest access list there is, and
its cost must not grow with its length beyond reading it. Qdrant is asked twice: in local mode and, in process, as the
engine of its server.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from qdrant_client import QdrantClient

from agora_core import MemoryVectorStore, PgVectorStore, QdrantStore, VectorRecord
from tests.integration.qdrant.edge_client import EdgeClient

LENGTHS = (0, 1, 10, 100, 1_000, 3_000, 10_000, 100_000)
DIMENSION = 64
ROUNDS = 5
# Milliseconds that a list of so many values may cost above one of 10.
TARGETS = {3_000: 150.0, 100_000: 1_000.0}


def stores(stack: ExitStack) -> Iterator[tuple[str, Any]]:
    """Open each store, empty."""
    yield "memory", MemoryVectorStore(dimension=DIMENSION)
    folder = stack.enter_context(tempfile.TemporaryDirectory())
    postgres = PgVectorStore.embedded(Path(folder) / "server", table="lists", dimension=DIMENSION)
    stack.callback(postgres.close)
    postgres.ensure_schema()
    yield "postgres", postgres
    engine: Any = EdgeClient()
    stack.callback(engine.close)
    for name, client in (("qdrant, engine", engine), ("qdrant, local mode", QdrantClient(":memory:"))):
        store = QdrantStore(client, collection="lists", dimension=DIMENSION)
        store.ensure_collection()
        yield name, store


def milliseconds(store: Any, records: int, length: int) -> float:
    """Return the median time of a search whose filter lists `length` documents, half of them there; 0 is no filter."""
    filter = None if not length else {"doc": [f"doc-{n * 2 * records // max(length, 1)}" for n in range(length)]}
    took = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        store.search([1.0] * DIMENSION, top_k=10, **({} if filter is None else {"filter": filter}))
        took.append(1000 * (time.perf_counter() - start))
    return statistics.median(took[1:])


def main() -> None:
    """Fill each store and print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    records = parser.parse_args().records
    vectors = np.random.default_rng(0).standard_normal((records, DIMENSION)).astype(np.float32)
    lengths = [f"{length:,} values" if length else "no filter" for length in LENGTHS]
    print("| store | records | " + " | ".join(lengths) + " | above 10 values, at most |")
    print("| --- |" + " --- |" * (len(LENGTHS) + 2))
    with ExitStack() as stack:
        for name, store in stores(stack):
            count = records if "local" not in name else min(records, 3_000)
            store.upsert(
                VectorRecord(f"doc-{n}#0", "text", vectors[n], None, {"doc": f"doc-{n}"}) for n in range(count)
            )
            times = [milliseconds(store, count, length) for length in LENGTHS]
            base = times[LENGTHS.index(10)]
            held = [f"{times[LENGTHS.index(n)] - base:.0f} of {most:.0f} ms" for n, most in TARGETS.items()]
            print(
                f"| {name} | {count:,} | " + " | ".join(f"{t:.1f}" for t in times) + f" | {', '.join(held)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

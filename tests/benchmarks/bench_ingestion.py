"""Keeping a store equal to its source: `sync_documents` beside LangChain's `index()` and LlamaIndex's pipeline.

    python -m tests.benchmarks.bench_ingestion [--documents 3000] [--rounds 3] [--megabytes 1000]

The same documents, cut alike, the same embedder (256 texts a second and request) and the same store beneath each. A
round takes each way through cold, unchanged, 1 % changed and relabelled, one after the other; ratios are medians over
rounds. The memory is that of a process that syncs a folder of so many megabytes into Postgres, at its peak, above what
it has before it begins.
"""

from __future__ import annotations

import argparse
import gc
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from agora_core import IngestDocument, MemoryVectorStore, PgVectorStore, chunk_documents
from tests.benchmarks.bench_fusion import Row
from tests.benchmarks.ingestion_peers import BATCH, DIMENSION, WAYS, vectors_of
from tests.benchmarks.page import table_section, write_section
from tests.fix_postgres import start_embedded_server

CASES = ("cold", "unchanged", "1 % changed", "relabelled")
AIMS = {"unchanged": 20.0, "relabelled": 50.0}
WORDS = [f"{start}{end}" for start in "bcdfghklmnprstv" for end in ("ale", "ondo", "irk", "ust", "eme", "a")]


def text_of(rng: random.Random, characters: int) -> str:
    """Return some prose."""
    words = rng.choices(WORDS, k=characters // 5)
    return ". ".join(" ".join(words[start : start + 12]) for start in range(0, len(words), 12))


def versions(count: int) -> dict[str, list[IngestDocument]]:
    """Return what the source holds in each case."""
    rng = random.Random(7)
    first = [
        IngestDocument(f"d{n}", text_of(rng, 1_200), f"{n}.md", {"acl": ["all", f"g{n % 9}"]}) for n in range(count)
    ]
    edited = [replace(one, text=f"{one.text} An addition.") if n % 100 == 0 else one for n, one in enumerate(first)]
    return {
        "cold": first,
        "unchanged": first,
        "1 % changed": edited,
        "relabelled": [replace(one, metadata={"acl": ["board"]}) for one in edited],
    }


def embedder_alone(documents: Sequence[IngestDocument]) -> float:
    """Return the seconds that embedding all chunks takes, in full batches, as many at once as a sync does."""
    texts = [chunk.text for chunk in chunk_documents(documents)]
    begun = time.perf_counter()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(vectors_of, [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]))
    return time.perf_counter() - begun


def rows_of(store: str, open_store: Callable[[], Any], count: int, rounds: int) -> Iterator[Row]:
    """Yield the lines of one store."""
    cases = versions(count)
    seconds: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        seconds.setdefault(("embedder", "cold"), []).append(embedder_alone(cases["cold"]))
        for name, way in WAYS.items():
            with open_store() as opened:
                one = way(opened)
                for case, documents in cases.items():
                    # Collecting what all the frameworks imported here left is nobody's work.
                    gc.collect()
                    gc.freeze()
                    begun = time.perf_counter()
                    one.run(documents)
                    seconds.setdefault((name, case), []).append(time.perf_counter() - begun)
    for case in CASES:
        ours = seconds["ours", case]
        yield Row(f"{store}, {case}", 1e3 * statistics.median(ours), "ms")
        if case == "cold":
            ratio = _ratio(ours, seconds["embedder", case])
            yield Row(f"{store}, {case}, to the embedder alone", ratio, "×", 1.1)
        for name in WAYS:
            if name != "ours":
                ratio = _ratio(seconds[name, case], ours)
                yield Row(f"{store}, {case}, {name} to it", ratio, "×", AIMS.get(case), at_most=False)


def _ratio(one: Sequence[float], other: Sequence[float]) -> float:
    return statistics.median(a / b for a, b in zip(one, other, strict=True))


def peak_of_folder(conninfo: str, megabytes: int) -> int:
    """Return the megabytes that syncing a folder of text files into Postgres takes above those at the start."""
    folder = Path(tempfile.mkdtemp(prefix="agora-bench-"))
    try:
        rng = random.Random(3)
        block = text_of(rng, 100_000).encode()
        for number in range(megabytes):
            (folder / f"f{number:05}.txt").write_bytes(f"{number} ".encode() + (block * 11)[:1_000_000])
        command = [sys.executable, "-m", "tests.benchmarks.ingestion_folder", str(folder), conninfo]
        return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def server() -> Iterator[str]:
    """Run PostgreSQL."""
    folder = Path(tempfile.mkdtemp(prefix="agora-pg-"))
    started = start_embedded_server(folder)
    try:
        yield started.get_uri()
    finally:
        started.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def bench_ingestion(*, documents: int = 3_000, rounds: int = 3, megabytes: int = 1_000) -> Iterator[Row]:
    """Yield every line of the table, as it is measured."""
    yield from rows_of("memory", lambda: MemoryVectorStore(dimension=DIMENSION), documents, rounds)
    with server() as conninfo:
        opened = 0

        def postgres() -> PgVectorStore:
            nonlocal opened
            opened += 1
            store = PgVectorStore(conninfo, table=f"bench_{opened}", dimension=DIMENSION)
            store.ensure_schema()
            return store

        yield from rows_of("Postgres", postgres, documents, rounds)
        if megabytes:
            taken = peak_of_folder(conninfo, megabytes)
            yield Row(f"memory of a sync of {megabytes:,} MB of files into Postgres", taken, "MB", 300)


def main() -> None:
    """Print the table as Markdown, and write it where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--documents", type=int, default=3_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--megabytes", type=int, default=1_000)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    lines = []
    measured = bench_ingestion(documents=options.documents, rounds=options.rounds, megabytes=options.megabytes)
    for row in measured:
        lines.append("| " + " | ".join(row.cells()) + " |")
        print(lines[-1], flush=True)
    if options.write:
        note = (
            "`python -m tests.benchmarks ingestion`: the same documents, cut alike, the same embedder (256 texts a "
            "second and request) and the same store beneath each way. `sync_documents` has four requests under way, "
            "the others one. LangChain's `index()` keeps its records in SQLite, LlamaIndex's pipeline its docstore in "
            "a file that each run reads and writes; both remove what is gone. On Postgres the vector index takes most "
            "of what is written, a relabelled row included, for PostgreSQL writes a new version of it."
        )
        peers = ("langchain-core", "llama-index-core", "numpy", "psycopg")
        section = table_section("Keeping a store in step", note, lines, peers)
        write_section(options.write, "ingestion", section)


if __name__ == "__main__":
    main()

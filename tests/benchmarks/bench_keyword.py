"""Speed of keyword search: this library beside tantivy, bm25s and rank-bm25, turn by turn in one process.

    python -m tests.benchmarks.bench_keyword [--sizes 10000 100000 500000] [--write docs/benchmarks.md]

Every figure is a median. A ratio is the median over rounds of the ratio of the medians of one round, so that what
disturbs the machine disturbs both. One thread each; builds are timed by the processor. Every peer answers with ids,
this library with whole passages; a peer that is not installed is left out (pip install tantivy bm25s numba). The
passages are synthetic: Zipf-distributed words, 97 a passage. tantivy has k1 = 1.2, which cannot be set there.

"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from agora_core import ChunkRecord
from agora_core.keyword import bm25_score
from agora_core.keyword.analysis import ascii_terms
from agora_core.retrievers import KeywordRetriever
from tests.benchmarks import keyword_data
from tests.benchmarks.page import write_section

TOP_K = 10
QUERIES = 64
BUILDS = 3
# The most that the ratio to a peer may be, by number of passages and of terms.
TANTIVY = {(100_000, 2): 1.0, (100_000, 4): 1.0, (100_000, 8): 1.2, (500_000, 8): 0.6}
BM25S = {(100_000, 2): 0.5, (100_000, 4): 0.8, (100_000, 8): 1.5}
RANK_BM25 = {(100_000, 2): 0.001, (100_000, 4): 0.001, (100_000, 8): 0.001}
NEXT_QUERY_MS = {100_000: 1.0, 500_000: 1.5}


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, and the most it may be."""

    what: str
    measured: float
    unit: str
    target: float | None = None
    note: str = ""

    def cells(self) -> tuple[str, str, str, str]:
        """Return the line as text: what, measured, target, note."""
        verdict = "" if self.target is None else "met" if self.measured <= self.target else "**missed**"
        target = "" if self.target is None else f"≤ {self.target:g} {self.unit}"
        return self.what, f"{self.measured:.3g} {self.unit}", target, " ".join(filter(None, (verdict, self.note)))


class Ours:
    """This library, whole passages back."""

    name = "agora"

    def __init__(self, records: list[ChunkRecord]) -> None:
        self.retriever = KeywordRetriever()
        self.retriever.add(records)

    def search(self, query: str) -> Any:
        return self.retriever.retrieve(query, top_k=TOP_K)


class Tantivy:
    """tantivy through its Python binding."""

    name = "tantivy"

    def __init__(self, records: list[ChunkRecord]) -> None:
        import tantivy

        schema = tantivy.SchemaBuilder()
        schema.add_text_field("id", stored=True, tokenizer_name="raw")
        schema.add_text_field("text", stored=False)
        self.index = tantivy.Index(schema.build())
        # One thread, as all others have.
        writer = self.index.writer(200_000_000, 1)
        for record in records:
            writer.add_document(tantivy.Document(id=record.id, text=record.text))
        writer.commit()
        writer.wait_merging_threads()
        self.index.reload()

    def search(self, query: str) -> Any:
        searcher = self.index.searcher()
        hits = searcher.search(self.index.parse_query(query, ["text"]), TOP_K).hits
        return [searcher.doc(address)["id"][0] for _, address in hits]


class Bm25s:
    """bm25s with its numba kernel; an addition means a new index."""

    name = "bm25s numba"

    def __init__(self, records: list[ChunkRecord]) -> None:
        import bm25s  # type: ignore[import-untyped,unused-ignore]

        logging.getLogger("bm25s").setLevel(logging.ERROR)
        self.ids = [record.id for record in records]
        self.index = bm25s.BM25(method="lucene", k1=1.5, b=0.75, backend="numba")
        texts = [record.text for record in records]
        self.index.index(
            bm25s.tokenize(texts, token_pattern="[a-z0-9]+", stopwords=None, show_progress=False), show_progress=False
        )

    def search(self, query: str) -> Any:
        terms = list(dict.fromkeys(re.findall("[a-z0-9]+", query)))
        found, _ = self.index.retrieve([terms], k=TOP_K, show_progress=False)
        return [self.ids[n] for n in found[0]]


class RankBm25:
    """rank-bm25, the yardstick of exactness; an addition means a new index."""

    name = "rank-bm25"

    def __init__(self, records: list[ChunkRecord]) -> None:
        from rank_bm25 import BM25Okapi

        self.ids = [record.id for record in records]
        self.index = BM25Okapi([record.text.split() for record in records])

    def search(self, query: str) -> Any:
        return [self.ids[n] for n in np.argsort(self.index.get_scores(query.split()))[::-1][:TOP_K]]


def built(peers: list[type[Any]], records: list[ChunkRecord]) -> Iterator[tuple[Any, list[float]]]:
    """Build each contestant in turn, some times; yield it with the seconds of the processor that each build took.

    One that is not installed is left out.
    """
    contestants: dict[type[Any], Any] = {}
    seconds: dict[type[Any], list[float]] = {}
    for number in range(BUILDS + 1):
        for peer in peers:
            try:
                # The first build, of a few records, is there to import and to compile.
                given = records if number else records[:64]
                contestants.pop(peer, None)
                gc.collect()
                start = time.process_time()
                contestants[peer] = peer(given)
                taken = time.process_time() - start
            except ImportError as error:
                if not number:
                    print(f"# {peer.name} is left out: {error}", file=sys.stderr)
                continue
            if number:
                seconds.setdefault(peer, []).append(taken)
    yield from ((contestants[peer], taken) for peer, taken in seconds.items())


def interleaved(calls: dict[str, Callable[[int], Any]], *, rounds: int, slow: frozenset[str]) -> dict[str, list[float]]:
    """Return per contestant the median milliseconds of each round; slow ones make few calls a round."""
    medians: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            times = []
            for n in range(2 if name in slow else QUERIES):
                start = time.perf_counter()
                call(n)
                times.append(1e3 * (time.perf_counter() - start))
            if number:  # the first round warms up
                medians[name].append(statistics.median(times))
    return medians


def ratio(ours: list[float], theirs: list[float]) -> float:
    """Return the median over rounds."""
    return statistics.median(mine / other for mine, other in zip(ours, theirs, strict=True))


def _builds(tokenizer: str, records: list[ChunkRecord]) -> Iterator[float]:
    for _ in range(BUILDS):
        start = time.process_time()
        KeywordRetriever(tokenizer=tokenizer).add(records)
        yield time.process_time() - start


def _search(contestant: Any, asked: list[str]) -> Callable[[int], Any]:
    return lambda n: contestant.search(asked[n])


def _retrieve(retriever: KeywordRetriever, asked: list[str], filter: Any) -> Callable[[int], Any]:
    return lambda n: retriever.retrieve(asked[n], top_k=TOP_K, filter=filter)


def query_rows(size: int, contestants: list[Any], *, rounds: int) -> Iterator[Row]:
    """Measure queries of 2, 4 and 8 terms."""
    targets: dict[str, dict[tuple[int, int], float]] = {
        Tantivy.name: TANTIVY, Bm25s.name: BM25S, RankBm25.name: RANK_BM25
    }  # fmt: skip
    for terms in (2, 4, 8):
        asked = keyword_data.queries(QUERIES, terms)
        calls = {contestant.name: _search(contestant, asked) for contestant in contestants}
        medians = interleaved(calls, rounds=rounds, slow=frozenset({RankBm25.name}))
        ours = medians[Ours.name]
        yield Row(f"{size:,} passages, {terms} terms", statistics.median(ours), "ms")
        for name, theirs in medians.items():
            if name != Ours.name:
                what = f"{size:,} passages, {terms} terms, to {name}"
                target = targets[name].get((size, terms))
                yield Row(what, ratio(ours, theirs), "×", target, f"({statistics.median(theirs):.3g} ms)")


def filter_rows(size: int, retriever: KeywordRetriever, *, rounds: int) -> Iterator[Row]:
    """Measure filtered queries against the same ones without a filter."""
    asked = keyword_data.queries(QUERIES, 4)
    filters: dict[str, Any] = {"none": None, **{share: keyword_data.filter_of(share) for share in keyword_data.SHARES}}
    calls = {name: _retrieve(retriever, asked, filter) for name, filter in filters.items()}
    medians = interleaved(calls, rounds=rounds, slow=frozenset())
    for share in keyword_data.SHARES:
        target = 0.5 if share == "1" else None
        yield Row(
            f"{size:,} passages, filter of {share} %, to none", ratio(medians[share], medians["none"]), "×", target
        )


def write_rows(size: int, retriever: KeywordRetriever) -> Iterator[Row]:
    """Measure single writes, and the query that comes next."""
    texts = keyword_data.passages(60, seed=7)
    asked = keyword_data.queries(60, 4, seed=8)
    taken: dict[str, list[float]] = {"add": [], "replace": [], "remove": [], "next query": []}

    def timed(name: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        start = time.perf_counter()
        call(*arguments, **options)
        taken[name].append(1e3 * (time.perf_counter() - start))

    for number, (text, query) in enumerate(zip(texts, asked, strict=True)):
        timed("add", retriever.add, [ChunkRecord(f"new{number}", text, None, {"part": 9})])
        timed("next query", retriever.retrieve, query, top_k=TOP_K)
        timed("replace", retriever.add, [ChunkRecord(f"doc{7 * number}#1", text)])
        timed("next query", retriever.retrieve, query, top_k=TOP_K)
        timed("remove", retriever.remove, f"new{number}")
    for name, times in taken.items():
        target = NEXT_QUERY_MS.get(size) if name == "next query" else 0.5 if size == 100_000 else None
        yield Row(f"{size:,} passages, {name} one" if name != "next query" else f"{size:,} passages, {name}",
                  statistics.median(times), "ms", target)  # fmt: skip


def creep_rows(replaces: int) -> Iterator[Row]:
    """Replace the same 1,000 passages over and over; compare memory with a fresh index, and look for pauses."""
    rng = random.Random(3)
    pool = keyword_data.passages(4_000, seed=9)
    current = {f"doc{n}": pool[n] for n in range(1_000)}

    def chunk(key: str) -> ChunkRecord:
        return ChunkRecord(key, current[key], "s.md", {"k": key[-1]})

    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        retriever = KeywordRetriever()
        retriever.add([chunk(key) for key in current])
        for _ in range(replaces):
            key = f"doc{rng.randrange(1_000)}"
            current[key] = rng.choice(pool)
            retriever.add([chunk(key)])
        gc.collect()
        used = tracemalloc.get_traced_memory()[0] - before
        fresh = KeywordRetriever()
        fresh.add([chunk(key) for key in current])
        gc.collect()
        anew = tracemalloc.get_traced_memory()[0] - before - used
    finally:
        tracemalloc.stop()
    yield Row(f"memory after {replaces:,} replaces of 1,000 passages, to a fresh index", used / anew, "×", 1.3)
    timed = max(replaces // 5, 1)
    longest = busiest = 0.0
    for _ in range(timed):
        key = f"doc{rng.randrange(1_000)}"
        current[key] = rng.choice(pool)
        start, busy = time.perf_counter(), time.thread_time()
        retriever.add([chunk(key)])
        longest = max(longest, 1e3 * (time.perf_counter() - start))
        busiest = max(busiest, 1e3 * (time.thread_time() - busy))
    note = f"of processor time; by the clock, other work included, {longest:.3g} ms"
    yield Row(f"longest pause in {timed:,} more replaces", busiest, "ms", 50.0, note)
    texts = [ascii_terms(text) for text in current.values()]
    error = 0.0
    for query in keyword_data.queries(3, 4, seed=11):
        for passage in retriever.retrieve(query, top_k=TOP_K):
            exact = bm25_score(ascii_terms(query), ascii_terms(passage.text), texts)
            error = max(error, abs(passage.score - exact) / exact)
    yield Row(f"relative error of the scores after {replaces:,} replaces", error, "", 1e-6)


def bench_keyword(sizes: list[int], *, rounds: int = 12, replaces: int = 100_000) -> Iterator[Row]:
    """Yield every line of the table, as it is measured."""
    for size in sizes:
        texts = keyword_data.passages(size)
        # Without metadata, which no peer indexes.
        plain = [ChunkRecord(f"doc{n // 4}#{n % 4}", text) for n, text in enumerate(texts)]
        peers: list[type[Any]] = [Ours, Tantivy]
        if size <= 100_000:
            peers += [Bm25s, RankBm25]
        contestants, seconds = [], {}
        for contestant, taken in built(peers, plain):
            contestants.append(contestant)
            seconds[contestant.name] = taken
        ours = seconds[Ours.name]
        yield Row(f"{size:,} passages, build", statistics.median(ours), "s")
        for name, taken in seconds.items():
            if name != Ours.name:
                target = 1.0 if name == Tantivy.name else None
                note = f"({statistics.median(taken):.3g} s)"
                yield Row(f"{size:,} passages, build, to {name}", ratio(ours, taken), "×", target, note)
        named = {name: statistics.median(_builds(name, plain)) for name in ("ascii", "unicode")}
        yield Row(f"{size:,} passages, build with unicode, to ascii", named["unicode"] / named["ascii"], "×", 1.1)
        yield from query_rows(size, contestants, rounds=rounds)
        contestants.clear()
        labelled = KeywordRetriever()
        labelled.add(keyword_data.records(texts))
        yield from filter_rows(size, labelled, rounds=rounds)
        yield from write_rows(size, labelled)
    if replaces:
        yield from creep_rows(replaces)


def section(lines: list[str]) -> str:
    """Return the section on keyword search for the page of benchmarks."""
    text = " ".join((__doc__ or "").split("\n\n")[2].split())
    versions = [f"{name} {version(name)}" for name in ("numpy", "tantivy", "bm25s", "numba", "rank-bm25") if has(name)]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {', '.join(versions)}"
    return "\n".join(["## Keyword search", "", text, "", f"Measured on: {machine}.", "", *lines])


def has(distribution: str) -> bool:
    """Say whether a distribution is installed."""
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


def main() -> None:
    """Print the table as Markdown, and write it where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--replaces", type=int, default=100_000)
    parser.add_argument("--write", type=Path, help="the page to put the table into")
    given = parser.parse_args()
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        # Read when numpy is imported, so once more.
        one_thread = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        again = [sys.executable, "-m", "tests.benchmarks.bench_keyword", *sys.argv[1:]]
        subprocess.run(again, check=True, env={**os.environ, **one_thread})
        return
    lines = ["| what | measured | target | |", "| --- | --- | --- | --- |"]
    print("\n".join(lines))
    for row in bench_keyword(given.sizes, rounds=given.rounds, replaces=given.replaces):
        lines.append(f"| {' | '.join(row.cells())} |")
        print(lines[-1], flush=True)
    if given.write:
        write_section(given.write, "keyword", section(lines))


if __name__ == "__main__":
    main()

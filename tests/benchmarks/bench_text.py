"""Text search in Postgres by our own analyser, beside the same rows under PostgreSQL's `simple` with `ranking="bm25"`.

    python -m tests.benchmarks.bench_text [--rows 100000] [--calls 7] [--write docs/benchmarks.md]

Both tables stand on one embedded server and take turns. A ratio of searches is that of the medians, of everything else
that of one run each. Rows hold 97 Zipf-distributed words. A mid word stands in 0.1 to 3 % of the rows, a rare one in
about one of 3,000, a common one in most.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from agora_core import MemoryLexicalVectorStore, PgLexicalVectorStore, VectorRecord
from tests.benchmarks import keyword_data
from tests.benchmarks.bench_postgres import server
from tests.benchmarks.page import write_section

TOP_K = 10
DIMENSION = 8
OURS, THEIRS = "ours", "theirs"
# How many words of each kind a query holds, and how many times as fast as the other table it should be.
KINDS: dict[str, tuple[dict[str, int], float | None]] = {
    "2 mid": ({"mid": 2}, None),
    "4 mid": ({"mid": 4}, 5.0),
    "8 mid": ({"mid": 8}, 20.0),
    "rare + 2 common": ({"rare": 1, "common": 2}, 50.0),
    "2 common": ({"common": 2}, 50.0),
    "4 common": ({"common": 4}, 60.0),
}
RANKS = {"common": (0, 12), "mid": (200, 5_000), "rare": (30_000, 45_000)}
FILTERED = {"50": 25.0, "10": 4.0, "1": 2.5}
MOST_P95 = 30.0


@dataclass(frozen=True)
class Row:
    """One line of the table: what it should at least, or at most, be stands beside it."""

    what: str
    measured: float
    unit: str
    target: float | None = None
    at_most: bool = True
    note: str = ""

    def line(self) -> str:
        """Return the line as Markdown."""
        target = verdict = ""
        if self.target is not None:
            target = f"{'≤' if self.at_most else '≥'} {self.target:g} {self.unit}"
            verdict = "met" if (self.measured <= self.target) is self.at_most else "**missed**"
        said = " ".join(filter(None, (verdict, self.note)))
        return f"| {self.what} | {self.measured:.3g} {self.unit} | {target} | {said} |"


def records(count: int, *, first: int = 0, seed: int = keyword_data.SEED) -> list[VectorRecord]:
    """Return records of four chunks a document, in groups of 50, 10, 5 and 1 % of them."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(count, DIMENSION)).astype(np.float32)
    groups = {share: rng.random(count) < float(share) / 100 for share in ("50", "10", "5", "1")}
    return [
        VectorRecord(
            f"doc{(first + n) // 4}#{n % 4}",
            text,
            vectors[n],
            "synthetic.md",
            {"groups": [share for share, held in groups.items() if held[n]]},
        )
        for n, text in enumerate(keyword_data.passages(count, seed=seed))
    ]


def asked(kind: dict[str, int], count: int) -> list[str]:
    """Return queries of so many words of each kind."""
    rng, words = random.Random(5), keyword_data.words()
    return [
        " ".join(words[n] for name, many in kind.items() for n in rng.sample(range(*RANKS[name]), many))
        for _ in range(count)
    ]


def timed(call: Callable[[], Any]) -> float:
    """Return the milliseconds a call takes."""
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def in_turn(stores: dict[str, Any], queries: list[str], **options: Any) -> dict[str, list[float]]:
    """Ask every store every query, in turn; the first query warms up."""
    times: dict[str, list[float]] = {name: [] for name in stores}
    for number, query in enumerate([queries[0], *queries]):
        for name, store in stores.items():
            taken = timed(partial(store.search_text, query, top_k=TOP_K, **options))
            if number:
                times[name].append(taken)
    return times


def search_rows(stores: dict[str, Any], calls: int) -> Iterator[Row]:
    """Measure searches without a filter, under one, through a scope, and with one passage a document."""
    every: list[float] = []
    for what, (kind, target) in KINDS.items():
        queries = asked(kind, calls)
        times = in_turn(stores, queries)
        every += times[OURS]
        mine, other = (statistics.median(times[name]) for name in (OURS, THEIRS))
        yield Row(what, other / mine, "×", target, False, f"({mine:.3g} ms against {other:.4g} ms)")
        one = in_turn({"plain": stores[OURS]}, queries)["plain"]
        cut = in_turn({"cut": stores[OURS]}, queries, per_document=1)["cut"]
        yield Row(f"{what}, per_document=1, to none", statistics.median(cut) / statistics.median(one), "×", 1.5)
    yield Row("p95 of all these", sorted(every)[int(0.95 * len(every))], "ms", MOST_P95)
    for share, target in FILTERED.items():
        for what, kind in (("rare + 2 common", {"rare": 1, "common": 2}), ("4 mid", {"mid": 4})):
            times = in_turn(stores, asked(kind, calls), filter={"groups": [share]})
            mine, other = (statistics.median(times[name]) for name in (OURS, THEIRS))
            note = f"({mine:.3g} ms against {other:.4g} ms)"
            if what == "4 mid":
                yield Row(f"{what}, filter of {share} %, above the other", mine - other, "ms", 2.5, True, note)
            else:
                yield Row(f"{what}, filter of {share} %", other / mine, "×", target, False, note)
    view = stores[OURS].scoped({"groups": ["5"]})
    times = in_turn({OURS: view}, asked({"rare": 1, "common": 2}, calls))
    yield Row("rare + 2 common, through a scope of 5 %", statistics.median(times[OURS]), "ms", 25.0)


def memory_rows(given: list[VectorRecord], calls: int) -> Iterator[Row]:
    """Measure what one passage a document costs in memory."""
    store = MemoryLexicalVectorStore(dimension=DIMENSION)
    store.upsert(given)
    for what in ("4 mid", "rare + 2 common"):
        queries = asked(KINDS[what][0], 5 * calls)
        in_turn({"it": store}, queries)  # what is kept of a term's scores is kept for both
        plain = in_turn({"it": store}, queries)["it"]
        cut = in_turn({"it": store}, queries, per_document=1)["it"]
        ratio = statistics.median(cut) / statistics.median(plain)
        yield Row(f"in memory, {what}, per_document=1, to none", ratio, "×", 1.5)


def write_rows(stores: dict[str, Any], rows: int) -> Iterator[Row]:
    """Measure upserts of 1, 10 and 100 records that are new."""
    for size, target in ((1, 1.0), (10, 1.2), (100, 0.8)):
        times: dict[str, list[float]] = {name: [] for name in stores}
        for number in range(8):
            given = records(size, first=rows + 4_000 * size + 400 * number, seed=size * 100 + number)
            for name, store in stores.items():
                times[name].append(timed(partial(store.upsert, given)))
        mine, other = (statistics.median(times[name][1:]) for name in (OURS, THEIRS))
        yield Row(f"upsert of {size}", mine / other, "×", target, True, f"({mine / size:.3g} ms a record)")


def _bytes(connection: psycopg.Connection[Any], like: str) -> float:
    found = connection.execute(
        "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname LIKE %s", (like,)
    ).fetchone()
    assert found is not None
    return float(found[0])


def bench_text(conninfo: str, rows: int, calls: int) -> Iterator[Row]:
    """Yield every line of the table, as it is measured."""
    # No index of the vectors: building it would be most of a load.
    options: dict[str, Any] = {"dimension": DIMENSION, "index": None}
    stores: dict[str, Any] = {
        OURS: PgLexicalVectorStore(conninfo, table="text_ours", **options),
        THEIRS: PgLexicalVectorStore(conninfo, table="text_theirs", text_search="simple", ranking="bm25", **options),
    }
    given = records(rows)
    loads = {}
    for name, store in stores.items():
        store.ensure_schema()
        loads[name] = timed(partial(store.upsert, given))
    note = f"({1e3 * loads[OURS] / rows:.3g} µs a row against {1e3 * loads[THEIRS] / rows:.4g})"
    yield Row("bulk load, the other to ours", loads[THEIRS] / loads[OURS], "×", 2.5, False, note)
    stores[OURS].maintain()
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for statement in ("VACUUM (FULL, ANALYZE)", "CHECKPOINT"):
            connection.execute(statement)
        sizes = [_bytes(connection, like) for like in ("text\\_ours%", "text\\_theirs%")]
    each = f"({sizes[0] / rows:.4g} a row)"
    yield Row("bytes, all tables and indexes, merged", sizes[0] / sizes[1], "×", 0.8, True, each)
    yield from search_rows(stores, calls)
    yield from write_rows(stores, rows)
    for store in stores.values():
        store.close()
    yield from memory_rows(given, calls)


def main() -> None:
    """Print the table as Markdown, and write it where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--calls", type=int, default=7)
    parser.add_argument("--write", type=Path, help="the page to put the table into")
    given = parser.parse_args()
    lines = ["| what | measured | target | |", "| --- | --- | --- | --- |"]
    print("\n".join(lines))
    with server() as conninfo:
        for row in bench_text(conninfo, given.rows, given.calls):
            lines.append(row.line())
            print(lines[-1], flush=True)
    if given.write:
        about = " ".join((__doc__ or "").split("\n\n")[2].split())
        head = f"`make bench ARGS=text`, {given.rows:,} rows, {given.calls} queries of a kind."
        write_section(given.write, "text", "\n".join(["## Text search in Postgres", "", f"{head} {about}", "", *lines]))


if __name__ == "__main__":
    main()

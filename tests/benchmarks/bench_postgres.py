"""Speed of the Postgres store, beside bare psycopg and beside its peers, on one embedded server.

    python -m tests.benchmarks.bench_postgres [--rows 100000] [--peer-rows 4000] [--no-peers] [--write PAGE]

A ratio is the median over rounds of the ratio of two lower quartiles taken turn by turn, so what disturbs the machine
disturbs both. The peers are installed with pip into `build/bench-postgres`, an environment of their own, because
langchain-postgres pins an older pgvector; they are measured there, on the same server and the same records.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import tempfile
import time
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from psycopg import sql
from psycopg_pool import ConnectionPool

from agora_core import PgLexicalVectorStore, PgVectorStore
from agora_core.stores.postgres.rows import COPY_HEADER, COPY_TRAILER, copy_rows, one_vector
from agora_core.stores.postgres.session import register_types
from agora_core.validation import prepare_records
from tests.benchmarks.page import write_section
from tests.benchmarks.vector_data import DIMENSION, Corpus, tokens_of
from tests.fix_postgres import start_embedded_server

TOP_K = 10
ROUNDS = 5
SHARES = ("50", "10", "1", "0.1")
PEERS = ("langchain-postgres", "llama-index-vector-stores-postgres", "psycopg2-binary", "asyncpg", "numpy")
ENVIRONMENT = Path("build/bench-postgres")


@dataclass(frozen=True)
class Row:
    """One line of the table; `target` is what the ratio or figure should reach, with the side it should be on."""

    what: str
    measured: str
    against: str = ""
    ratio: float | None = None
    target: str = ""

    def cells(self) -> tuple[str, ...]:
        """Return the line as text."""
        met = ""
        if self.ratio is not None and self.target:
            side, bound = self.target.split()
            met = "met" if (self.ratio <= float(bound)) is (side == "≤") else "**missed**"
        return (
            self.what,
            self.measured,
            self.against,
            "" if self.ratio is None else f"{self.ratio:.2f}",
            self.target,
            met,
        )


class Bench:
    """The server, the records and the rows of the report so far."""

    def __init__(self, conninfo: str, corpus: Corpus) -> None:
        self.conninfo = conninfo
        self.corpus = corpus
        self.rows: list[Row] = []
        self.bare = psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)
        register_types(self.bare)
        self.queries = [one_vector(query, "vector") for query in corpus.queries]
        unit = corpus.vectors / np.linalg.norm(corpus.vectors, axis=1, keepdims=True)
        self.scores = (corpus.queries / np.linalg.norm(corpus.queries, axis=1, keepdims=True)) @ unit.T

    def report(self, *arguments: Any) -> None:
        """Add a row and show it at once."""
        row = Row(*arguments)
        self.rows.append(row)
        print("  ".join(filter(None, row.cells())), flush=True)

    def truth(self, tokens: list[str] | None) -> list[set[str]]:
        """Return the ids of the exact best of every query."""
        scores = self.scores
        if tokens is not None:
            wanted = set(tokens)
            hit = np.array([not wanted.isdisjoint(audience) for audience in self.corpus.audiences])
            scores = np.where(hit, scores, -2.0)
        best = np.argsort(-scores, axis=1)[:, :TOP_K]
        return [{self.corpus.records[n].id for n in row} for row in best]


def timed(call: Callable[[], object]) -> float:
    """Return the seconds a call takes."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def quartile(times: list[float]) -> float:
    """Return the lower quartile: what other work on the machine disturbs least."""
    return sorted(times)[len(times) // 4]


def compared(
    first: Callable[[int], Any], second: Callable[[int], Any], calls: int = 24
) -> tuple[float, float, float, float]:
    """Return p50 and p95 of the first, p50 of the second, all in ms, and the median ratio of their lower quartiles."""
    ratios, firsts, seconds = [], [], []
    first(0)
    second(0)
    for _ in range(ROUNDS):
        mine: list[float] = []
        other: list[float] = []
        for n in range(calls):
            # In turns the one or the other finds the pages of this query in memory already.
            order = [(first, mine), (second, other)]
            for call, times in order if n % 2 else reversed(order):
                times.append(timed(partial(call, n)))
        ratios.append(quartile(mine) / quartile(other))
        firsts += mine
        seconds += other
    firsts.sort()
    return (
        statistics.median(firsts) * 1e3,
        firsts[int(len(firsts) * 0.95)] * 1e3,
        statistics.median(seconds) * 1e3,
        statistics.median(ratios),
    )


def recall(found: list[list[str]], truth: list[set[str]]) -> float:
    """Return the share of the exact best that was found."""
    return sum(len(set(ids) & best) for ids, best in zip(found, truth, strict=True)) / sum(map(len, truth))


def ingest(bench: Bench) -> None:
    """Bulk loads without a vector index, against bare COPY: into a plain table, and into one like the store's."""
    records = bench.corpus.records[:20_000]
    with PgVectorStore(bench.conninfo, table="bench_load", dimension=DIMENSION, index=None) as store:
        store.ensure_schema()
        copied = "id text PRIMARY KEY, text text NOT NULL, source text, metadata jsonb"

        def bare(table: str) -> float:
            def copy() -> None:
                with bench.bare.cursor().copy(
                    f"COPY {table} (id, text, source, metadata, embedding) FROM STDIN (FORMAT BINARY)"
                ) as stream:
                    stream.write(COPY_HEADER)
                    for start in range(0, len(records), 5_000):
                        batch = prepare_records(records[start : start + 5_000], dimension=DIMENSION)
                        for piece in copy_rows(batch, "vector", ["id", "text", "source", "metadata", "embedding"]):
                            stream.write(piece)
                    stream.write(COPY_TRAILER)

            return len(records) / timed(copy)

        fresh, replaced, plain, same = [], [], [], []
        for _ in range(3):
            bench.bare.execute("TRUNCATE bench_load")
            bench.bare.execute(
                f"DROP TABLE IF EXISTS bench_plain; CREATE TABLE bench_plain ({copied}, embedding vector({DIMENSION}))"
            )
            plain.append(bare("bench_plain"))
            same.append(bare("bench_load"))
            bench.bare.execute("TRUNCATE bench_load")
            fresh.append(len(records) / timed(lambda: store.upsert(records)))
            replaced.append(len(records) / timed(lambda: store.upsert(records)))
    rate = statistics.median(fresh)

    def ratio(of: list[float], to: list[float]) -> float:
        return statistics.median(one / other for one, other in zip(of, to, strict=True))

    bench.report(
        "upsert, new rows, no vector index",
        f"{rate:,.0f} rows/s",
        f"COPY into the same table {statistics.median(same):,.0f}",
        ratio(fresh, same),
        "≥ 0.95",
    )
    bench.report(
        "",
        "",
        f"COPY into a table without index and generated columns {statistics.median(plain):,.0f}",
        ratio(fresh, plain),
    )
    bench.report(
        "upsert, all rows replaced", f"{statistics.median(replaced):,.0f} rows/s", "new rows", ratio(replaced, fresh)
    )


def searches(bench: Bench, store: PgLexicalVectorStore) -> None:
    """Plain and filtered searches, against the statements that a person would write."""
    columns = "id, text, source, metadata, 1 - (embedding <=> %(q)s::vector) AS score"
    table = sql.Identifier(store.table).as_string(None)

    plain_text = f"SELECT {columns} FROM {table} ORDER BY embedding <=> %(q)s::vector LIMIT {TOP_K}"

    def plain(n: int) -> Any:
        return bench.bare.execute(plain_text, {"q": bench.queries[n % 64]}).fetchall()

    def ours(n: int) -> Any:
        return store.search(bench.corpus.queries[n % 64], top_k=TOP_K)

    p50, p95, other, ratio = compared(ours, plain)
    found = [[p.id for p in ours(n)] for n in range(64)]
    bench.report(
        f"search, recall {recall(found, bench.truth(None)):.3f}",
        f"{p50:.2f} ms (p95 {p95:.2f})",
        f"psycopg {other:.2f}",
        ratio,
    )
    bench.bare.execute("SET hnsw.ef_search = 100")
    right = recall([[row[0] for row in plain(n)] for n in range(64)], bench.truth(None))
    _, _, other, ratio = compared(ours, plain)
    bench.report("", "", f"psycopg with ef_search = 100, recall {right:.3f}, {other:.2f}", ratio, "≤ 1.15")
    throughput(bench, ours, lambda connection, n: connection.execute(plain_text, {"q": bench.queries[n % 64]}))
    bench.bare.execute("RESET hnsw.ef_search")
    for share in SHARES:
        tokens = tokens_of(share)
        wanted = [token for name in tokens for token in (f"=8:audiences{name}", f"[8:audiences{name}")]
        bare_exact = (
            f"WITH c AS MATERIALIZED (SELECT {columns} FROM {table} WHERE tokens && %(t)s::text[]) "
            f"SELECT * FROM c ORDER BY score DESC, id LIMIT {TOP_K}"
        )
        bare_walk = (
            f"SELECT {columns} FROM {table} WHERE (tokens && %(t)s::text[]) IS TRUE "
            f"ORDER BY embedding <=> %(q)s::vector LIMIT {TOP_K}"
        )

        def filtered(n: int, tokens: list[str] = tokens) -> Any:
            return store.search(bench.corpus.queries[n % 64], top_k=TOP_K, filter={"audience": tokens})

        def run(n: int, query: str, wanted: list[str] = wanted) -> Any:
            return bench.bare.execute(query, {"q": bench.queries[n % 64], "t": wanted}).fetchall()

        calls = 24 if share in ("1", "0.1") else 8
        p50, p95, other, ratio = compared(filtered, partial(run, query=bare_exact), calls)
        found = [[p.id for p in filtered(n)] for n in range(64)]
        right = recall(found, bench.truth(tokens))
        bench.report(
            f"search, {share} % match, recall {right:.3f}, rows {statistics.mean(map(len, found)):.1f}",
            f"{p50:.2f} ms (p95 {p95:.2f})",
            f"exact statement {other:.2f}",
            ratio,
            "≤ 1.2" if share == "1" else "",
        )
        bench.bare.execute("SET hnsw.iterative_scan = strict_order")
        _, _, other, ratio = compared(filtered, partial(run, query=bare_walk), 4)
        right = recall([[row[0] for row in run(n, bare_walk)] for n in range(16)], bench.truth(tokens)[:16])
        bench.bare.execute("RESET hnsw.iterative_scan")
        target = {"50": "≤ 1.2", "10": "≤ 1.2", "1": "≤ 0.2"}.get(share, "")
        bench.report("", "", f"iterative HNSW {other:.2f}, recall {right:.3f}", ratio, target)
    for name, floor in (("all", -1.0), ("half", None), ("none", 1.1)):
        half = store.search(bench.corpus.queries[0], top_k=TOP_K)[TOP_K // 2].score if floor is None else floor

        def floored(n: int, floor: float = half) -> Any:
            return store.search(bench.corpus.queries[n % 64], top_k=TOP_K, min_score=floor)

        _, _, _, ratio = compared(floored, ours)
        bench.report(f"search with a floor that {name} pass", "", "without it", ratio, "≤ 1.1")


def throughput(bench: Bench, ours: Callable[[int], Any], raw: Callable[[Any, int], Any]) -> None:
    """Sixteen threads, each with a queue of searches, against the same statement over a pool of psycopg's own."""

    def seconds(call: Callable[[int], Any]) -> float:
        with ThreadPoolExecutor(16) as threads:
            return timed(lambda: list(threads.map(call, range(320))))

    def configure(connection: Any) -> None:
        connection.autocommit = True
        connection.prepare_threshold = None
        register_types(connection)
        connection.execute("SET hnsw.ef_search = 100")

    with ConnectionPool(bench.conninfo, min_size=10, max_size=10, configure=configure) as pool:
        pool.wait()

        def pooled(n: int) -> Any:
            with pool.connection() as connection:
                return raw(connection, n).fetchall()

        rounds = [(seconds(ours), seconds(pooled)) for _ in range(ROUNDS)]
    rate = 320 / min(mine for mine, _ in rounds)
    other = 320 / min(theirs for _, theirs in rounds)
    ratio = statistics.median(theirs / mine for mine, theirs in rounds)
    bench.report(
        "16 threads, no filter", f"{rate:,.0f}/s", f"psycopg's pool, ef_search = 100, {other:,.0f}", ratio, "≥ 0.95"
    )


def facets(bench: Bench, store: PgLexicalVectorStore) -> None:
    """Counts of a list's members, against reading the metadata of all rows."""
    reading = sql.SQL("SELECT count(metadata) FROM {}").format(sql.Identifier(store.table))

    def read(n: int) -> Any:
        return bench.bare.execute(reading).fetchall()

    p50, p95, other, ratio = compared(lambda n: store.facets("audience"), read, 4)
    bench.report("facets of lists", f"{p50:.0f} ms (p95 {p95:.0f})", f"reading the metadata {other:.0f}", ratio)


def hybrid(bench: Bench, store: PgLexicalVectorStore) -> None:
    """Both legs at once, against one after the other."""
    words = [f"passage {n * 37 % len(bench.corpus.records)}" for n in range(64)]
    for name, query in (
        ("a rare word", lambda n: words[n % 64].split()[1]),
        ("a common word too", lambda n: words[n % 64]),
    ):

        def both(n: int, query: Any = query) -> Any:
            return store.search_hybrid(query(n), bench.corpus.queries[n % 64], top_k=TOP_K)

        def turn(n: int, query: Any = query) -> Any:
            return store.search(bench.corpus.queries[n % 64], top_k=20), store.search_text(query(n), top_k=20)

        calls = 16 if name == "a rare word" else 3
        p50, p95, other, ratio = compared(both, turn, calls)
        bench.report(f"search_hybrid, {name}", f"{p50:.2f} ms (p95 {p95:.2f})", f"two legs {other:.2f}", ratio, "≤ 0.7")


def peers(bench: Bench, count: int) -> None:
    """The peers in their own environment, and this store with the same few records and a live index."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        print(f"installing {', '.join(PEERS[:2])} into {ENVIRONMENT}", flush=True)
        venv.create(ENVIRONMENT, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS], check=True)
    corpus, few = bench.corpus, bench.corpus.records[:count]
    filters = {"no filter": None, "10 %": tokens_of("10"), "1 %": tokens_of("1")}
    with tempfile.TemporaryDirectory() as folder:
        arrays, texts = Path(folder, "vectors.npz"), Path(folder, "texts.json")
        np.savez(arrays, vectors=corpus.vectors[:count], queries=corpus.queries)
        data = {"ids": [r.id for r in few], "texts": [r.text for r in few], "audiences": corpus.audiences[:count]}
        texts.write_text(json.dumps(data))
        command: list[str | Path] = [
            python,
            "-W",
            "ignore",
            Path(__file__).with_name("postgres_peers.py"),
            bench.conninfo,
            arrays,
            texts,
            str(count),
            json.dumps(filters),
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": ""})
    results = json.loads(done.stdout.splitlines()[-1])
    with PgVectorStore(bench.conninfo, table="bench_few", dimension=DIMENSION) as store:
        store.ensure_schema()
        seconds: float = sum(timed(partial(store.upsert, few[start : start + 500])) for start in range(0, count, 500))
        bench.report(f"upsert into a live HNSW index, {count:,} rows", f"{count / seconds:,.0f} rows/s")
        bench.bare.execute("ANALYZE bench_few")
        mine = {}
        for name, tokens in filters.items():
            search = partial(store.search, top_k=TOP_K, filter=None if tokens is None else {"audience": tokens})
            search(corpus.queries[0])
            times = sorted(timed(partial(search, query)) for query in corpus.queries)
            mine[name] = statistics.median(times) * 1e3
            bench.report(f"search, {name}, {count:,} rows", f"{mine[name]:.2f} ms")
        with PgVectorStore(bench.conninfo, table="bench_few_bulk", dimension=DIMENSION, index="after") as bulk:
            bulk.ensure_schema()
            seconds = timed(lambda: bulk.upsert(few))
            built = timed(bulk.build_index)
            bench.report("upsert, index after", f"{count / seconds:,.0f} rows/s", f"and {built:.1f} s to build")
    for name, result in results.items():
        if "error" in result:
            bench.report(name, result["error"])
            continue
        bench.report(
            f"{name}: insert",
            f"{result['rows_per_second']:,.0f} rows/s",
            "our bulk load",
            count / seconds / result["rows_per_second"],
            "≥ 5",
        )
        for filter, measured in result["search"].items():
            ratio = measured["p50"] / mine[filter]
            bench.report(
                f"{name}: {filter}",
                f"{measured['p50']:.2f} ms (p95 {measured['p95']:.2f})",
                "this store",
                ratio,
                "≥ 2.5" if filter == "no filter" else "",
            )


@contextmanager
def server() -> Iterator[str]:
    """Start an embedded server for the benchmark."""
    folder = Path(tempfile.mkdtemp(prefix="agora-bench-"))
    started = start_embedded_server(folder)
    try:
        yield started.get_uri()
    finally:
        started.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def written(bench: Bench, count: int) -> str:
    """Return the report as a section of the page of benchmarks."""
    version = bench.bare.execute(
        "SELECT split_part(version(), ' ', 2), (SELECT extversion FROM pg_extension WHERE extname = 'vector')"
    ).fetchone()
    assert version is not None
    conditions = (
        f"`python -m tests.benchmarks postgres`: {count:,} records of {DIMENSION} dimensions, PostgreSQL {version[0]}, "
        f"pgvector {version[1]}, embedded, with its default of 128 MB shared buffers; "
        f"Python {platform.python_version()}, "
        f"{os.cpu_count()} processors. Ratios are taken turn by turn, on lower quartiles."
    )
    lines = [
        "## Postgres",
        "",
        conditions,
        "",
        "| what | measured | against | ratio | target | |",
        "| --- | --- | --- | --- | --- | --- |",
        *("| " + " | ".join(row.cells()) + " |" for row in bench.rows),
    ]
    return "\n".join(lines)


def main() -> None:
    """Run everything and print the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--peer-rows", type=int, default=4_000)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    with server() as conninfo:
        bench = Bench(conninfo, Corpus.of(options.rows))
        ingest(bench)
        with PgLexicalVectorStore(conninfo, table="bench", dimension=DIMENSION, index="after") as store:
            store.ensure_schema()
            seconds = timed(lambda: store.upsert(iter(bench.corpus.records)))
            bench.report(f"load of {options.rows:,} rows, texts searchable", f"{options.rows / seconds:,.0f} rows/s")
            bench.report("build_index", f"{timed(lambda: store.build_index(memory_mb=1_000)):.1f} s")
            bench.bare.execute("VACUUM ANALYZE bench")
            searches(bench, store)
            facets(bench, store)
            hybrid(bench, store)
        if not options.no_peers:
            peers(bench, options.peer_rows)
        report = written(bench, options.rows)
        bench.bare.close()
    if options.write is None:
        print(report)
        return
    write_section(options.write, "postgres", report)


if __name__ == "__main__":
    main()

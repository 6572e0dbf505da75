"""Speed of fusion, diversification and chunking: this library beside LangChain, turn by turn in one process.

    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.bench_fusion [--rounds 15] [--megabytes 2]

A peer that is not installed is left out. Figures are medians over rounds; a ratio is the median of the ratios of the
rounds, so that what disturbs the machine disturbs both. Each side fuses ready lists of its own passages.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agora_core import Passage, chunk_text, maximal_marginal_relevance, reciprocal_rank_fusion, relative_score_fusion
from agora_core.fusion import adaptive_fusion
from tests.benchmarks.page import TABLE_HEAD, table_section, write_section

# What a round of one contestant should take: long enough to measure, short enough to take turns.
ROUND_SECONDS = 0.02
LANGCHAIN = "LangChain"


@dataclass(frozen=True)
class Row:
    """One line of the table: what was measured, and its bound, above (`at_most`) or below."""

    what: str
    measured: float
    unit: str
    target: float | None = None
    at_most: bool = True

    def cells(self) -> tuple[str, str, str, str]:
        """Return the line as text: what, measured, target, verdict."""
        if self.target is None:
            return self.what, f"{self.measured:.3g} {self.unit}", "", ""
        met = self.measured <= self.target if self.at_most else self.measured >= self.target
        sign = "≤" if self.at_most else "≥"
        bound = f"{sign} {self.target:g} {self.unit}"
        return self.what, f"{self.measured:.3g} {self.unit}", bound, "met" if met else "**missed**"


def measure(contestants: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Return the seconds per call of every contestant in every round; they take turns."""
    repeats = {}
    for name, run in contestants.items():
        start = time.perf_counter()
        run()
        repeats[name] = max(1, int(ROUND_SECONDS / max(time.perf_counter() - start, 1e-7)))
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            start = time.perf_counter()
            for _ in range(repeats[name]):
                run()
            seconds[name].append((time.perf_counter() - start) / repeats[name])
    return seconds


def ratio(seconds: dict[str, list[float]], one: str, other: str) -> float:
    """Return how many times as long `one` takes as `other`."""
    return statistics.median(a / b for a, b in zip(seconds[one], seconds[other], strict=True))


def rankings(lists: int, size: int) -> list[list[str]]:
    """Return lists of ids that overlap by about a third."""
    rng = random.Random(3)
    universe = [f"doc{number}#0" for number in range(size * 3)]
    return [rng.sample(universe, size) for _ in range(lists)]


def fusion_rows(rounds: int) -> Iterator[Row]:
    """Measure the fusions on two short lists and on five long ones."""
    for lists, size, most in ((2, 20, 0.03), (5, 1_000, 2.0)):
        ids = rankings(lists, size)
        ours = [[Passage(key, key, 1.0 - n / size, "s.md", {"n": n}) for n, key in enumerate(one)] for one in ids]
        contestants: dict[str, Callable[[], Any]] = {
            "rrf": lambda ours=ours: reciprocal_rank_fusion(ours),  # type: ignore[misc]
            "relative_score": lambda ours=ours: relative_score_fusion(ours, weights=[1.0] * len(ours)),  # type: ignore[misc]
            "adaptive": lambda ours=ours: adaptive_fusion(ours),  # type: ignore[misc]
        }
        peer = langchain_fusion(ids)
        if peer is not None:
            contestants[LANGCHAIN] = peer
        seconds = measure(contestants, rounds)
        shown = f"{lists} × {size:,}"
        yield Row(f"RRF {shown}", 1e3 * statistics.median(seconds["rrf"]), "ms", most)
        if peer is not None:
            yield Row(f"RRF {shown}, {LANGCHAIN} to it", ratio(seconds, LANGCHAIN, "rrf"), "×", 4.0, at_most=False)
        for name in ("relative_score", "adaptive"):
            yield Row(f"{name} {shown}", 1e3 * statistics.median(seconds[name]), "ms")


def langchain_fusion(ids: list[list[str]]) -> Callable[[], Any] | None:
    """Return LangChain's fusion of the same lists, or None where it is not installed."""
    try:
        from langchain_classic.retrievers import EnsembleRetriever
        from langchain_core.documents import Document
    except ImportError:
        return None
    documents = [[Document(page_content=key, id=key, metadata={"id": key}) for key in one] for one in ids]
    ensemble = EnsembleRetriever.model_construct(retrievers=[], weights=[1.0] * len(ids), c=60, id_key="id")
    return lambda: ensemble.weighted_reciprocal_rank(documents)


def mmr_rows(rounds: int) -> Iterator[Row]:
    """Measure picking 10 of 1,000 by maximal marginal relevance, against the matrix products it cannot do without."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((1_000, 384), dtype=np.float32)
    query = rng.standard_normal(384, dtype=np.float32)
    seconds = measure(
        {
            "mmr": lambda: maximal_marginal_relevance(query, vectors, top_k=10),
            "products": lambda: [vectors @ query for _ in range(10)],
        },
        rounds,
    )
    yield Row("MMR 1,000 → 10 of 384 dimensions", 1e3 * statistics.median(seconds["mmr"]), "ms")
    yield Row("MMR 1,000 → 10, to 10 matrix products", ratio(seconds, "mmr", "products"), "×", 4.0)


def prose(megabytes: float) -> str:
    """Return English-like prose: words by a power law, sentences, paragraphs."""
    rng = random.Random(7)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randint(2, 9))) for _ in range(5_000)]
    weights = [1 / (place + 3) for place in range(5_000)]
    parts, size = [], 0
    while size < megabytes * 1e6:
        sentences = [" ".join(rng.choices(words, weights, k=rng.randint(6, 25))) for _ in range(rng.randint(2, 8))]
        parts.append(" ".join(f"{sentence.capitalize()}{rng.choice('.....!?')}" for sentence in sentences))
        size += len(parts[-1]) + 2
    return "\n\n".join(parts)


def chunk_rows(rounds: int, megabytes: float) -> Iterator[Row]:
    """Measure cutting prose into chunks of 800 characters with an overlap of 100."""
    text = prose(megabytes)
    contestants: dict[str, Callable[[], Any]] = {"chunk_text": lambda: chunk_text(text)}
    try:
        from langchain_text_splitters import RecursiveCharacterTextSplitter
    except ImportError:
        pass
    else:
        splitter = RecursiveCharacterTextSplitter(chunk_size=800, chunk_overlap=100)
        contestants[LANGCHAIN] = lambda: splitter.split_text(text)
    seconds = measure(contestants, rounds)
    speed = len(text) / 1e6 / statistics.median(seconds["chunk_text"])
    yield Row(f"chunk_text, {megabytes:g} MB of prose", speed, "MB/s", 60.0, at_most=False)
    if LANGCHAIN in seconds:
        yield Row(f"chunk_text, {LANGCHAIN}'s recursive splitter to it", ratio(seconds, LANGCHAIN, "chunk_text"), "×")


def bench_fusion(*, rounds: int = 15, megabytes: float = 2.0) -> Iterator[Row]:
    """Yield every line of the table, as it is measured."""
    yield from fusion_rows(rounds)
    yield from mmr_rows(rounds)
    yield from chunk_rows(rounds, megabytes)


def main() -> None:
    """Print the table as Markdown, and write it where asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--megabytes", type=float, default=2.0)
    parser.add_argument("--write", type=Path, help="the page to put the table into")
    given = parser.parse_args()
    print("\n".join(TABLE_HEAD))
    lines = []
    for row in bench_fusion(rounds=given.rounds, megabytes=given.megabytes):
        lines.append(f"| {' | '.join(row.cells())} |")
        print(lines[-1], flush=True)
    if given.write:
        note = (
            "`make bench ARGS=fusion`. Medians over rounds in which the contestants take turns; `×` is a ratio of two "
            "contestants. LangChain's fusion hands its own documents back and tells no score. Ours returns a new "
            "passage with its fused score for every id, which takes about half of the time: that is what keeps the "
            "ratio below its target, and it is kept because the score is what a floor and a reader need."
        )
        write_section(
            given.write,
            "fusion",
            table_section(
                "Fusion, diversification, chunking",
                note,
                lines,
                ("numpy", "langchain-classic", "langchain-text-splitters"),
            ),
        )


if __name__ == "__main__":
    main()

"""Relevance on collections of your own: nDCG@10, Recall@100 and MRR@10, the targets beside the figures.

    python -m tests.benchmarks.bench_quality FOLDER [--queries N] [--write docs/benchmarks.md]

FOLDER holds collections at any depth, each a folder with corpus.jsonl.gz, queries.jsonl and qrels.tsv. The embedder is
the offline one; `--onnx MODEL TOKENIZER` adds a second. Weights are fixed beforehand; the row of the best fixed weights
is an oracle, there for comparison, and `tuned` learns on a sample of the queries and is measured on the others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agora_core import OnnxEmbeddingProvider, WordLlamaEmbeddingProvider
from tests.benchmarks.page import write_section
from tests.benchmarks.quality_data import Collection, Quality, find_collections, load_collection, measure
from tests.benchmarks.quality_systems import (
    analysers,
    dense_leg,
    fixed_weights,
    hybrids,
    keyword_leg,
    run_system,
    tuned,
)

# nDCG@10 to reach, by the last part of a collection's name and the system.
TARGETS = {
    ("scifact", "keyword ascii"): 0.664,
    ("scifact", "keyword suggested"): 0.690,
    ("jaquad", "keyword unicode"): 0.91,
    ("zh", "keyword unicode"): 0.96,
    ("th", "keyword unicode"): 0.94,
    ("hi", "keyword unicode"): 0.93,
    ("vi", "keyword unicode"): 0.96,
    ("ru", "keyword suggested"): 0.955,
    ("de", "keyword suggested"): 0.94,
    ("scifact", "wordllama relative_score 0.3/0.7"): 0.704,
}
WITHIN_BEST = 0.98
JUDGED = 50


@dataclass(frozen=True)
class Row:
    """One line of the table; `target` is on nDCG@10."""

    collection: str
    system: str
    quality: Quality
    target: float | None = None

    @property
    def verdict(self) -> str:
        """Say whether the target, given to three digits, is met at that precision."""
        if self.target is None:
            return ""
        return "met" if round(self.quality.ndcg, 3) >= round(self.target, 3) else "missed"


def rows_of(collection: Collection, embedders: dict[str, Any], cache: Path | None) -> Iterator[Row]:
    """Measure everything on one collection."""
    last = collection.name.rpartition("/")[2]

    def row(system: str, retriever: Any, *, shown: str = "", target: float | None = None) -> Row:
        quality = measure(run_system(retriever, collection), collection.qrels)
        return Row(collection.name, shown or system, quality, target or TARGETS.get((last, system)))

    legs = {}
    for name, tokenizer in analysers(collection).items():
        legs[name] = keyword_leg(collection, tokenizer)
        shown = f"keyword {name} ({tokenizer})" if name != tokenizer else f"keyword {name}"
        yield row(f"keyword {name}", legs[name], shown=shown)
    for name, embedder in embedders.items():
        dense = dense_leg(collection, embedder, cache)
        yield row(f"{name} dense", dense)
        splits = [
            row(f"{name} best fixed weights {split}", it) for split, it in fixed_weights(dense, legs["suggested"])
        ]
        best = max(splits, key=lambda it: it.quality.ndcg)
        floor = WITHIN_BEST * best.quality.ndcg
        for system, retriever in hybrids(dense, legs["ascii"], legs["suggested"]):
            target = floor if system == "adaptive" else None
            found = row(f"{name} {system}", retriever, target=target)
            if system.startswith(("LangChain", "LlamaIndex")):
                floor = max(floor, found.quality.ndcg)
            yield found
        yield best
        learned = tuned(dense, legs["suggested"], collection, JUDGED)
        if learned is not None:
            weights, rest, hybrid = learned
            quality = measure(run_system(hybrid, rest), rest.qrels)
            yield Row(collection.name, f"{name} tuned on {JUDGED}, measured on the rest {weights}", quality)


def as_lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a Markdown table that reads well in a terminal too."""
    head = ("collection", "system", "nDCG@10", "Recall@100", "MRR@10", "target", "")
    cells = [
        (
            row.collection,
            row.system,
            f"{row.quality.ndcg:.4f}",
            f"{row.quality.recall:.4f}",
            f"{row.quality.mrr:.4f}",
            "" if row.target is None else f"{row.target:.3f}",
            row.verdict,
        )
        for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    for position, line in enumerate([head, *cells]):
        yield "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |"
        if position == 0:
            yield "| " + " | ".join("-" * width for width in widths) + " |"


def section_text(tables: Sequence[Sequence[Row]]) -> str:
    """Return the section on relevance for the page of benchmarks."""
    intro = (
        "## Relevance\n\n"
        "`make bench-quality DATA=<folder>`, on at most 600 queries of a collection, 1,000 where it has 1,000 "
        "documents or more, evenly spaced: those the targets were set on. Hybrids fetch 100 from each leg, the keyword "
        "leg with the suggested analyser. LangChain's `EnsembleRetriever` stands with its defaults: 20 from each leg, "
        "equal weights, over the ascii analyser; LlamaIndex's `QueryFusionRetriever` stands with each of its modes "
        "over the very lists that ours get. `adaptive` is the factories' default. Its target is "
        f"{WITHIN_BEST:.0%} of the best fixed weights, which are found with the judgements at hand, or a peer's figure "
        "where that is higher. Figures are exact and repeat on any machine."
    )
    return "\n\n".join([intro, *("\n".join(as_lines(rows)) for rows in tables)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure every collection under a folder, print the tables, and write them where asked."""
    parser = argparse.ArgumentParser(prog="bench-quality", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--queries", type=int, help="most queries a collection; default 600, or 1000 if it is large")
    parser.add_argument("--only", nargs="*", default=[], help="parts of the names of collections to take")
    parser.add_argument("--onnx", nargs=2, metavar=("MODEL", "TOKENIZER"), help="a second embedder, from local files")
    parser.add_argument("--cache", type=Path, help="folder that keeps the vectors of the second embedder")
    parser.add_argument("--write", type=Path, help="page to write the section on relevance into")
    options = parser.parse_args(arguments)
    folders = find_collections(options.folder)
    if not folders:
        parser.error(
            f"no collection under {options.folder}: a folder with corpus.jsonl.gz, queries.jsonl and qrels.tsv"
        )
    embedders: dict[str, Any] = {"wordllama": WordLlamaEmbeddingProvider()}
    if options.onnx:
        # One text at a time: int8 models are no slower so, and a vector does not depend on its neighbours.
        embedders["onnx"] = OnnxEmbeddingProvider(*options.onnx, max_tokens=256, batch_size=1)
    tables = []
    for folder in folders:
        if options.only and not any(part in folder.as_posix() for part in options.only):
            continue
        collection = load_collection(folder, options.folder, max_queries=options.queries)
        rows = list(rows_of(collection, embedders, options.cache))
        tables.append(rows)
        print(
            f"\n{collection.name}: {len(collection.ids):,} documents, {len(collection.queries):,} queries", flush=True
        )
        print("\n".join(as_lines(rows)), flush=True)
    if options.write:
        write_section(options.write, "quality", section_text(tables))
    missed = [row for rows in tables for row in rows if row.verdict == "missed"]
    print(f"\n{len(missed)} targets missed" if missed else "\nall targets met")
    for row in missed:
        print(f"  {row.collection} · {row.system}: {row.quality.ndcg:.4f} of {row.target:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

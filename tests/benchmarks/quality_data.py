"""Test collections on disk: `corpus.jsonl.gz` (id, title, text), `queries.jsonl` (id, text), `qrels.tsv` (graded)."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LARGE = 1_000
SMALL_QUERIES, LARGE_QUERIES = 600, 1_000
FILES = ("corpus.jsonl.gz", "queries.jsonl", "qrels.tsv")


@dataclass(frozen=True)
class Collection:
    """Documents, questions, and which documents answer which question how well."""

    name: str
    ids: list[str]
    texts: list[str]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]


def find_collections(root: Path) -> list[Path]:
    """Return the folders under `root` (itself included) that hold a collection, in order of their paths."""
    return sorted(path.parent for path in root.rglob(FILES[0]) if all((path.parent / name).is_file() for name in FILES))


def load_collection(folder: Path, root: Path, *, max_queries: int | None = None) -> Collection:
    """Read a collection with at most `max_queries` of its judged queries, evenly spaced, the same every time.

    By default these are 600, or 1,000 where there are 1,000 documents or more.
    """
    with gzip.open(folder / FILES[0], "rt", encoding="utf-8") as file:
        documents = [json.loads(line) for line in file]
    with (folder / FILES[1]).open(encoding="utf-8") as file:
        queries = {entry["id"]: entry["text"] for entry in map(json.loads, file)}
    qrels: dict[str, dict[str, int]] = {}
    with (folder / FILES[2]).open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            qrels.setdefault(row["query-id"], {})[row["doc-id"]] = int(row["grade"])
    most = max_queries or (SMALL_QUERIES if len(documents) < LARGE else LARGE_QUERIES)
    chosen = evenly([key for key in queries if key in qrels], most)
    return Collection(
        name=folder.relative_to(root).as_posix() if folder != root else folder.name,
        ids=[entry["id"] for entry in documents],
        texts=[f"{entry.get('title') or ''} {entry['text']}".strip() for entry in documents],
        queries={key: queries[key] for key in chosen},
        qrels={key: qrels[key] for key in chosen},
    )


def evenly(keys: Sequence[str], most: int) -> list[str]:
    """Return at most `most` of `keys`, evenly spaced."""
    if len(keys) <= most:
        return list(keys)
    step = len(keys) / most
    return [keys[int(n * step)] for n in range(most)]


Run = Mapping[str, Sequence[str]]
"""For each query the ids found, best first."""


@dataclass(frozen=True)
class Quality:
    """Means over the judged queries; one without results counts 0."""

    ndcg: float
    recall: float
    mrr: float


def measure(run: Run, qrels: Mapping[str, Mapping[str, int]]) -> Quality:
    """Return nDCG@10, Recall@100 and MRR@10 as ir_measures has them."""
    import ir_measures
    from ir_measures import RR, R, nDCG

    judged = [ir_measures.Qrel(query, doc, grade) for query, docs in qrels.items() for doc, grade in docs.items()]
    # The measures sort by score: ours is the place, so that equal scores keep the order the retriever gave.
    found = [ir_measures.ScoredDoc(query, doc, -place) for query, docs in run.items() for place, doc in enumerate(docs)]
    sums = {nDCG @ 10: 0.0, R @ 100: 0.0, RR @ 10: 0.0}
    for result in ir_measures.iter_calc(list(sums), judged, found):
        sums[result.measure] += result.value
    return Quality(*(total / len(qrels) for total in sums.values()))

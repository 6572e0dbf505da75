"""Made-up records for the benchmarks of the memory store; seeded, so every run measures the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from agora_core import VectorRecord

DIMENSION = 384
SEED = 20261130
SHARES = {"50": 0.5, "10": 0.1, "1": 0.01, "0.1": 0.001}


def vectors(count: int, seed: int) -> Any:
    """Clustered vectors of a moderate intrinsic dimension, as embeddings are; float32, not of length one."""
    rng, world = np.random.default_rng(seed), np.random.default_rng(SEED)
    basis = world.standard_normal((48, DIMENSION)).astype(np.float32)
    centres = world.standard_normal((200, 48)).astype(np.float32)
    made = np.empty((count, DIMENSION), dtype=np.float32)
    for first in range(0, count, 20_000):
        last = min(count, first + 20_000)
        inner = centres[rng.integers(0, 200, last - first)]
        inner = inner + 0.7 * rng.standard_normal((last - first, 48)).astype(np.float32)
        noise = 0.5 * rng.standard_normal((last - first, DIMENSION)).astype(np.float32)
        made[first:last] = inner @ basis + noise
    return made


def tokens_of(share: str) -> list[str]:
    """Return the four tokens whose union selects about `share` per cent of the records."""
    return [f"grp:{share}pc:{n}" for n in range(4)]


def audiences(count: int) -> list[list[str]]:
    """Per record two tokens of 1,000, and one of four for each share it falls into."""
    rng = np.random.default_rng(SEED + 1)
    background = rng.integers(0, 1000, (count, 2)).tolist()
    made = [[f"user:{one}", f"user:{other}"] for one, other in background]
    for name, share in SHARES.items():
        which = rng.integers(0, 4, count).tolist()
        for row in np.flatnonzero(rng.random(count) < share).tolist():
            made[row].append(f"grp:{name}pc:{which[row]}")
    return made


@dataclass(frozen=True)
class Corpus:
    """Records, four to a document, and queries like them."""

    records: list[VectorRecord]
    vectors: Any
    audiences: list[list[str]]
    queries: Any

    @classmethod
    def of(cls, count: int) -> Corpus:
        """Make a corpus of `count` records and 64 queries."""
        made, groups = vectors(count, SEED), audiences(count)
        records = [
            VectorRecord(f"doc{n // 4}#{n % 4}", f"passage {n}", made[n], "s.md", {"audience": groups[n]})
            for n in range(count)
        ]
        return cls(records, made, groups, vectors(64, SEED + 2))


def wide_records(first: int, count: int) -> list[VectorRecord]:
    """Return records with 200 bytes of text and 200 bytes of metadata as JSON, none of it shared."""
    rng = np.random.default_rng(first)
    made = rng.standard_normal((count, DIMENSION)).astype(np.float32)
    return [
        VectorRecord(
            f"doc{n // 4}#{n % 4}",
            f"{n:08} " * 22 + "ab",
            made[n - first],
            f"folder/file{n // 4}.md",
            {
                "audience": [f"user:{n % 997}", f"team:{n % 89}"],
                "title": f"the title of document {n // 4}, " + "x" * 60,
                "year": 1990 + n % 35,
                "lang": "en",
                "draft": False,
            },
        )
        for n in range(first, first + count)
    ]

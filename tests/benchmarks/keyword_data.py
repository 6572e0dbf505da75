"""Synthetic passages and queries for the speed of keyword search: Zipf-distributed words, the same on every machine."""

from __future__ import annotations

import numpy as np

from agora_core import ChunkRecord

VOCABULARY = 50_000
SEED = 20_261_130
# A passage is in one of four groups of each size, so that a filter on all four selects that share.
SHARES = {"10": 0.1, "1": 0.01}


def words(count: int = VOCABULARY) -> list[str]:
    """Return pronounceable lower-case words, which every tokenizer leaves whole."""
    syllables = [consonant + vowel for consonant in "bcdfghjklmnprstvz" for vowel in "aeiou"]
    made = []
    for number in range(count):
        word, rest = "", number + len(syllables)
        while rest:
            word += syllables[rest % len(syllables)]
            rest //= len(syllables)
        made.append(word + "x")
    return made


def passages(count: int, *, seed: int = SEED, mean_length: int = 90) -> list[str]:
    """Return texts of about `mean_length` words, at least 10 and at most 400."""
    rng = np.random.default_rng(seed)
    cumulative = np.cumsum(1.0 / np.power(np.arange(VOCABULARY) + 2.7, 1.05))
    lengths = np.clip(rng.lognormal(np.log(mean_length), 0.4, count).astype(int), 10, 400)
    drawn = np.searchsorted(cumulative / cumulative[-1], rng.random(int(lengths.sum())))
    known = words()
    ends = np.cumsum(lengths)
    return [" ".join([known[n] for n in drawn[end - length : end]]) for end, length in zip(ends, lengths, strict=True)]


def queries(count: int, terms: int, *, seed: int = SEED + 1) -> list[str]:
    """Return queries: some frequent words, mostly those of the middle."""
    rng = np.random.default_rng(seed)
    cumulative = np.cumsum(1.0 / np.power(np.arange(VOCABULARY) + 10.0, 0.7))
    known = words()
    return [
        " ".join(known[n] for n in np.searchsorted(cumulative / cumulative[-1], rng.random(terms)))
        for _ in range(count)
    ]


def records(texts: list[str]) -> list[ChunkRecord]:
    """Return passages four to a document, with groups to filter by."""
    rng = np.random.default_rng(SEED + 2)
    member = {share: rng.random(len(texts)) < part for share, part in SHARES.items()}
    which = rng.integers(0, 4, len(texts)).tolist()
    return [
        ChunkRecord(
            f"doc{n // 4}#{n % 4}",
            text,
            "synthetic.md",
            {"groups": [f"{share}-{which[n]}" for share in SHARES if member[share][n]], "part": n % 4},
        )
        for n, text in enumerate(texts)
    ]


def filter_of(share: str) -> dict[str, list[str]]:
    """Return the filter that selects about `share` percent of the passages."""
    return {"groups": [f"{share}-{n}" for n in range(4)]}

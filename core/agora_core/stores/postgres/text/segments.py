"""Postings as bytes, and their scores: pure functions of arrays.

A posting is 12 bytes: the row number of a text, its length in terms, and how often it holds the term. A segment is any
number of postings of one term; segments of a term may be joined by joining their bytes.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agora_core.keyword.analysis import AnyTokenizer, passage_terms
from agora_core.keyword.bm25 import bm25_idf

POSTING: Final = np.dtype([("row", "<u4"), ("length", "<u4"), ("frequency", "<u4")])

_LONGEST_TERM: Final = 255
_HEADER: Final = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_TRAILER: Final = b"\xff\xff"
_PIECE: Final = 1 << 16
# Sums of shares on this grid are exact, so a score does not hang on the order of summing; see `keyword.search`.
_GRID: Final = 768.0
_LEAST_ROUNDED: Final = 1e-3

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]


def term_key(term: str) -> str:
    """Return what stands for a term in the table: itself, or a digest of one that an index cannot hold."""
    data = term.encode()
    return term if len(data) <= _LONGEST_TERM else "\x1f" + hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class CountedText:
    """A text counted: how often it holds each term, and its length."""

    frequencies: dict[str, int]
    length: int


def counted(tokenizer: AnyTokenizer, text: str) -> CountedText:
    """Count a text."""
    terms, length = passage_terms(tokenizer, text)
    frequencies: dict[str, int] = {}
    for term in terms:
        frequencies[term] = frequencies.get(term, 0) + 1
    return CountedText(frequencies, length)


def segments_of(texts: Iterable[tuple[int, CountedText]]) -> dict[str, bytes]:
    """Return the segment of each term of texts, which come with their row numbers."""
    found: dict[str, bytearray] = {}
    pack = struct.Struct("<III").pack
    for row, text in texts:
        for term, frequency in text.frequencies.items():
            piece = pack(row, text.length, frequency)
            key = term_key(term)
            if key in found:
                found[key] += piece
            else:
                found[key] = bytearray(piece)
    return {term: bytes(data) for term, data in found.items()}


def copy_pieces(segments: Mapping[str, bytes]) -> Iterator[bytes]:
    """Give the stream of a binary COPY of (term, postings)."""
    out = bytearray(_HEADER)
    pack = struct.Struct(">i").pack
    for term in sorted(segments):
        key, data = term.encode(), segments[term]
        out += b"\x00\x02" + pack(len(key)) + key + pack(len(data)) + data
        if len(out) > _PIECE:
            yield bytes(out)
            out.clear()
    yield bytes(out + _TRAILER)


def unpacked_rows(data: bytes | None) -> Rows:
    """Return row numbers that the server sent as eight bytes each, most significant first."""
    return np.frombuffer(data or b"", ">i8").astype(np.int64)


@dataclass(frozen=True, slots=True)
class Statistics:
    """What BM25 needs to know of all texts: how many there are, and how long they are together."""

    texts: int
    length: int

    @property
    def average(self) -> float:
        """The average length, at least a bit above 0."""
        return max(self.length / self.texts, 1e-9) if self.texts else 1.0


@dataclass(frozen=True, slots=True)
class Extra:
    """Texts that stand in no segment yet, under numbers below 0."""

    texts: Sequence[CountedText] = ()

    @property
    def statistics(self) -> Statistics:
        """Their share of the statistics."""
        return Statistics(len(self.texts), sum(text.length for text in self.texts))

    def postings(self, term: str) -> npt.NDArray[Any]:
        """Return the postings of a term among them; the row of text n is n."""
        found = [
            (n, text.length, text.frequencies[term]) for n, text in enumerate(self.texts) if term in text.frequencies
        ]
        return np.array(found, POSTING)


def scored(
    weights: Mapping[str, float],
    segments: Mapping[str, bytes],
    extra: Extra,
    *,
    dead: Rows,
    statistics: Statistics,
    visible: tuple[Rows, npt.NDArray[np.bool_]] | None,
    k1: float,
    b: float,
) -> tuple[Rows, Scores]:
    """Return the rows that hold a term, and their BM25 scores, best first, equal ones in no order.

    Args:
        weights: the terms of the query with their weights.
        segments: the postings of each term, by its key.
        extra: texts that stand in no segment; their rows are -1, -2, ...
        dead: row numbers that count no more, sorted.
        statistics: of the texts that count.
        visible: the rows whose texts count alone, sorted, and which of `extra` do; None for all.
        k1: BM25's saturation of frequent terms.
        b: BM25's share of length normalisation.
    """
    rows: list[Rows] = []
    shares: list[Scores] = []
    for term, factor in weights.items():
        stored = np.frombuffer(segments.get(term_key(term), b""), POSTING)
        numbers = stored["row"].astype(np.int64)
        # A text that replaced another has a row of its own; the old one's postings stay until they are swept.
        live = ~np.isin(numbers, dead) if len(dead) else np.ones(len(numbers), bool)
        fresh = extra.postings(term)
        fresh_rows = -1 - fresh["row"].astype(np.int64)
        if visible is not None:
            live &= np.isin(numbers, visible[0])
            kept = visible[1][fresh["row"]] if len(fresh) else np.zeros(0, bool)
            fresh, fresh_rows = fresh[kept], fresh_rows[kept]
        numbers = np.concatenate([numbers[live], fresh_rows])
        if not len(numbers):
            continue
        frequencies = np.concatenate([stored["frequency"][live], fresh["frequency"]]).astype(np.float64)
        lengths = np.concatenate([stored["length"][live], fresh["length"]]).astype(np.float64)
        weight = bm25_idf(statistics.texts, len(numbers)) * (k1 + 1) * factor
        share = lengths * (k1 * b / statistics.average) + k1 * (1 - b) + frequencies
        share = frequencies / share * weight
        if weight > _LEAST_ROUNDED:
            share = share + _GRID - _GRID
        rows.append(numbers)
        shares.append(share)
    if not rows:
        return np.zeros(0, np.int64), np.zeros(0)
    distinct, places = np.unique(np.concatenate(rows), return_inverse=True)
    sums = np.bincount(places, weights=np.concatenate(shares), minlength=len(distinct))
    order = np.argsort(-sums, kind="stable")
    return distinct[order], sums[order].astype(np.float64)


def blocks(scores: Scores, first: int) -> Iterator[tuple[int, int]]:
    """Give the beginning and the end of stretches of a falling list of scores, each several times as long as the last.

    Equal scores are never parted, so that they can be ordered by id within a stretch.
    """
    start, size = 0, first
    while start < len(scores):
        end = min(len(scores), start + size)
        if end < len(scores):
            end = int(np.searchsorted(-scores, -scores[end - 1], side="right"))
        yield start, end
        start, size = end, size * 4


def sweep(data: bytes, dead: Rows) -> bytes:
    """Return a segment without the postings of dead rows."""
    postings = np.frombuffer(data, POSTING)
    return postings[~np.isin(postings["row"].astype(np.int64), dead)].tobytes()

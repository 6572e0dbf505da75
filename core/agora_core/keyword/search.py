"""The best rows of a query: exact BM25, leaving out terms that cannot change the answer.

The method is MaxScore (Turtle and Flood 1995).
A row that holds only some of the terms is worth at most the sum of their bounds. Once k rows reach more than that
without these terms, they need only add to the rows found by others, by binary search. All scores are float64 and summed
in the order of the query's terms, so a score does not depend on what was left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from agora_core.keyword.bm25 import bm25_idf
from agora_core.keyword.index import BM25Index, Float64Array
from agora_core.keyword.postings import BoolArray

RowArray = npt.NDArray[np.intp]

# Below this many postings leaving some out costs more than it spares.
_SMALL: Final = 2048
# Lists up to this length are scored when first seen; longer ones when they have to be, or are asked for again.
_EAGER: Final = 8192
_RANKED: Final = 32
_LEAST_CACHE: Final = 1 << 18
# Covers the rounding of sums of bounds.
_BELOW: Final = 1 - 1e-12


class Selection:
    """The rows that a filter lets through; `mask` covers every row. Valid until the next write."""

    __slots__ = ("_rows", "count", "lists", "mask")

    def __init__(self, mask: BoolArray) -> None:
        self.mask = mask
        self.count = int(np.count_nonzero(mask))
        self.lists: dict[int, TermList] = {}
        self._rows: npt.NDArray[np.int32] | None = None

    @property
    def rows(self) -> npt.NDArray[np.int32]:
        """The rows, ascending."""
        if self._rows is None:
            self._rows = np.flatnonzero(self.mask).astype(np.int32)
        return self._rows


class TermList:
    """The postings of one term, under one selection; scored when first needed. Valid until the next write."""

    __slots__ = ("_frequencies", "_ranked", "bound", "rows", "scores", "seen", "weight")

    def __init__(self, rows: npt.NDArray[np.int32], frequencies: npt.NDArray[np.float32], weight: float) -> None:
        self.rows: npt.NDArray[np.int32] | RowArray = rows
        self._frequencies = frequencies
        self.weight = weight  # idf (k1 + 1): what no score of this term exceeds
        self.bound = weight
        self.scores: Float64Array | None = None
        self.seen = False
        self._ranked: Float64Array | None = None

    def score(self, searcher: Searcher, selection: Selection | None) -> Float64Array:
        """Score every posting that is selected, and tighten the bound."""
        if self.scores is None:
            rows, frequencies = self.rows, self._frequencies
            if selection is not None:
                kept = _selected(rows, selection)
                rows, frequencies = rows[kept], frequencies[kept]
            self.rows = rows.astype(np.intp)
            self.scores = searcher.term_scores(self.rows, frequencies, self.weight)
            self.bound = float(self.scores.max()) if len(rows) else 0.0
        return self.scores

    def kth(self, k: int) -> float:
        """Return the k-th best score of this term alone, 0 where there are fewer."""
        scores = self.scores
        if scores is None or len(scores) < k:
            return 0.0
        if k > _RANKED:
            return float(np.partition(scores, len(scores) - k)[len(scores) - k])
        if self._ranked is None:
            low = max(len(scores) - _RANKED, 0)
            self._ranked = np.sort(np.partition(scores, low)[low:])[::-1]
        return float(self._ranked[k - 1])

    def add_to(self, searcher: Searcher, rows: RowArray, scores: Float64Array) -> None:
        """Add this term's share to the `scores` of `rows`, which are selected."""
        if not len(self.rows):
            return
        place = self.rows.searchsorted(rows.astype(self.rows.dtype, copy=False))
        place[place == len(self.rows)] = 0
        hit = np.flatnonzero(self.rows[place] == rows)
        found = place[hit]
        if self.scores is not None:
            scores[hit] += self.scores[found]
        else:
            scores[hit] += searcher.term_scores(rows[hit], self._frequencies[found], self.weight)


def _selected(rows: npt.NDArray[np.int32] | RowArray, selection: Selection) -> RowArray:
    """Return the places of the selected ones among `rows`."""
    if selection.count * 8 < len(rows):
        place = rows.searchsorted(selection.rows)
        place[place == len(rows)] = 0
        hit: RowArray = place[rows[place] == selection.rows]
        return hit
    return np.flatnonzero(selection.mask.take(rows))


class Searcher:
    """Searches an index; not beside a write to it, and one search at a time. `forget` must follow every write."""

    def __init__(self, index: BM25Index, k1: float, b: float) -> None:
        self._index = index
        self._k1, self._b = k1, b
        self._lists: dict[int, TermList] = {}
        self._cached = 0
        self._sums: Float64Array = np.zeros(0, np.float64)

    def forget(self) -> None:
        """Drop what was worked out from the collection as it was."""
        self._lists = {}
        self._cached = 0

    def term_scores(self, rows: RowArray, frequencies: npt.NDArray[np.float32], weight: float) -> Float64Array:
        """Return weight tf / (tf + k1 (1 - b + b length / average)) for each row."""
        share = self._index.lengths.take(rows)
        share *= self._k1 * self._b / self._index.average_length
        share += self._k1 * (1 - self._b)
        share += frequencies
        np.divide(frequencies, share, out=share)
        share *= weight
        return share

    def search(
        self, terms: Sequence[str], k: int, floor: float | None, selection: Selection | None
    ) -> tuple[RowArray, Float64Array]:
        """Return the rows with the k best scores and all that tie with the last of them, in no order.

        `terms` are distinct. Only rows that hold one of them, score at least `floor` and are selected come back.
        """
        lists = self._term_lists(terms, selection)
        if not lists:
            return np.zeros(0, np.intp), np.zeros(0, np.float64)
        needed, others, least = self._plan(lists, k, floor, selection)
        try:
            rows, scores = self._accumulate(needed, selection, least, sum(other.bound for other in others))
        except BaseException:
            self._sums = np.zeros(0, np.float64)
            raise
        if others:
            rows, scores = self._complete(rows, scores, k, least, lists, others)
        if floor is not None:
            reached = scores >= floor
            rows, scores = rows[reached], scores[reached]
        if len(scores) > k:
            kth = np.partition(scores, len(scores) - k)[len(scores) - k]
            best = scores >= kth
            rows, scores = rows[best], scores[best]
        return rows, scores

    def _term_lists(self, terms: Sequence[str], selection: Selection | None) -> list[TermList]:
        index = self._index
        if self._cached > max(_LEAST_CACHE, index.postings.live // 4):
            self.forget()
            if selection is not None:
                selection.lists = {}
        cache = self._lists if selection is None else selection.lists
        lists = []
        for term in terms:
            number = index.vocabulary.get(term)
            # A term that is being counted at this moment has a number beyond the frequencies.
            if number is None or number >= len(index.document_frequency):
                continue
            known = cache.get(number)
            if known is None:
                frequency = int(index.document_frequency[number])
                if not frequency:
                    continue
                weight = bm25_idf(index.documents, frequency) * (self._k1 + 1)
                known = cache[number] = TermList(*index.postings.read(number), weight)
                self._cached += frequency
            lists.append(known)
        return lists

    def _plan(
        self, lists: list[TermList], k: int, floor: float | None, selection: Selection | None
    ) -> tuple[list[TermList], list[TermList], float]:
        """Return the terms that find rows, those that only add to rows found, and what a row must reach."""
        small = sum(len(known.rows) for known in lists) <= _SMALL
        least = max(floor or 0.0, 0.0)
        for known in lists:
            if small or known.seen or len(known.rows) <= _EAGER:
                known.score(self, selection)
            known.seen = True
        if small:
            return lists, [], 0.0
        for known in lists:
            least = max(least, known.kth(k))
        finding: set[int] = set()
        waiting = list(lists)
        while waiting:
            rest = sum(known.bound for known in waiting)
            if rest < least * _BELOW:
                break
            strongest = max(waiting, key=lambda known: known.bound)
            if strongest.scores is None:
                strongest.score(self, selection)  # its bound shrinks: judge again
                least = max(least, strongest.kth(k))
                continue
            waiting.remove(strongest)
            finding.add(id(strongest))
        needed = [known for known in lists if id(known) in finding]
        return needed, [known for known in lists if id(known) not in finding], least

    def _accumulate(
        self, needed: list[TermList], selection: Selection | None, least: float, slack: float
    ) -> tuple[RowArray, Float64Array]:
        """Add up the scores of some terms; return rows that may reach `least` with `slack` more, and their sums."""
        if len(self._sums) < self._index.rows:
            self._sums = np.zeros(len(self._index.lengths), np.float64)
        sums = self._sums
        threshold = least * _BELOW - slack
        found: list[RowArray] = []
        for number, known in enumerate(needed):
            added, rows = known.score(self, selection), known.rows
            if not number:
                sums[rows] = added
                found.append(rows[added >= threshold] if threshold > 0 else rows)  # type: ignore[arg-type]
                continue
            before = sums.take(rows)
            after = before + added
            sums[rows] = after
            # A row in several lists counts with its last sum; judged by a threshold it may come several times.
            found.append(rows[after >= threshold] if threshold > 0 else rows[before == 0])  # type: ignore[arg-type]
        rows = found[0] if len(found) == 1 else np.concatenate(found)
        if threshold > 0 and len(found) > 1:
            rows = np.unique(rows)
        scores = sums.take(rows)
        for known in needed:
            sums[known.rows] = 0.0
        return rows, scores

    def _complete(
        self,
        rows: RowArray,
        scores: Float64Array,
        k: int,
        least: float,
        lists: list[TermList],
        others: list[TermList],
    ) -> tuple[RowArray, Float64Array]:
        """Add the remaining terms to rows found, drop those out of reach, and sum the rest in the query's order."""
        slack = sum(known.bound for known in others)
        for known in sorted(others, key=lambda known: -known.bound):
            if len(scores) > k:
                least = max(least, float(np.partition(scores, len(scores) - k)[len(scores) - k]))
                reach = scores >= least * _BELOW - slack
                rows, scores = rows[reach], scores[reach]
            known.add_to(self, rows, scores)
            slack -= known.bound
        if len(scores) > k:
            least = float(np.partition(scores, len(scores) - k)[len(scores) - k])
            best = scores >= least * _BELOW
            rows = rows[best]
        scores = np.zeros(len(rows), np.float64)
        for known in lists:
            known.add_to(self, rows, scores)
        return rows, scores

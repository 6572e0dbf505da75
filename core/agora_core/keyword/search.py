"""The best rows of a query: exact BM25, leaving out terms that cannot change the answer.

The method is MaxScore (Turtle and Flood 1995). A row that holds only some of the terms is worth at most the sum of
their bounds. Once k rows reach more than that without these terms, they need only add to the rows found by others, by
binary search. What each term adds is rounded to a grid on which sums are exact, so a score depends neither on the
order of summing nor on what was left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from agora_core.keyword.bm25 import bm25_idf
from agora_core.keyword.index import BM25Index
from agora_core.keyword.ordering import BoolArray, Float32Array, Float64Array, Int32Array

RowArray = npt.NDArray[np.intp]

_Sight = tuple["Selection | None", "Selection | None"]
"""What a search sees: the selection, and the scope whose statistics count."""
_ALL: Final[_Sight] = (None, None)

# Lists up to this length are scored when first seen; longer ones when they have to be, or are asked for again.
_EAGER: Final = 4096
# So few postings are not worth a plan.
_SMALL: Final = 256
# So few postings are added up sooner by Python than by numpy.
_FEW: Final = 40
_LEAST_CACHE: Final = 1 << 18
# Covers the rounding of sums of bounds.
_BELOW: Final = 1 - 1e-12
# x + 768 - 768 rounds to a multiple of 2**-43: sums below 512 are exact, and each share is to 6e-14.
_GRID: Final = 768.0
# A term with a smaller weight than this stands in nearly every passage; its share is left unrounded.
_LEAST_ROUNDED: Final = 1e-3


class Selection:
    """The rows that a filter lets through; `mask` covers every row. Valid until the next write."""

    __slots__ = ("_average", "_rows", "count", "mask")

    def __init__(self, mask: BoolArray) -> None:
        self.mask = mask
        self.count = int(np.count_nonzero(mask))
        self._rows: Int32Array | None = None
        self._average: float | None = None

    def average_length(self, lengths: Float64Array) -> float:
        """Return the mean length of these rows, 1 where all are empty."""
        if self._average is None:
            total = float(lengths[self.rows].sum())
            self._average = total / self.count if total else 1.0
        return self._average

    @property
    def rows(self) -> Int32Array:
        """The rows, ascending."""
        if self._rows is None:
            self._rows = np.flatnonzero(self.mask).astype(np.int32)
        return self._rows


class TermList:
    """The postings of one term, under one selection; scored when first needed. Valid until the next write."""

    __slots__ = ("_best", "_frequencies", "_pairs", "average", "bound", "rows", "scores", "seen", "weight")

    def __init__(self, rows: Int32Array | RowArray, frequencies: Float32Array, weight: float, average: float) -> None:
        self.rows = rows
        self.average = average  # the mean length
        self._frequencies = frequencies
        self.weight = weight  # idf (k1 + 1) times its weight in the query: what no score of this term exceeds
        self.bound = weight
        self.scores: Float64Array | None = None
        self.seen = False
        self._best: list[float] = []
        self._pairs: list[tuple[int, float]] | None = None

    def score(self, searcher: Searcher, selection: Selection | None) -> None:
        """Score every posting that is selected, once, and tighten the bound."""
        rows, frequencies = self.rows, self._frequencies
        if selection is not None:
            kept = _selected(rows, selection)
            rows, frequencies = rows[kept], frequencies[kept]
        self.rows = rows.astype(np.intp)
        self.scores = searcher.term_scores(self.rows, frequencies, self.weight, self.average)
        self.bound = float(self.scores.max()) if len(rows) else 0.0

    def kth(self, k: int) -> float:
        """Return the k-th best score of this term alone; 0 where there are fewer, or they are not known."""
        if len(self._best) >= k:
            return self._best[k - 1]
        scores = self.scores
        if scores is None or len(scores) < k:
            return 0.0
        low = max(len(scores) - max(k, 32), 0)
        ordered = scores.copy()
        ordered.partition(low)
        self._best = sorted(ordered[low:].tolist(), reverse=True)
        return self._best[k - 1]

    def pairs(self) -> list[tuple[int, float]]:
        """Return the rows and their scores, which are known, as a list to be kept."""
        if self._pairs is None:
            scores = [] if self.scores is None else self.scores.tolist()
            self._pairs = list(zip(self.rows.tolist(), scores, strict=True))
        return self._pairs

    def add_to(self, searcher: Searcher, rows: RowArray, scores: Float64Array) -> None:
        """Add this term's share to the `scores` of `rows`, which are selected."""
        if not len(self.rows):
            return
        place = self.rows.searchsorted(rows.astype(self.rows.dtype, copy=False))
        # A place beyond the end is that of a row above the last one, so clipping it makes no false hit.
        hit = (self.rows.take(place, mode="clip") == rows).nonzero()[0]
        found = place[hit]
        if self.scores is not None:
            scores[hit] += self.scores[found]
        else:
            scores[hit] += searcher.term_scores(rows[hit], self._frequencies[found], self.weight, self.average)


def _selected(rows: Int32Array | RowArray, selection: Selection) -> RowArray:
    """Return the places of the selected ones among `rows`."""
    if selection.count * 8 < len(rows):
        place = rows.searchsorted(selection.rows)
        hit: RowArray = place[rows.take(place, mode="clip") == selection.rows]
        return hit
    return selection.mask.take(rows).nonzero()[0]


def _best_of_few(lists: list[TermList], k: int, floor: float | None) -> list[tuple[int, float]]:
    """Do what `Searcher.search` does, for a handful of postings."""
    sums: dict[int, float] = {}
    for known in lists:
        for row, score in known.pairs():
            sums[row] = sums.get(row, 0.0) + score
    if len(sums) > k:
        floor = max(floor or 0.0, sorted(sums.values())[-k])
    return list(sums.items()) if floor is None else [pair for pair in sums.items() if pair[1] >= floor]


def _kth_best(scores: Float64Array, k: int) -> float:
    # The methods of arrays, here and elsewhere, spare a microsecond a call over the functions of numpy.
    ordered = scores.copy()
    ordered.partition(len(scores) - k)
    return float(ordered[len(scores) - k])


class Searcher:
    """Searches an index; not beside a write to it, and one search at a time. `forget` must follow every write."""

    def __init__(self, index: BM25Index, k1: float, b: float) -> None:
        self._index = index
        self._k1, self._b = k1, b
        self._lists: dict[_Sight, dict[tuple[int, float], TermList]] = {}
        self._cached = 0  # scored postings in there
        self._sums: Float64Array = np.zeros(0, np.float64)  # all zero between uses

    def forget(self) -> None:
        """Drop what was worked out from the collection as it was."""
        self._lists = {}
        self._cached = 0

    def forget_selections(self) -> None:
        """Drop what was worked out under selections."""
        self._lists = {_ALL: self._lists[_ALL]} if _ALL in self._lists else {}

    def forget_selection(self, selection: Selection) -> None:
        """Drop what was worked out under one selection."""
        self._lists = {sight: lists for sight, lists in self._lists.items() if sight[0] is not selection}

    def term_scores(self, rows: RowArray, frequencies: Float32Array, weight: float, average: float) -> Float64Array:
        """Return weight tf / (tf + k1 (1 - b + b length / average)) for each row."""
        self._cached += len(rows)
        share = self._index.lengths.take(rows)
        share *= self._k1 * self._b / average
        share += self._k1 * (1 - self._b)
        share += frequencies
        np.divide(frequencies, share, out=share)
        share *= weight
        if weight > _LEAST_ROUNDED:
            share += _GRID
            share -= _GRID
        return share

    def search(
        self,
        terms: Mapping[str, float],
        k: int,
        floor: float | None,
        selection: Selection | None,
        scope: Selection | None = None,
    ) -> list[tuple[int, float]]:
        """Return the rows, with their scores, of the k best and of all that tie with the last of these, in no order.

        `terms` come with the weights that multiply what they add. Only rows that hold one of them, score at least
        `floor` and are selected come back. With a `scope`, which holds the selection, N, document frequencies and
        lengths are those of its rows, as if there were no others.
        """
        lists = self._term_lists(terms, selection, scope)
        if not lists:
            return []
        needed, others, least = self._plan(lists, k, floor, selection)
        if not others and sum([len(known.rows) for known in needed]) <= _FEW:
            return _best_of_few(needed, k, floor)
        try:
            rows, scores = self._accumulate(needed, least, sum(other.bound for other in others))
        except BaseException:
            self._sums = np.zeros(0, np.float64)
            raise
        if others:
            rows, scores = self._complete(rows, scores, k, least, others)
        if len(scores) > k:
            floor = max(floor or 0.0, _kth_best(scores, k))
        if floor is not None:
            reached = (scores >= floor).nonzero()[0]
            rows, scores = rows.take(reached), scores.take(reached)
        return list(zip(rows.tolist(), scores.tolist(), strict=True))

    def _term_lists(
        self, terms: Mapping[str, float], selection: Selection | None, scope: Selection | None
    ) -> list[TermList]:
        index = self._index
        if self._cached > max(_LEAST_CACHE, index.postings.live // 4):
            self.forget()
        cache = self._lists.setdefault((selection, scope), {})
        lists = []
        for term, factor in terms.items():
            number = index.vocabulary.get(term)
            # A term that is being counted at this moment may have a number beyond the frequencies.
            if number is None or number >= len(index.document_frequency):
                continue
            known = cache.get((number, factor))
            if known is None:
                frequency = int(index.document_frequency[number])
                if not frequency:
                    continue
                rows, frequencies = index.postings.read(number)
                documents, average = index.documents, index.average_length
                if scope is not None:
                    kept = _selected(rows, scope)
                    rows, frequencies, frequency = rows[kept], frequencies[kept], len(kept)
                    documents, average = scope.count, scope.average_length(index.lengths)
                weight = bm25_idf(documents, frequency) * (self._k1 + 1) * factor
                known = cache[number, factor] = TermList(rows, frequencies, weight, average)
            lists.append(known)
        return lists

    def _plan(
        self, lists: list[TermList], k: int, floor: float | None, selection: Selection | None
    ) -> tuple[list[TermList], list[TermList], float]:
        """Return the terms that find rows, those that only add to rows found, and what a row must reach."""
        least = max(floor or 0.0, 0.0)
        postings = 0
        for known in lists:
            if known.scores is None and (known.seen or len(known.rows) <= _EAGER):
                known.score(self, selection)
            known.seen = True
            postings += len(known.rows) if known.scores is not None else _SMALL
        if postings < _SMALL:
            return lists, [], least
        while True:
            order = sorted(lists, key=_bound)
            for known in reversed(order):
                if known.bound <= least:
                    break
                least = max(least, known.kth(k))
            cut, rest = 0, 0.0
            while cut < len(order) and rest + order[cut].bound < least * _BELOW:
                rest += order[cut].bound
                cut += 1
            unscored = [known for known in order[cut:] if known.scores is None]
            if not unscored:
                return order[cut:], order[:cut], least
            unscored[-1].score(self, selection)  # its bound shrinks: judge again

    def _accumulate(self, needed: list[TermList], least: float, slack: float) -> tuple[RowArray, Float64Array]:
        """Add up the scores of some terms; return the rows that may reach `least` with `slack` more, and their sums."""
        if not needed:
            return np.zeros(0, np.intp), np.zeros(0, np.float64)
        if len(self._sums) < self._index.rows:
            self._sums = np.zeros(len(self._index.lengths), np.float64)
        rows: RowArray = np.concatenate([known.rows for known in needed])
        scores: Float64Array = np.concatenate([known.scores for known in needed if known.scores is not None])
        repeated = len(needed) > 1
        if repeated:
            np.add.at(self._sums, rows, scores)
            scores = self._sums.take(rows)
            self._sums[rows] = 0.0
        if least:
            kept = (scores >= least * _BELOW - slack).nonzero()[0]
            rows, scores = rows.take(kept), scores.take(kept)
        return self._distinct(rows, scores, repeated)

    def _distinct(self, rows: RowArray, scores: Float64Array, repeated: bool) -> tuple[RowArray, Float64Array]:
        """Return each row once; where it is repeated its scores are equal."""
        if not repeated:
            return rows, scores
        numbers = np.arange(1.0, len(rows) + 1)
        self._sums[rows] = numbers
        last = (self._sums.take(rows) == numbers).nonzero()[0]
        self._sums[rows] = 0.0
        return rows.take(last), scores.take(last)

    def _complete(
        self, rows: RowArray, scores: Float64Array, k: int, least: float, others: list[TermList]
    ) -> tuple[RowArray, Float64Array]:
        """Add the remaining terms, given by rising bound, to rows found, dropping those that fall out of reach."""
        slack = sum(known.bound for known in others)
        for known in reversed(others):
            if len(scores) > k:
                least = max(least, _kth_best(scores, k))
                reach = (scores >= least * _BELOW - slack).nonzero()[0]
                rows, scores = rows.take(reach), scores.take(reach)
            known.add_to(self, rows, scores)
            slack -= known.bound
        return rows, scores


def _bound(known: TermList) -> float:
    return known.bound

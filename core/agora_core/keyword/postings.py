"""Inverted lists that change in place: sorted blocks for the bulk, short tails for what came later.

A block holds the lists of a range of terms one after another. A new posting goes to the tail of its term; one that
leaves is zeroed where it stands. Both make the block dirty. Once dirt is an eighth of everything, the dirtiest block
is folded: rewritten without zeros and with its tails merged in. So a write costs what it changes, however large the
index is, a fold is bounded by the size of a block, and memory stays within a constant factor of a fresh index.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from agora_core.keyword.ordering import BoolArray, Float32Array, Int32Array, Int64Array, stable_order

BLOCK_POSTINGS: Final = 1 << 15
_LEAST_DIRT: Final = 4096
_DIRTY_SHARE: Final = 8
_LOW: Final = 0xFFFFFFFF
# Tails beyond this length are looked through by numpy.
_LONG_TAIL: Final = 64


class Block:
    """The lists of the terms `first` up to `stop`: rows ascending, with how often each holds the term."""

    __slots__ = ("dirty", "first", "frequencies", "frequency_view", "row_view", "rows", "start_view", "stop")

    def __init__(self, first: int, stop: int, starts: Int64Array, rows: Int32Array, frequencies: Float32Array) -> None:
        self.first = first
        self.stop = stop
        self.rows = rows
        self.frequencies = frequencies
        self.dirty = 0
        # Reading single items through a memoryview is twice as fast as through numpy.
        self.start_view = starts.data
        self.row_view = rows.data
        self.frequency_view = frequencies.data

    def terms(self) -> Int64Array:
        """Return the term of each posting."""
        return np.repeat(np.arange(self.first, self.stop), np.diff(np.asarray(self.start_view)))


class Postings:
    """The lists of all terms. One writer at a time; no reader beside `apply`, `install` and `install_all`."""

    def __init__(self) -> None:
        self.blocks: list[Block] = []
        self._firsts: list[int] = []
        # term -> row << 32 | frequency, unsorted; a tail of one, which most are, is the bare int.
        self._tails: dict[int, int | array[int]] = {}
        self._zeros: dict[int, int] = {}  # term -> zeroed postings in its block
        self._fringe_dirt = 0  # tail postings of terms beyond the last block
        self.dirty = 0
        self.live = 0

    @property
    def stop(self) -> int:
        """The first term beyond the blocks."""
        return self.blocks[-1].stop if self.blocks else 0

    def _block_of(self, term: int) -> Block | None:
        position = bisect_right(self._firsts, term) - 1
        if position < 0:
            return None
        block = self.blocks[position]
        return block if term < block.stop else None

    # ------------------------------------------------------------------------------------------------- reading
    def read(self, term: int) -> tuple[Int32Array, Float32Array]:
        """Return the rows that hold `term`, ascending, and how often: views, not to be kept or changed."""
        block = self._block_of(term)
        if block is None:
            rows, frequencies = np.empty(0, np.int32), np.empty(0, np.float32)
        else:
            at = term - block.first
            low, high = block.start_view[at], block.start_view[at + 1]
            rows, frequencies = block.rows[low:high], block.frequencies[low:high]
            if term in self._zeros:
                kept = np.flatnonzero(frequencies)
                rows, frequencies = rows[kept], frequencies[kept]
        tail = self._tails.get(term)
        if tail is None:
            return rows, frequencies
        packed = _packed(tail)
        # Rows that were never used before come in ascending order: then there is nothing to sort.
        if len(packed) > 1 and (packed[1:] < packed[:-1]).any():
            packed = np.sort(packed)
        return _merged(rows, frequencies, *_split(packed))

    # ------------------------------------------------------------------------------------------------- writing
    def apply(
        self,
        changes: tuple[list[int], list[int], list[int]],
        additions: tuple[list[int], list[int], list[int]],
    ) -> None:
        """Change and add postings given as terms, rows and frequencies; a frequency of 0 in `changes` takes one away.

        Each posting of `changes` is there, none of `additions` is.
        """
        self._change(*changes)
        tails, firsts, blocks = self._tails, self._firsts, self.blocks
        stop = self.stop
        fringe = 0
        for term, row, frequency in zip(*additions, strict=True):
            packed = row << 32 | frequency
            tail = tails.get(term)
            if tail is None:
                tails[term] = packed
            elif isinstance(tail, int):
                tails[term] = array("Q", (tail, packed))
            else:
                tail.append(packed)
            if term < stop:
                blocks[bisect_right(firsts, term) - 1].dirty += 1
            else:
                fringe += 1
        count = len(additions[0])
        self._fringe_dirt += fringe
        self.dirty += count
        self.live += count

    def _change(self, terms: list[int], rows: list[int], frequencies: list[int]) -> None:
        block: Block | None = None
        first = stop = -1
        for term, row, frequency in zip(terms, rows, frequencies, strict=True):
            if not first <= term < stop:
                # Terms come in ascending order, so most share the block of the one before.
                block = self._block_of(term)
                first = stop = -1
                if block is not None:
                    first, stop = block.first, block.stop
                    starts, row_view, frequency_view = block.start_view, block.row_view, block.frequency_view
            if block is not None:
                high = starts[term - first + 1]
                place = bisect_left(row_view, row, starts[term - first], high)
                # A zero there is an older posting of the same row; the living one is in the tail.
                if place < high and row_view[place] == row and frequency_view[place]:
                    frequency_view[place] = frequency
                    if not frequency:
                        self._zeros[term] = self._zeros.get(term, 0) + 1
                        block.dirty += 1
                        self.dirty += 1
                        self.live -= 1
                    continue
            self._change_tail(term, row, frequency)
            if not frequency:
                if block is None:
                    self._fringe_dirt -= 1
                else:
                    block.dirty -= 1
                self.dirty -= 1
                self.live -= 1

    def _change_tail(self, term: int, row: int, frequency: int) -> None:
        tail = self._tails[term]
        if isinstance(tail, int):
            if frequency:
                self._tails[term] = row << 32 | frequency
            else:
                del self._tails[term]
            return
        if len(tail) > _LONG_TAIL:
            place = int((_packed(tail) >> np.uint64(32) == row).argmax())
        else:
            place = next(n for n, packed in enumerate(tail) if packed >> 32 == row)
        if frequency:
            tail[place] = row << 32 | frequency
            return
        last = tail.pop()
        if place < len(tail):
            tail[place] = last
        if not tail:
            del self._tails[term]

    # ------------------------------------------------------------------------------------------------- folding
    def wants_folding(self) -> bool:
        """Say whether dirt has grown to an eighth of what lives."""
        return self.dirty > max(_LEAST_DIRT, self.live // _DIRTY_SHARE)

    def fold(self, terms: int) -> tuple[int, int, list[Block]]:
        """Return the range of the dirtiest blocks and what should stand in their place, for `install`.

        `terms` is the number of terms known. The fringe, that is the tails beyond the last block, is folded like one.
        """
        dirtiest = max(range(len(self.blocks)), key=lambda n: self.blocks[n].dirty, default=0)
        if not self.blocks or self._fringe_dirt >= self.blocks[dirtiest].dirty:
            position = len(self.blocks)
            return position, position, list(self._rewritten(None, self.stop, terms))
        end, size = dirtiest + 1, len(self.blocks[dirtiest].rows)
        while end < len(self.blocks) and size + len(self.blocks[end].rows) <= BLOCK_POSTINGS:
            size += len(self.blocks[end].rows)
            end += 1
        return dirtiest, end, list(self._rewritten(self.blocks[dirtiest:end], 0, 0))

    def install(self, start: int, end: int, blocks: list[Block]) -> None:
        """Put folded blocks in the place of those from `start` to `end`, and forget the tails merged into them."""
        if start == end:
            self.dirty -= self._fringe_dirt
            self._fringe_dirt = 0
        else:
            self.dirty -= sum(block.dirty for block in self.blocks[start:end])
        self.blocks[start:end] = blocks
        self._firsts = [block.first for block in self.blocks]
        if blocks:
            low, high = blocks[0].first, blocks[-1].stop
            # New dicts, because one that lost keys keeps its room.
            self._tails = {term: tail for term, tail in self._tails.items() if not low <= term < high}
            self._zeros = {term: count for term, count in self._zeros.items() if not low <= term < high}

    def rewritten_with(
        self, terms: Int64Array, rows: Int32Array, frequencies: Float32Array, *, known: int, dead: BoolArray | None
    ) -> list[Block]:
        """Return blocks of everything that lives, without the rows marked in `dead` and with the given postings.

        Those are sorted by term and row. `known` is the number of terms known. The result is for `install_all`.
        """
        blocks: list[Block] = []
        for block in self.blocks:
            low, high = np.searchsorted(terms, (block.first, block.stop))
            more = (terms[low:high], rows[low:high], frequencies[low:high])
            blocks.extend(self._rewritten([block], 0, 0, dead=dead, more=more))
        low = int(np.searchsorted(terms, self.stop))
        more = (terms[low:], rows[low:], frequencies[low:])
        blocks.extend(self._rewritten(None, self.stop, known, dead=dead, more=more))
        return blocks

    def install_all(self, blocks: list[Block]) -> None:
        """Put blocks that hold everything in the place of all there is."""
        self.blocks = blocks
        self._firsts = [block.first for block in blocks]
        self._tails, self._zeros = {}, {}
        self.dirty = self._fringe_dirt = 0
        self.live = sum(len(block.rows) for block in blocks)

    def _tailed(self, first: int, stop: int) -> list[int]:
        """Return the terms of a range that have a tail."""
        if stop - first < len(self._tails):
            return [term for term in range(first, stop) if term in self._tails]
        return [term for term in self._tails if first <= term < stop]

    def _rewritten(
        self,
        blocks: list[Block] | None,
        first: int,
        stop: int,
        *,
        dead: BoolArray | None = None,
        more: tuple[Int64Array, Int32Array, Float32Array] | None = None,
    ) -> Iterator[Block]:
        """Yield adjacent blocks, or the fringe from `first` to `stop`, without zeros and with their tails."""
        parts: list[tuple[Int64Array, Int32Array, Float32Array]] = []
        if blocks is not None:
            first, stop = blocks[0].first, blocks[-1].stop
            parts = [(block.terms(), block.rows, block.frequencies) for block in blocks]
        tailed = self._tailed(first, stop)
        if tailed:
            tails = [_packed(self._tails[term]) for term in tailed]
            tail_rows, tail_frequencies = _split(np.concatenate(tails))
            owners = np.repeat(np.asarray(tailed, np.int64), [len(tail) for tail in tails])
            parts.append((owners, tail_rows, tail_frequencies))
        if dead is not None or blocks is not None:
            parts = [_living(part, dead) for part in parts]
        if more is not None and len(more[0]):
            parts.append(more)
        if not parts:
            if stop > first and blocks is not None:
                yield Block(first, stop, np.zeros(stop - first + 1, np.int64), _NO_ROWS, _NO_FREQUENCIES)
            return
        if len(parts) == 1 and not tailed:
            terms, rows, frequencies = parts[0]
        else:
            terms, rows, frequencies = (np.concatenate(column) for column in zip(*parts, strict=True))
            order = stable_order(rows)
            order = order[stable_order((terms - first)[order])]
            terms, rows, frequencies = terms[order], rows[order], frequencies[order]
        yield from cut_blocks(first, stop, terms, rows, frequencies)


_NO_ROWS: Final = np.empty(0, np.int32)
_NO_FREQUENCIES: Final = np.empty(0, np.float32)


def cut_blocks(
    first: int, stop: int, terms: Int64Array, rows: Int32Array, frequencies: Float32Array
) -> Iterator[Block]:
    """Yield blocks for the terms `first` up to `stop`, each of one term or of at most BLOCK_POSTINGS postings."""
    if stop <= first:
        return
    starts = np.searchsorted(terms, np.arange(first, stop + 1))
    low = 0
    while low < stop - first:
        high = int(np.searchsorted(starts, starts[low] + BLOCK_POSTINGS, side="right")) - 1
        high = min(max(high, low + 1), stop - first)
        begin, end = starts[low], starts[high]
        yield Block(
            first + low,
            first + high,
            starts[low : high + 1] - begin,
            np.array(rows[begin:end], np.int32),
            np.array(frequencies[begin:end], np.float32),
        )
        low = high


def _living(
    part: tuple[Int64Array, Int32Array, Float32Array], dead: BoolArray | None
) -> tuple[Int64Array, Int32Array, Float32Array]:
    terms, rows, frequencies = part
    keep = frequencies != 0
    if dead is not None:
        keep &= ~dead[rows]
    return part if keep.all() else (terms[keep], rows[keep], frequencies[keep])


def _split(packed: npt.NDArray[np.uint64]) -> tuple[Int32Array, Float32Array]:
    return (packed >> np.uint64(32)).astype(np.int32), (packed & np.uint64(_LOW)).astype(np.float32)


def _packed(tail: int | array[int]) -> npt.NDArray[np.uint64]:
    return np.array((tail,), np.uint64) if isinstance(tail, int) else np.frombuffer(tail, np.uint64)


def _merged(
    rows: Int32Array, frequencies: Float32Array, more_rows: Int32Array, more_frequencies: Float32Array
) -> tuple[Int32Array, Float32Array]:
    """Merge two lists that share no row, both ascending."""
    if not len(rows):
        return more_rows, more_frequencies
    if more_rows[0] > rows[-1]:
        return np.concatenate((rows, more_rows)), np.concatenate((frequencies, more_frequencies))
    places = rows.searchsorted(more_rows)
    return np.insert(rows, places, more_rows), np.insert(frequencies, places, more_frequencies)

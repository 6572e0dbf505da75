"""The BM25 index: texts as rows, exact statistics at all times, scores worked out when they are asked for.

Nothing that depends on the collection (idf, average length) is stored, so no write makes anything stale.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from agora_core.errors import InvalidArgumentError
from agora_core.keyword.analysis import AnyTokenizer, passage_terms
from agora_core.keyword.postings import Block, BoolArray, Float32Array, Int32Array, Int64Array, Postings

Float64Array = npt.NDArray[np.float64]

# Passages counted at a time: bounds the memory of a large addition. A power of two, for keys are packed.
_CHUNK: Final = 1 << 13
_FREQUENCY_BITS: Final = 18
# A write of at least this many postings, and of this share of the index, rewrites the blocks beside the readers.
_LEAST_BULK: Final = 1 << 14
_BULK_SHARE: Final = 32


class Vocabulary(dict[str, int]):
    """Terms to numbers; looking up a new term numbers it. Numbers that were given back are used again."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str | None] = []
        self.free: list[int] = []
        self.fresh: list[int] | None = None  # while counting: what to take back should it fail

    def __missing__(self, word: str) -> int:
        if not isinstance(word, str):
            raise InvalidArgumentError(f"the tokenizer must give terms of type str, got {type(word).__name__}")
        if self.free:
            number = self.free.pop()
            self.words[number] = word
        else:
            number = len(self.words)
            self.words.append(word)
        self[word] = number
        if self.fresh is not None:
            self.fresh.append(number)
        return number

    def forget(self, numbers: Iterable[int]) -> None:
        """Give numbers back for other terms."""
        for number in numbers:
            word = self.words[number]
            if word is not None:
                del self[word]
                self.words[number] = None
                self.free.append(number)


@dataclass(frozen=True, slots=True)
class CountedTexts:
    """Texts counted but not yet indexed; `terms`, `texts` (their positions) and `frequencies` go by term, then text."""

    lengths: Int64Array
    distinct: list[bytes]  # per text its distinct terms as int32, ascending
    terms: Int64Array
    texts: Int32Array
    frequencies: Float32Array

    def __len__(self) -> int:
        return len(self.distinct)


NOTHING: Final = CountedTexts(
    np.zeros(0, np.int64), [], np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
)


class BM25Index:
    """Rows of terms. One writer at a time; readers must not run beside `put`, `drop` and the installing part of `fold`.

    `rows` are small ints that the index hands out (`allocate`) and takes back (`drop`).
    """

    def __init__(self, tokenizer: AnyTokenizer) -> None:
        self.tokenizer = tokenizer
        self.vocabulary = Vocabulary()
        self.postings = Postings()
        self.document_frequency: Int64Array = np.zeros(0, np.int64)
        self.lengths: Float64Array = np.zeros(0, np.float64)
        self.taken: BoolArray = np.zeros(0, np.bool_)
        self.distinct: list[bytes] = []
        self.free: list[int] = []
        self.documents = 0
        self.total_length = 0

    @property
    def rows(self) -> int:
        """How many rows there are, free ones among them."""
        return len(self.distinct)

    @property
    def average_length(self) -> float:
        """The mean number of terms, 1 where there are none (no score depends on it then)."""
        return self.total_length / self.documents if self.total_length else 1.0

    # ------------------------------------------------------------------------------------------------ counting
    def count(self, texts: Sequence[str]) -> CountedTexts:
        """Tokenize and count texts. Readers may run; nothing is indexed yet."""
        vocabulary = self.vocabulary
        vocabulary.fresh = []
        try:
            chunks = [self._count_chunk(texts, low) for low in range(0, len(texts), _CHUNK)]
        except BaseException:
            vocabulary.forget(vocabulary.fresh)
            raise
        finally:
            vocabulary.fresh = None
        return chunks[0] if len(chunks) == 1 else _joined(chunks, len(vocabulary.words))

    def _count_chunk(self, texts: Sequence[str], low: int) -> CountedTexts:
        number = self.vocabulary.__getitem__
        tokenizer = self.tokenizer
        numbers: array[int] = array("i")
        lengths: list[int] = []
        sizes: list[int] = []
        for text in texts[low : low + _CHUNK]:
            terms, length = passage_terms(tokenizer, text)
            numbers.extend(map(number, terms))
            lengths.append(length)
            sizes.append(len(terms))
        return _counted(np.frombuffer(numbers, np.int32), sizes, lengths, low)

    # ------------------------------------------------------------------------------------------------- writing
    def allocate(self, count: int) -> list[int]:
        """Return `count` rows that hold nothing. They are taken by the next `put`, which must be given all of them."""
        reused = self.free[-count:] if count else []
        return reused[::-1] + list(range(self.rows, self.rows + count - len(reused)))

    def prepare(self, rows: Sequence[int], counted: CountedTexts) -> list[Block] | None:
        """Do what `put` or `drop` can have done beforehand, beside readers: for a large change, the new blocks."""
        old = sum(len(self.distinct[row]) for row in rows if row < self.rows) >> 2
        if len(counted.terms) + old < max(_LEAST_BULK, self.postings.live // _BULK_SHARE):
            return None
        at = np.asarray(rows, np.int32)
        dead = np.zeros(max(self.rows, int(at.max()) + 1), np.bool_)
        dead[at] = True
        terms, frequencies, new_rows = counted.terms, counted.frequencies, at[counted.texts]
        if len(new_rows) and (np.diff(at) < 0).any():
            order = np.argsort(terms << 32 | new_rows)
            terms, frequencies, new_rows = terms[order], frequencies[order], new_rows[order]
        known = len(self.vocabulary.words)
        return self.postings.rewritten_with(terms, new_rows, frequencies, known=known, dead=dead)

    def put(self, rows: Sequence[int], counted: CountedTexts, blocks: list[Block] | None) -> None:
        """Index counted texts at `rows`, replacing what those rows hold. `blocks` is what `prepare` returned."""
        self._make_room(rows)
        at = np.asarray(rows, np.int64)
        old_terms, old_rows = self._count_out(at)
        starts = _run_starts(counted.terms)
        self.document_frequency[counted.terms[starts]] += np.diff(np.append(starts, len(counted.terms)))
        self.lengths[at] = counted.lengths
        self.taken[at] = True
        for row, distinct in zip(rows, counted.distinct, strict=True):
            self.distinct[row] = distinct
        self.documents += len(rows)
        self.total_length += int(counted.lengths.sum())
        if blocks is not None:
            self.postings.install_all(blocks)
            self._forget_unused(0, len(self.vocabulary.words))
        else:
            new_rows = at[counted.texts]
            changes, additions = _difference(old_terms, old_rows, counted.terms, new_rows, counted.frequencies)
            self.postings.apply(changes, additions)

    def drop(self, rows: Sequence[int], blocks: list[Block] | None) -> None:
        """Forget what `rows`, all of them taken, hold. `blocks` is what `prepare` returned for `NOTHING`."""
        at = np.asarray(rows, np.int64)
        old_terms, old_rows = self._count_out(at)
        self.taken[at] = False
        for row in rows:
            self.distinct[row] = b""
        self.free.extend(rows)
        if blocks is not None:
            self.postings.install_all(blocks)
            self._forget_unused(0, len(self.vocabulary.words))
        else:
            self.postings.apply((old_terms.tolist(), old_rows.tolist(), [0] * len(old_terms)), ([], [], []))

    def plan_fold(self) -> tuple[int, int, list[Block]] | None:
        """Return the next piece of tidying for `install`, None where nothing is due. Readers may run."""
        return self.postings.fold(len(self.vocabulary.words)) if self.postings.wants_folding() else None

    def install(self, fold: tuple[int, int, list[Block]]) -> None:
        """Put a planned fold in place."""
        self.postings.install(*fold)
        for block in fold[2]:
            self._forget_unused(block.first, block.stop)

    def _count_out(self, at: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Take what the rows hold out of the statistics; return the terms and rows of their postings, by term."""
        held = at[self.taken[at]]
        self.documents -= len(held)
        self.total_length -= int(self.lengths[held].sum())
        rows = held.tolist()
        terms = np.frombuffer(b"".join([self.distinct[row] for row in rows]), np.int32).astype(np.int64)
        owners = np.repeat(held, [len(self.distinct[row]) >> 2 for row in rows])
        if len(rows) > 1:
            order = np.argsort(terms, kind="stable")
            terms, owners = terms[order], owners[order]
        starts = _run_starts(terms)
        self.document_frequency[terms[starts]] -= np.diff(np.append(starts, len(terms)))
        return terms, owners

    def _make_room(self, rows: Sequence[int]) -> None:
        need = max(rows, default=-1) + 1
        if need > len(self.lengths):
            size = max(need, len(self.lengths) * 5 // 4, 64)
            self.lengths = _grown(self.lengths, size)
            self.taken = _grown(self.taken, size)
        words = len(self.vocabulary.words)
        if words > len(self.document_frequency):
            self.document_frequency = _grown(self.document_frequency, words * 5 // 4 + 64)
        self.distinct.extend([b""] * (need - self.rows))
        reused = min(int(np.count_nonzero(~self.taken[np.asarray(rows, np.int64)])), len(self.free))
        if reused:
            del self.free[-reused:]

    def _forget_unused(self, first: int, stop: int) -> None:
        unused = np.flatnonzero(self.document_frequency[first:stop] == 0) + first
        self.vocabulary.forget(unused.tolist())


ScalarT = TypeVar("ScalarT", bound=np.generic)


def _grown(old: npt.NDArray[ScalarT], size: int) -> npt.NDArray[ScalarT]:
    new = np.zeros(size, old.dtype)
    new[: len(old)] = old
    return new


def _run_starts(ordered: Int64Array) -> Int64Array:
    """Return where each run of equal values begins."""
    if not len(ordered):
        return np.zeros(0, np.int64)
    return np.concatenate((np.zeros(1, np.int64), np.flatnonzero(ordered[1:] != ordered[:-1]) + 1))


def _counted(numbers: Int32Array, sizes: list[int], lengths: list[int], first: int) -> CountedTexts:
    """Count the terms of some texts; `numbers` are theirs one after another, `sizes` how many each has."""
    owner = np.repeat(np.arange(len(sizes), dtype=np.int64), sizes)
    keys = owner << 32 | numbers
    keys.sort()
    starts = _run_starts(keys)
    frequencies = np.diff(np.append(starts, len(keys)))
    keys = keys[starts]
    terms, texts = (keys & 0xFFFFFFFF).astype(np.int32), keys >> 32
    packed = terms.tobytes()
    ends = (np.searchsorted(texts, np.arange(len(sizes) + 1)) * 4).tolist()
    distinct = [packed[low:high] for low, high in pairwise(ends)]
    if len(sizes) > 1:
        # One sort of packed keys instead of an argsort: term, text and frequency fit 64 bits but for absurd texts.
        if len(frequencies) and int(frequencies.max()) >> _FREQUENCY_BITS:
            order = np.argsort(terms, kind="stable")
            terms, texts, frequencies = terms[order], texts[order], frequencies[order]
        else:
            keys = (terms.astype(np.int64) << 13 | texts) << _FREQUENCY_BITS | frequencies
            keys.sort()
            frequencies = keys & (1 << _FREQUENCY_BITS) - 1
            texts = keys >> _FREQUENCY_BITS & _CHUNK - 1
            terms = keys >> _FREQUENCY_BITS + 13
    return CountedTexts(
        np.asarray(lengths, np.int64),
        distinct,
        terms.astype(np.int64),
        (texts + first).astype(np.int32),
        frequencies.astype(np.float32),
    )


def _joined(chunks: list[CountedTexts], known: int) -> CountedTexts:
    """Join counted chunks in linear time: each posting is written where its term has got to."""
    lengths = np.concatenate([chunk.lengths for chunk in chunks]) if chunks else np.zeros(0, np.int64)
    totals = np.zeros(known + 1, np.int64)
    for chunk in chunks:
        totals[1:] += np.bincount(chunk.terms, minlength=known)
    place = np.cumsum(totals)
    size = int(place[-1])
    terms = np.repeat(np.arange(known), totals[1:])
    texts, frequencies = np.empty(size, np.int32), np.empty(size, np.float32)
    for chunk in chunks:
        starts = _run_starts(chunk.terms)
        counts = np.diff(np.append(starts, len(chunk.terms)))
        held = chunk.terms[starts]
        at = np.repeat(place[held] - starts, counts) + np.arange(len(chunk.terms))
        texts[at], frequencies[at] = chunk.texts, chunk.frequencies
        place[held] += counts
    return CountedTexts(lengths, [d for chunk in chunks for d in chunk.distinct], terms, texts, frequencies)


Triples = tuple[list[int], list[int], list[int]]


def _difference(
    old_terms: Int64Array, old_rows: Int64Array, terms: Int64Array, rows: Int64Array, frequencies: Float32Array
) -> tuple[Triples, Triples]:
    """Return the postings to change (frequency 0: to take away) and those to add, from the old and the new ones."""
    counts = frequencies.astype(np.int64)
    if not len(old_terms):
        return ([], [], []), (terms.tolist(), rows.tolist(), counts.tolist())
    old, new = old_terms << 32 | old_rows, terms << 32 | rows
    if len(new) and (np.diff(new) < 0).any():
        order = np.argsort(new)
        new, terms, rows, counts = new[order], terms[order], rows[order], counts[order]
    if not len(new):
        return (old_terms.tolist(), old_rows.tolist(), [0] * len(old)), ([], [], [])
    place = np.minimum(new.searchsorted(old), len(new) - 1)
    stays = new[place] == old
    added = np.ones(len(new), np.bool_)
    added[place[stays]] = False
    changes = (old_terms.tolist(), old_rows.tolist(), np.where(stays, counts[place], 0).tolist())
    return changes, (terms[added].tolist(), rows[added].tolist(), counts[added].tolist())

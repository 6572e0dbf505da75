"""The BM25 index: texts as rows, exact statistics at all times, scores worked out when they are asked for.

Nothing that depends on the collection (idf, average length) is stored, so no write makes anything stale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from agora_core.errors import InvalidArgumentError
from agora_core.keyword.analysis import AnyTokenizer
from agora_core.keyword.counting import NOTHING, CountedTexts, Vocabulary, count_texts, split_by_owner
from agora_core.keyword.ordering import (
    BoolArray,
    Float32Array,
    Float64Array,
    Int32Array,
    Int64Array,
    run_starts,
    stable_order,
)
from agora_core.keyword.postings import Block, Postings

Fold = tuple[int, int, list[Block]]
Triples = tuple[list[int], list[int], list[int]]

# A write of at least this many postings, and of this share of the index, rewrites the blocks beside the readers.
_LEAST_BULK: Final = 1 << 14
_BULK_SHARE: Final = 32


@dataclass(frozen=True, slots=True)
class IndexColumns:
    """An index as plain columns: term t, `words[t]`, has the postings from `starts[t]` up to `starts[t + 1]`."""

    words: list[str]
    starts: Int64Array
    rows: Int32Array
    frequencies: Float32Array
    lengths: Int64Array

    def check(self, records: int) -> None:
        """Refuse columns that do not fit together or to that many records.

        Raises:
            InvalidArgumentError: they do not.
        """
        if not (self._shapes_fit(records) and self._values_fit(records)):
            raise InvalidArgumentError("the columns of the index do not fit together")

    def _shapes_fit(self, records: int) -> bool:
        columns: tuple[npt.NDArray[Any], ...] = (self.starts, self.rows, self.frequencies, self.lengths)
        return (
            all(column.ndim == 1 for column in columns)
            and [column.dtype.str for column in columns] == ["<i8", "<i4", "<f4", "<i8"]
            and all(type(word) is str for word in self.words)
            and len(set(self.words)) == len(self.words) == len(self.starts) - 1
            and len(self.rows) == len(self.frequencies)
            and len(self.lengths) == records
        )

    def _values_fit(self, records: int) -> bool:
        return (
            bool(self.starts[0] == 0 and self.starts[-1] == len(self.rows))
            and bool((np.diff(self.starts) > 0).all() and (self.lengths >= 0).all())
            and bool(((self.rows >= 0) & (self.rows < records)).all())
            and bool(((self.frequencies >= 1) & (self.frequencies == np.floor(self.frequencies))).all())
            and bool((np.diff(self.terms() << 32 | self.rows) > 0).all())
        )

    def terms(self) -> Int64Array:
        """Return the term of each posting."""
        return np.repeat(np.arange(len(self.words), dtype=np.int64), np.diff(self.starts))


class BM25Index:
    """Rows of terms. One writer at a time; readers must not run beside `change` and `install`.

    Rows are small ints that the index hands out (`allocate`), and that a `change` takes or gives back.
    """

    def __init__(self, tokenizer: AnyTokenizer) -> None:
        self.tokenizer = tokenizer
        self.vocabulary = Vocabulary()
        self.postings = Postings()
        self.document_frequency: Int64Array = np.zeros(0, np.int64)
        self.lengths: Float64Array = np.zeros(0, np.float64)
        self.taken: BoolArray = np.zeros(0, np.bool_)
        self.documents = 0
        self.total_length = 0
        self._distinct: list[bytes] = []
        self._free: list[int] = []

    @property
    def rows(self) -> int:
        """How many rows there are, free ones among them."""
        return len(self._distinct)

    @property
    def average_length(self) -> float:
        """The mean length of passages, 1 where all are empty (no score depends on it then)."""
        return self.total_length / self.documents if self.total_length else 1.0

    def count(self, texts: Sequence[str]) -> CountedTexts:
        """Tokenize and count texts. Readers may run; nothing is indexed yet."""
        return count_texts(texts, self.tokenizer, self.vocabulary)

    def allocate(self, count: int) -> list[int]:
        """Return `count` rows that hold nothing; the next `change` takes them, and must be given all of them."""
        reused = self._free[-count:] if count else []
        return reused[::-1] + list(range(self.rows, self.rows + count - len(reused)))

    def prepare(self, rows: Sequence[int], counted: CountedTexts, stale: Sequence[int]) -> list[Block] | None:
        """Do what `change` can have done beforehand, beside readers: where much changes, the new blocks."""
        old = sum(len(self._distinct[row]) for rows_ in (rows, stale) for row in rows_ if row < self.rows) >> 2
        if len(counted.terms) + old < max(_LEAST_BULK, self.postings.live // _BULK_SHARE):
            return None
        at = np.asarray(rows, np.int32)
        dead = np.zeros(max(self.rows, max(rows, default=0) + 1), np.bool_)
        dead[at] = True
        dead[np.asarray(stale, np.int32)] = True
        terms, frequencies, new_rows = counted.terms, counted.frequencies, at[counted.texts]
        if (np.diff(at) < 0).any():
            order = stable_order(new_rows)
            order = order[stable_order(terms[order])]
            terms, frequencies, new_rows = terms[order], frequencies[order], new_rows[order]
        known = len(self.vocabulary.words)
        return self.postings.rewritten_with(terms, new_rows, frequencies, known=known, dead=dead)

    def change(
        self, rows: Sequence[int], counted: CountedTexts, stale: Sequence[int], blocks: list[Block] | None
    ) -> None:
        """Index counted texts at `rows`, in the place of what those hold, and empty the `stale` rows.

        `blocks` is what `prepare` returned for the same arguments.
        """
        self._make_room(rows)
        at, gone = np.asarray(rows, np.int64), np.asarray(stale, np.int64)
        old_terms, old_rows = self._count_out(np.concatenate((at, gone)))
        starts = run_starts(counted.terms)
        self.document_frequency[counted.terms[starts]] += np.diff(np.append(starts, len(counted.terms)))
        self.documents += len(rows)
        self.total_length += int(counted.lengths.sum())
        self.lengths[at] = counted.lengths
        self.taken[at] = True
        self.taken[gone] = False
        for row, distinct in zip(rows, counted.distinct, strict=True):
            self._distinct[row] = distinct
        for row in stale:
            self._distinct[row] = b""
        self._free.extend(stale)
        if blocks is not None:
            self.postings.install_all(blocks)
        else:
            new_rows = at[counted.texts]
            self.postings.apply(*_difference(old_terms, old_rows, counted.terms, new_rows, counted.frequencies))

        # A number may stand for another term while zeros of the old one wait in its block: reading passes them over.
        self.vocabulary.forget(old_terms[self.document_frequency[old_terms] == 0].tolist())
        self.vocabulary.compact()

    def plan_fold(self) -> Fold | None:
        """Return the next piece of tidying for `install`, None where nothing is due. Readers may run."""
        return self.postings.fold(len(self.vocabulary.words)) if self.postings.wants_folding() else None

    def install(self, fold: Fold) -> None:
        """Put a planned fold in place."""
        self.postings.install(*fold)

    def columns(self) -> IndexColumns:
        """Return everything as columns, the taken rows numbered anew in their order. No writer may run."""
        known = len(self.vocabulary.words)
        blocks = self.postings.rewritten_with(NOTHING.terms, NOTHING.texts, NOTHING.frequencies, known=known, dead=None)
        used = np.flatnonzero(self.document_frequency[:known])
        taken = self.taken[: self.rows]
        new_row = (np.cumsum(taken) - 1).astype(np.int32)
        return IndexColumns(
            [self.vocabulary.words[number] or "" for number in used.tolist()],
            np.concatenate((np.zeros(1, np.int64), np.cumsum(self.document_frequency[used]))),
            new_row[np.concatenate([NOTHING.texts, *(block.rows for block in blocks)])],
            np.concatenate([NOTHING.frequencies, *(block.frequencies for block in blocks)]),
            self.lengths[: self.rows][taken].astype(np.int64),
        )

    def renumber(self, moved: Int32Array) -> None:
        """Give the rows new numbers in the same order: row `r` is now `moved[r]`, or gone where that is -1.

        Those that go hold nothing. No reader may run.
        """
        known = len(self.vocabulary.words)
        blocks = self.postings.rewritten_with(NOTHING.terms, NOTHING.texts, NOTHING.frequencies, known=known, dead=None)
        for block in blocks:
            block.rows[:] = moved[block.rows]
        self.postings.install_all(blocks)
        kept = np.flatnonzero(moved >= 0)
        self._distinct = [self._distinct[row] for row in kept.tolist()]
        self.lengths, self.taken = self.lengths[kept], self.taken[kept]
        self._free = []

    def fill(self, columns: IndexColumns) -> None:
        """Take over checked columns; the index must be empty."""
        for word in columns.words:
            self.vocabulary[word]
        terms = columns.terms()
        order = stable_order(columns.rows)
        rows = range(len(columns.lengths))
        distinct = split_by_owner(terms[order].astype(np.int32), columns.rows[order], len(rows))
        counted = CountedTexts(columns.lengths, distinct, terms, columns.rows, columns.frequencies)
        self.change(rows, counted, (), self.prepare(rows, counted, ()))

    def _count_out(self, at: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Take what the rows hold out of the statistics; return the terms and rows of their postings, by term."""
        held = at[self.taken[at]]
        self.documents -= len(held)
        self.total_length -= int(self.lengths[held].sum())
        packed = [self._distinct[row] for row in held.tolist()]
        terms = np.frombuffer(b"".join(packed), np.int32).astype(np.int64)
        owners = np.repeat(held, [len(distinct) >> 2 for distinct in packed])
        if len(packed) > 1:
            order = stable_order(terms)
            terms, owners = terms[order], owners[order]
        starts = run_starts(terms)
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
        self._distinct.extend([b""] * (need - self.rows))
        reused = min(int(np.count_nonzero(~self.taken[np.asarray(rows, np.int64)])), len(self._free))
        if reused:
            del self._free[-reused:]


ScalarT = TypeVar("ScalarT", bound=np.generic)


def _grown(old: npt.NDArray[ScalarT], size: int) -> npt.NDArray[ScalarT]:
    new = np.zeros(size, old.dtype)
    new[: len(old)] = old
    return new


def _difference(
    old_terms: Int64Array, old_rows: Int64Array, terms: Int64Array, rows: Int64Array, frequencies: Float32Array
) -> tuple[Triples, Triples]:
    """Return the postings to change (frequency 0: to take away) and those to add, from the old and the new ones."""
    counts = frequencies.astype(np.int64)
    if not len(old_terms):
        return ([], [], []), (terms.tolist(), rows.tolist(), counts.tolist())
    if not len(terms):
        return (old_terms.tolist(), old_rows.tolist(), [0] * len(old_terms)), ([], [], [])
    old, new = old_terms << 32 | old_rows, terms << 32 | rows
    order = np.argsort(new)
    new, terms, rows, counts = new[order], terms[order], rows[order], counts[order]
    place = np.minimum(new.searchsorted(old), len(new) - 1)
    stays = new[place] == old
    added = np.ones(len(new), np.bool_)
    added[place[stays]] = False
    changes = (old_terms.tolist(), old_rows.tolist(), np.where(stays, counts[place], 0).tolist())
    return changes, (terms[added].tolist(), rows[added].tolist(), counts[added].tolist())

"""The index behind the filters of the memory store.

A top-level key is indexed as its rows are written; a path into objects when a filter first asks for it, and from then
on as well. Rows that were deleted stay in the lists until the store compacts itself: whoever asks leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agora_core.errors import UnsupportedFilterError
from agora_core.filters.expressions import And, Expression, Leaf, Not, Or
from agora_core.filters.paths import MISSING, Path, value_at
from agora_core.metadata_index.postings import NO_ROWS, Entry, PathIndex, Posting
from agora_core.records import JSON

RowSet = npt.NDArray[Any]
"""Rows, either ascending and distinct (int32), or as a mask over all rows (bool)."""

# A union of more than this share of all rows is cheaper through a mask than by sorting.
_SORTED_SHARE: Final = 16
_NESTED_PATHS: Final = 64


class MetadataIndex:
    """The paths of one table of rows. Not safe under threads: the store's lock guards it."""

    def __init__(self, metadata: Sequence[dict[str, JSON] | None], *, waiting: bool = False) -> None:
        """Index `metadata`, whose positions are the rows; the sequence is read again when a new path is asked for.

        An index that is `waiting` reads all of it when it is first asked something.
        """
        self._metadata = metadata
        self._waiting = waiting
        self._keys: dict[str, PathIndex] = {}
        self._nested: dict[Path, PathIndex] = {}

    def append(self, first: int) -> None:
        """Index the rows from `first` on; those before are indexed."""
        if not self._waiting:
            self._append(first)

    def _append(self, first: int) -> None:
        keys, nested = self._keys, self._nested
        metadata = self._metadata
        for row in range(first, len(metadata)):
            values = metadata[row]
            if not values:
                continue
            for key, value in values.items():
                index = keys.get(key)
                if index is None:
                    index = keys[key] = PathIndex()
                if type(value) is str:
                    # By far the most frequent kind, so it is spared the calls.
                    entry = index.strings.get(value)
                    if entry is None:
                        index.strings[value] = row
                    elif isinstance(entry, Posting):
                        entry.rows.append(row)
                    else:
                        index.strings[value] = Posting((entry, row))
                else:
                    index.append(row, value)
            for path, index in nested.items():
                value = value_at(values, path)
                if value is not MISSING:
                    index.append(row, value)

    def _catch_up(self) -> None:
        if self._waiting:
            # Anew, where reading the rows broke off before.
            self._keys = {}
            self._append(0)
            self._waiting = False

    def update(self, row: int, before: Mapping[str, JSON], after: Mapping[str, JSON], keys: Iterable[str]) -> None:
        """Follow a change of `row` from `before` to `after` in the top-level `keys`."""
        if self._waiting:
            return
        changed = set(keys)
        for key in changed:
            old, new = before.get(key, MISSING), after.get(key, MISSING)
            if key not in self._keys:
                self._keys[key] = PathIndex()
            _move(self._keys[key], row, old, new)
        for path, index in self._nested.items():
            if path[0] in changed:
                _move(index, row, value_at(before, path), value_at(after, path))

    def compact(self, metadata: Sequence[dict[str, JSON] | None], moved: npt.NDArray[np.int32]) -> None:
        """Follow the rows to their new numbers: row `r` is now `moved[r]` of `metadata`, or gone where that is -1."""
        self._metadata = metadata
        place = moved.tolist()
        for index in (*self._keys.values(), *self._nested.values()):
            index.compact(moved, place)

    def select(self, expression: Expression) -> RowSet:
        """Return the rows that match, deleted ones among them."""
        if isinstance(expression, And):
            return self._all(expression.children)
        if isinstance(expression, Or):
            return self._any([self.select(child) for child in expression.children])
        if isinstance(expression, Not):
            return self._complement(self.select(expression.child))
        if not isinstance(expression, Leaf):
            raise UnsupportedFilterError(f"{type(expression).__name__} is not a condition of the filter language")
        index = self._index(expression.path)
        return NO_ROWS if index is None else self._leaf(expression, index)

    def values(self, path: Path, kept: npt.NDArray[np.bool_] | None) -> list[tuple[list[JSON], npt.NDArray[np.int64]]]:
        """Return the values and members at a path with the number of rows that have each; see `PathIndex.counted`."""
        index = self._index(path)
        if index is None:
            return []
        index.index_compounds(self._values(path))
        return index.counted(kept)

    def _leaf(self, leaf: Leaf, index: PathIndex) -> RowSet:
        lookup = leaf.operator.lookup(leaf.operand)
        if lookup.has_compounds:
            index.index_compounds(self._values(leaf.path))
        test = leaf.operator.holds(leaf.operand)
        if not lookup.exact and lookup.only_scalar_types:
            # Once for each distinct value, however many rows hold it.
            return self._union(index.where(test, lookup.types))
        if lookup.every:
            rows = self._intersection([self._union(some) for some in index.each(lookup)])
        else:
            rows = self._union(index.entries(lookup))
        if lookup.exact:
            return rows
        kept = [row for row in self._rows(rows) if test(value_at(self._metadata[row] or {}, leaf.path))]
        return np.array(kept, dtype=np.int32)

    def _index(self, path: Path) -> PathIndex | None:
        self._catch_up()
        if len(path) == 1:
            return self._keys.get(path[0])
        index = self._nested.get(path)
        if index is None:
            index = PathIndex()
            for row, value in self._values(path):
                index.append(row, value)
            if len(self._nested) >= _NESTED_PATHS:
                del self._nested[next(iter(self._nested))]
            self._nested[path] = index
        return index

    def _values(self, path: Path) -> Iterator[tuple[int, JSON]]:
        for row, metadata in enumerate(self._metadata):
            if metadata:
                value = value_at(metadata, path)
                if value is not MISSING:
                    yield row, value

    def _rows(self, rows: RowSet) -> list[int]:
        """Return rows as a list, those without metadata left out."""
        found: list[int] = (np.flatnonzero(rows) if rows.dtype == bool else rows).tolist()
        return [row for row in found if self._metadata[row]]

    def _union(self, entries: Iterable[Entry | None]) -> RowSet:
        singles: list[int] = []
        parts: list[RowSet] = []
        for entry in entries:
            if isinstance(entry, Posting):
                parts.append(entry.read())
            elif entry is not None:
                singles.append(entry)
        if singles:
            # Unique, because several members of one row's list may each be held by that row alone.
            parts.append(np.unique(np.array(singles, dtype=np.int32)))
        return self._any(parts)

    def _any(self, sets: Sequence[RowSet]) -> RowSet:
        sets = [rows for rows in sets if len(rows)]
        if not sets:
            return NO_ROWS
        if len(sets) == 1:
            return sets[0]
        total = sum(len(rows) for rows in sets)
        if total < len(self._metadata) // _SORTED_SHARE and not any(rows.dtype == bool for rows in sets):
            rows = np.concatenate(sets)
            rows.sort()
            first = np.empty(len(rows), dtype=bool)
            first[0] = True
            np.not_equal(rows[1:], rows[:-1], out=first[1:])
            return rows[first]
        mask = np.zeros(len(self._metadata), dtype=bool)
        for rows in sets:
            if rows.dtype == bool:
                mask |= rows
            else:
                mask[rows] = True
        return mask

    def _all(self, children: Sequence[Expression]) -> RowSet:
        if not children:
            return np.ones(len(self._metadata), dtype=bool)
        return self._intersection([self.select(child) for child in children])

    def _intersection(self, sets: Sequence[RowSet]) -> RowSet:
        masks = [rows for rows in sets if rows.dtype == bool]
        lists = sorted((rows for rows in sets if rows.dtype != bool), key=len)
        if not lists:
            mask = masks[0]
            for other in masks[1:]:
                mask = mask & other
            return mask
        rows = lists[0]
        for other in lists[1:]:
            if not len(rows):
                break
            places = np.searchsorted(other, rows)
            places[places == len(other)] = 0
            rows = rows[other[places] == rows]
        for mask in masks:
            rows = rows[mask[rows]]
        return rows

    def _complement(self, rows: RowSet) -> RowSet:
        if rows.dtype == bool:
            return ~rows
        mask = np.ones(len(self._metadata), dtype=bool)
        mask[rows] = False
        return mask


def _move(index: PathIndex, row: int, old: Any, new: Any) -> None:
    if type(old) is list and type(new) is list:
        index.exchange(row, old, new)
        return
    if old is not MISSING:
        index.discard(row, old)
    if new is not MISSING:
        index.insert(row, new)

"""The index behind the filters of the memory store: for each path and value the rows that hold it.

A top-level key is indexed as its rows are written; a path into objects when a filter first asks for it, and from then
on as well. Rows that were deleted stay in the lists until the store compacts itself: whoever asks leaves them out.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agora_core.errors import UnsupportedFilterError
from agora_core.filters.expressions import (
    And,
    Compare,
    ContainsAll,
    ContainsAny,
    Equals,
    Exists,
    Expression,
    IsOneOf,
    Leaf,
    MatchesAny,
    MatchesText,
    Not,
    Or,
    Path,
)
from agora_core.filters.literals import Literal, canonical_json
from agora_core.filters.matching import MISSING, value_at, value_predicate
from agora_core.records import JSON

RowSet = npt.NDArray[Any]
"""Rows, either ascending and distinct (int32), or as a mask over all rows (bool)."""

# Above this many rows an edit is noted and applied at the next read, instead of shifting the array each time.
_SHIFTED: Final = 4096
# A union of more than this share of all rows is cheaper through a mask than by sorting.
_SORTED_SHARE: Final = 16
_NESTED_PATHS: Final = 64
# Up to so many rows a loop is quicker than numpy.
_LOOPED: Final = 32

_EMPTY: Final = np.empty(0, dtype=np.int32)
_TRUE: Final = object()
_FALSE: Final = object()


class Posting:
    """The rows that hold one value, ascending."""

    __slots__ = ("_edits", "rows")

    def __init__(self, rows: Iterable[int] = ()) -> None:
        self.rows = array("i", rows)
        self._edits: dict[int, bool] | None = None

    def append(self, row: int) -> None:
        """Add a row that is not below the last one."""
        if not self.rows or self.rows[-1] != row:
            self.rows.append(row)

    def insert(self, row: int) -> None:
        """Add any row."""
        if self._edits is not None or len(self.rows) > _SHIFTED:
            self._note(row, True)
            return
        place = bisect_left(self.rows, row)
        if place == len(self.rows) or self.rows[place] != row:
            self.rows.insert(place, row)

    def discard(self, row: int) -> None:
        """Take a row out, where it is in."""
        if self._edits is not None or len(self.rows) > _SHIFTED:
            self._note(row, False)
            return
        place = bisect_left(self.rows, row)
        if place < len(self.rows) and self.rows[place] == row:
            del self.rows[place]

    def _note(self, row: int, held: bool) -> None:
        if self._edits is None:
            self._edits = {}
        self._edits[row] = held

    def read(self) -> npt.NDArray[np.int32]:
        """Return the rows as an array of their own."""
        # A view would lock the buffer against growing, hence the copy.
        rows = np.frombuffer(self.rows, dtype=np.int32).copy() if self.rows else _EMPTY
        if not self._edits:
            return rows
        edited = np.fromiter(self._edits, dtype=np.int32, count=len(self._edits))
        added = np.fromiter(self._edits.values(), dtype=bool, count=len(self._edits))
        untouched = rows[~np.isin(rows, edited)]
        rows = np.union1d(untouched, edited[added]).astype(np.int32)
        self.rows, self._edits = array("i", rows.tobytes()), None
        return rows

    def compact(self, moved: npt.NDArray[np.int32], place: list[int]) -> bool:
        """Give the rows their new numbers, those of -1 being dropped; say whether any are left."""
        if self._edits or len(self.rows) > _LOOPED:
            rows = moved[self.read()]
            self.rows = array("i", rows[rows >= 0].tobytes())
        else:
            self.rows = array("i", [new for row in self.rows if (new := place[row]) >= 0])
        return len(self.rows) > 0


# A value that one row holds costs no object of its own.
Entry = int | Posting
Table = dict[Any, Entry]


def _append(table: Table, key: Any, row: int) -> None:
    entry = table.get(key)
    if entry is None:
        table[key] = row
    elif isinstance(entry, Posting):
        entry.append(row)
    elif entry != row:
        table[key] = Posting((entry, row))


def _insert(table: Table, key: Any, row: int) -> None:
    entry = table.get(key)
    if entry is None:
        table[key] = row
    elif isinstance(entry, Posting):
        entry.insert(row)
    elif entry != row:
        table[key] = Posting(sorted((entry, row)))


def _discard(table: Table, key: Any, row: int) -> None:
    entry = table.get(key)
    if entry is None:
        return
    if isinstance(entry, Posting):
        entry.discard(row)
    elif entry == row:
        del table[key]


class PathIndex:
    """All values at one path. Strings and numbers have tables of their own, so that comparisons find their kind.

    The whole value of a list or an object is indexed, by its canonical text, only once a filter has asked for one.
    """

    __slots__ = ("_compounds", "lists", "members", "numbers", "objects", "others", "strings")

    def __init__(self) -> None:
        self.strings: Table = {}
        self.numbers: Table = {}
        self.others: Table = {}
        self.members: Table = {}
        self.lists = Posting()
        self.objects = Posting()
        self._compounds: tuple[Table, Table] | None = None

    def append(self, row: int, value: JSON) -> None:
        """Note that `row`, the last one, holds `value`."""
        if type(value) is list:
            self.lists.rows.append(row)
            members = self.members
            for item in value:
                if type(item) is str:
                    # Spelled out for lists of strings, which most access lists are.
                    entry = members.get(item)
                    if entry is None:
                        members[item] = row
                    elif isinstance(entry, Posting):
                        entry.append(row)
                    elif entry != row:
                        members[item] = Posting((entry, row))
                elif type(item) not in _COMPOUND:
                    _append(members, _scalar_key(item), row)
                elif self._compounds is not None:
                    _append(self._compounds[1], canonical_json(item), row)
            if self._compounds is not None:
                _append(self._compounds[0], canonical_json(value), row)
            return
        if type(value) is int or type(value) is float:
            _append(self.numbers, value, row)
            return
        if type(value) is dict:
            self.objects.rows.append(row)
        for table, key in self._places(value):
            _append(table, key, row)

    def insert(self, row: int, value: JSON) -> None:
        """Note that any `row` holds `value`."""
        for table, key in self._places(value):
            _insert(table, key, row)
        if type(value) is list:
            self.lists.insert(row)
        elif type(value) is dict:
            self.objects.insert(row)

    def discard(self, row: int, value: JSON) -> None:
        """Forget that `row` holds `value`."""
        for table, key in self._places(value):
            _discard(table, key, row)
        if type(value) is list:
            self.lists.discard(row)
        elif type(value) is dict:
            self.objects.discard(row)

    def exchange(self, row: int, old: list[JSON], new: list[JSON]) -> None:
        """Note that `row` holds the list `new` where it held `old`; what stays is not touched."""
        before = dict.fromkeys((id(table), key) for table, key in self._places(old))
        after = dict.fromkeys((id(table), key) for table, key in self._places(new))
        for table, key in self._places(old):
            if (id(table), key) not in after:
                _discard(table, key, row)
        for table, key in self._places(new):
            if (id(table), key) not in before:
                _insert(table, key, row)

    def compact(self, moved: npt.NDArray[np.int32], place: list[int]) -> None:
        """Give all rows their new numbers, `moved` and `place` as array and list; -1 drops a row."""
        tables = [self.strings, self.numbers, self.others, self.members, *(self._compounds or ())]
        for table in tables:
            for key, entry in list(table.items()):
                if isinstance(entry, Posting):
                    if not entry.compact(moved, place):
                        del table[key]
                elif place[entry] < 0:
                    del table[key]
                else:
                    table[key] = place[entry]
        self.lists.compact(moved, place)
        self.objects.compact(moved, place)

    def _places(self, value: JSON) -> Iterator[tuple[Table, Any]]:
        kind = type(value)
        if kind is str:
            yield self.strings, value
        elif kind is int or kind is float:
            yield self.numbers, value
        elif kind is list:
            for item in value:
                if type(item) not in _COMPOUND:
                    yield self.members, _scalar_key(item)
                elif self._compounds is not None:
                    yield self._compounds[1], canonical_json(item)
            if self._compounds is not None:
                yield self._compounds[0], canonical_json(value)
        elif kind is not dict:
            yield self.others, _scalar_key(value)
        elif self._compounds is not None:
            yield self._compounds[0], canonical_json(value)

    def index_compounds(self, values: Iterable[tuple[int, JSON]]) -> None:
        """Index whole lists and objects from now on; `values` are the rows and what they hold, in order of rows."""
        if self._compounds is not None:
            return
        whole: Table = {}
        members: Table = {}
        for row, value in values:
            if type(value) in _COMPOUND:
                _append(whole, canonical_json(value), row)
            if type(value) is list:
                for item in value:
                    if type(item) in _COMPOUND:
                        _append(members, canonical_json(item), row)
        self._compounds = (whole, members)

    def whole(self, literal: Literal) -> Entry | None:
        """Return the rows whose value is `literal`."""
        if literal.type == "string":
            return self.strings.get(literal.value)
        if literal.type == "number":
            return self.numbers.get(literal.value)
        if literal.type in ("array", "object"):
            return self._compounds[0].get(literal.canonical) if self._compounds is not None else None
        return self.others.get(_scalar_key(literal.value))

    def member(self, literal: Literal) -> Entry | None:
        """Return the rows whose value is a list with the element `literal`."""
        if literal.type in ("array", "object"):
            return self._compounds[1].get(literal.canonical) if self._compounds is not None else None
        return self.members.get(_scalar_key(literal.value))

    def present(self) -> list[Entry]:
        """Return the rows that have any value at the path."""
        return [*self.strings.values(), *self.numbers.values(), *self.others.values(), self.lists, self.objects]


_COMPOUND: Final = frozenset((list, dict))


def _scalar_key(value: JSON) -> Any:
    """Return what stands for a scalar in a table: itself, save that True and False are no numbers."""
    return value if type(value) is not bool else _TRUE if value else _FALSE


class MetadataIndex:
    """The paths of one table of rows. Not safe under threads: the store's lock guards it."""

    def __init__(self, metadata: Sequence[dict[str, JSON] | None]) -> None:
        """Index `metadata`, whose positions are the rows; the sequence is read again when a new path is asked for."""
        self._metadata = metadata
        self._keys: dict[str, PathIndex] = {}
        self._nested: dict[Path, PathIndex] = {}

    def append(self, first: int) -> None:
        """Index the rows from `first` on."""
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

    def update(self, row: int, before: Mapping[str, JSON], after: Mapping[str, JSON], keys: Iterable[str]) -> None:
        """Follow a change of `row` from `before` to `after` in the top-level `keys`."""
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
            raise UnsupportedFilterError(f"{type(expression).__name__} is no condition of the filter language")
        index = self._index(expression.path)
        return _EMPTY if index is None else self._leaf(expression, index)

    def _leaf(self, leaf: Leaf, index: PathIndex) -> RowSet:
        if isinstance(leaf, (Equals, IsOneOf, MatchesAny, ContainsAny, ContainsAll)):
            literals = (leaf.literal,) if isinstance(leaf, Equals) else leaf.literals
            if any(literal.type in ("array", "object") for literal in literals):
                index.index_compounds(self._values(leaf.path))
            if isinstance(leaf, ContainsAll):
                sets = [self._union([index.member(literal)]) for literal in literals]
                return self._intersection(sets or [self._union([index.lists]), *sets])
            entries: list[Entry | None] = []
            if not isinstance(leaf, ContainsAny):
                entries += map(index.whole, literals)
            if not isinstance(leaf, (Equals, IsOneOf)):
                entries += map(index.member, literals)
            return self._union(entries)
        if isinstance(leaf, Exists):
            return self._union(index.present())
        if isinstance(leaf, (Compare, MatchesText)):
            # Once for each distinct value, however many rows hold it.
            number = isinstance(leaf, Compare) and leaf.literal.type == "number"
            test = value_predicate(leaf)
            table = index.numbers if number else index.strings
            return self._union([entry for value, entry in table.items() if test(value)])
        raise UnsupportedFilterError(f"{type(leaf).__name__} is no condition of the filter language")

    def _index(self, path: Path) -> PathIndex | None:
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
            return _EMPTY
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

"""The rows that hold a value, for each value at one path of the metadata: what the filters of the memory store read."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agora_core.filters.literals import JsonType, canonical_json
from agora_core.filters.operators import Lookup
from agora_core.records import JSON

# Above this many rows an edit is noted and applied at the next read, instead of shifting the array each time.
_SHIFTED: Final = 4096
# Up to so many rows a loop is quicker than numpy.
_LOOPED: Final = 32

NO_ROWS: Final = np.empty(0, dtype=np.int32)
_TRUE: Final = object()
_FALSE: Final = object()
_COMPOUND: Final = frozenset((list, dict))


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
        rows = np.frombuffer(self.rows, dtype=np.int32).copy() if self.rows else NO_ROWS
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
                        rows = entry.rows
                        if not rows or rows[-1] != row:
                            rows.append(row)
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

    def entries(self, lookup: Lookup) -> list[Entry]:
        """Return the rows that have any of what is looked up."""
        found: list[Entry] = []
        strings, members = self.strings, self.members
        for value in lookup.equal:
            # Strings, of which a list of rights may hold a hundred thousand, are spared the call.
            entry = strings.get(value) if type(value) is str else self._whole(value)
            if entry is not None:
                found.append(entry)
        for value in lookup.holds:
            entry = members.get(value) if type(value) is str else self._member(value)
            if entry is not None:
                found.append(entry)
        for kind in lookup.types:
            found += self._of_type(kind)
        return found

    def each(self, lookup: Lookup) -> list[list[Entry]]:
        """Return, for each thing looked up, the rows that have it."""
        some = [*map(self._whole, lookup.equal), *map(self._member, lookup.holds)]
        return [[] if one is None else [one] for one in some] + [self._of_type(kind) for kind in lookup.types]

    def where(self, test: Callable[[Any], bool], types: Iterable[JsonType]) -> list[Entry]:
        """Return the rows of the values of scalar `types` that satisfy `test`, asked once for each distinct value."""
        return [entry for kind in types for value, entry in self.of_scalars(kind) if test(value)]

    def of_scalars(self, kind: JsonType) -> list[tuple[Any, Entry]]:
        """Return the values of one scalar type, and the rows that hold each."""
        if kind == "string":
            return list(self.strings.items())
        if kind == "number":
            return list(self.numbers.items())
        keys = {None: None} if kind == "null" else {True: _TRUE, False: _FALSE}
        return [(value, self.others[key]) for value, key in keys.items() if key in self.others]

    def counted(self, kept: npt.NDArray[np.bool_] | None) -> list[tuple[list[JSON], npt.NDArray[np.int64]]]:
        """Return values, each once a list, and the number of rows that have each: first of values, then of members.

        Values that are lists are left out. `kept` marks the rows that count, None stands for all; lists and objects
        are there once they are indexed.
        """
        scalars = {None: None, _TRUE: True, _FALSE: False}
        whole, inside = self._compounds or ({}, {})
        objects = {text: entry for text, entry in whole.items() if text[0] == "{"}
        return [
            (list(self.strings), _counts(self.strings, kept)),
            (list(self.numbers), _counts(self.numbers, kept)),
            ([scalars[key] for key in self.others], _counts(self.others, kept)),
            ([json.loads(text) for text in objects], _counts(objects, kept)),
            ([scalars.get(key, key) for key in self.members], _counts(self.members, kept)),
            ([json.loads(text) for text in inside], _counts(inside, kept)),
        ]

    def _of_type(self, kind: JsonType) -> list[Entry]:
        if kind in ("array", "object"):
            return [self.lists if kind == "array" else self.objects]
        return [entry for _, entry in self.of_scalars(kind)]

    def _whole(self, value: JSON) -> Entry | None:
        kind = type(value)
        if kind is str:
            return self.strings.get(value)
        if kind is int or kind is float:
            return self.numbers.get(value)
        if kind is list or kind is dict:
            return self._compounds[0].get(canonical_json(value)) if self._compounds is not None else None
        return self.others.get(_scalar_key(value))

    def _member(self, value: JSON) -> Entry | None:
        if type(value) is list or type(value) is dict:
            return self._compounds[1].get(canonical_json(value)) if self._compounds is not None else None
        return self.members.get(_scalar_key(value))


def _counts(table: Table, kept: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.int64]:
    """Return how many rows each entry of a table has, only those counted that are `kept`."""
    single = np.fromiter((-1 if type(e) is Posting else e for e in table.values()), dtype=np.int64, count=len(table))
    counts = (single >= 0).astype(np.int64) if kept is None else np.where(single >= 0, kept[single], 0).astype(np.int64)
    if (single < 0).any():
        for place, entry in enumerate(table.values()):
            if isinstance(entry, Posting):
                rows = entry.read()
                counts[place] = len(rows) if kept is None else np.count_nonzero(kept[rows])
    return counts


def _scalar_key(value: JSON) -> Any:
    """Return what stands for a scalar in a table: itself, save that True and False are no numbers."""
    return value if type(value) is not bool else _TRUE if value else _FALSE

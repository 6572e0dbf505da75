"""Columns of the memory store that came from a file: bytes as they were saved, decoded row by row when read.

A loaded store so costs what its bytes cost, until its rows are replaced. Nothing of the file is read later: it may be
removed, replaced or out of reach from then on.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from json.encoder import JSONEncoder
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from agora_core.errors import InvalidArgumentError, InvalidMetadataError
from agora_core.metadata import copy_metadata, copy_plain
from agora_core.records import JSON

T = TypeVar("T")

# The bits by which every byte of a character but its first is known in UTF-8.
_INNER_MASK: Final = 0xC0
_INNER_BYTE: Final = 0x80
_NONE: Final = -1


class SavedColumn(Sequence[T]):
    """A list whose first items are bytes until they are read; items may be changed in place and added at the end.

    It may be read while it is added to. Only whole items are ever seen: an item is of before a change or of after it.
    """

    __slots__ = ("_added", "_blob", "_changed", "_decode", "_ends", "_starts")

    def __init__(
        self, blob: bytes, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], decode: Callable[[bytes], T]
    ) -> None:
        """Take bytes and, for each item, where it starts and ends in them; a start of -1 stands for None."""
        self._blob = blob
        # A memoryview gives single numbers twice as fast as an array does.
        self._starts, self._ends = starts.data, ends.data
        self._decode = decode
        self._changed: dict[int, T] = {}
        self._added: list[T] = []

    def __len__(self) -> int:
        return len(self._starts) + len(self._added)

    def __getitem__(self, row: Any) -> Any:
        if row >= len(self._starts):
            return self._added[row - len(self._starts)]
        if row in self._changed:
            return self._changed[row]
        start = self._starts[row]
        return None if start < 0 else self._decode(self._blob[start : self._ends[row]])

    def __setitem__(self, row: int, item: T) -> None:
        if row >= len(self._starts):
            self._added[row - len(self._starts)] = item
        else:
            self._changed[row] = item

    def extend(self, items: Sequence[T]) -> None:
        """Add items at the end."""
        self._added.extend(items)

    def __iter__(self) -> Iterator[T]:
        return map(self.__getitem__, range(len(self)))

    def __reduce__(self) -> Any:
        state = (self._blob, np.asarray(self._starts), np.asarray(self._ends), self._decode)
        return _rebuilt, (*state, self._changed, self._added)

    def kept(self, alive: npt.NDArray[np.bool_]) -> SavedColumn[T] | list[T]:
        """Return a column of the items that are marked; a list, once none of them is in bytes."""
        saved = len(self._starts)
        chosen = alive[:saved]
        starts, ends = np.asarray(self._starts)[chosen], np.asarray(self._ends)[chosen]
        added = list(itertools.compress(self._added, alive[saved:].tolist()))
        if not len(starts):
            return added
        column = SavedColumn(self._blob, starts, ends, self._decode)
        column._added = added
        if self._changed:
            place = np.cumsum(chosen) - 1
            column._changed = {int(place[row]): item for row, item in self._changed.items() if chosen[row]}
        return column

    def encoded(self, row: int) -> bytes | None:
        """Return the bytes of an item that has not changed since they were read; None for others, and for a None."""
        if row >= len(self._starts) or row in self._changed:
            return None
        start = self._starts[row]
        return None if start < 0 else self._blob[start : self._ends[row]]


def _rebuilt(blob: bytes, starts: Any, ends: Any, decode: Any, changed: dict[int, Any], added: list[Any]) -> Any:
    column = SavedColumn[Any](blob, starts, ends, decode)
    column._changed, column._added = changed, added
    return column


Column = list[T] | SavedColumn[T]


def kept(column: Column[T], alive: npt.NDArray[np.bool_]) -> Column[T]:
    """Return the items of a column that are marked."""
    if isinstance(column, SavedColumn):
        return column.kept(alive)
    return list(itertools.compress(column, alive.tolist()))


def encode_items(column: Column[T], rows: Sequence[int], encode: Callable[[T], bytes]) -> list[bytes | None]:
    """Return some items of a column in bytes, None for those that are None."""
    if not isinstance(column, SavedColumn):
        return [None if (item := column[row]) is None else encode(item) for row in rows]
    items = []
    for row in rows:
        same = column.encoded(row)
        if same is None and (item := column[row]) is not None:
            same = encode(item)
        items.append(same)
    return items


def saved_column(blob: bytes, lengths: npt.NDArray[Any], count: int, decode: Callable[[bytes], T]) -> SavedColumn[T]:
    """Return a column of `count` items of these `lengths`, -1 for None, which stand one after another in `blob`.

    Raises:
        InvalidArgumentError: bytes and lengths do not fit together, or an item does not begin with a character.
        UnicodeDecodeError: the bytes are not UTF-8.
    """
    if lengths.dtype != np.int64 or lengths.shape != (count,) or bool((lengths < _NONE).any()):
        raise InvalidArgumentError("the lengths of a column are not those of its records")
    ends = np.cumsum(np.maximum(lengths, 0))
    if (int(ends[-1]) if count else 0) != len(blob) or bool((ends < 0).any()):
        raise InvalidArgumentError("the bytes of a column do not fit its lengths")
    str(blob, "utf-8")
    starts = ends - np.maximum(lengths, 0)
    first = np.frombuffer(blob, dtype=np.uint8)[starts[lengths > 0]]
    if b"\x00" in blob or bool(((first & _INNER_MASK) == _INNER_BYTE).any()):
        raise InvalidArgumentError("the bytes of a column are not those of its texts")
    starts[lengths == _NONE] = _NONE
    return SavedColumn(blob, starts, ends, decode)


def decode_text(item: bytes) -> str:
    """Return a text."""
    return str(item, "utf-8")


def encode_text(text: str) -> bytes:
    """Return a text in bytes."""
    return text.encode()


def decode_metadata(item: bytes) -> dict[str, JSON] | None:
    """Return metadata, validated as if they came from a caller.

    Raises:
        InvalidMetadataError: they are none; somebody made the file.
    """
    where = "a record of the saved store"
    try:
        metadata = json.loads(item)
    except (ValueError, RecursionError) as error:
        raise InvalidMetadataError(f"{where}: its metadata are not JSON ({error}); save the store again") from error
    return copy_plain(metadata) or copy_metadata(metadata, where=where)


_JSON: Final = JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def encode_metadata(metadata: dict[str, JSON] | None) -> bytes:
    """Return metadata in bytes."""
    return _JSON.encode(metadata).encode()

"""What one search of the memory store sees, and the key by which it remembers a filter."""

from __future__ import annotations

from typing import Any, Final

from agora_core.filters import Expression, compile_filter
from agora_core.metadata import clone_metadata
from agora_core.protocols import AnyFilter
from agora_core.records import JSON, Passage
from agora_core.stores.memory.rows import IntArray, RowTable, TableView
from agora_core.stores.memory.search import Ranked

_REMEMBERED: Final = 256
# Blocks take at most a sixteenth of what the vectors take, or this where that is more; none is larger than this.
_BLOCKS_SHARE: Final = 16
_LEAST_BYTES: Final = 2 * 2**20
_GATHERED_ROWS: Final = 2048
_ATOMS: Final = frozenset((str, int, float, bool, type(None)))


class Selections:
    """The rows of filters that were asked, until the next write; of those asked again, also the vectors side by side.

    Guarded by the store's lock.
    """

    __slots__ = ("_blocks", "_bytes", "_rows")

    def __init__(self) -> None:
        self._rows: dict[Any, IntArray] = {}
        self._blocks: dict[int, TableView | None] = {}
        self._bytes = 0

    def get(self, key: Any) -> IntArray | None:
        """Return the rows of a filter, where they are known."""
        return self._rows.get(key)

    def put(self, key: Any, rows: IntArray) -> None:
        """Remember the rows of a filter."""
        if len(self._rows) >= _REMEMBERED:
            self.clear()
        self._rows[key] = rows

    def clear(self) -> None:
        """Forget all, as each write makes necessary."""
        self._rows.clear()
        self._blocks.clear()
        self._bytes = 0

    def block(self, table: RowTable, rows: IntArray | None) -> TableView | None:
        """Return the vectors of remembered `rows` side by side, from the second time they are asked for."""
        if rows is None or not 0 < len(rows) <= _GATHERED_ROWS:
            return None
        # An array that is remembered keeps its id.
        key = id(rows)
        if key not in self._blocks:
            self._blocks[key] = None
            return None
        block = self._blocks[key]
        if block is None:
            view = table.view()
            row_bytes = view.matrix.strides[0]
            if self._bytes + len(rows) * row_bytes > max(_LEAST_BYTES, view.count * row_bytes // _BLOCKS_SHARE):
                return None
            block = self._blocks[key] = table.gathered(rows)
            self._bytes += len(rows) * row_bytes
        return block


class Reading:
    """What one search sees: the rows as they were, whatever is written meanwhile."""

    __slots__ = ("before", "rows", "searched", "view")

    def __init__(self, view: TableView, rows: IntArray | None, block: TableView | None) -> None:
        self.view = view
        # Where the vectors of the rows stand together, all of those are searched.
        self.searched = view if block is None else block
        self.rows = rows if block is None else None
        # Metadata that a patch has replaced since; the patch writes here first.
        self.before: dict[int, dict[str, JSON] | None] = {}

    def passages(self, found: Ranked, floor: float | None) -> list[Passage]:
        """Return what was found as passages that share nothing with the store, down to the score `floor`."""
        view, before = self.view, self.before
        ids, texts, sources, metadata = view.ids, view.texts, view.sources, view.metadata
        passages = []
        for score, row in found:
            if floor is not None and score < floor:
                break
            # In this order: a new value is only ever seen once the old one is kept.
            current = metadata[row]
            if before:
                current = before.get(row, current)
            passages.append(Passage(ids[row], texts[row], score, sources[row], clone_metadata(current)))
        return passages


def cheap_key(filter: AnyFilter) -> Any:
    """Return a key that two plain filters share only where they mean the same, or None where that is not cheap."""
    if isinstance(filter, Expression):
        return filter
    if type(filter) is not dict:
        return None
    parts: list[Any] = []
    for key, value in filter.items():
        if type(key) is not str:
            return None
        kind = type(value)
        if kind in _ATOMS:
            # The type belongs to it: True, 1 and 1.0 are one key to Python.
            parts.append((key, kind, value))
        elif kind is list or kind is tuple:
            values = tuple(value)
            kinds = tuple(map(type, values))
            if not _ATOMS.issuperset(kinds):
                return None
            parts.append((key, kinds, values))
        else:
            return None
    return tuple(parts)


def compiled_key(key: Any) -> Expression:
    """Return the internal form of the filter that has this key: of what was read then, whatever became of it since."""
    if isinstance(key, Expression):
        return key
    return compile_filter({name: list(value) if isinstance(kind, tuple) else value for name, kind, value in key})

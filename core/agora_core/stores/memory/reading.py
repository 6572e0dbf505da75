"""What one search of the memory store sees, and the key by which it remembers a filter."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from agora_core.filters import Expression, compile_filter, predicate
from agora_core.filters.matching import Predicate
from agora_core.metadata import clone_metadata
from agora_core.protocols import AnyFilter
from agora_core.records import JSON, Passage
from agora_core.stores.memory.rows import IntArray, RowTable, TableView
from agora_core.stores.memory.search import Ranked

_REMEMBERED: Final = 256
# Rows written since a filter was asked, up to which each of them is judged; beyond, the index is asked anew.
_FOLLOWED: Final = 256
# Blocks take at most a sixteenth of what the vectors take, or this where that is more; none is larger than this.
_BLOCKS_SHARE: Final = 16
_LEAST_BYTES: Final = 2 * 2**20
_GATHERED_ROWS: Final = 2048
_ATOMS: Final = frozenset((str, int, float, bool, type(None)))


class _Selection:
    """The rows of one filter, and how much of what was written they know of."""

    __slots__ = ("_test", "dead", "expression", "ids", "known", "patched", "patches", "rows")

    def __init__(self, rows: IntArray, expression: Expression, table: RowTable) -> None:
        self.rows, self.expression = rows, expression
        self._test: Predicate | None = None
        # A compaction gives the table other lists; what is known of the old ones says nothing of those.
        self.ids, self.patched = table.ids, table.patched
        self._follow(table)

    def _follow(self, table: RowTable) -> None:
        self.known, self.dead, self.patches = len(table.ids), table.dead_count, len(table.patched)

    def advance(self, table: RowTable) -> bool:
        """Follow what was written since; False where asking the index anew is simpler."""
        if self.ids is not table.ids or self.patched is not table.patched:
            return False
        if self.known == len(table.ids) and self.patches == len(table.patched) and self.dead == table.dead_count:
            return True
        changed = [row for row in dict.fromkeys(table.patched[self.patches :]) if row < self.known]
        if len(table.ids) - self.known + len(changed) > _FOLLOWED:
            return False
        if self._test is None:
            self._test = predicate(self.expression)
        matches, metadata = self._test, table.metadata
        rows = self.rows
        new = [row for row in range(self.known, len(table.ids)) if matches(metadata[row] or {})]
        if changed:
            held = set(rows[np.isin(rows, changed)].tolist())
            now = {row for row in changed if matches(metadata[row] or {})}
            if held != now:
                kept = rows[~np.isin(rows, list(held - now))]
                rows = np.union1d(kept, np.array(sorted(now - held), dtype=np.intp)).astype(np.intp)
        if new:
            rows = np.concatenate([rows, np.array(new, dtype=np.intp)])
        if table.dead_count != self.dead:
            alive = table.live(rows)
            rows = alive if len(alive) != len(rows) else rows
        if rows is not self.rows:
            rows.flags.writeable = False
            self.rows = rows
        self._follow(table)
        return True


class Selections:
    """The rows of filters that were asked, kept up with what is written; of those asked again, also the vectors
    side by side.

    Guarded by the store's lock.
    """

    __slots__ = ("_blocks", "_bytes", "_kept")

    def __init__(self) -> None:
        self._kept: dict[Any, _Selection] = {}
        # By the id of an array of rows, which is kept here as well, so that the id is nobody else's.
        self._blocks: dict[int, tuple[IntArray, TableView | None]] = {}
        self._bytes = 0

    def get(self, key: Any, table: RowTable) -> IntArray | None:
        """Return the rows of a filter as the table is now, where they are known."""
        selection = self._kept.get(key)
        if selection is None:
            return None
        before = selection.rows
        if not selection.advance(table):
            del self._kept[key]
        if selection.rows is not before or key not in self._kept:
            self._drop(before)
        return selection.rows if key in self._kept else None

    def put(self, key: Any, rows: IntArray, expression: Expression, table: RowTable) -> None:
        """Remember the rows of a filter."""
        if len(self._kept) >= _REMEMBERED:
            self.clear()
        self._kept[key] = _Selection(rows, expression, table)

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()
        self._blocks.clear()
        self._bytes = 0

    def _drop(self, rows: IntArray) -> None:
        _, block = self._blocks.pop(id(rows), (None, None))
        if block is not None:
            self._bytes -= len(rows) * block.matrix.strides[0]

    def block(self, table: RowTable, rows: IntArray | None) -> TableView | None:
        """Return the vectors of remembered `rows` side by side, from the second time they are asked for."""
        if rows is None or not 0 < len(rows) <= _GATHERED_ROWS:
            return None
        key = id(rows)
        if key not in self._blocks:
            if len(self._blocks) >= 2 * _REMEMBERED:
                self._blocks.clear()
                self._bytes = 0
            self._blocks[key] = (rows, None)
            return None
        block = self._blocks[key][1]
        if block is None:
            view = table.view()
            row_bytes = view.matrix.strides[0]
            if self._bytes + len(rows) * row_bytes > max(_LEAST_BYTES, view.count * row_bytes // _BLOCKS_SHARE):
                return None
            block = table.gathered(rows)
            self._blocks[key] = (rows, block)
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

"""What one search of the memory store sees, and the key by which it remembers a filter."""

from __future__ import annotations

from typing import Any, Final

from agora_core.filters import Expression
from agora_core.metadata import clone_metadata
from agora_core.protocols import AnyFilter
from agora_core.records import JSON, Passage
from agora_core.stores.memory_rows import IntArray, TableView
from agora_core.stores.memory_search import Ranked

_ATOMS: Final = frozenset((str, int, float, bool, type(None)))


class Reading:
    """What one search sees: the rows as they were, whatever is written meanwhile."""

    __slots__ = ("before", "rows", "view")

    def __init__(self, view: TableView, rows: IntArray | None) -> None:
        self.view = view
        self.rows = rows
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
            kinds = tuple(map(type, value))
            if not _ATOMS.issuperset(kinds):
                return None
            parts.append((key, kinds, tuple(value)))
        else:
            return None
    return tuple(parts)

"""What is remembered of wide filters, so that only the first search with one pays for finding out that it is wide."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Final

from agora_core.filters import Expression
from agora_core.stores.postgres.search import Breadth

_MOST: Final = 1_024
_SECONDS: Final = 60.0


class Selectivity:
    """How much wide filters let through. Narrow filters are not kept: they are counted every time.

    Entries last a minute at most, and none outlives a write of this store that may have made a filter narrow.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[Expression | None, tuple[Breadth, float]] = OrderedDict()

    def breadth(self, filter: Expression | None) -> Breadth | None:
        """Return that of a filter known to be wide (None is no filter), or None where it is not known."""
        with self._lock:
            entry = self._known.get(filter)
            if entry is None or entry[1] < time.monotonic():
                return None
            self._known.move_to_end(filter)
            return entry[0]

    def remember(self, filter: Expression | None, breadth: Breadth) -> None:
        """Keep what a wide filter lets through."""
        with self._lock:
            self._known[filter] = (breadth, time.monotonic() + _SECONDS)
            self._known.move_to_end(filter)
            while len(self._known) > _MOST:
                self._known.popitem(last=False)

    def forget(self) -> None:
        """Drop everything, after a write that removed or changed records."""
        with self._lock:
            self._known.clear()

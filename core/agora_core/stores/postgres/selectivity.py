"""What is remembered of wide filters, so that only the first search with one pays for finding out that it is wide."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Final

from agora_core.filters import Expression

_MOST: Final = 1_024
_SECONDS: Final = 60.0


class Selectivity:
    """The share of rows that wide filters let through. Narrow filters are not kept: they are counted every time.

    Entries last a minute at most, and none outlives a write of this store that may have made a filter narrow.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shares: OrderedDict[Expression | None, tuple[float, float]] = OrderedDict()

    def share(self, filter: Expression | None) -> float | None:
        """Return the share of a filter known to be wide (None is no filter), or None where it is not known."""
        with self._lock:
            entry = self._shares.get(filter)
            if entry is None or entry[1] < time.monotonic():
                return None
            self._shares.move_to_end(filter)
            return entry[0]

    def remember(self, filter: Expression | None, share: float) -> None:
        """Keep the share of a wide filter."""
        with self._lock:
            self._shares[filter] = (share, time.monotonic() + _SECONDS)
            self._shares.move_to_end(filter)
            while len(self._shares) > _MOST:
                self._shares.popitem(last=False)

    def forget(self) -> None:
        """Drop everything, after a write that removed or changed records."""
        with self._lock:
            self._shares.clear()

"""How one vector search goes: which statement first, what its answer leaves to ask, what is remembered of filters."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from agora_core.concurrency import renew_after_fork
from agora_core.filters import Expression
from agora_core.steps import Steps
from agora_core.stores.postgres import search
from agora_core.stores.postgres.rows import one_vector
from agora_core.stores.postgres.session import Answer, Statement
from agora_core.stores.postgres.statements import Target, estimated_rows
from agora_core.validation import Float32Array

Rows = Sequence[Sequence[Any]]

_MOST: Final = 1_024
_SECONDS: Final = 60.0


class Selectivity:
    """How much wide filters let through. Narrow filters are not kept: they are counted every time.

    Entries last a minute at most, and none outlives a write of this store that may have made a filter narrow.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        renew_after_fork(self)
        self._known: OrderedDict[Expression | None, tuple[search.Breadth, float]] = OrderedDict()

    def renew(self) -> None:
        """Begin anew in a forked process, where the lock may be held by nobody for ever."""
        self._lock = threading.Lock()

    def breadth(self, filter: Expression | None) -> search.Breadth | None:
        """Return that of a filter known to be wide (None is no filter), or None where it is not known."""
        with self._lock:
            entry = self._known.get(filter)
            if entry is None or entry[1] < time.monotonic():
                return None
            self._known.move_to_end(filter)
            return entry[0]

    def remember(self, filter: Expression | None, breadth: search.Breadth) -> None:
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


class DenseSearch:
    """One search. `statement` is the first to run, alone or as a part of another; `finished` takes its answer.

    Most searches end with the first statement: one whose filter is narrow, and one whose filter is known to be wide.
    """

    def __init__(
        self,
        target: Target,
        filter: Expression | None,
        embedding: Float32Array,
        top_k: int,
        *,
        per_document: int | None,
        selectivity: Selectivity,
        ef_search: int | None,
        probes: int | None,
        bound_twice: bool,
    ) -> None:
        self._target = target
        self._filter = filter
        self._top_k = top_k
        self._each = per_document
        self._selectivity = selectivity
        self._ef_search = ef_search
        self._probes = probes
        self._bound_twice = bound_twice
        self._few = search.EXACT_ROWS if filter is not None else search.EXACT_ROWS_UNFILTERED
        self._counts = self._walks = False
        self._iterative = False
        self._width: int | None = None
        metric = target.layout.metric
        if metric != "l2" and not embedding.any():
            self.statement = search.first_by_id(target, filter, top_k, per_document)
            return
        self._vector = one_vector(_scaled(embedding) if metric == "cosine" else embedding, target.layout.storage)
        breadth = selectivity.breadth(filter)
        if target.catalog.vector_index is None:
            self.statement = self._exact()
        elif breadth is None:
            self._counts = True
            self.statement = search.bounded_exact(target, filter, self._vector, top_k, self._few, per_document)
        else:
            self.statement = self._among_many(breadth)

    def finished(self, answer: Answer) -> Steps[Rows]:
        """Return the rows of (id, text, source, metadata, score), best first, given the answer to `statement`."""
        if self._counts:
            if answer.rows[0][0] <= self._few:
                return [row[1:] for row in answer.rows if row[1] is not None]
            answer = yield self._among_many((yield from self._breadth()))
        rows = [row[1:] for row in answer.rows]
        if not self._walks:
            return rows
        if len(rows) < self._top_k and not self._iterative:
            # Removed records lie in a graph until a vacuum and fill the list; an iterative scan goes past them.
            answer = yield search.nearest(self._target, self._filter, self._vector, self._top_k, width=self._width)
            rows = [row[1:] for row in answer.rows]
        if self._target.layout.metric == "cosine" and (len(rows) < self._top_k or rows[-1][4] <= 0):
            answer = yield search.zero_vectors(self._target, self._filter, self._top_k)
            rows = sorted([*rows, *(row[1:] for row in answer.rows)], key=lambda row: (-row[4], row[0]))
            del rows[self._top_k :]
        if len(rows) < self._top_k:
            # A walk that ends early has looked at as much as it may; fewer rows are no answer.
            answer = yield self._exact()
            rows = [row[1:] for row in answer.rows]
        return rows

    def _breadth(self) -> Steps[search.Breadth]:
        breadth = search.Breadth(1.0, 0.0)
        if self._filter is not None:
            plan = (yield search.estimate(self._target, self._filter)).rows[0][0]
            rows = 0.0
            if not self._target.catalog.may_copy:
                rows = float((yield estimated_rows(self._target)).rows[0][0])
            breadth = search.estimated_breadth(plan, self._few + 1, of_all=rows, twice=self._bound_twice)
        self._selectivity.remember(self._filter, breadth)
        return breadth

    def _among_many(self, breadth: search.Breadth) -> Statement:
        if not search.is_walkable(self._target, self._filter is not None, self._top_k, breadth):
            return self._exact()
        self._walks = True
        index = self._target.catalog.vector_index
        # A policy of the server's filters too.
        self._iterative = self._filter is not None or not self._target.catalog.may_copy
        if index is not None and index.method == "ivfflat":
            self._iterative, self._width = True, self._probes or search.PROBES
        else:
            self._width = max(search.widening(self._top_k, breadth.share), self._ef_search or 0)
        return search.nearest(
            self._target, self._filter, self._vector, self._top_k, width=self._width, iterative=self._iterative
        )

    def _exact(self) -> Statement:
        return search.exact(self._target, self._filter, self._vector, self._top_k, self._each)


def _scaled(embedding: Float32Array) -> Float32Array:
    """Return the query as it is, unless pgvector's float32 sums would overflow or vanish; cosine is blind to scale."""
    largest = float(np.abs(embedding).max())
    return embedding if 1e-15 < largest < 1e15 else (embedding / np.float32(largest)).astype(np.float32)

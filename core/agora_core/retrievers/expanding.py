"""Retrieval with what stands around each passage: its neighbours, or the whole document."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

from agora_core.errors import InvalidArgumentError
from agora_core.filters import Expression, conjoin
from agora_core.protocols import AnyFilter, Retriever, VectorStore
from agora_core.records import Passage, VectorRecord, document_id_of
from agora_core.retrievers.base import BaseRetriever, wrapped_inside
from agora_core.retrievers.ports import RetrieverPort
from agora_core.steps import Steps
from agora_core.stores.ports import StorePort

# Fewer equal characters are no overlap of chunks: they may stand there by chance.
_LEAST_OVERLAP: Final = 3


class ExpandingRetriever(BaseRetriever):
    """Gives each passage of `base` together with its neighbours in the document. Ranking and scores are the base's.

    Neighbours of the chunk `document#n` are `document#n-1`, `document#n+1` and so on. They are read under the call's
    filter and every scope; one that is hidden or missing ends the window. What two chunks share stands once. Windows of
    one document that touch become one passage, at the better rank, so fewer than `top_k` may come back.
    `metadata["chunk_ids"]` lists what was joined.

    Examples:
        >>> ExpandingRetriever(retriever, store, before=1, after=1).retrieve("leave", top_k=1)[0].metadata["chunk_ids"]
        ['leave#0']
    """

    def __init__(
        self,
        base: Retriever,
        store: VectorStore,
        *,
        before: int = 1,
        after: int = 1,
        merge_parents: float | None = None,
    ) -> None:
        """Accept any object with `retrieve` or `aretrieve`, and the store that holds its chunks, with `get`.

        Args:
            base: finds the passages.
            store: any object with `get` or `aget` that takes `within`.
            before: how many chunks before each passage, 0 or more.
            after: how many behind it, 0 or more.
            merge_parents: a share above 0 and up to 1: a document at least that share of whose chunks was found comes
                back whole, once, at its best rank. None merges none.

        Raises:
            InvalidArgumentError: an argument is out of its range.
            UnsupportedOperationError: one of the objects has no such method.
        """
        for name, value in (("before", before), ("after", after)):
            if type(value) is not int or value < 0:
                raise InvalidArgumentError(f"{name} must be an int of 0 or more, got {value!r}")
        if merge_parents is not None and (type(merge_parents) not in (int, float) or not 0 < merge_parents <= 1):
            raise InvalidArgumentError(f"merge_parents must be a share above 0 and up to 1, got {merge_parents!r}")
        self.base, self.store = base, store
        self.before, self.after, self.merge_parents = before, after, merge_parents
        self._base = RetrieverPort(base)
        self._store = StorePort(store)
        self._store.method("get")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r}, before={self.before}, after={self.after})"

    @property
    def scope(self) -> Expression | None:
        """The scope of the base, which bounds the neighbours as well."""
        scope: Expression | None = self.base.scope  # type: ignore[attr-defined]  # every shipped retriever has one
        return scope

    def _over(self, wrap: Callable[[Retriever], Retriever]) -> ExpandingRetriever | None:
        inner = wrapped_inside(self.base, wrap)
        options: dict[str, Any] = {"before": self.before, "after": self.after, "merge_parents": self.merge_parents}
        return None if inner is None else ExpandingRetriever(inner, self.store, **options)

    def _retrieve(
        self,
        query: str,
        top_k: int,
        filter: AnyFilter | None,
        min_score: float | None,
        per_document: int | None,
    ) -> Steps[list[Passage]]:
        options = {"top_k": top_k, "filter": filter, "min_score": min_score, "per_document": per_document}
        found: list[Passage] = yield from self._base.retrieve(query, **options)  # type: ignore[arg-type]
        scope: Expression | None = getattr(self.base, "scope", None)
        bound = filter if scope is None else conjoin(scope, filter)
        hits = [_Hit(rank, passage, *_place(passage.id)) for rank, passage in enumerate(found)]
        wanted = dict.fromkeys(key for hit in hits for key in hit.window(self.before, self.after))
        records = (yield from self._records(list(wanted), bound)) if wanted else {}
        windows = [self._window(hit, records) for hit in hits]
        if self.merge_parents is not None:
            whole = yield from self._whole_documents(hits, self.merge_parents, bound)
            windows = [whole.get(window.hit.document, window) for window in windows]
        return [window.passage() for window in _merged(windows)]

    def _records(self, ids: Sequence[str], bound: AnyFilter | None) -> Steps[dict[str, VectorRecord]]:
        return {record.id: record for record in (yield from self._store.get(ids, within=bound))}

    def _window(self, hit: _Hit, records: dict[str, VectorRecord]) -> _Window:
        if hit.number is None:
            return _Window(hit, [hit.piece()])
        pieces = [hit.piece(records.get(hit.passage.id))]
        for step in (-1, 1):
            for distance in range(1, (self.before if step < 0 else self.after) + 1):
                record = records.get(f"{hit.document}#{hit.number + step * distance}")
                if record is None:
                    break
                pieces.insert(0 if step < 0 else len(pieces), _piece(record))
        return _Window(hit, pieces)

    def _whole_documents(
        self, hits: Sequence[_Hit], share: float, bound: AnyFilter | None
    ) -> Steps[dict[str, _Window]]:
        """Read the documents that may have been found to this share: no more than `found / share` chunks each."""
        numbered: dict[str, list[_Hit]] = {}
        for hit in hits:
            if hit.number is not None:
                numbered.setdefault(hit.document, []).append(hit)
        most = {document: int(len(own) / share + 1e-9) for document, own in numbered.items()}
        ids = [f"{document}#{number}" for document, last in most.items() for number in range(last + 1)]
        records = (yield from self._records(ids, bound)) if ids else {}
        whole = {}
        for document, own in numbered.items():
            held = [records.get(f"{document}#{number}") for number in range(most[document] + 1)]
            known = {record.id for record in held if record is not None}
            # The last one asked for exists only where the document is longer than the share allows.
            if held[-1] is None and all(hit.passage.id in known for hit in own):
                whole[document] = _Window(own[0], [_piece(record) for record in held if record is not None])
        return whole

    def _holds(self, ids: list[str], scope: AnyFilter) -> Steps[set[str]]:
        holds = getattr(self.base, "_holds", None)
        return set() if holds is None else (yield from holds(ids, scope))


@dataclass(frozen=True, slots=True)
class _Piece:
    id: str
    number: int
    text: str
    start: int | None
    end: int | None


@dataclass(frozen=True, slots=True)
class _Hit:
    rank: int
    passage: Passage
    document: str
    number: int | None

    def window(self, before: int, after: int) -> list[str]:
        if self.number is None:
            return []
        return [f"{self.document}#{n}" for n in range(max(0, self.number - before), self.number + after + 1)]

    def piece(self, record: VectorRecord | None = None) -> _Piece:
        # As the store has it, for its places are those of its text.
        return (
            _Piece(self.passage.id, self.number or 0, self.passage.text, None, None)
            if record is None
            else _piece(record)
        )


@dataclass(slots=True)
class _Window:
    hit: _Hit
    pieces: list[_Piece]

    def touches(self, other: _Window) -> bool:
        if self.hit.document != other.hit.document or self.hit.number is None or other.hit.number is None:
            return False
        own, theirs = self.pieces, other.pieces
        return own[0].number <= theirs[-1].number + 1 and theirs[0].number <= own[-1].number + 1

    def passage(self) -> Passage:
        first, last = self.pieces[0], self.pieces[-1]
        metadata: dict[str, Any] = {**(self.hit.passage.metadata or {}), "chunk_ids": [one.id for one in self.pieces]}
        if first.start is not None and last.end is not None:
            metadata |= {"start": first.start, "end": last.end}
        return replace(self.hit.passage, text=_joined(self.pieces), metadata=metadata)


def _merged(windows: Iterable[_Window]) -> list[_Window]:
    """Return the windows by rank, those of one document that touch as one at the best rank."""
    kept: list[_Window] = []
    for window in windows:
        joined = window
        # Two that stood apart may both touch the new one.
        for other in [one for one in kept if one.touches(window)]:
            kept.remove(other)
            best = min(other.hit, joined.hit, key=lambda hit: hit.rank)
            pieces = {piece.number: piece for piece in (*joined.pieces, *other.pieces)}
            joined = _Window(best, [pieces[number] for number in sorted(pieces)])
        kept.append(joined)
    return sorted(kept, key=lambda window: window.hit.rank)


def _place(key: str) -> tuple[str, int | None]:
    document = document_id_of(key)
    digits = key[len(document) + 1 :]
    # A number as chunking writes it: "01" and one of twenty digits name no neighbours.
    return document, int(digits) if digits and len(digits) < 10 and str(int(digits)) == digits else None


def _piece(record: VectorRecord) -> _Piece:
    return _Piece(record.id, _place(record.id)[1] or 0, record.text, *_offsets(record.metadata))


def _offsets(metadata: Any) -> tuple[int | None, int | None]:
    start, end = (metadata or {}).get("start"), (metadata or {}).get("end")
    return (start, end) if type(start) is int and type(end) is int else (None, None)


def _joined(pieces: Sequence[_Piece]) -> str:
    text = pieces[0].text
    for left, right in pairwise(pieces):
        shared = _shared(text, left, right)
        if shared:
            text += right.text[shared:]
        elif left.end is not None and right.start is not None and right.start <= left.end + 1:
            text += (" " if right.start > left.end else "") + right.text
        else:
            text += "\n" + right.text
    return text


def _shared(text: str, left: _Piece, right: _Piece) -> int:
    """Return how many characters at the end of the text the next piece begins with."""
    if left.end is not None and right.start is not None:
        count = left.end - right.start
        return count if count > 0 and text.endswith(right.text[:count]) else 0
    for count in range(min(len(left.text), len(right.text)), _LEAST_OVERLAP - 1, -1):
        if text.endswith(right.text[:count]):
            return count
    return 0

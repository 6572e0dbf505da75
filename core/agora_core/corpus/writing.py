"""Bringing a store in step with documents whose new texts are embedded: many at once, each whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from agora_core.corpus.batches import Answer, EmbeddingAhead, batched, narrow
from agora_core.corpus.changes import DocumentChange
from agora_core.corpus.report import SyncReport
from agora_core.errors import (
    AgoraError,
    InvalidArgumentError,
    SchemaError,
    StoreClosedError,
    StoreUnavailableError,
    UnsupportedOperationError,
)
from agora_core.ingestion import Progress
from agora_core.ingestion_plan import KeywordPort
from agora_core.records import Embedding
from agora_core.steps import Steps
from agora_core.stores.fingerprints import Patched
from agora_core.stores.ports import StorePort

Vectors = dict[str, dict[str, Embedding]]
"""By document, by text."""

_WRITTEN_AT_ONCE: Final = 1_000
_READ_AT_ONCE: Final = 256
_IN_A_ROW: Final = 8
_ALL_FAIL: Final = (StoreUnavailableError, StoreClosedError, SchemaError, UnsupportedOperationError)
"""Errors that say nothing of one document."""


class Window(NamedTuple):
    """Documents on their way: what they ask for, and the steps that give the vectors."""

    changes: list[DocumentChange]
    wanted: list[tuple[str, str]]
    """Each text, with its document."""
    batches: list[list[str]]
    answers: Steps[list[Answer]]


class Failures:
    """Documents that could not be brought in step are told in the report, or the first ends the run."""

    def __init__(self, report: SyncReport, *, strict: bool) -> None:
        self._report, self._strict = report, strict
        self._in_a_row = 0
        self.bar: Progress

    def told(self, key: str) -> bool:
        """Say whether a document failed."""
        return key in self._report.failed

    def none(self) -> None:
        """Note that embedder and store are up."""
        self._in_a_row = 0

    def tell(self, key: str, error: Exception, *, outside: bool = False) -> None:
        """Tell of a document that failed; `outside` says that embedder or store raised, who may be down."""
        self._in_a_row += outside
        if self._strict or self._in_a_row >= _IN_A_ROW:
            raise error
        name = type(error).__name__
        report = self._report
        report.failed[key] = str(error) if isinstance(error, AgoraError) else f"{name}: {error}"
        self.bar.update(1)
        # Of an id that was given twice the first document may be done already.
        for done in (report.embedded, report.reused, report.relabelled, report.unchanged):
            if key in done:
                done.remove(key)


class Writing:
    """Writes changes to a store, and to the keyword index beside it."""

    def __init__(
        self, store: StorePort, keyword: KeywordPort | None, ahead: EmbeddingAhead, failures: Failures
    ) -> None:
        self._store, self._keyword = store, keyword
        self._ahead, self._failures = ahead, failures

    def finished(self, window: Window, answers: list[Answer]) -> Steps[list[DocumentChange]]:
        """Write a window whose texts are embedded; return what is as it should be."""
        vectors = yield from self._sorted_out(window, answers)
        changes = [one for one in window.changes if len(vectors.get(one.id, ())) == len(one.texts)]
        changes = yield from self._written(changes, vectors)
        yield from self._indexed(changes)
        return changes

    def _sorted_out(self, window: Window, answers: list[Answer]) -> Steps[Vectors]:
        """Return the vectors of each document; one whose texts fail is told."""
        vectors: Vectors = {}
        again: dict[str, list[str]] = {}
        places = iter(window.wanted)
        for batch, answer in zip(window.batches, answers, strict=True):
            for place, (key, text) in enumerate([next(places) for _ in batch]):
                if isinstance(answer, Exception):
                    again.setdefault(key, []).append(text)
                else:
                    vectors.setdefault(key, {})[text] = answer[place]
        for key, texts in again.items():
            # One text may spoil a batch; each document gets a chance of its own.
            own = list(batched(texts))
            answers = yield from (yield from self._ahead.begin(own))
            failed = next((answer for answer in answers if isinstance(answer, Exception)), None)
            if failed is not None:
                self._failures.tell(key, failed, outside=True)
                continue
            self._failures.none()
            for batch, answer in zip(own, answers, strict=True):
                vectors.setdefault(key, {}).update(zip(batch, answer, strict=True))  # type: ignore[arg-type]
        return vectors

    def _written(self, changes: list[DocumentChange], vectors: Vectors) -> Steps[list[DocumentChange]]:
        """Write documents, many at once, and return those that are as they should be."""
        patches = {change.id: change.patch for change in changes if change.patch is not None}
        if patches and self._store.offers("update_metadata"):
            outcomes: dict[str, Patched | Exception] = yield from self._store.patch_documents(patches)
            for key in patches:
                outcome = outcomes.get(key)
                if not isinstance(outcome, Patched) or outcome.refused:
                    missing = InvalidArgumentError(f"document {key!r} was removed, or left the scope, meanwhile")
                    self._failures.tell(key, outcome if isinstance(outcome, Exception) else missing)
        else:
            patches = {}
        for group in _groups([one for one in changes if one.outcome != "unchanged" and one.id not in patches]):
            try:
                yield from self._put(group, vectors)
            except _ALL_FAIL:
                raise
            except Exception as error:
                if len(group) == 1:
                    self._failures.tell(group[0].id, error, outside=True)
                    continue
                # One document may spoil the group.
                for change in group:
                    try:
                        yield from self._put([change], vectors)
                    except Exception as own:
                        self._failures.tell(change.id, own, outside=True)
                    else:
                        self._failures.none()
            else:
                self._failures.none()
        return [change for change in changes if not self._failures.told(change.id)]

    def _put(self, group: Sequence[DocumentChange], vectors: Vectors) -> Steps[None]:
        store = self._store
        needed = sorted(
            {key for change in group for key in change.kept.values()} if any(c.written for c in group) else ()
        )
        kept: dict[str, Embedding] = {}
        for start in range(0, len(needed), _READ_AT_ONCE):
            found = yield from store.get(needed[start : start + _READ_AT_ONCE])
            kept.update(zip([record.id for record in found], narrow([one.embedding for one in found]), strict=True))
        records = [record for change in group for record in change.records(vectors.get(change.id, {}), kept)]
        if store.offers("replace_documents"):
            yield from store.replace_documents([change.id for change in group if change.replaced], records)
            return
        if records:
            yield from store.upsert(records)
        if stale := [key for change in group for key in change.stale]:
            yield from store.delete(stale)

    def _indexed(self, changes: Sequence[DocumentChange]) -> Steps[None]:
        """Write to the keyword index what changed, and what it lost when a run was broken off."""
        if self._keyword is None or not changes:
            return
        records = {change.id: change.records_for_index() for change in changes}
        stale = yield from self._keyword.stale(records)
        if stale is None:
            stale = [change.id for change in changes if change.outcome != "unchanged"]
        if stale:
            yield from self._keyword.write([record for key in stale for record in records[key]], stale)


def _groups(changes: Sequence[DocumentChange]) -> Iterator[list[DocumentChange]]:
    """Put documents together until they have 1,000 chunks to write."""
    group: list[DocumentChange] = []
    count = 0
    for change in changes:
        group.append(change)
        count += len(change.written)
        if count >= _WRITTEN_AT_ONCE:
            yield group
            group, count = [], 0
    if group:
        yield group

"""Namespaces: ids that a view keeps with a prefix and shows without it, so that two tenants may have the same ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from agora_core.errors import InvalidArgumentError, ScopeViolationError
from agora_core.filters import scope_of
from agora_core.metadata import check_text
from agora_core.protocols import AnyFilter
from agora_core.records import IndexedDocument, Passage, VectorRecord
from agora_core.steps import Steps
from agora_core.stores.per_document import cut_per_document

SEPARATOR: Final = "\x1f"
_GROWTH: Final = 4

Entry = TypeVar("Entry", Passage, VectorRecord, IndexedDocument)


def check_namespace(value: Any) -> str:
    """Return a namespace as it is.

    Raises:
        InvalidArgumentError: it is not a str, is empty, or holds the separator U+001F or what no store keeps.
    """
    if not isinstance(value, str) or not value or SEPARATOR in value:
        raise InvalidArgumentError(f"namespace must be a str of one character or more without U+001F, got {value!r}")
    return check_text(value, where="namespace", what="the name")


def hiding_scope(narrowed: AnyFilter, own: AnyFilter) -> AnyFilter:
    """Return what is asked for records that hide others: the scope of the view and of those before it.

    Not a call's filter: an id means one record, whether that matches or not.
    """
    whole = scope_of(narrowed)
    return own if whole is None else whole


def joined_namespace(behind: str | None, own: Namespace | None) -> str | None:
    """Return the namespace of a view over another: both names, the outer of the stored id first."""
    names = [name for name in (behind, None if own is None else own.name) if name is not None]
    return SEPARATOR.join(names) if names else None


class Namespace:
    """One namespace: how its ids are kept, how they are shown, and what its records hide.

    A record in scope without the namespace is shown under its full id, unless one of the namespace is shown under the
    same: that one hides it.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.prefix = f"{name}{SEPARATOR}"

    def stored(self, key: str) -> str:
        """Return the id that is kept for one that is shown; ids given by a caller mean the namespace's."""
        return f"{self.prefix}{key}"

    def own(self, key: str) -> str | None:
        """Return the id that is shown for a kept one of this namespace; None for any other."""
        return key[len(self.prefix) :] if key.startswith(self.prefix) else None

    def shown(self, key: str) -> str:
        """Return the id that is shown for any kept one."""
        own = self.own(key)
        return key if own is None else own

    def stripped(self, entry: Entry) -> Entry:
        """Return a passage, record or document with the id it is shown under."""
        own = self.own(entry.id)
        return entry if own is None else replace(entry, id=own)

    def in_it(self, record: VectorRecord) -> VectorRecord:
        """Return a record under the id that is kept for it."""
        return replace(record, id=self.stored(record.id))

    def ranked(
        self,
        fetch: Callable[[int], Steps[list[Passage]]],
        holds: Callable[[list[str]], Steps[set[str]]],
        *,
        top_k: int,
        per_document: int | None = None,
        ties_by_id: bool = True,
    ) -> Steps[list[Passage]]:
        """Return a ranking as it is seen: hidden passages left out, equal scores in the order of the ids shown.

        Args:
            fetch: returns the `n` best passages with their kept ids, best first; fewer say that there are no more.
            holds: returns which of these kept ids there are in scope.
            top_k: how many passages are wanted.
            per_document: at most this many of one document, by the ids shown.
            ties_by_id: whether equal scores go by id, as in a store; else the order fetched is kept.
        """
        wanted = top_k + 1
        while True:
            passages = yield from fetch(wanted)
            visible = yield from self.visible(passages, holds)
            shown = [self.stripped(passage) for passage in visible]
            ended = len(passages) < wanted
            if ties_by_id:
                shown.sort(key=lambda passage: (-passage.score, passage.id))
            if ties_by_id and not ended:
                # Of passages that score like the last one, others may follow whose shown ids come first.
                last = passages[-1].score
                shown = [passage for passage in shown if passage.score > last]
            kept = cut_per_document(shown, per_document, top_k)
            if ended or len(kept) >= top_k:
                return kept
            wanted *= _GROWTH

    def visible(self, entries: Sequence[Entry], holds: Callable[[list[str]], Steps[set[str]]]) -> Steps[list[Entry]]:
        """Return the entries that no record of the namespace hides."""
        own = {entry.id for entry in entries if self.own(entry.id) is not None}
        twins = {entry.id: self.stored(entry.id) for entry in entries if self.own(entry.id) is None}
        asked = [twin for twin in twins.values() if twin not in own]
        if asked:
            own |= yield from holds(asked)
        return [entry for entry in entries if twins.get(entry.id) not in own]

    def told(self, error: ScopeViolationError) -> ScopeViolationError:
        """Return an error that names ids as they are shown."""
        message = str(error)
        for prefix in (self.prefix, repr(self.prefix)[1:-1]):
            message = message.replace(prefix, "")
        return ScopeViolationError(message)

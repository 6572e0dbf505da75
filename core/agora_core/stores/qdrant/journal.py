"""Changes of several points that every reader sees whole, however far they have come and wherever they were cut off.

Qdrant writes one point at a time for certain, and never two. So a change of several points is an entry in one journal
point, whose state is set by writing that point alone, and the points it touches carry a mark, `agora.m`: a role and
the name of the change. A reader that meets no mark asks nothing more; one that meets some reads the journal and takes
each marked point by this table.

    role  what it is                             seen while the change is
    -     a point that goes                      open, or not known any more
    +     a new point in its own place           done, moved
    ~     a new point beside the one it replaces done
    =     the same, copied to its own place      moved
    *     a point that is patched                always; from done on its metadata is read as patched

`open` becomes `done` in one write: that is the moment of the change. What follows moves points and takes marks away,
none of which a reader can see. A change cut off while open is undone, one cut off later is finished: by the next
write to its documents or by `reindex_filters()`. Points with a mark have `agora.v` of -1, so every filter has them
sent and judges them by their metadata.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from agora_core.errors import StoreUnavailableError
from agora_core.metadata import merge_effective
from agora_core.records import JSON, chunk_id_to_point_id
from agora_core.steps import Steps
from agora_core.stores.qdrant import requests
from agora_core.stores.qdrant.filters import CompiledFilter, conjunction, qdrant_models
from agora_core.stores.qdrant.payload import (
    FORMAT,
    FORMAT_KEY,
    MARK_KEY,
    MARKED,
    TEXTS_KEY,
    metadata_of,
    patched_slots,
    patched_texts,
)
from agora_core.stores.qdrant.requests import Pause
from agora_core.stores.qdrant.settings import QdrantSettings

T = TypeVar("T")
Entries = Mapping[str, Mapping[str, Any]]

JOURNAL_ID: Final = str(uuid.uuid5(uuid.NAMESPACE_URL, "agora:journal"))
_SEEN: Final[Mapping[str, tuple[str, ...]]] = {
    "-": ("none", "open", "void"),
    "+": ("done", "moved"),
    "~": ("done",),
    "=": ("moved",),
    "*": ("none", "open", "void", "done"),
}
# A change of another process is given this long to end before it is taken for dead.
_PATIENCE: Final = 2.0
_PAUSE: Final = 0.05
_ATTEMPTS: Final = 12
_MOST_NAMED: Final = 1000


def beside_id(record_id: str, change: str) -> str:
    """Return the id of the point that holds a new record beside the one it will replace."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"agora:beside:{change}:{record_id}"))


@dataclass(slots=True)
class View:
    """How a reader sees points: by the journal as it was last read, None before that. `met` are the changes it met."""

    entries: Entries | None = None
    met: set[str] = field(default_factory=set)

    def state(self, change: str) -> str:
        """Return how far a change has come, `none` where the journal does not know it."""
        return _state(self.entries or {}, change)

    def look(self, payload: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Return a payload as a reader sees it; None for a point that is not to be seen, or is not a record."""
        if not payload or "id" not in payload:
            # A point without an id in its payload is not a record of this system; it is nobody's to list or to patch.
            return None
        mark = mark_of(payload)
        if mark is None:
            return payload
        role, change = mark[0], mark[1:]
        self.met.add(change)
        state = self.state(change)
        if state not in _SEEN.get(role, ()):
            return None
        if role != "*" or state != "done":
            return payload
        patch = json.loads((self.entries or {})[change]["patch"])
        merged = merge_effective(metadata_of(payload) or {}, patch)
        return {**payload, "metadata": merged, "agora": {**payload["agora"], "x": None}}


def candidates(settings: QdrantSettings, compiled: CompiledFilter, view: View) -> Steps[Any]:
    """Return the Filter of all points that may match as `view` shows them, None for every point.

    In local mode a filter judges metadata itself, and each further condition is a loop over all points: the points
    under way are asked for only where there are any.
    """
    if not settings.local or compiled.tokens is None:
        return compiled.candidates
    if view.entries is None:
        view.entries = yield from read_journal(settings)
    return compiled.candidates if view.entries else compiled.tokens


def mark_of(payload: Mapping[str, Any]) -> str | None:
    """Return the mark of a point, None where no change touches it."""
    mark = (payload.get("agora") or {}).get("m")
    return mark if isinstance(mark, str) and mark else None


def whole(settings: QdrantSettings, read: Callable[[View], Steps[T]]) -> Steps[T]:
    """Run a read until every change that it met stood still meanwhile, which without one is at once."""
    view = View()
    for _ in range(_ATTEMPTS):
        result = yield from read(view)
        if not view.met or (settings.local and view.entries is not None):
            # In local mode the lock is held from the first request to the last.
            return result
        entries = yield from read_journal(settings)
        if all(_stood_still(view, change, _state(entries, change)) for change in view.met):
            return result
        view = View(entries)
    return result


def _stood_still(view: View, change: str, state: str) -> bool:
    if view.entries is None:
        # Nothing was known before: only one that has not happened yet cannot have happened meanwhile.
        return state in ("open", "void")
    return view.state(change) == state


def _state(entries: Entries, change: str) -> str:
    return str(entries.get(change, {}).get("s", "none"))


def read_journal(settings: QdrantSettings) -> Steps[Entries]:
    """Return the changes that are under way, by name."""
    journal, _ = yield from _journal(settings)
    return journal or {}


def _journal(settings: QdrantSettings) -> Steps[tuple[Entries | None, Any]]:
    points = yield requests.retrieve(settings, [JOURNAL_ID], ("journal", "last"), vectors=False)
    if not points:
        return None, None
    payload = points[0].payload or {}
    return {name: entry for name, entry in (payload.get("journal") or {}).items() if entry}, payload.get("last")


@dataclass(slots=True)
class Change:
    """One change: what it will do to which points. Made, filled, and then run by `perform`."""

    documents: Sequence[str] | None
    """The documents it touches, None for any."""
    name: str = field(default_factory=lambda: "t" + uuid.uuid4().hex)
    going: list[str] = field(default_factory=list)
    """The ids of points that go."""
    kept: set[str] = field(default_factory=set)
    """Those among them that have tokens of this format."""
    met: set[str] = field(default_factory=set)
    """Other changes whose marks stand on points of this one."""
    fresh: list[Any] = field(default_factory=list)
    """New points in their own places, which are free."""
    copies: list[Any] = field(default_factory=list)
    """New points whose places are those of points that go."""
    patched: list[str] = field(default_factory=list)
    patch: Mapping[str, JSON] | None = None
    bound: CompiledFilter | None = None
    """What the points that go or are patched must still match when they are marked; one that does not ends the try."""
    selection: Any = None
    """A Filter of more points that go, for the server to find."""

    def look(self, point_id: str, payload: Mapping[str, Any]) -> None:
        """Take note of a point that is to go or to be patched."""
        if (payload.get("agora") or {}).get("v") in (FORMAT, MARKED):
            self.kept.add(point_id)
        if mark := mark_of(payload):
            self.met.add(mark[1:])

    def entry(self) -> dict[str, Any]:
        """Return what the journal says of it at first."""
        named = None if self.documents is None or len(self.documents) > _MOST_NAMED else list(self.documents)
        entry: dict[str, Any] = {"s": "open", "d": named}
        if self.patch is not None:
            # As text: an engine may change a float by one rounding step.
            entry["patch"] = json.dumps(dict(self.patch), ensure_ascii=False)
        return entry


def settle(settings: QdrantSettings, documents: Iterable[str] | None) -> Steps[tuple[int, bool]]:
    """End what other writers left under way on these documents (all, for None).

    Return how many points that touched, and whether there is a journal.

    One that another process may still be at is given a little time first.
    """
    wanted = None if documents is None else set(documents)
    waited, touched = 0.0, 0
    while True:
        known, last = yield from _journal(settings)
        entries = known or {}
        if known is not None and not known:
            # Its last change was cut off before it took the journal away.
            yield requests.update(settings, [_delete_journal(settings, last)])
            return touched, False
        mine = [name for name, entry in entries.items() if _touches(entry, wanted)]
        if not mine:
            return touched, known is not None
        if not settings.local and waited < _PATIENCE and any(entries[name]["s"] != "void" for name in mine):
            yield Pause(_PAUSE)
            waited += _PAUSE
            continue
        for name in mine:
            touched += yield from _heal(settings, name, entries[name])


def _touches(entry: Mapping[str, Any], documents: set[str] | None) -> bool:
    named = entry.get("d")
    return documents is None or named is None or not documents.isdisjoint(named)


def overtaken(settings: QdrantSettings, change: Change) -> Steps[bool]:
    """Say whether another change stands on the same points; what is left of one that nobody knows any more goes.

    A writer that was taken for dead may write once more; nobody sees it, and nobody but the next writer looks for it.
    """
    if not change.met:
        return False
    entries = yield from read_journal(settings)
    for name in sorted(change.met - entries.keys()):
        yield requests.update(settings, _dropping(settings, name))
    return True


def _dropping(settings: QdrantSettings, name: str) -> list[Any]:
    """Return what undoes a change: what was to come is dropped, what was there stays."""
    return [_delete(settings, "+~=", name, None), *_unmarking(settings, "-*", name, None, None)]


def perform(settings: QdrantSettings, change: Change, exists: bool) -> Steps[bool]:
    """Make a change, from its first mark to the last that is taken away. False says that another writer was first.

    Then nothing was changed, and the caller looks at the points anew. `exists` says whether there is a journal.
    """
    try:
        expected = yield from _prepare(settings, change, exists)
        marked = expected
        if expected is not None and not settings.local:
            marked = int((yield requests.count(settings, _marked("-+~*", change.name))).count)
    except Exception:
        with suppress(Exception):
            yield from _heal(settings, change.name, change.entry())
        raise
    if marked != expected:
        yield from _heal(settings, change.name, change.entry())
        return False
    yield requests.update(settings, [_set_state(settings, change.name, "done", "open")])
    entries, last = yield from _journal(settings)
    if entries is None or _state(entries, change.name) != "done":
        return False
    yield from _finish(settings, change, alone=len(entries) == 1, last=last)
    return True


def _prepare(settings: QdrantSettings, change: Change, exists: bool) -> Steps[int | None]:
    """Write the entry, the marks and the new points; return how many points must have a mark then."""
    name = change.name
    opening = [
        requests.set_payload(settings, {name: change.entry()}, "journal", ids=[JOURNAL_ID]),
        requests.set_payload(settings, {"last": name}, None, ids=[JOURNAL_ID]),
    ]
    if not exists:
        payload = {"journal": {name: change.entry()}, "last": name}
        # Written only where there is none: another writer's entry must not be lost.
        opening = [requests.insert(settings, JOURNAL_ID, payload), *([] if settings.local else opening)]
    models = qdrant_models()
    free = [] if settings.local else [models.IsEmptyCondition(is_empty=models.PayloadField(key=MARK_KEY))]
    if change.bound is not None and change.bound.tokens is not None:
        free.append(change.bound.candidates)
    operations = list(opening)
    for role, ids in (("-", change.going), ("*", change.patched)):
        ours = [point_id for point_id in ids if point_id in change.kept]
        foreign = [point_id for point_id in ids if point_id not in change.kept]
        if ours:
            marking = {"v": MARKED, "m": role + name}
            operations.append(requests.set_payload(settings, marking, "agora", ids=ours, where=free))
        if foreign:
            operations.append(requests.set_payload(settings, {"m": role + name}, "agora", ids=foreign, where=free))
    if change.selection is not None:
        marking = {"v": MARKED, "m": "-" + name}
        operations.append(requests.set_payload(settings, marking, "agora", where=[change.selection, *free]))
    yield requests.update(settings, operations)
    fresh = [_as(point, point.id, "+", name) for point in change.fresh]
    beside = [_as(point, beside_id(point.payload["id"], name), "~", name) for point in change.copies]
    own = None if settings.local else _marked("+~", name)
    yield from requests.upsert_bounded(settings, [*fresh, *beside], condition=own)
    if change.selection is not None:
        return None
    return len(change.going) + len(change.patched) + len(fresh) + len(beside)


def _finish(settings: QdrantSettings, change: Change, *, alone: bool, last: Any) -> Steps[None]:
    """Do what follows once a change is done: nothing that a reader could see."""
    name = change.name
    operations: list[Any] = []
    if change.patch is not None:
        operations += patch_operations(settings, change.patch, _by(settings, "*", name, change.patched))
        operations += _unmarking(settings, "*", name, change.patched, change.kept)
    else:
        taken = {point.id for point in change.copies}
        stale = [point_id for point_id in change.going if point_id not in taken]
        if stale or change.selection is not None or not settings.local:
            operations.append(_delete(settings, "-", name, stale, without=taken))
        if change.copies:
            yield requests.update(settings, operations)
            copies = [_as(point, point.id, "=", name) for point in change.copies]
            own = None if settings.local else _marked("-=", name)
            yield from requests.upsert_bounded(settings, copies, condition=own)
            if not (yield from _still_known(settings, name)):
                return
            beside = [beside_id(point.payload["id"], name) for point in change.copies]
            operations = [_set_state(settings, name, "moved", "done"), _delete(settings, "~", name, beside)]
        written = [point.id for point in (*change.fresh, *change.copies)]
        if written:
            operations.append(_unmark(settings, "+=", name, written))
    operations += _closing(settings, name, alone, last)
    yield requests.update(settings, operations)


def _heal(settings: QdrantSettings, name: str, entry: Mapping[str, Any]) -> Steps[int]:
    """Undo a change that is open, finish one that is done. Return how many points it had marked."""
    if entry["s"] == "open":
        yield requests.update(settings, [_set_state(settings, name, "void", "open")])
    entries, last = yield from _journal(settings)
    state = _state(entries or {}, name)
    if state == "none":
        yield requests.update(settings, _dropping(settings, name))
        return 0
    alone = len(entries or {}) == 1
    touched = int((yield requests.count(settings, _marked("-+~=*", name))).count)
    if state == "void":
        yield requests.update(settings, [*_dropping(settings, name), *_closing(settings, name, alone, last)])
        return touched
    if "patch" in entry:
        patch = json.loads(entry["patch"])
        operations = patch_operations(settings, patch, _by(settings, "*", name, None))
        operations += _unmarking(settings, "*", name, None, None)
    else:
        operations = []
        if state == "done":
            copies = yield from _beside(settings, name)
            taken = {point.id for point in copies}
            yield requests.update(settings, [_delete(settings, "-", name, None, without=taken)])
            yield from requests.upsert_bounded(settings, copies, condition=_marked("-=", name))
            if not (yield from _still_known(settings, name)):
                return touched
            operations.append(_set_state(settings, name, "moved", "done"))
        operations += [_delete(settings, "~", name, None), _unmark(settings, "+=", name, None)]
    yield requests.update(settings, [*operations, *_closing(settings, name, alone, last)])
    return touched


def _still_known(settings: QdrantSettings, name: str) -> Steps[bool]:
    """Say whether nobody else has ended a change meanwhile; if one has, what was just written of it goes again."""
    if settings.local or name in (yield from read_journal(settings)):
        return True
    yield requests.update(settings, _dropping(settings, name))
    return False


def _beside(settings: QdrantSettings, name: str) -> Steps[list[Any]]:
    """Return, for their own places, the points that a change has put beside those they replace."""
    models, offset, copies = qdrant_models(), None, []
    while True:
        points, offset = yield requests.scroll_points(settings, _marked("~", name), offset)
        for point in points:
            made = models.PointStruct(id=point.id, vector=point.vector, payload=point.payload)
            copies.append(_as(made, chunk_id_to_point_id(point.payload["id"]), "=", name))
        if offset is None:
            return copies


def patch_operations(settings: QdrantSettings, patch: Mapping[str, JSON], where: Mapping[str, Any]) -> list[Any]:
    """Return the merges of a patch into the metadata and what is derived from it, for the points `where` selects."""
    parts = (
        ("metadata", dict(patch)),
        (TEXTS_KEY, patched_texts(patch)),
        ("agora", patched_slots(patch)),
    )
    return [requests.set_payload(settings, payload, key, **where) for key, payload in parts]


def _as(point: Any, point_id: str, role: str, name: str) -> Any:
    payload = {**point.payload, "agora": {**point.payload["agora"], "v": MARKED, "m": role + name}}
    return qdrant_models().PointStruct(id=point_id, vector=point.vector, payload=payload)


def _marked(roles: str, name: str) -> Any:
    return conjunction([requests.matches(MARK_KEY, [role + name for role in roles])])


def _by(settings: QdrantSettings, roles: str, name: str, ids: Sequence[str] | None) -> dict[str, Any]:
    # By their ids where they are known and nobody else can write; else by the mark, which a later writer takes away.
    if ids is not None and settings.local:
        return {"ids": list(ids)}
    return {"where": [_marked(roles, name)]}


def _unmark(settings: QdrantSettings, roles: str, name: str, ids: Sequence[str] | None) -> Any:
    return requests.set_payload(settings, {"v": FORMAT, "m": None}, "agora", **_by(settings, roles, name, ids))


def _unmarking(
    settings: QdrantSettings, roles: str, name: str, ids: Sequence[str] | None, kept: set[str] | None
) -> list[Any]:
    """Take marks away from points that stay; one that another writer made goes on without tokens of this format."""
    if ids is not None and kept is not None and settings.local:
        ours = [point_id for point_id in ids if point_id in kept]
        foreign = [point_id for point_id in ids if point_id not in kept]
        operations = [_unmark(settings, roles, name, ours)] if ours else []
        return operations + ([requests.set_payload(settings, {"m": None}, "agora", ids=foreign)] if foreign else [])
    had_tokens = requests.matches(FORMAT_KEY, [MARKED])
    marked = _marked(roles, name)
    return [
        requests.set_payload(settings, {"v": FORMAT, "m": None}, "agora", where=[marked, had_tokens]),
        requests.set_payload(settings, {"m": None}, "agora", where=[marked]),
    ]


def _delete(
    settings: QdrantSettings, roles: str, name: str, ids: Sequence[str] | None, *, without: Iterable[str] = ()
) -> Any:
    if ids is not None and settings.local:
        return requests.delete_operation(settings, ids=list(ids))
    left_out = [qdrant_models().HasIdCondition(has_id=sorted(without))] if without else None
    return requests.delete_operation(settings, where=conjunction([_marked(roles, name)], must_not=left_out))


def _set_state(settings: QdrantSettings, name: str, state: str, before: str) -> Any:
    where = [] if settings.local else [requests.matches(f"journal.{name}.s", [before])]
    return requests.set_payload(settings, {"s": state}, f"journal.{name}", ids=[JOURNAL_ID], where=where)


def _closing(settings: QdrantSettings, name: str, alone: bool, last: Any) -> list[Any]:
    """Take an entry out of the journal, and the journal away where it was the only one and none came since."""
    operations = [requests.set_payload(settings, {name: None}, "journal", ids=[JOURNAL_ID])]
    if alone:
        operations.append(_delete_journal(settings, last))
    return operations


def _delete_journal(settings: QdrantSettings, last: Any) -> Any:
    if settings.local:
        return requests.delete_operation(settings, ids=[JOURNAL_ID])
    ids = qdrant_models().HasIdCondition(has_id=[JOURNAL_ID])
    return requests.delete_operation(settings, where=conjunction([ids, requests.matches("last", [last])]))


def repeated(settings: QdrantSettings, attempt: Callable[[], Steps[T | None]]) -> Steps[T]:
    """Run an attempt at a change until it was not overtaken by another writer.

    Raises:
        StoreUnavailableError: others were first each time.
    """
    for number in range(_ATTEMPTS):
        result = yield from attempt()
        if result is not None:
            return result
        yield Pause(_PAUSE * (number + 1))
    raise StoreUnavailableError(
        f"other writers changed the same documents of {settings.collection!r} {_ATTEMPTS} times meanwhile; try again"
    )

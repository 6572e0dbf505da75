"""Labels have a life of their own: they change daily, texts yearly."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from agora_core.corpus.report import SyncReport
from agora_core.errors import InvalidArgumentError
from agora_core.events import watching
from agora_core.ingestion_plan import KeywordPort
from agora_core.metadata import MetadataPatch, check_text, validate_patch
from agora_core.protocols import AnyFilter, VectorStore
from agora_core.steps import Steps, arun, run
from agora_core.stores.fingerprints import Patched
from agora_core.stores.ports import StorePort

_BATCH: Final = 500
NOT_FOUND: Final = "not found"


def sync_permissions(
    patches: Iterable[tuple[str, MetadataPatch]],
    *,
    store: VectorStore,
    keyword: Any = None,
    scope: AnyFilter | None = None,
) -> SyncReport:
    """Patch the metadata of documents, many at a time; no text is read and nothing is embedded.

    A source that is cut off revokes nothing by accident: only what it names is changed. Of patches for one document
    each is applied, in their order.

    Args:
        patches: pairs of a document's id and a patch (see `update_metadata`); an iterator of any length.
        store: a store, or a view of one.
        keyword: a `KeywordRetriever` to keep in step.
        scope: a filter that bounds everything, as a view would.

    Returns:
        a report: `relabelled`, `unchanged` (the patch changes nothing), and `failed`, where an id that is not there is
        `not found`.

    Raises:
        InvalidArgumentError: something given is not a pair of an id and a patch.

    Examples:
        >>> sync_permissions([("leave", {"acl": ["staff"]}), ("gone", {"acl": []})], store=store).failed
        {'gone': 'not found'}
    """
    return run(watching("sync", _Permissions(store, keyword, scope).steps(patches)))


async def async_sync_permissions(
    patches: Iterable[tuple[str, MetadataPatch]],
    *,
    store: VectorStore,
    keyword: Any = None,
    scope: AnyFilter | None = None,
) -> SyncReport:
    """Async twin of `sync_permissions`.

    Examples:
        >>> asyncio.run(async_sync_permissions([("leave", {"acl": ["staff"]})], store=store)).unchanged
        ['leave']
    """
    return await arun(watching("sync", _Permissions(store, keyword, scope).steps(patches)))


class _Permissions:
    def __init__(self, store: Any, keyword: Any, scope: AnyFilter | None) -> None:
        self._store = StorePort(store if scope is None else store.scoped(scope))
        if keyword is not None:
            # Refuses an index that cannot be bounded as the store is.
            KeywordPort(keyword, self._store)
        self._keyword = None if keyword is None else StorePort(keyword)
        self._within = self._store.scope()
        self._outcomes: dict[str, str] = {}

    def steps(self, patches: Iterable[tuple[str, MetadataPatch]]) -> Steps[SyncReport]:
        begun = time.perf_counter()
        pairs = _checked(patches)
        while batch := list(itertools.islice(pairs, _BATCH)):
            # Each document once in a batch: two patches of one are applied one after the other.
            while batch:
                now: dict[str, MetadataPatch] = {}
                later = []
                for key, patch in batch:
                    if key in now:
                        later.append((key, patch))
                    else:
                        now[key] = patch
                yield from self._patched(now)
                batch = later
        report = SyncReport()
        for key, outcome in self._outcomes.items():
            if outcome in ("relabelled", "unchanged"):
                getattr(report, outcome).append(key)
            else:
                report.failed[key] = outcome
        report.seconds = time.perf_counter() - begun
        return report

    def _patched(self, patches: dict[str, MetadataPatch]) -> Steps[None]:
        done: dict[str, Patched | Exception] = yield from self._store.patch_documents(patches)
        for key, patch in patches.items():
            outcome = _told(done.get(key))
            # A later patch that changes nothing does not undo that an earlier one did.
            if not (outcome == "unchanged" and self._outcomes.get(key) == "relabelled"):
                self._outcomes[key] = outcome
            if self._keyword is not None and outcome in ("relabelled", "unchanged"):
                (kept,) = self._kept([key])
                yield from self._keyword.update_metadata(kept, patch, within=self._within)

    def _kept(self, keys: list[str]) -> list[str]:
        stored_ids = getattr(self._store.store, "stored_ids", None)
        return keys if stored_ids is None else list(stored_ids(keys))


def _told(done: Patched | Exception | None) -> str:
    if isinstance(done, Exception):
        return str(done)
    if done is None or not done.found:
        return NOT_FOUND
    if done.refused:
        return "the patch would move a chunk out of the scope"
    return "relabelled" if done.changed else "unchanged"


def _checked(patches: Any) -> Iterator[tuple[str, MetadataPatch]]:
    if isinstance(patches, (str, bytes, Mapping)) or not isinstance(patches, Iterable):
        raise InvalidArgumentError(
            f"patches must be an iterable of (id, patch) pairs, got {type(patches).__name__}; "
            "for a mapping give .items()"
        )
    for position, pair in enumerate(patches):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InvalidArgumentError(f"patches[{position}] must be a pair of an id and a patch, got {pair!r}")
        key = check_text(pair[0], where=f"patches[{position}]", what="id")
        validate_patch(pair[1])
        yield key, pair[1]

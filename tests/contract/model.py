"""A store as plain as can be: a dict, walked whole at each call. Every other store is compared with it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from agora_core.errors import ScopeViolationError
from agora_core.filters import assert_removal_filter, matches_filter
from agora_core.metadata import MetadataPatch, apply_metadata_patch, clone_metadata, effective_patch_keys
from agora_core.protocols import AnyFilter
from agora_core.records import (
    Embedding,
    IndexedDocument,
    Passage,
    VectorRecord,
    chunk_order_key,
    document_id_of,
)
from agora_core.stores.base import BaseVectorStore


class PlainModelStore(BaseVectorStore):
    """The meaning of a store, written to be read and not to be fast."""

    def __init__(self, metric: str = "cosine", dimension: int | None = None) -> None:
        self.metric, self.dimension = metric, dimension
        self.records: dict[str, VectorRecord] = {}

    def score(self, query: Sequence[float], stored: Sequence[float]) -> float:
        """Score in double precision, by the words of the design."""
        dot = math.fsum(a * b for a, b in zip(query, stored, strict=True))
        if self.metric == "inner":
            return dot
        if self.metric == "l2":
            return -math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(query, stored, strict=True)))
        norms = math.sqrt(math.fsum(a * a for a in query)) * math.sqrt(math.fsum(b * b for b in stored))
        return dot / norms if norms else 0.0

    def _matching(self, filter: AnyFilter | None) -> list[VectorRecord]:
        records = [self.records[id] for id in sorted(self.records)]
        return records if filter is None else [r for r in records if matches_filter(r.metadata, filter)]

    def _of(self, document_id: str) -> list[VectorRecord]:
        return [r for r in self._matching(None) if document_id_of(r.id) == document_id]

    def upsert(self, records: Iterable[VectorRecord], *, within: AnyFilter | None = None) -> int:
        latest = {r.id: replace(r, metadata=clone_metadata(dict(r.metadata or {}))) for r in records}
        if within is not None:
            for new in latest.values():
                old = self.records.get(new.id)
                if not matches_filter(new.metadata, within) or (old and not matches_filter(old.metadata, within)):
                    raise ScopeViolationError(new.id)
        self.records.update(latest)
        return len(latest)

    def search(
        self,
        embedding: Embedding,
        *,
        top_k: int,
        filter: AnyFilter | None = None,
        min_score: float | None = None,
        per_document: int | None = None,
    ) -> list[Passage]:
        found = [
            Passage(r.id, r.text, self.score(embedding, r.embedding), r.source, clone_metadata(dict(r.metadata or {})))
            for r in self._matching(filter)
        ]
        kept = [p for p in found if min_score is None or p.score >= min_score]
        ranked, seen = sorted(kept, key=lambda p: (-p.score, p.id)), Counter[str]()
        if per_document is not None:
            for passage in list(ranked):
                seen[document_id_of(passage.id)] += 1
                if seen[document_id_of(passage.id)] > per_document:
                    ranked.remove(passage)
        return ranked[:top_k]

    def get(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> list[VectorRecord]:
        found = [self.records[id] for id in dict.fromkeys(ids) if id in self.records]
        return [r for r in found if within is None or matches_filter(r.metadata, within)]

    def delete(self, ids: Sequence[str], *, within: AnyFilter | None = None) -> int:
        return self._drop(self.get(ids, within=within))

    def _drop(self, records: Iterable[VectorRecord]) -> int:
        return sum(self.records.pop(r.id, None) is not None for r in list(records))

    def remove(self, document_id: str, *, within: AnyFilter | None = None) -> int:
        chunks = self._of(document_id)
        return self._drop(r for r in chunks if within is None or matches_filter(r.metadata, within))

    def remove_where(self, filter: AnyFilter) -> int:
        assert_removal_filter(filter)
        return self._drop(self._matching(filter))

    def replace_documents(
        self, document_ids: Sequence[str], records: Iterable[VectorRecord], *, within: AnyFilter | None = None
    ) -> int:
        before = dict(self.records)
        try:
            new = list(records)
            written = self.upsert(new, within=within)
        except ScopeViolationError:
            self.records = before
            raise
        kept = {r.id for r in new}
        for document_id in document_ids:
            stale = [r for r in self._of(document_id) if r.id not in kept]
            self._drop(r for r in stale if within is None or matches_filter(r.metadata, within))
        return written

    def update_metadata(self, document_id: str, patch: MetadataPatch, *, within: AnyFilter | None = None) -> int:
        if not effective_patch_keys(patch):
            return 0
        chunks = [r for r in self._of(document_id) if within is None or matches_filter(r.metadata, within)]
        patched = [replace(r, metadata=apply_metadata_patch(r.metadata, patch)) for r in chunks]
        if within is not None and not all(matches_filter(r.metadata, within) for r in patched):
            raise ScopeViolationError(document_id)
        self.records.update({r.id: r for r in patched})
        return len(patched)

    def list_documents(self, filter: AnyFilter | None = None) -> list[IndexedDocument]:
        first: dict[str, VectorRecord] = {}
        for record in self._matching(filter):
            document_id = document_id_of(record.id)
            held = first.get(document_id)
            if held is None or chunk_order_key(record.id) < chunk_order_key(held.id):
                first[document_id] = record
        metadata: dict[str, Any] = {id: clone_metadata(dict(r.metadata or {})) for id, r in first.items()}
        return [IndexedDocument(id, metadata[id]) for id in sorted(metadata)]

    def list_document_ids(self, filter: AnyFilter | None = None) -> list[str]:
        return sorted({document_id_of(r.id) for r in self._matching(filter)})

    def count(self, filter: AnyFilter | None = None) -> int:
        return len(self._matching(filter))

    def scan(self, filter: AnyFilter | None = None) -> Iterator[VectorRecord]:
        return iter(self._matching(filter))

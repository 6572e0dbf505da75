"""What has to be done to one document, from its chunks and from what a store tells of those it has. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agora_core.filters.literals import json_equal
from agora_core.metadata import MetadataPatch
from agora_core.records import ChunkRecord, Embedding, Metadata, VectorRecord, indexed_text
from agora_core.stores.fingerprints import Fingerprint, digest

Outcome = Literal["embedded", "reused", "relabelled", "unchanged"]


@dataclass(slots=True)
class DocumentChange:
    """How a document gets from what is stored to what it is now."""

    id: str
    chunks: Sequence[ChunkRecord]
    """As they are stored: stamped, under the ids seen through the store."""
    outcome: Outcome = "unchanged"
    patch: MetadataPatch | None = None
    """Relabels all chunks in one call, where that is all there is to do."""
    texts: list[str] = field(default_factory=list)
    """What has to be embedded, each once."""
    kept: dict[str, str] = field(default_factory=dict)
    """Embedded text to the id of a stored chunk that has its vector, for chunks that are written."""
    written: Sequence[ChunkRecord] = ()
    stale: list[str] = field(default_factory=list)
    """Ids of chunks that go."""
    replaced: bool = False
    """The chunks written are all there are: the document is replaced in one step, so that no reader sees its tail."""

    @property
    def reused(self) -> int:
        """How many chunks of a changed document keep a vector."""
        new = set(self.texts)
        return sum(indexed_text(chunk.text, chunk.context) not in new for chunk in self.chunks)

    def records_for_index(self) -> list[VectorRecord]:
        """Return all chunks as a keyword index takes them, which looks at no vector."""
        return [VectorRecord(one.id, one.text, (), one.source, one.metadata, one.context) for one in self.chunks]

    def records(self, vectors: Mapping[str, Embedding], kept: Mapping[str, Embedding]) -> list[VectorRecord]:
        """Return the records to write; `vectors` by text, `kept` by the id of the stored chunk."""
        made = []
        for chunk in self.written:
            text = indexed_text(chunk.text, chunk.context)
            vector = vectors[text] if text in vectors else kept[self.kept[text]]
            made.append(VectorRecord(chunk.id, chunk.text, vector, chunk.source, chunk.metadata, chunk.context))
        return made


def change_of(document_id: str, chunks: Sequence[ChunkRecord], stored: Sequence[Fingerprint]) -> DocumentChange:
    """Compare the chunks of a document with what is stored of it."""
    change = DocumentChange(document_id, chunks)
    known = {one.id: one for one in stored}
    # The smallest id of equal ones, so that two runs do the same.
    vectors = {one.embedded: one.id for one in sorted(stored, key=lambda one: one.id, reverse=True)} if stored else {}
    relabels: list[tuple[Metadata, Metadata]] = []
    seen: tuple[Metadata | None, Metadata | None] | None = None
    written: list[ChunkRecord] = []
    new: dict[str, None] = {}
    kept: dict[str, str] = {}
    for chunk in chunks:
        text = indexed_text(chunk.text, chunk.context)
        if not vectors:
            new[text] = None
            continue
        same, here = digest(text), known.pop(chunk.id, None)
        if here is not None and here.embedded == same and here.source == chunk.source and _is_shown(here, chunk, same):
            kept[text] = here.id
            # The chunks of a document most often share their labels.
            if seen is not None and seen[0] is here.metadata and seen[1] is chunk.metadata:
                continue
            if json_equal(here.metadata or {}, chunk.metadata or {}):
                seen = here.metadata, chunk.metadata
            else:
                relabels.append((here.metadata or {}, chunk.metadata or {}))
                written.append(chunk)
            continue
        change.outcome = "reused"
        written.append(chunk)
        if same in vectors:
            kept[text] = vectors[same]
        else:
            new[text] = None
    change.texts, change.stale, change.kept = list(new), sorted(known), kept
    change.replaced = bool(change.stale) or not stored
    change.written = chunks if change.replaced else written
    if change.texts:
        change.outcome = "embedded"
    elif change.stale:
        change.outcome = "reused"
    elif relabels and change.outcome == "unchanged":
        change.outcome = "relabelled"
        if len(relabels) == len(stored):
            change.patch = _shared_patch(relabels)
    return change


def _is_shown(stored: Fingerprint, chunk: ChunkRecord, embedded: str) -> bool:
    return stored.text == (digest(chunk.text) if chunk.context else embedded)


def _shared_patch(relabels: Sequence[tuple[Metadata, Metadata]]) -> MetadataPatch | None:
    """Return the one patch that turns each old metadata into its new one, None where there is none."""
    patches = []
    for old, new in relabels:
        patch: dict[str, Any] = {key: None for key in old if key not in new}
        for key, value in new.items():
            if key not in old or not json_equal(old[key], value):
                if value is None:
                    # A patch takes a null for a removal.
                    return None
                patch[key] = value
        patches.append(patch)
    first = patches[0]
    return first if all(json_equal(patch, first) for patch in patches) else None

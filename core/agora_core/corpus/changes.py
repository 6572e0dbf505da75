"""What has to be done to one document, from its chunks and from what a store tells of those it has. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from agora_core.metadata import UNSET, MetadataPatch
from agora_core.records import ChunkRecord, Embedding, Metadata, VectorRecord, indexed_text
from agora_core.stores.fingerprints import Fingerprint, digest

Outcome = Literal["embedded", "reused", "relabelled", "unchanged"]


@dataclass(slots=True)
class DocumentChange:
    """How a document gets from what is stored to what it is now."""

    id: str
    chunks: list[ChunkRecord]
    """As they are stored: stamped, under the ids seen through the store."""
    outcome: Outcome = "unchanged"
    patch: MetadataPatch | None = None
    """Relabels all chunks in one call, where that is all there is to do."""
    texts: list[str] = field(default_factory=list)
    """What has to be embedded, each once."""
    kept: dict[str, str] = field(default_factory=dict)
    """Digest of what is embedded to the id of a stored chunk that has its vector, for chunks that are written."""
    written: list[ChunkRecord] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    """Ids of chunks to delete."""
    whole: bool = False
    """Nothing that is stored stays as it is, so the document is replaced in one step."""

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
            vector = vectors[text] if text in vectors else kept[self.kept[digest(text)]]
            made.append(VectorRecord(chunk.id, chunk.text, vector, chunk.source, chunk.metadata, chunk.context))
        return made


def change_of(document_id: str, chunks: Sequence[ChunkRecord], stored: Sequence[Fingerprint]) -> DocumentChange:
    """Compare the chunks of a document with what is stored of it."""
    change = DocumentChange(document_id, list(chunks))
    known = {one.id: one for one in stored}
    vectors: dict[str, str] = {}
    for one in stored:
        vectors.setdefault(str(one.embedded), one.id)
    relabels: list[tuple[Metadata, Metadata]] = []
    only_labels = True
    for chunk in chunks:
        text = indexed_text(chunk.text, chunk.context)
        same, here = digest(text), known.get(chunk.id)
        if (
            here is not None
            and here.embedded == same
            and here.text == digest(chunk.text)
            and here.source == chunk.source
        ):
            if not _equal(here.metadata, chunk.metadata):
                relabels.append((here.metadata or {}, chunk.metadata or {}))
                change.kept[same] = here.id
                change.written.append(chunk)
            continue
        only_labels = False
        change.written.append(chunk)
        if same in vectors:
            change.kept[same] = vectors[same]
        elif text not in change.texts:
            change.texts.append(text)
    change.stale = sorted(set(known) - {chunk.id for chunk in chunks})
    if change.texts:
        change.outcome = "embedded"
    elif change.stale or not only_labels:
        change.outcome = "reused"
    elif relabels:
        change.outcome = "relabelled"
        if len(relabels) == len(chunks) == len(stored):
            change.patch = _shared_patch(relabels)
    change.whole = len(change.written) == len(chunks)
    return change


def _equal(stored: Metadata | None, wanted: Metadata | None) -> bool:
    return bool(_canonical(stored or {}) == _canonical(wanted or {}))


def _canonical(value: Any) -> Any:
    """Return JSON so that equality tells booleans from numbers, and lists from tuples not."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, Mapping):
        return {key: _canonical(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(inner) for inner in value]
    return value


def _shared_patch(relabels: Sequence[tuple[Metadata, Metadata]]) -> MetadataPatch | None:
    """Return the one patch that turns each old metadata into its new one, None where there is none."""
    patches = []
    for old, new in relabels:
        patch: dict[str, Any] = {key: None for key in old if key not in new}
        for key, value in new.items():
            if key not in old or _canonical(old[key]) != _canonical(value):
                if value is None:
                    # A patch takes a null for a removal.
                    return None
                patch[key] = value
        patches.append(patch)
    first = patches[0]
    return first if all(_canonical(patch) == _canonical(first) for patch in patches) else None


def is_effective(patch: Mapping[str, Any], metadata: Metadata | None) -> bool:
    """Say whether a patch changes a metadata."""
    known = metadata or {}
    for key, value in patch.items():
        if value is UNSET:
            continue
        if value is None:
            if key in known:
                return True
        elif key not in known or _canonical(known[key]) != _canonical(value):
            return True
    return False

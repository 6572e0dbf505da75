"""What a store tells of its records so that others can see whether they changed: digests in the place of texts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from agora_core.filters.literals import json_equal
from agora_core.metadata import UNSET
from agora_core.records import Metadata, VectorRecord, indexed_text


class Fingerprint(NamedTuple):
    """One small row a record. The digests are SHA-256 in hexadecimal, or None where none were asked for."""

    id: str
    embedded: str | None
    """Of what is embedded and indexed: context and text."""
    text: str | None
    """Of the text alone."""
    source: str | None
    metadata: Metadata | None


class Patched(NamedTuple):
    """What a patch did to a document: how many chunks it has, how many changed, and whether the scope refused it."""

    found: int
    changed: int
    refused: bool = False


def digest(text: str) -> str:
    """Return the digest of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def fingerprint_of(
    key: str, text: str, context: str | None, source: str | None, metadata: Metadata | None, *, digests: bool
) -> Fingerprint:
    """Return the fingerprint of a record."""
    if not digests:
        return Fingerprint(key, None, None, source, metadata)
    shown = digest(text)
    return Fingerprint(key, digest(indexed_text(text, context)) if context else shown, shown, source, metadata)


def record_fingerprint(record: VectorRecord) -> Fingerprint:
    """Return the fingerprint of a record, with its digests."""
    return fingerprint_of(record.id, record.text, record.context, record.source, record.metadata, digests=True)


def is_effective(patch: Mapping[str, Any], metadata: Metadata | None) -> bool:
    """Say whether a patch changes a metadata."""
    known = metadata or {}
    for key, value in patch.items():
        if value is UNSET:
            continue
        if value is None:
            if key in known:
                return True
        elif key not in known or not json_equal(known[key], value):
            return True
    return False

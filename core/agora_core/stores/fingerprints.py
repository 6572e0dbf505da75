"""What a store tells of its records so that others can see whether they changed: digests in the place of texts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from agora_core.records import Metadata, indexed_text


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """One small row a record. The digests are SHA-256 in hexadecimal, or None where none were asked for."""

    id: str
    embedded: str | None
    """Of what is embedded and indexed: context and text."""
    text: str | None
    """Of the text alone."""
    source: str | None
    metadata: Metadata | None


@dataclass(frozen=True, slots=True)
class Patched:
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
    return Fingerprint(key, digest(indexed_text(text, context)), digest(text), source, metadata)

"""What a point holds: the original's layout, and beside it the tokens that filters are answered from.

The payload is `id`, `documentId`, `text`, `source` and `metadata` (the last two left out where there is none), as the
original system writes it, plus one object `agora`:

    {"v": 1, "c": context, "d": digests, "x": {"<slot>": text},
     "<slot>": {"t": [tokens], "n": number, "p": {"<slot>": number}}}

with one slot for each top-level metadata key, named by a digest, so that no key needs quoting in a path. `t` holds a
token of the key's exact value, one for each member of a list, one for its JSON type, and the same for every path
below it. `n` is the value where it is a number, `p` the numbers below it, for native ranges, each as the two integers
of `number_parts`. Tokens are built from canonical JSON, so two values share one exactly when they are equal as JSON:
equality on Qdrant needs no rule of its own, and a scalar never meets a list. `x` holds, as text, the values whose
floats the engine may change; `c` is there where a record has a context, `d` is the digest of what is embedded and,
where that is another, of the text, `l` is the length of an indexed text, `m` a mark (see `journal`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from agora_core.filters.literals import JsonType, canonical_json, json_type
from agora_core.filters.operators import Lookup
from agora_core.filters.paths import Path
from agora_core.records import JSON, document_id_of, indexed_text
from agora_core.stores.fingerprints import digest
from agora_core.stores.qdrant.numbers import exact_text, number_parts, restored

FORMAT: Final = 1
"""The version of the `agora` object; a point without this number was written by somebody else."""

MARKED: Final = -1
"""What stands in the place of `FORMAT` while a change of several points is under way; see `journal`."""

FORMAT_KEY: Final = "agora.v"
MARK_KEY: Final = "agora.m"
TEXTS_KEY: Final = "agora.x"
CONTEXT_KEY: Final = "agora.c"
DIGEST_KEY: Final = "agora.d"
LENGTH_KEY: Final = "agora.l"
DOCUMENT_KEY: Final = "documentId"

_TYPE_LETTERS: Final[Mapping[JsonType, str]] = {
    "null": "z",
    "boolean": "b",
    "number": "n",
    "string": "s",
    "array": "a",
    "object": "o",
}
# Above this a token is replaced by its digest: long values would be stored a second time and bloat the index.
_LONGEST_TOKEN: Final = 64


@lru_cache(maxsize=4096)
def slot_of(name: str) -> str:
    """Return the place of a metadata key inside the `agora` object: a letter and 32 hex digits, safe in any path."""
    return "k" + hashlib.blake2b(name.encode("utf-8"), digest_size=16).hexdigest()


def tokens_key(path: Path) -> str:
    """Return the payload path of the tokens that decide about the metadata at `path`."""
    return f"agora.{slot_of(path[0])}.t"


def number_keys(path: Path) -> tuple[str, str]:
    """Return the payload paths of the high and the low part of the number at `path`, where there is one."""
    slot = f"agora.{slot_of(path[0])}"
    place = f"{slot}.n" if len(path) == 1 else f"{slot}.p.{slot_of(canonical_json(path[1:]))}"
    return f"{place}.h", f"{place}.l"


def looked_for(path: Path, lookup: Lookup) -> list[str]:
    """Return the tokens that stand for a lookup: a record has one exactly where it has what is looked up."""
    below = path[1:]
    return [
        *(_token(below, "=", canonical_json(value)) for value in lookup.equal),
        *(_token(below, "~", canonical_json(value)) for value in lookup.holds),
        *(_token(below, _TYPE_LETTERS[kind], "") for kind in lookup.types),
    ]


def _token(below: Path, kind: str, canonical: str) -> str:
    # A list in JSON delimits itself, so path, kind and value can not run into each other.
    token = f"{canonical_json(below) if below else ''}{kind}{canonical}"
    if len(token) <= _LONGEST_TOKEN:
        return token
    return "#" + hashlib.blake2b(token.encode("utf-8"), digest_size=24).hexdigest()


def slot_object(value: JSON) -> dict[str, Any]:
    """Return what the slot of a top-level key with this value holds."""
    tokens: dict[str, None] = {}
    numbers: dict[str, dict[str, int]] = {}
    for below, item in _paths(value, ()):
        kind = json_type(item)
        tokens[_token(below, "=", canonical_json(item))] = None
        tokens[_token(below, _TYPE_LETTERS[kind], "")] = None
        if kind == "array":
            tokens.update(dict.fromkeys(_token(below, "~", canonical_json(member)) for member in item))
        elif kind == "number" and below:
            numbers[slot_of(canonical_json(below))] = _number(item)
    slot: dict[str, Any] = {"t": list(tokens)}
    if json_type(value) == "number":
        slot["n"] = _number(value)
    if numbers:
        slot["p"] = numbers
    return slot


def _number(value: float) -> dict[str, int]:
    high, low = number_parts(value)
    return {"h": high, "l": low}


def _paths(value: JSON, below: Path) -> Iterator[tuple[Path, JSON]]:
    """Walk objects only, as field paths do."""
    yield below, value
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _paths(item, (*below, key))


def filter_object(metadata: Mapping[str, JSON] | None, context: str | None = None) -> dict[str, Any]:
    """Return the `agora` object of a point with this metadata and context."""
    written: dict[str, Any] = {"v": FORMAT}
    texts: dict[str, str] = {}
    for key, value in (metadata or {}).items():
        slot, text = slot_of(key), exact_text(value)
        written[slot] = slot_object(value)
        if text is not None:
            texts[slot] = text
    if context is not None:
        written["c"] = context
    return {**written, "x": texts} if texts else written


def point_payload(
    record_id: str,
    text: str,
    source: str | None,
    metadata: Mapping[str, JSON] | None,
    context: str | None = None,
) -> dict[str, Any]:
    """Return the payload of one record."""
    payload: dict[str, Any] = {"id": record_id, DOCUMENT_KEY: document_id_of(record_id), "text": text}
    if source is not None:
        payload["source"] = source
    if metadata is not None:
        payload["metadata"] = dict(metadata)
    payload["agora"] = filter_object(metadata, context)
    shown = digest(text)
    payload["agora"]["d"] = f"{digest(indexed_text(text, context))} {shown}" if context else shown
    return payload


def derived(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is derived of a point that another writer left: its document, and its `agora` object."""
    written = filter_object(metadata_of(payload), context_of(payload))
    return {DOCUMENT_KEY: document_id_of(payload["id"]), "agora": written}


def patched_slots(effective: Mapping[str, JSON]) -> dict[str, Any]:
    """Return what a validated patch writes under `agora`; as in the patch itself, None deletes.

    The version is not written: a point of another writer has tokens of the patched keys only, and stays unversioned.
    """
    return {slot_of(key): None if value is None else slot_object(value) for key, value in effective.items()}


def patched_texts(effective: Mapping[str, JSON]) -> dict[str, str | None]:
    """Return what a validated patch writes under `agora.x`: the text of a value that needs one, None to delete it."""
    return {slot_of(key): exact_text(value) for key, value in effective.items()}


def digests_of(payload: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the digests in a payload that was read, of what is embedded and of the text; None where there are none."""
    kept = (payload.get("agora") or {}).get("d")
    if not isinstance(kept, str):
        return None
    embedded, _, shown = kept.partition(" ")
    return embedded, shown or embedded


def context_of(payload: Mapping[str, Any]) -> str | None:
    """Return the context in a payload that was read, None where there is none."""
    context = (payload.get("agora") or {}).get("c")
    return context if isinstance(context, str) else None


def metadata_of(payload: Mapping[str, Any] | None) -> dict[str, JSON] | None:
    """Return the metadata in a payload that was read, its floats as they were written, or None where there is none."""
    metadata = (payload or {}).get("metadata")
    if not isinstance(metadata, dict):
        return None
    texts = ((payload or {}).get("agora") or {}).get("x")
    if not texts:
        return metadata
    return {key: restored(value, texts.get(slot_of(key))) for key, value in metadata.items()}

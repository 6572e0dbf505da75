"""Metadata is JSON: validated at the door, copied in and out, patched one level deep (RFC 7396)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from agora_core.errors import InvalidMetadataError
from agora_core.records import JSON, Metadata, Passage

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
MAX_DEPTH: Final = 64


class _Unset:
    """The type of `UNSET`.

    Examples:
        >>> apply_metadata_patch({"year": 2024}, {"year": UNSET})
        {'year': 2024}
    """

    _instance: _Unset | None = None

    def __new__(cls) -> _Unset:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __repr__(self) -> str:
        return "UNSET"

    def __bool__(self) -> bool:
        raise TypeError("UNSET has no truth value; compare with `is UNSET`")

    def __reduce__(self) -> str:
        return "UNSET"


UNSET: Final = _Unset()
"""Stands for "not given" in a patch, where None already means "delete this key"."""

MetadataPatch = Mapping[str, Any]


def text_problem(text: str) -> str | None:
    """Say what keeps `text` from being stored, or return None where nothing does."""
    if "\x00" in text:
        return "contains U+0000"
    # isascii first: encoding is only needed where a surrogate could hide.
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            return "contains a lone surrogate"
    return None


def is_storable(text: str) -> bool:
    """Say whether every database stores `text`; `text_problem` says what is wrong where this is False."""
    return (text.isascii() and "\x00" not in text) or text_problem(text) is None


def plain_text(text: str) -> str:
    """Return the characters of a str: of a subclass's own, whatever it prints as (an enum member prints its name)."""
    return text if type(text) is str else str.__str__(text)


def check_text(value: Any, *, where: str, what: str) -> str:
    """Return `value` as a plain str, or refuse what is no storable one; `where` names the record, `what` the field."""
    if type(value) is not str and not isinstance(value, str):
        raise InvalidMetadataError(f"{where}: {what} must be a str, got {type(value).__name__}")
    text = plain_text(value)
    problem = text_problem(text)
    if problem is not None:
        raise InvalidMetadataError(f"{where}: {what} {problem}, which databases refuse; remove it first")
    return text


def check_optional_text(value: Any, *, where: str, what: str) -> str | None:
    """Return `value` as `check_text` does, None staying None."""
    return None if value is None else check_text(value, where=where, what=what)


def copy_json(value: Any, *, where: str, what: str, depth: int = 0) -> JSON:
    """Return a deep copy of a JSON value with tuples made lists.

    Raises:
        InvalidMetadataError: the value, or one inside it, is not JSON; the message starts with `where` and `what`.
    """
    kind = type(value)
    if kind is str:
        if not value.isascii() or "\x00" in value:
            problem = text_problem(value)
            if problem is not None:
                raise InvalidMetadataError(f"{where}: {what} {problem}, which databases refuse; remove it first")
        return value
    if value is None or kind is bool:
        return value
    if kind is int:
        if not INT64_MIN <= value <= INT64_MAX:
            raise InvalidMetadataError(
                f"{where}: {what} is an int outside signed 64 bits; store it as a str or a float"
            )
        return value
    if kind is float:
        if not math.isfinite(value):
            raise InvalidMetadataError(f"{where}: {what} is the float {value!r}; only finite floats are JSON")
        return value
    if depth >= MAX_DEPTH:
        raise InvalidMetadataError(f"{where}: {what} is nested deeper than {MAX_DEPTH} levels; flatten it")
    if kind is list or kind is tuple:
        return [copy_json(item, where=where, what=f"{what}[{n}]", depth=depth + 1) for n, item in enumerate(value)]
    if kind is dict or isinstance(value, Mapping):
        copy: dict[str, JSON] = {}
        for key, item in value.items():
            name = check_text_key(key, where=where, what=what)
            copy[name] = copy_json(item, where=where, what=f"{what}[{_shown(name)}]", depth=depth + 1)
        return copy
    return _copy_subclass(value, where=where, what=what, depth=depth)


def _copy_subclass(value: Any, *, where: str, what: str, depth: int) -> JSON:
    """Take a str, int, float, list or tuple subclass (an enum member, a numpy float64) by its plain value."""
    bases: tuple[Any, ...] = (str, int, float, list, tuple)
    for base in bases:
        if isinstance(value, base):
            plain = plain_text(value) if base is str else base(value)
            return copy_json(plain, where=where, what=what, depth=depth)
    raise InvalidMetadataError(
        f"{where}: {what} is a {type(value).__name__}, which is not JSON; "
        "use None, bool, int, float, str, a list or tuple, or a dict with str keys"
    )


def check_text_key(key: Any, *, where: str, what: str) -> str:
    """Return a metadata key as a plain str, or refuse what is no storable one."""
    if not isinstance(key, str):
        raise InvalidMetadataError(
            f"{where}: {what} has the key {key!r} of type {type(key).__name__}; metadata keys must be str"
        )
    name = plain_text(key)
    if not name.isascii() or "\x00" in name:
        problem = text_problem(name)
        if problem is not None:
            raise InvalidMetadataError(f"{where}: a key of {what} {problem}, which databases refuse; rename it")
    return name


def _shown(key: str) -> str:
    """Return a key as it stands in a message, cut where it is long."""
    return repr(key if len(key) <= 60 else key[:57] + "...")


def copy_metadata(metadata: Any, *, where: str = "metadata") -> dict[str, JSON] | None:
    """Return a validated deep copy of `metadata`, or None where there is none.

    Raises:
        InvalidMetadataError: it is no mapping, or holds something that is not JSON. The message names the key and type.
    """
    if metadata is None:
        return None
    plain = copy_plain(metadata)
    if plain is not None:
        return plain
    if not isinstance(metadata, Mapping):
        raise InvalidMetadataError(f"{where}: metadata must be a mapping or None, got {type(metadata).__name__}")
    copy: dict[str, JSON] = copy_json(metadata, where=where, what="metadata")
    return copy


def copy_plain(metadata: Any) -> dict[str, JSON] | None:
    """Copy metadata of scalars and lists of str, as most is; None leaves what is else or wrong to `copy_metadata`."""
    if type(metadata) is not dict:
        return None
    copy: dict[str, JSON] = {}
    # The test of `is_storable` is spelled out for ASCII: this loop sees every value that is ever written.
    for key, value in metadata.items():
        if type(key) is not str or ((not key.isascii() or "\x00" in key) and not is_storable(key)):
            return None
        kind = type(value)
        if kind is str:
            if (not value.isascii() or "\x00" in value) and not is_storable(value):
                return None
        elif kind is list:
            for item in value:
                if type(item) is not str or ((not item.isascii() or "\x00" in item) and not is_storable(item)):
                    return None
            value = value.copy()
        elif kind is int:
            if not INT64_MIN <= value <= INT64_MAX:
                return None
        elif kind is float:
            if not math.isfinite(value):
                return None
        elif value is not None and kind is not bool:
            return None
        copy[key] = value
    return copy


def clone_json(value: JSON) -> JSON:
    """Return a deep copy of a value that is known to be valid JSON; about ten times cheaper than `copy.deepcopy`."""
    kind = type(value)
    if kind is dict:
        return {key: item if type(item) in _ATOMS else clone_json(item) for key, item in value.items()}
    if kind is list:
        return [item if type(item) in _ATOMS else clone_json(item) for item in value]
    return value


_ATOMS: Final = frozenset((str, int, float, bool, type(None)))


def clone_metadata(metadata: dict[str, JSON] | None) -> dict[str, JSON] | None:
    """Return a deep copy of validated metadata, None staying None."""
    if metadata is None:
        return None
    clone = metadata.copy()
    for key, value in clone.items():
        kind = type(value)
        if kind is list:
            # A flat list is copied at once.
            clone[key] = value.copy() if _ATOMS.issuperset(map(type, value)) else clone_json(value)
        elif kind is dict:
            clone[key] = clone_json(value)
    return clone


def validate_patch(patch: Any) -> dict[str, JSON]:
    """Return the effective part of a patch, validated and copied: UNSET dropped, None kept.

    Raises:
        InvalidMetadataError: the patch is no mapping, a key is not a str, or a value is not JSON.
    """
    if not isinstance(patch, Mapping):
        raise InvalidMetadataError(f"patch must be a mapping, got {type(patch).__name__}")
    effective: dict[str, JSON] = {}
    for key, value in patch.items():
        name = check_text_key(key, where="patch", what="the patch")
        if value is UNSET:
            continue
        effective[name] = copy_json(value, where="patch", what=f"the value of {_shown(name)}", depth=1)
    return effective


def effective_patch_keys(patch: MetadataPatch) -> list[str]:
    """Return the keys a patch changes, in its order: all whose value is not UNSET (None counts: it deletes).

    Raises:
        InvalidMetadataError: the patch is no mapping, or holds something that is not JSON.

    Examples:
        >>> effective_patch_keys({"acl": ["staff"], "year": UNSET})
        ['acl']
    """
    return list(validate_patch(patch))


def merge_effective(metadata: Mapping[str, JSON] | None, effective: Mapping[str, JSON]) -> dict[str, JSON]:
    """Merge an already validated patch into a shallow copy of `metadata`."""
    merged = dict(metadata) if metadata else {}
    for key, value in effective.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = clone_json(value)
    return merged


def apply_metadata_patch(metadata: Metadata | None, patch: MetadataPatch) -> dict[str, JSON]:
    """Return `metadata` with a shallow JSON Merge Patch (RFC 7396, one level) applied; nothing given is changed.

    A value replaces the old one whole, None deletes the key, UNSET is ignored, an absent key is left alone. Replaced
    keys keep their place, new ones go to the end.

    Raises:
        InvalidMetadataError: the metadata or the patch holds something that is not JSON.

    Examples:
        >>> apply_metadata_patch({"acl": ["staff"], "draft": True}, {"draft": None, "year": 2024})
        {'acl': ['staff'], 'year': 2024}
    """
    return merge_effective(copy_metadata(metadata), validate_patch(patch))


def with_score(passage: Passage, score: float) -> Passage:
    """Return a copy of a passage with another score; its metadata is a copy too."""
    metadata = clone_metadata(passage.metadata)
    return Passage(id=passage.id, text=passage.text, score=score, source=passage.source, metadata=metadata)

"""Where a condition looks: paths into metadata, and the text of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from agora_core.errors import InvalidFilterError
from agora_core.metadata import MAX_DEPTH, plain_text, text_problem
from agora_core.records import JSON

Path = tuple[str, ...]
"""Segments from the top level down, through objects only. A key of the mapping form is one segment, dots included."""


class Place:
    """A place in the metadata, which is not a condition yet."""

    __slots__ = ("path",)
    path: Path


class _Missing:
    """The type of `MISSING`."""


MISSING: Final = _Missing()
"""What `value_at` gives where the path leads nowhere."""


def value_at(metadata: Mapping[str, JSON], path: Path) -> Any:
    """Return the value at `path`, walking objects only, or `MISSING`."""
    value: Any = metadata
    for segment in path:
        if not isinstance(value, Mapping) or segment not in value:
            return MISSING
        value = value[segment]
    return value


def field_path(given: Any, *, literal: bool = False) -> Path:
    """Return the path of a field: a str whose dots step into objects (one key where `literal`), or a list of segments.

    Raises:
        InvalidFilterError: it is neither, is an empty list, ends in a lone backslash, or holds what no key can.
    """
    if isinstance(given, str):
        text = check_text(given, "a field name")
        path = (text,) if literal else _split(text)
    elif isinstance(given, Sequence) and given and all(isinstance(segment, str) for segment in given):
        path = tuple(check_text(segment, "a field name") for segment in given)
    else:
        raise InvalidFilterError(f"field takes a str or a non-empty list of str, got {type(given).__name__}")
    if len(path) > MAX_DEPTH:
        raise InvalidFilterError(f"a field path has at most {MAX_DEPTH} segments, got {len(path)}")
    return path


def _split(path: str) -> Path:
    segments, current, escaped = [], "", False
    for character in path:
        if escaped:
            current, escaped = current + character, False
        elif character == "\\":
            escaped = True
        elif character == ".":
            segments.append(current)
            current = ""
        else:
            current += character
    if escaped:
        raise InvalidFilterError(f"the field path {path!r} ends in a lone backslash; write two for one")
    return (*segments, current)


def field_repr(path: Path) -> str:
    """Return the Python text that builds the field of `path`."""
    if all(path) and not any("." in segment or "\\" in segment for segment in path):
        return f"field({'.'.join(path)!r})"
    return f"field({list(path)!r})"


def check_text(text: str, what: str) -> str:
    """Return the characters of a str, or refuse such as no record can hold; `what` names it in the message."""
    plain = plain_text(text)
    problem = text_problem(plain)
    if problem is not None:
        raise InvalidFilterError(f"{what} {problem}, which no record can hold")
    return plain

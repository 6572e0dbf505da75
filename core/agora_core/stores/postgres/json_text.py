"""Metadata to and from the text of a jsonb value, losing nothing that JSON can say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agora_core.metadata import INT64_MAX, INT64_MIN
from agora_core.records import JSON

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def to_json_text(value: JSON) -> str:
    """Return valid JSON as text whose numbers have the exact value of Python's.

    Python writes the float 2.0**60 as `1.152921504606847e+18`, which as a decimal number is another one. Such floats
    are written out, with a `.0` that jsonb keeps and that makes them floats again when they are read.
    """
    text = _encode(value)
    return text if "e+" not in text else _exact(value)


def from_json_text(text: str | None) -> Any:
    """Return what the text of a jsonb value holds; a number beyond 64 bits is a float."""
    return None if text is None else _decode(text)


def _exact(value: JSON) -> str:
    if isinstance(value, float) and value.is_integer():
        return f"{int(value)}.0"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{_encode(key)}:{_exact(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_exact, value)) + "]"
    return _encode(value)


def _number(digits: str) -> int | float:
    # No int64 has more than 20 characters, and int() refuses very long digit strings.
    if len(digits) > 20:
        return float(digits)
    number = int(digits)
    return number if INT64_MIN <= number <= INT64_MAX else float(digits)


_decode = json.JSONDecoder(parse_int=_number).decode

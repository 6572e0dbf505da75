"""What is nearly JSON as JSON: dates, paths, decimals and numpy's numbers in metadata that a framework handed over.

Stores refuse such values, since a filter could not say what it compares. An adapter may say instead what they become,
which is told once; what has no such form is left for the store to refuse.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import logging
import os
import uuid
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

_log: Final = logging.getLogger(__name__)
_PLAIN: Final = (str, int, float, bool, type(None))
_told: set[str] = set()


def coerce_text(text: str) -> str:
    """Return a text without U+0000, which no database keeps."""
    if "\x00" not in text:
        return text
    _tell("U+0000 in a text", "nothing")
    return text.replace("\x00", "")


def coerce_metadata(metadata: Mapping[Any, Any] | None) -> dict[str, Any]:
    """Return metadata with values that are nearly JSON made JSON; what is given is not changed.

    | value | becomes |
    | --- | --- |
    | date, datetime, time | its ISO form, a str |
    | Decimal, numpy number or bool | int where it is one, else float; bool |
    | Path, UUID | str |
    | Enum | its value |
    | str with U+0000 | the str without it |

    All else is returned as it is, for a store to judge.
    """
    return {_key(key): _coerced(value, 0) for key, value in (metadata or {}).items()}


def _key(key: Any) -> Any:
    return coerce_text(key) if isinstance(key, str) else key


def _coerced(value: Any, depth: int) -> Any:
    if type(value) in _PLAIN:
        return coerce_text(value) if type(value) is str else value
    if depth > _DEEPEST:
        return value
    if isinstance(value, Mapping):
        return {_key(key): _coerced(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_coerced(inner, depth + 1) for inner in value]
    plain = _plain(value)
    if plain is value:
        return coerce_text(value) if isinstance(value, str) else value
    _tell(f"{type(value).__module__}.{type(value).__qualname__}", type(plain).__name__)
    return _coerced(plain, depth + 1)


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal) and value.is_finite():
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (os.PathLike, uuid.UUID)):
        return str(value)
    return value


_DEEPEST: Final = 64


def _tell(kind: str, becomes: str) -> None:
    """Say once in a process that a kind of value is stored as another."""
    if kind not in _told:
        _told.add(kind)
        _log.warning("metadata is stored as JSON: %s becomes %s", kind, becomes)

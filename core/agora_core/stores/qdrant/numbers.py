"""Numbers as Qdrant can keep and compare them without loss.

Its engine reads payloads through a JSON parser that may miss a float by one rounding step (about one random float in
eight; never one of up to 15 digits), and compares every number as a float64, which an int64 does not fit in. So each
number is kept a second time as two small integers that sort as it does, and a float that the parser may miss is kept
as text.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from agora_core.records import JSON

_MAGNITUDE: Final = 2**63 - 1
_LARGEST_POWER: Final = 22


def number_parts(value: float) -> tuple[int, int]:
    """Return (`high`, `low`), which as a pair compare exactly as the number does with any other, int or float.

    `high` has 53 bits with its sign and `low` 21, so that float64 holds both.
    """
    base, rest = float(value), 0
    if isinstance(value, int):
        if int(base) > value:
            base = math.nextafter(base, -math.inf)
        # What an int has beyond the float below it; 0 up to 2**53, and below 1024 for any int64.
        rest = value - int(base)
    (bits,) = struct.unpack("<q", struct.pack("<d", base))
    key = bits if bits >= 0 else -(bits & _MAGNITUDE)
    return key >> 11, (key & 2047) * 1024 + rest


def is_kept_exactly(value: float) -> bool:
    """Say whether the engine's parser surely gives this float back: a significand below 2**53, a power up to 10**22."""
    _, digits, exponent = Decimal(repr(value)).as_tuple()
    return int("".join(map(str, digits))) < 2**53 and abs(int(exponent)) <= _LARGEST_POWER


def exact_text(value: JSON) -> str | None:
    """Return a value as JSON text where the engine may change a float in it, and None where it keeps it as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) if _may_change(value) else None


def _may_change(value: JSON) -> bool:
    if isinstance(value, float):
        return not is_kept_exactly(value)
    if isinstance(value, Mapping):
        return any(map(_may_change, value.values()))
    return isinstance(value, (list, tuple)) and any(map(_may_change, value))


def restored(stored: JSON, text: Any) -> JSON:
    """Return the value that was written as `text`, or `stored` where somebody has put another value there since."""
    if not isinstance(text, str):
        return stored
    try:
        written = json.loads(text)
    except ValueError:
        return stored
    return written if _is_rounding_of(stored, written) else stored


def _is_rounding_of(stored: JSON, written: JSON) -> bool:
    if isinstance(written, float) and isinstance(stored, (int, float)) and not isinstance(stored, bool):
        return abs(stored - written) <= 2 * math.ulp(written)
    if isinstance(written, dict) and isinstance(stored, dict):
        return written.keys() == stored.keys() and all(_is_rounding_of(stored[key], written[key]) for key in written)
    if isinstance(written, list) and isinstance(stored, list):
        return len(written) == len(stored) and all(map(_is_rounding_of, stored, written))
    return type(stored) is type(written) and bool(stored == written)

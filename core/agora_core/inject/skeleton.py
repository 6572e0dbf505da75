"""What a text reads as, whatever characters it is spelled in, and which of its places read as a mark of the block.

A character reads as nothing, or as small ASCII: compatibility forms are taken apart (NFKD), case is folded, look-alikes
count as what they look like (`lookalikes.py`), and marks, controls, blanks, punctuation and symbols are left out. A
letter that looks like none of ours reads as `?`, which matches nothing.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from agora_core.inject.lookalikes import LOOKALIKES

LINE_BREAKS: Final = "\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_KEPT: Final = "<>[]():|"
# What is drawn as nothing at all although it counts as a letter or a symbol.
_FILLERS: Final = "\u115f\u1160\u3164\uffa0\u2800"
# The word of the fence, with a prefix as of a namespace. What looks like o and i may be a digit of some script, or a
# mark or a bar, which are left out.
_FENCE: Final = re.compile(r"(?:[^>]*:)?retr[il0-9]?eved[o0-9]*c[o0-9]?ntext")
_FENCE_LENGTH: Final = 96
_STEP: Final = 64


class _Readings(dict[int, str]):
    """What each code point reads as; filled as they are met."""

    def __missing__(self, code: int) -> str:
        self[code] = reading = _reading(chr(code))
        return reading


_READINGS: Final = _Readings()


@functools.cache
def _lookalikes() -> dict[str, str]:
    return {char: reads for reads, chars in LOOKALIKES.items() for char in chars}


@functools.cache
def _opening() -> re.Pattern[str]:
    """Return a pattern that finds everything that reads as `<` or `[`."""
    return re.compile(f"[{re.escape('<[' + LOOKALIKES['<'] + LOOKALIKES['['])}]")


def _reading(char: str) -> str:
    known = _lookalikes().get(char)
    if known is not None:
        return known
    if char.isascii():
        if char.isalnum():
            # A capital I reads as l, and as 1, rather than as i.
            return "l" if char == "I" else char.lower()
        return char if char in _KEPT else ""
    apart = unicodedata.normalize("NFKD", char)
    if apart != char:
        return "".join(_READINGS[ord(part)] for part in apart)
    digit = unicodedata.digit(char, None)
    if digit is not None:
        return str(digit)
    return "?" if unicodedata.category(char)[0] in "LN" else ""


def fences_in(text: str) -> Iterator[int]:
    """Yield the places of what reads as `<` before the name of the block's fence; takes time linear in the text."""
    places = [found.start() for found in _opening().finditer(text) if _READINGS[ord(found[0])] == "<"]
    for place, stop in zip(places, [*places[1:], len(text)], strict=False):
        read = ""
        for start in range(place + 1, stop, _STEP):
            read += text[start : min(start + _STEP, stop)].translate(_READINGS)
            if len(read) > _FENCE_LENGTH:
                break
        if _FENCE.match(re.sub(r"[|()\[\]]", "", read)):
            yield place


def numbers_in(text: str) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of what reads as a number in square brackets; takes time linear in the text."""
    for found in _opening().finditer(text):
        if _READINGS[ord(found[0])] != "[":
            continue
        number = ""
        for place in range(found.end(), len(text)):
            read = _READINGS[ord(text[place])]
            if read == "]":
                if number.strip("o"):
                    yield found.start(), place + 1
                break
            digits = read.strip("()")
            if digits.strip("0123456789ol|") or not (digits or is_blank(text[place])):
                break
            number += digits


def starts_line(text: str, place: int) -> bool:
    """Say whether nothing but blanks and invisible characters stands before `place` on its line."""
    while place > 0:
        place -= 1
        if text[place] in LINE_BREAKS:
            return True
        if not is_blank(text[place]):
            return False
    return True


def is_blank(char: str) -> bool:
    """Say whether a character shows as nothing or as white space."""
    return char in _FILLERS or unicodedata.category(char)[0] in "ZCM"


def reads_as(char: str) -> str:
    """Return what one character reads as."""
    return _READINGS[ord(char)]

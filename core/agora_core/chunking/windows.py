"""Where to cut: pure functions from a text to the places of its pieces. Lengths are those of a measure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from agora_core.errors import InvalidArgumentError

Measure = Callable[[str], int]
"""The length of a text in the unit of `chunk_size`: `len` for code points, or how many tokens a model counts."""

Span = tuple[int, int]
"""Where a piece begins and ends, in code points of the text it is cut from."""

# Python's white space and U+FEFF: files with a byte order mark are common, and str.strip keeps it.
BLANKS: Final = "".join(filter(str.isspace, map(chr, range(0x3001)))) + "\ufeff"

# A place where a word may begin: after a blank, or at a character of a script that is written without spaces.
_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ua4cf\uf900-\ufaff\uff66-\uff9d\U00020000-\U0003ffff"
_WORD_START: Final = re.compile(f"(?<=[\\s\ufeff])\\S|[{_UNSPACED}]")


def prose_windows(text: str, span: Span, size: int, overlap: int, measure: Measure, at_word: bool) -> Iterator[Span]:
    """Give the windows of a prose, blanks at their ends included.

    A window is cut after its last space or at its last blank line, whichever comes later, where that lies in the second
    half; otherwise at its end. The next one begins `overlap` before the cut, or at the first word that begins after
    that place where `at_word`.
    """
    start, stop = trimmed(text, span)
    find = text.rfind
    plain = measure is len
    while (end := start + size if plain else _reach(text, start, stop, size, measure)) < stop:
        first = start + (end - start) // 2 + 1  # the first place strictly beyond half of the window
        # The original also looks for ". ", which never wins: the space in it stands one place later.
        place = find(" ", first, end)
        place = max(place, find("\n\n", max(place, first), end))
        cut = end if place < 0 else place + 1
        yield start, cut
        again = cut - overlap if plain else _back(text, start, cut, overlap, measure)
        if at_word:
            again = _word_from(text, again, cut)
        start = max(again, start + 1)
    if start < stop:
        yield start, stop


def trimmed(text: str, span: Span) -> Span:
    """Return the span without the blanks at its ends; one of blanks only is empty."""
    start, stop = span
    piece = text[start:stop]
    start += len(piece) - len(piece.lstrip(BLANKS))
    return start, max(start, stop - (len(piece) - len(piece.rstrip(BLANKS))))


def packed(
    count: int, length: Callable[[int, int], int], size: int, overlap: int, *, gap: int = 0, fresh: bool = False
) -> Iterator[tuple[int, int]]:
    """Pack pieces 0 to `count` into chunks of at most `size`, none cut; give the first and the end of each.

    `length(i, j)` is that of the pieces i to j together. A chunk begins with as many whole pieces of the end of the one
    before as fit into `overlap`, each with its `gap`; never with the first of it, so that each begins later. `fresh`
    takes only so many that a new piece fits beside them.
    """
    start, stop = 0, 0
    while stop < count:
        stop = start + 1
        while stop < count and length(start, stop + 1) <= size:
            stop += 1
        yield start, stop
        carried = stop
        while carried - 1 > start and length(carried - 1, stop) + gap <= overlap:
            carried -= 1
        while fresh and carried < stop < count and length(carried, stop + 1) > size:
            carried += 1
        start = carried


def checked_measure(measure: Measure) -> Measure:
    """Return the measure, its answers checked.

    Raises:
        InvalidArgumentError: it is not callable; or, when it is called, its answer is not an int of 0 or more.
    """
    if measure is len:
        return measure
    given: Any = measure
    if not callable(given):
        raise InvalidArgumentError(f"measure must be a callable from a text to its length, got {given!r}")

    def checked(text: str) -> int:
        length: Any = measure(text)
        if isinstance(length, bool) or not isinstance(length, int) or length < 0:
            raise InvalidArgumentError(f"measure must answer with an int of 0 or more, got {length!r}")
        return length

    return checked


def _reach(text: str, start: int, stop: int, size: int, measure: Measure) -> int:
    """Return the largest end whose piece measures at most `size`, at least one character from the start."""
    low, step = start + 1, size
    while low < stop and measure(text[start : min(stop, low + step)]) <= size:
        low, step = min(stop, low + step), 2 * step
    high = min(stop, low + step)
    while low < high:
        middle = (low + high + 1) // 2
        if measure(text[start:middle]) <= size:
            low = middle
        else:
            high = middle - 1
    return low


def _back(text: str, start: int, cut: int, overlap: int, measure: Measure) -> int:
    """Return the first place from which the text up to the cut measures at most `overlap`."""
    if not overlap:
        return cut
    low, high = start, cut
    while low < high:
        middle = (low + high) // 2
        if measure(text[middle:cut]) <= overlap:
            high = middle
        else:
            low = middle + 1
    return low


def _word_from(text: str, start: int, cut: int) -> int:
    # One character back, so that a word that begins right here is seen to.
    found = _WORD_START.search(text, max(0, start - 1), cut)
    while found is not None and found.start() < start:
        found = _WORD_START.search(text, found.start() + 1, cut)
    return cut if found is None else found.start()

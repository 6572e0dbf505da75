"""Cut texts into chunks. Lengths are code points; a character is never cut in half."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final

from agora_core.chunking.windows import BLANKS, Measure, packed, prose_windows
from agora_core.errors import InvalidArgumentError

DEFAULT_CHUNK_SIZE: Final = 800
DEFAULT_OVERLAP: Final = 100


def chunk_text(
    text: str,
    *,
    chunk_size: int = DEFAULT_CHUNK_SIZE,
    overlap: int | None = None,
    separator: str | None = None,
) -> list[str]:
    """Cut `text` into chunks of at most `chunk_size` characters, without blanks at their ends.

    A window is cut after its last space or at its last blank line, whichever comes later, where that lies in the
    second half; otherwise at its end. Nothing is lost but white space (Python's, and U+FEFF) at the ends of chunks.

    With a `separator` the text is a list of records: it is split there and only there, and whole records are packed
    into chunks, joined by the separator. A record longer than `chunk_size` is a chunk of its own, uncut.

    Args:
        chunk_size: characters, 1 or more.
        overlap: characters, 0 or more and below `chunk_size`, with which a chunk repeats the end of the one before; in
            records, as many whole ones as fit. Left out it is 100, or `chunk_size // 8` where 100 would not fit. Above
            half of `chunk_size` neighbouring chunks may be one character apart.
        separator: taken literally; None and "" cut prose.

    Raises:
        InvalidArgumentError: an argument is out of its range or of another type.

    Examples:
        >>> chunk_text("Everyone has 30 days.", chunk_size=12, overlap=0)
        ['Everyone', 'has 30 days.']
    """
    size, lap = check_sizes(chunk_size, overlap)
    if not isinstance(text, str):
        raise InvalidArgumentError(f"text must be a str, got {type(text).__name__}")
    return _cut(text, size, lap, check_separator(separator))


def without_nul(text: str) -> str:
    """Return `text` without U+0000."""
    return text.replace("\x00", "") if "\x00" in text else text


def check_sizes(chunk_size: Any, overlap: Any) -> tuple[int, int]:
    """Return the sizes to cut by, the overlap's default filled in.

    Raises:
        InvalidArgumentError: `chunk_size` is below 1, or a given `overlap` is negative or not below it.
    """
    if isinstance(chunk_size, bool) or not isinstance(chunk_size, int):
        raise InvalidArgumentError(f"chunk_size must be an int, got {type(chunk_size).__name__}")
    if chunk_size < 1:
        raise InvalidArgumentError(f"chunk_size must be 1 or more, got {chunk_size}")
    if overlap is None:
        return chunk_size, DEFAULT_OVERLAP if chunk_size > DEFAULT_OVERLAP else chunk_size // 8
    if isinstance(overlap, bool) or not isinstance(overlap, int):
        raise InvalidArgumentError(f"overlap must be an int or None, got {type(overlap).__name__}")
    if not 0 <= overlap < chunk_size:
        raise InvalidArgumentError(
            f"overlap must be 0 or more and below chunk_size ({chunk_size}), got {overlap}; "
            "leave it out for one that fits"
        )
    return chunk_size, overlap


def check_separator(separator: Any) -> str:
    """Return the separator, "" standing for none.

    Raises:
        InvalidArgumentError: it is neither a str nor None.
    """
    if separator is None:
        return ""
    if not isinstance(separator, str):
        raise InvalidArgumentError(f"separator must be a str or None, got {type(separator).__name__}")
    return separator


def _cut(text: str, size: int, overlap: int, separator: str) -> list[str]:
    if separator:
        records = [record for part in text.split(separator) if (record := part.strip(BLANKS))]
        return [separator.join(records[first:end]) for first, end in pack_records(records, size, overlap, separator)]
    windows = prose_windows(text, (0, len(text)), size, overlap, len, False)
    return [piece for start, end in windows if (piece := text[start:end].strip(BLANKS))]


def pack_records(
    records: Sequence[str], size: int, overlap: int, separator: str, measure: Measure = len
) -> Iterator[tuple[int, int]]:
    """Pack whole records into chunks; give the first and the end of each."""
    gap = measure(separator)
    ends = [0, *itertools.accumulate(measure(record) + gap for record in records)]
    return packed(len(records), lambda first, end: ends[end] - ends[first] - gap, size, overlap, gap=gap)

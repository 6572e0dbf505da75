"""The block that a model reads: passages in numbered brackets, fenced, and no way out of it for what stands inside."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from agora_core.errors import InvalidArgumentError
from agora_core.inject.skeleton import LINE_BREAKS, fences_in, is_blank, numbers_in, reads_as, starts_line
from agora_core.records import Passage
from agora_core.validation import check_top_k

_OPENING: Final = "<retrieved_context>"
_CLOSING: Final = "</retrieved_context>"
_INSTRUCTION: Final = (
    "Use the retrieved context above to answer when relevant, and cite sources by their bracket number."
)
CUT: Final = "…"
"""Stands at the end of a passage that was cut."""

_LINE_BREAKS: Final = re.compile(f"[{LINE_BREAKS}]+")
_ESCAPES: Final = {"<": "&lt;", "[": "&#91;", ")": "&#41;"}

Measure = Callable[[str], int]
"""Returns how much room a text takes: `len`, or a model's token counter."""


def render_context(passages: Sequence[Passage], *, max_chars: int | None = None, measure: Measure = len) -> str:
    """Return the block that a model reads: the passages in numbered brackets, fenced, and how to use them.

    Neither a text nor a source can close the block or look like another item of it, in whatever characters it is
    spelled: the bracket of what reads as a fence is written `&lt;`, that of what starts a line like the number of an
    item `&#91;`, and the parenthesis by which a source would end early `&#41;`. A source is put on one line.

    Args:
        passages: best first; without any the block is "".
        max_chars: the room for the items (the fence and the instruction aside), in units of `measure`; None for no
            bound. Whole passages are kept from the best down, the last is cut at a word and ends in `…`. There is
            always one, however little room it has.
        measure: returns the length of a text; `len` counts characters.

    Raises:
        InvalidArgumentError: `max_chars` is below 1, or `measure` is not callable.

    Examples:
        >>> print(render_context(passages[:1]))
        <retrieved_context>
        [1] (leave.md) Everyone has 30 days of leave.
        </retrieved_context>
        Use the retrieved context above to answer when relevant, and cite sources by their bracket number.
    """
    items = _items(passages, max_chars, measure)
    return "\n".join([_OPENING, *items, _CLOSING, _INSTRUCTION]) if items else ""


def fold_context(
    system: str, passages: Sequence[Passage], *, max_chars: int | None = None, measure: Measure = len
) -> str:
    """Return a system prompt followed by the block of `passages`; without passages it is unchanged."""
    return fold_block(system, render_context(passages, max_chars=max_chars, measure=measure))


def fold_block(system: str, block: str) -> str:
    """Return a prompt followed by a blank line and a block; an empty one of them leaves the other alone."""
    return f"{system}\n\n{block}" if system and block else system or block


def fitting(passages: Sequence[Passage], *, max_chars: int | None = None, measure: Measure = len) -> list[Passage]:
    """Return the passages that stand in the block, the last of them perhaps cut there; they themselves are whole."""
    return list(passages[: len(_items(passages, max_chars, measure))])


def check_budget(max_chars: int | None, measure: Measure) -> int | None:
    """Return `max_chars` where it is None or 1 and more.

    Raises:
        InvalidArgumentError: it is not, or `measure` is not callable.
    """
    if not callable(measure):
        raise InvalidArgumentError(f"measure must be callable, got {type(measure).__name__}; len counts characters")
    return None if max_chars is None else check_top_k(max_chars, argument="max_chars")


def _items(passages: Sequence[Passage], max_chars: int | None, measure: Measure) -> list[str]:
    room = check_budget(max_chars, measure)
    items: list[str] = []
    for number, passage in enumerate(passages, start=1):
        head, text = _head(number, passage), _neutralised(passage.text)
        if room is not None and measure("\n".join([*items, head + text])) > room:
            cut = _cut(text, lambda part, head=head: measure("\n".join([*items, head + part])) <= room)  # type: ignore[misc]
            if cut is not None or not items:
                items.append(head + (CUT if cut is None else cut))
            break
        items.append(head + text)
    return items


def _cut(text: str, fits: Callable[[str], bool]) -> str | None:
    """Return the longest beginning of `text` that ends at a word and fits with its mark; None where none does."""
    words = [found.end() for found in re.finditer(r"\S+", text)]
    if not words:
        return None
    whole = _longest(words, lambda end: fits(f"{text[:end]} {CUT}"))
    if whole:
        return f"{text[:whole]} {CUT}"
    # One word, or a script without spaces: the last character keeps its marks.
    ends = [end for end in range(1, words[0]) if not is_blank(text[end])]
    end = _longest(ends, lambda end: fits(text[:end] + CUT))
    return text[:end] + CUT if end else None


def _longest(ends: Sequence[int], fits: Callable[[int], bool]) -> int:
    """Return the last of the rising `ends` that fits, found by halving; 0 where none does."""
    low, high = 0, len(ends)
    while low < high:
        middle = (low + high) // 2
        if fits(ends[middle]):
            low = middle + 1
        else:
            high = middle
    return ends[low - 1] if low else 0


def _head(number: int, passage: Passage) -> str:
    return f"[{number}] " if passage.source is None else f"[{number}] ({_label(passage.source)}) "


def _neutralised(text: str) -> str:
    """Return a passage's text with the marks of the block in it made harmless."""
    items = [start for start, _ in numbers_in(text) if starts_line(text, start)]
    return _escaped(text, [*fences_in(text), *items])


def _label(source: str) -> str:
    """Return a source on one line, which can neither end its parenthesis early nor begin another item."""
    label = _LINE_BREAKS.sub(" ", source)
    early = _early_ends(label)
    items = [start for start, end in numbers_in(label) if early or _precedes_label(label, end)]
    return _escaped(label, [*fences_in(label), *early, *items])


def _early_ends(label: str) -> list[int]:
    """Return the places of the closing parentheses that none in the label opens."""
    depth, early = 0, []
    for place, char in enumerate(label):
        reads = reads_as(char)
        depth += (reads == "(") - (reads == ")")
        if depth < 0:
            early.append(place)
            depth = 0
    return early


def _precedes_label(label: str, place: int) -> bool:
    rest: Any = next((char for char in label[place:] if not is_blank(char)), None)
    return rest is not None and reads_as(rest) in ("(", "[")


def _escaped(text: str, places: list[int]) -> str:
    if not places:
        return text
    parts, done = [], 0
    for place in sorted(places):
        parts += [text[done:place], _ESCAPES[reads_as(text[place])]]
        done = place + 1
    return "".join([*parts, text[done:]])

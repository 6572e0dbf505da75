"""What an answer made of its context: the passages it cites by number, and the passages its quotations stand in."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from agora_core.records import Passage

_DASHES: Final = "-\u2010-\u2015\u2212"
_NUMBER: Final = r"[0-9]{1,18}"
_ONE: Final = re.compile(rf"({_NUMBER})(?:\s*[{_DASHES}]\s*({_NUMBER}))?")
_BRACKET: Final = re.compile(rf"\[([{_DASHES}0-9,;\s]+)\]")
_LONGEST_RANGE: Final = 100

_CLOSERS: Final = {
    "\u201c": "\u201d",
    "\u201e": "\u201c\u201d\u201f",
    "\u201d": "\u201d",
    "\u201f": "\u201d",
    "\u2018": "\u2019",
    "\u201a": "\u2018\u2019",
    "\u00ab": "\u00bb",
    "\u00bb": "\u00ab\u00bb",
    "\u2039": "\u203a",
    "\u203a": "\u2039\u203a",
    "\u300c": "\u300d",
    "\u300e": "\u300f",
    "\uff62": "\uff63",
    "\u301d": "\u301e\u301f",
    '"': '"',
    "\uff02": "\uff02",
    "'": "'",
}
# Marks that stand at both ends, or inside a word; where they stand says what they are.
_EITHER: Final = "\"'\u2019\u201d\uff02"
_MARK: Final = re.compile(f"[{''.join(sorted(set(''.join(_CLOSERS) + ''.join(_CLOSERS.values()))))}]")
_DEEPEST: Final = 8
_WORD: Final = re.compile(r"\w[\w'\u2019.,-]*")
# Han, kana, Thai, Lao, Myanmar, Khmer: their words stand without spaces between them.
_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
_FEW_WORDS: Final = 3
_FEW_CHARACTERS: Final = 8


class CitationSpan(NamedTuple):
    """One number of a citation, and the place of the brackets around it: `answer[start:end]`.

    Examples:
        >>> parse_citations("30 days [1].", passages).spans
        [CitationSpan(start=8, end=11, number=1)]
    """

    start: int
    end: int
    number: int


@dataclass(frozen=True, slots=True)
class Citations:
    """What an answer cites.

    Examples:
        >>> found = parse_citations("30 days [1], 40 days [9].", passages)
        >>> [passage.id for passage in found.cited], found.unknown
        (['leave#0'], [9])
    """

    cited: list[Passage]
    """The passages, each once, in the order of their first use."""

    spans: list[CitationSpan]
    """One for each number, in the order of the answer; a list of numbers in one pair of brackets shares its place."""

    unknown: list[int]
    """The numbers that cite nothing, each once; of a range that cannot be read, its two ends."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A quotation in an answer: `answer[start:end] == text`, without its marks.

    Examples:
        >>> verify_quotes('It says "30 days of sick leave".', passages)[0].passage is None
        True
    """

    text: str
    start: int
    end: int
    passage: Passage | None
    """The first passage that holds it; None where none does."""


def parse_citations(answer: str, passages: Sequence[Passage]) -> Citations:
    """Return which of `passages` an answer cites by their bracket numbers, as `render_context` counts them from 1.

    Read are `[1]`, `[1, 2]`, `[1][2]`, `[1-3]` and `[1\N{EN DASH}3]`. A range that runs backwards or over more than a
    hundred numbers is unknown.

    Examples:
        >>> [passage.id for passage in parse_citations("So it is [1-2].", passages).cited]
        ['leave#0', 'board#0']
    """
    cited: dict[int, Passage] = {}
    spans: list[CitationSpan] = []
    unknown: dict[int, None] = {}
    for bracket in _BRACKET.finditer(answer):
        for number, readable in _numbers(bracket[1]):
            spans.append(CitationSpan(bracket.start(), bracket.end(), number))
            if readable and 1 <= number <= len(passages):
                cited.setdefault(number, passages[number - 1])
            else:
                unknown.setdefault(number)
    return Citations(list(cited.values()), spans, list(unknown))


def verify_quotes(answer: str, passages: Sequence[Passage]) -> list[Quote]:
    """Return the quotations of an answer, each with the first passage that holds it word for word.

    A quotation stands between quotation marks of any usual kind and has more than three words, or more than eight
    characters of a script without spaces. Runs of white space count as one blank; all else counts as it stands.

    Examples:
        >>> verify_quotes('It says "Everyone has 30 days of leave".', passages)[0].passage.id
        'leave#0'
    """
    texts = [" ".join(passage.text.split()) for passage in passages]
    quotes = []
    for start, end in sorted(_quoted(answer)):
        text = answer[start:end]
        if len(_WORD.findall(text)) > _FEW_WORDS or len(_UNSPACED.findall(text)) > _FEW_CHARACTERS:
            plain = " ".join(text.split())
            held = next((passages[n] for n, whole in enumerate(texts) if plain in whole), None)
            quotes.append(Quote(text, start, end, held))
    return quotes


def _numbers(inside: str) -> Iterator[tuple[int, bool]]:
    """Yield the numbers in a pair of brackets, and whether each could be read; none where they are no citation."""
    parts = [_ONE.fullmatch(part.strip()) for part in re.split("[,;]", inside)]
    for part in parts if all(parts) else ():
        low, high = int(part[1]), int(part[2] or part[1])  # type: ignore[index] # each matched
        if 0 <= high - low < _LONGEST_RANGE:
            yield from ((number, True) for number in range(low, high + 1))
        else:
            yield from ((low, False), (high, False))


def _quoted(answer: str) -> Iterator[tuple[int, int]]:
    """Yield the (start, end) of what stands between quotation marks, nested ones too."""
    # Of those that are open: where the text begins, and what closes it.
    waiting: list[tuple[int, str]] = []
    for found in _MARK.finditer(answer):
        mark, place = found[0], found.start()
        before, after = answer[place - 1 : place], answer[place + 1 : place + 2]
        inside_word = _is_latin(before) and _is_latin(after)
        closed = next((n for n in reversed(range(len(waiting))) if mark in waiting[n][1]), None)
        if closed is not None and not (mark in _EITHER and (before.isspace() or inside_word)):
            yield waiting[closed][0], place
            del waiting[closed:]
        elif mark in _CLOSERS and not (mark in _EITHER and (_is_latin(before) or not after or after.isspace())):
            waiting = [*waiting[1 - _DEEPEST :], (place + 1, _CLOSERS[mark])]


def _is_latin(char: str) -> bool:
    return char.isascii() and char.isalnum()

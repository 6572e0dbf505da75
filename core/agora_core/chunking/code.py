"""Chunks of source code: whole lines, and whole functions where they fit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from agora_core.chunking.chunkers import BaseChunker, OverlapAt
from agora_core.chunking.prose import DEFAULT_CHUNK_SIZE
from agora_core.chunking.windows import BLANKS, Measure, Span, trimmed

# A line that belongs to what stands above it, be it less indented: an end, a branch, a bracket that closes.
_CONTINUES: Final = re.compile(r"\s*(?:[)\]}]|(?:else|elif|except|finally|catch|end|esac|fi|done)\b)")
_TAB: Final = 8


class CodeChunker(BaseChunker):
    """Cuts source code between lines: at blank lines and where the indentation falls back, the outermost first.

    A function (or class, or any other block) that fits stays whole, and no chunk begins inside a string of several
    lines where another cut is possible. A line that is too long is a chunk of its own, uncut. The indentation of a
    chunk's first line is kept.

    Examples:
        >>> chunks = CodeChunker(30, 0).split("def a():\\n    return 1\\n\\n\\ndef b():\\n    return 2\\n")
        >>> [chunk.text.splitlines()[0] for chunk in chunks]
        ['def a():', 'def b():']
    """

    def __init__(
        self,
        chunk_size: int = DEFAULT_CHUNK_SIZE,
        overlap: int | None = None,
        *,
        overlap_at: OverlapAt = "character",
        measure: Measure = len,
        offsets: bool = False,
    ) -> None:
        """Take the options of `BaseChunker`; `overlap` repeats whole blocks or lines, and is 0 where it is left out."""
        lap = 0 if overlap is None else overlap
        super().__init__(chunk_size, lap, overlap_at=overlap_at, measure=measure, offsets=offsets)

    def _pieces(self, text: str, source: str | None) -> Iterator[tuple[Span, None]]:
        lines = _lines(text, is_python=(source or "").endswith((".py", ".pyi")))
        for span in self._cut(text, lines):
            yield span, None

    def _trimmed(self, text: str, span: Span) -> Span:
        start, stop = trimmed(text, span)
        # Whole lines: the indentation of the first one is part of it.
        return (start, stop) if start == stop else (max(span[0], text.rfind("\n", span[0], start) + 1), stop)

    def _cut(self, text: str, lines: Sequence[_Line]) -> Iterator[Span]:
        """Pack the blocks of these lines; one that does not fit is cut by its own blocks."""
        run: list[Span] = []
        for block in _blocks(lines) if lines else ():
            span = (block[0].start, block[-1].end)
            if self._length(text, span) <= self.chunk_size or len(block) == 1:
                run.append(span)
                continue
            yield from self._packed_whole(text, run)
            run = []
            yield from self._cut(text, block)
        yield from self._packed_whole(text, run)


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    end: int
    indent: int
    """Columns before the first character; -1 for a blank line."""
    quoted: bool
    """Begins inside a string of several lines."""
    continues: bool


def _blocks(lines: Sequence[_Line]) -> Iterator[Sequence[_Line]]:
    """Cut lines that do not fit into one chunk: between blocks of the least indentation, else deeper, else anywhere."""
    for level in sorted({line.indent for line in lines if line.indent >= 0 and not line.quoted}):
        cuts = _cuts(lines, level)
        if cuts:
            break
    else:
        cuts = [n for n in range(1, len(lines)) if not lines[n].quoted] or list(range(1, len(lines)))
    for first, end in zip([0, *cuts], [*cuts, len(lines)], strict=True):
        yield lines[first:end]


def _cuts(lines: Sequence[_Line], level: int) -> list[int]:
    """Return where a block of this indentation begins: after a blank line, or where deeper lines end."""
    cuts = []
    blank, before, seen = False, -1, False
    for number, line in enumerate(lines):
        if line.indent < 0:
            blank = True
            continue
        begins = line.indent <= level and not line.quoted and not line.continues
        if begins and seen and (blank or before > line.indent):
            cuts.append(number)
        blank, before, seen = False, level + 1 if line.quoted else line.indent, True
    return cuts


def _lines(text: str, *, is_python: bool) -> list[_Line]:
    quotes = ('"""', "'''") if is_python else ('"""', "'''", "`")
    found: list[_Line] = []
    start, inside = 0, ""
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        line = text[start:end]
        code = line.strip(BLANKS)
        indent = len(line[: len(line) - len(line.lstrip())].expandtabs(_TAB)) if code else -1
        found.append(_Line(start, end, indent, bool(inside), bool(_CONTINUES.match(line))))
        inside = _inside_after(line, inside, quotes)
        start = end
    return found


_STRING: Final = re.compile(
    r"""\\.|"{3}|'{3}|`|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|(?<![\w:])//.*|(?<!\S)#.*""", re.DOTALL
)


def _inside_after(line: str, inside: str, quotes: Sequence[str]) -> str:
    """Return the mark of the string of several lines that is open at the end of a line, "" for none."""
    place = 0
    while place < len(line):
        if inside:
            end = line.find(inside, place)
            while end > 0 and line[end - 1] == "\\" and line[end - 2 : end - 1] != "\\":
                end = line.find(inside, end + 1)
            if end < 0:
                return inside
            place, inside = end + len(inside), ""
            continue
        match = _STRING.search(line, place)
        if match is None:
            return ""
        if match.group() in quotes:
            inside = match.group()
        place = match.end()
    return inside

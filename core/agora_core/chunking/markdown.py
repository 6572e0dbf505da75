"""Chunks of Markdown: no chunk crosses a heading, and each knows the headings it stands under."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from agora_core.chunking.chunkers import BaseChunker
from agora_core.chunking.windows import BLANKS, Span
from agora_core.records import Metadata

_FENCE: Final = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})")
_HEADING: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*\Z")
_UNDERLINE: Final = re.compile(r" {0,3}(=+|-+)[ \t]*\Z")
# What a line with a line under it does not begin with where it is a heading: a list, a quote, a table, a tag, code.
_NO_PARAGRAPH: Final = re.compile(r"\s*(?:[-+*>]|\d+[.)])(?:\s|\Z)|\s*[|<]| {4}|\t")


class MarkdownChunker(BaseChunker):
    """Cuts Markdown at its headings, and between blocks inside a section; a fenced block that fits stays whole.

    `metadata["headings"]` of a chunk is the list of the headings it stands under, the outermost first, its own
    included; a text before the first heading has none. The heading's line stays in the chunk that it begins.

    Examples:
        >>> [
        ...     chunk.metadata
        ...     for chunk in MarkdownChunker(30, 0).split("# Leave\\n\\n30 days.\\n\\n## Carry over\\n\\nFive days.")
        ... ]
        [{'headings': ['Leave']}, {'headings': ['Leave', 'Carry over']}]
    """

    def _pieces(self, text: str, source: str | None) -> Iterator[tuple[Span, Metadata | None]]:
        for span, headings in sections(text):
            metadata: Metadata | None = {"headings": list(headings)} if headings else None
            for piece in self._packed(text, list(_blocks(text, span))):
                yield piece, metadata


@dataclass(frozen=True, slots=True)
class _Line:
    start: int
    end: int
    text: str
    literal: bool
    """Part of a fenced block, of the front matter or of a comment: nothing in it is Markdown."""
    opens: bool = False


def sections(text: str) -> Iterator[tuple[Span, tuple[str, ...]]]:
    """Give the sections of a Markdown text with the headings that they stand under.

    A heading that is followed by a deeper one at once goes with the section of that one.
    """
    path: tuple[tuple[int, str], ...] = ()
    start, body = 0, 0
    for place, after, level, heading in _headings(text):
        alone = path and not text[body:place].strip(BLANKS) and level > path[-1][0]
        if not alone:
            if text[start:place].strip(BLANKS):
                yield (start, place), tuple(name for _, name in path)
            start = place
        path = (*(entry for entry in path if entry[0] < level), (level, heading))
        body = after
    if text[start:].strip(BLANKS):
        yield (start, len(text)), tuple(name for _, name in path)


def _headings(text: str) -> Iterator[tuple[int, int, int, str]]:
    """Give the place of each heading, of what follows it, its level and its words."""
    paragraph: _Line | None = None
    for line in _lines(text, (0, len(text))):
        if line.literal:
            paragraph = None
        elif match := _HEADING.match(line.text):
            yield line.start, line.end, len(match[1]), (match[2] or "").strip()
            paragraph = None
        elif paragraph is not None and (under := _UNDERLINE.match(line.text)):
            yield paragraph.start, line.end, 1 if under[1][0] == "=" else 2, paragraph.text.strip()
            paragraph = None
        elif not line.text.strip(BLANKS) or _NO_PARAGRAPH.match(line.text):
            paragraph = None
        else:
            # Of a paragraph of several lines the last one is taken for the heading.
            paragraph = line


def _blocks(text: str, span: Span) -> Iterator[Span]:
    """Give the blocks of a section: paragraphs, lists, tables, each with the blank lines behind it; fenced blocks."""
    start, blank, literal = span[0], False, False
    for line in _lines(text, span):
        is_blank = not line.literal and not line.text.strip(BLANKS)
        begins = (blank and not is_blank) or line.opens or (literal and not line.literal)
        if begins and text[start : line.start].strip(BLANKS):
            yield start, line.start
            start = line.start
        blank, literal = is_blank, line.literal
    if text[start : span[1]].strip(BLANKS):
        yield start, span[1]


def _lines(text: str, span: Span) -> Iterator[_Line]:
    fence: str | None = None
    start, stop = span
    if start == 0 and text.startswith("---\n") and text.find("\n---", 3) >= 0:
        fence = "---"
    first = True
    while start < stop:
        end = text.find("\n", start, stop) + 1 or stop
        content = text[start:end].rstrip("\r\n")
        stripped = content.strip()
        if fence is None:
            match = _FENCE.match(content)
            if match is not None:
                fence = match[1]
            elif stripped.startswith("<!--") and "-->" not in stripped:
                fence = "-->"
            yield _Line(start, end, content, fence is not None, opens=fence is not None)
        else:
            yield _Line(start, end, content, True, opens=first)
            if _closes(fence, stripped) and not (first and fence == "---"):
                fence = None
        first = False
        start = end


def _closes(fence: str, line: str) -> bool:
    if fence == "-->":
        return "-->" in line
    if fence == "---":
        return line in ("---", "...")
    return len(line) >= len(fence) and not line.strip(fence[0])

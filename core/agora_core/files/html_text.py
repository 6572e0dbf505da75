"""The readable text of an HTML page: no scripts, styles, navigation or hidden parts; headings marked as in Markdown."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Final

_LEFT: Final = "script style template noscript svg math iframe object nav aside footer select button head"
_LEFT_OUT: Final = frozenset(_LEFT.split())
_EMPTY: Final = "area base br col embed hr img input link meta source track wbr"
_VOID: Final = frozenset(_EMPTY.split())
_CELLS: Final = frozenset(("td", "th"))
_LINES: Final = frozenset(("li", "tr", "dt", "dd"))
_NAMES: Final = """
address article blockquote body caption center details div dl fieldset figcaption figure form h1 h2 h3 h4 h5 h6 header
hr html main menu ol p pre section summary table tbody tfoot thead title ul
"""
_BLOCKS: Final = frozenset(_NAMES.split())
_HIDDEN_STYLE: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_BLANKS: Final = re.compile(r"[^\S\n]+")


def html_to_text(source: str) -> str:
    """Return the text of a page: a line or more a block, headings as `# ...`, items as `- ...`, ` | ` between cells."""
    parser = _Text()
    parser.feed(source)
    parser.close()
    return parser.text()


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._pieces: list[str] = []
        self._left_out: list[str] = []
        self._pre = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "title" and self._left_out == ["head"]:
            self._pieces.append("\n\n# ")
            self._left_out.append("")
            return
        if self._left_out:
            if tag not in _VOID and tag == self._left_out[-1]:
                self._left_out.append(tag)
            return
        if tag not in _VOID and (tag in _LEFT_OUT or _is_hidden(dict(attrs))):
            self._left_out.append(tag)
            return
        if tag == "pre":
            self._pre += 1
        self._pieces.append(_opening(tag))

    def handle_endtag(self, tag: str) -> None:
        if tag == "title" and self._left_out[-1:] == [""]:
            self._left_out.pop()
            self._pieces.append("\n\n")
            return
        if self._left_out:
            if tag == self._left_out[-1]:
                self._left_out.pop()
            elif tag == "body" or (tag == "head" and self._left_out[0] == "head"):
                # What was left open inside ends with it.
                self._left_out.clear()
            return
        if tag == "pre":
            self._pre = max(0, self._pre - 1)
        if tag in _LINES or tag in _BLOCKS:
            self._pieces.append("\n" if tag in _LINES else "\n\n")

    def handle_data(self, data: str) -> None:
        if not self._left_out or self._left_out[-1] == "":
            # Blanks that count are hidden from what squeezes the others.
            kept = data.replace("\x00", "").replace(" ", "\x00")
            self._pieces.append(kept if self._pre else re.sub(r"\s+", " ", data))

    def text(self) -> str:
        joined = _BLANKS.sub(" ", "".join(self._pieces))
        lines = (line.strip().removeprefix("| ") for line in joined.split("\n"))
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip().replace("\x00", " ")


def _opening(tag: str) -> str:
    if len(tag) == 2 and tag[0] == "h" and tag[1] in "123456":
        return f"\n\n{'#' * int(tag[1])} "
    if tag == "li":
        return "\n- "
    if tag in _CELLS:
        return " | "
    if tag == "br" or tag in _LINES:
        return "\n"
    return "\n\n" if tag in _BLOCKS else ""


def _is_hidden(attributes: dict[str, str | None]) -> bool:
    style = attributes.get("style") or ""
    return "hidden" in attributes or attributes.get("aria-hidden") == "true" or bool(_HIDDEN_STYLE.search(style))


def stripped_html(source: str) -> str:
    """Return all text of a page on one line, tags read as blanks: what media ingestion stores of HTML."""
    parser = _Bare()
    parser.feed(source)
    parser.close()
    return " ".join(" ".join(parser.pieces).split())


class _Bare(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "style"):
            self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if not self._inside:
            self.pieces.append(data)

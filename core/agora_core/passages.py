"""What a retrieval returns: a list of passages that shows itself."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from agora_core.extras import require
from agora_core.records import Passage, document_id_of

_SHOWN: Final = 600
_WORD: Final = re.compile(r"\w+")
_CELL: Final = "text-align:left;vertical-align:top"
_SMALL: Final = (
    "a an and are as at be by can do does for from had has have how i if in is it its me my of on or our so that the "
    "their there this to was we were what when where which who why will with would you your"
)


class Passages(list[Passage]):
    """Passages, best first: a list in every respect, equal to a plain one, with a table for notebooks.

    `query` is what was asked, or None; its words are marked in the table.

    Examples:
        >>> found = retriever.retrieve("days of leave")
        >>> found.documents, found == list(found)
        (['leave', 'board'], True)
    """

    def __init__(self, passages: Iterable[Passage] = (), *, query: str | None = None) -> None:
        """Take the passages in their order."""
        super().__init__(passages)
        self.query = query

    @property
    def documents(self) -> list[str]:
        """The ids of the documents these passages are from, each once, first seen first."""
        return list(dict.fromkeys(document_id_of(passage.id) for passage in self))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame (extra `evaluation`): a row a passage, best first; the columns of `Passage`."""
        pandas = require("pandas", extra="evaluation")
        columns = ["id", "score", "text", "source", "metadata"]
        return pandas.DataFrame([[getattr(one, name) for name in columns] for one in self], columns=columns)

    def _repr_html_(self) -> str:
        if not self:
            return "<i>no passages</i>"
        query = self.query or ""
        wanted = telling((word.casefold() for word in _WORD.findall(query)), query)
        rows = [
            [str(place), f"{one.score:.3f}", html.escape(one.source or one.id), marked(one.text, wanted)]
            for place, one in enumerate(self, 1)
        ]
        return table_of(["", "score", "source", "text"], rows)


def telling(words: Iterable[str], query: str) -> set[str]:
    """Return words of a query without the small words of English, unless the query has no others."""
    small = set(_SMALL.split())
    return set(words) if small.issuperset(word.casefold() for word in _WORD.findall(query)) else set(words) - small


def table_of(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return an HTML table; the cells are HTML already."""
    lines = [f"<th style='{_CELL}'>{cell}</th>" for cell in head]
    body = ("".join(f"<td style='{_CELL}'>{cell}</td>" for cell in row) for row in rows)
    return (
        f"<table><thead><tr>{''.join(lines)}</tr></thead><tbody>{''.join(f'<tr>{row}</tr>' for row in body)}</tbody>"
        "</table>"
    )


def marked(text: str, words: set[str]) -> str:
    """Return the beginning of a text as HTML, everything escaped, with these words (case-folded) marked."""
    shown = text if len(text) <= _SHOWN else text[:_SHOWN].rsplit(" ", 1)[0] + " …"
    pieces, place = [], 0
    for match in _WORD.finditer(shown):
        if match.group().casefold() in words:
            pieces += [html.escape(shown[place : match.start()]), f"<mark>{html.escape(match.group())}</mark>"]
            place = match.end()
    return "".join([*pieces, html.escape(shown[place:])])

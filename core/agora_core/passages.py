"""What a retrieval returns: a list of passages that shows itself."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import Any, Final

from agora_core.extras import require
from agora_core.records import Passage, document_id_of

_SHOWN: Final = 600
_WORD: Final = re.compile(r"\w+")


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
        wanted = {word.casefold() for word in _WORD.findall(self.query or "")}
        rows = [
            f"<tr><td>{place}</td><td>{one.score:.3f}</td>"
            f"<td style='text-align:left'>{html.escape(one.source or one.id)}</td>"
            f"<td style='text-align:left'>{marked(one.text, wanted)}</td></tr>"
            for place, one in enumerate(self, 1)
        ]
        head = "<th></th><th>score</th><th style='text-align:left'>source</th><th style='text-align:left'>text</th>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def marked(text: str, words: set[str]) -> str:
    """Return the beginning of a text as HTML, everything escaped, with these words (case-folded) marked."""
    shown = text if len(text) <= _SHOWN else text[:_SHOWN].rsplit(" ", 1)[0] + " …"
    pieces, place = [], 0
    for match in _WORD.finditer(shown):
        if match.group().casefold() in words:
            pieces += [html.escape(shown[place : match.start()]), f"<mark>{html.escape(match.group())}</mark>"]
            place = match.end()
    return "".join([*pieces, html.escape(shown[place:])])

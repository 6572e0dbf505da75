"""What a sync did, as an object that prints well."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import Final

_SHOWN: Final = 5


@dataclass
class SyncReport:
    """Ids of documents, each in exactly one of the lists or in `failed`, and what the run cost.

    Examples:
        >>> report = sync_documents(documents, embedder=embedder, store=MemoryVectorStore())
        >>> report.embedded, report.chunks_embedded
        (['leave', 'board'], 2)
    """

    embedded: list[str] = field(default_factory=list)
    """At least one chunk was embedded."""
    reused: list[str] = field(default_factory=list)
    """Chunks moved, went away, or changed source or text, and none had to be embedded."""
    relabelled: list[str] = field(default_factory=list)
    """Only metadata changed."""
    unchanged: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    """Gone from the source, and from the index."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why a document could not be brought in step; what was stored of it stays."""
    chunks_embedded: int = 0
    chunks_reused: int = 0
    """Chunks of changed documents whose vectors were kept."""
    characters_embedded: int = 0
    """Context included."""
    seconds: float = 0.0

    def _rows(self) -> list[tuple[str, int, str]]:
        lists = ("embedded", "reused", "relabelled", "unchanged", "removed")
        rows = [(name, len(getattr(self, name)), _some(getattr(self, name))) for name in lists]
        reasons = [f"{key}: {reason}" for key, reason in self.failed.items()]
        return [*rows, ("failed", len(self.failed), _some(reasons, between="; "))]

    def _cost(self) -> str:
        return (
            f"{self.chunks_embedded} chunks embedded ({self.characters_embedded} characters), "
            f"{self.chunks_reused} reused, in {self.seconds:.1f} s"
        )

    def __str__(self) -> str:
        lines = [f"{name:<11}{count:>8}  {names}".rstrip() for name, count, names in self._rows()]
        return "\n".join([*lines, self._cost()])

    def _repr_html_(self) -> str:
        body = "".join(
            f"<tr><th style='text-align:left'>{name}</th><td>{count}</td>"
            f"<td style='text-align:left'>{html.escape(names)}</td></tr>"
            for name, count, names in self._rows()
        )
        return f"<table><tbody>{body}</tbody></table><p>{html.escape(self._cost())}</p>"


def _some(names: list[str], between: str = ", ") -> str:
    shown = between.join(names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown}{between}…"

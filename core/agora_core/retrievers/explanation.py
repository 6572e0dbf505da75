"""Why a retrieval came out as it did: `explain` is `retrieve`, watched."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from agora_core.extras import require
from agora_core.passages import Passages, marked, table_of, telling
from agora_core.records import Passage

_COLOURS: Final = ("#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#72b7b2")


@dataclass(frozen=True, slots=True)
class LegScore:
    """What one leg said of a passage: its place (from 1) and score there, its weight, what it added to the score."""

    rank: int
    score: float
    weight: float | None
    contribution: float | None


@dataclass(frozen=True, slots=True)
class ExplainedPassage:
    """A passage of the answer. `before` and `after` are its places (from 1) around the last reranker, or None."""

    passage: Passage
    legs: Mapping[str, LegScore]
    matched_terms: tuple[str, ...]
    before: int | None = None
    after: int | None = None


@dataclass
class Recording:
    """What one retriever did, and those that it asked."""

    retriever: Any
    parts: list[Recording] = field(default_factory=list)
    found: list[Passage] = field(default_factory=list)
    rankings: list[list[Passage]] | None = None
    gains: list[list[float]] | None = None
    weights: list[float] | None = None
    candidates: list[Passage] | None = None
    ranked: list[Passage] | None = None
    floored: int = 0
    cut: int = 0

    @property
    def innermost(self) -> Recording:
        """The first that asked several retrievers, or a store, on the way from here inwards."""
        return list(_chain(self))[-1]

    @property
    def is_simple(self) -> bool:
        """Whether nothing on that way fuses or reranks."""
        return all(one.rankings is None and one.candidates is None for one in _chain(self))


_current: ContextVar[Recording | None] = ContextVar("agora_explain", default=None)


def recording() -> Recording | None:
    """Return what the retriever that runs here writes down, or None where nobody asked for an explanation."""
    return _current.get()


@contextmanager
def recorded(retriever: object) -> Iterator[Recording]:
    """Write down what a retriever does inside the block, as a part of the one around it."""
    around = _current.get()
    own = Recording(retriever)
    if around is not None:
        around.parts.append(own)
    token = _current.set(own)
    try:
        yield own
    finally:
        _current.reset(token)


class Explanation:
    """The passages of a `retrieve`, with what each leg thought of them.

    `items` are in the order of the answer, `legs` the names of the legs, `removed` counts of candidates that fell to
    the `floor` and to the `cut`. What a filter or a scope hides is in no number. It shows itself as a table, in a
    notebook too.

    Examples:
        >>> explained = retriever.explain("days of leave", top_k=1)
        >>> explained.legs, explained.items[0].passage.id
        (('EmbeddingRetriever',), 'leave#0')
    """

    def __init__(self, query: str, recording: Recording, passages: Sequence[Passage]) -> None:
        """Read what was written down."""
        self.query = query
        self.passages = Passages(passages, query=query)
        source, reranking = _source(recording)
        self.legs: tuple[str, ...] = _names(source)
        self.items: tuple[ExplainedPassage, ...] = tuple(
            _explained(passage, query, self.legs, source, reranking) for passage in passages
        )
        self.removed: dict[str, int] = {
            "floor": sum(one.floored for one in _chain(recording)),
            "cut": sum(one.cut for one in _chain(recording)),
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.items)} passages, legs: {', '.join(self.legs)})"

    def __str__(self) -> str:
        head = ["", "score", *self.legs, *self._moved_head(), "terms", "passage"]
        lines = [head]
        for place, item in enumerate(self.items, 1):
            text = " ".join(item.passage.text.split())
            lines.append(
                [
                    str(place),
                    f"{item.passage.score:.4g}",
                    *(_cell(item.legs.get(leg)) for leg in self.legs),
                    *self._moved(item),
                    " ".join(item.matched_terms),
                    f"{item.passage.id}: {text if len(text) <= 60 else text[:59] + '…'}",
                ]
            )
        widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
        table = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        return "\n".join([*table, f"removed: {self.removed['floor']} by the floor, {self.removed['cut']} by the cut"])

    def _moved_head(self) -> list[str]:
        return ["reranked"] if any(item.before is not None for item in self.items) else []

    def _moved(self, item: ExplainedPassage) -> list[str]:
        if not self._moved_head():
            return []
        return ["" if item.before is None else f"#{item.before} to #{item.after}"]

    def _repr_html_(self) -> str:
        # The passage stands before its numbers, so that a narrow window shows it.
        head = ["", "score", "passage", *map(html.escape, self.legs), *self._moved_head()]
        rows = [
            [
                str(place),
                f"{item.passage.score:.4g}",
                f"<b>{html.escape(item.passage.source or item.passage.id)}</b><br>"
                + marked(item.passage.text, telling(item.matched_terms, self.query)),
                *(html.escape(_cell(item.legs.get(leg))) for leg in self.legs),
                *self._moved(item),
            ]
            for place, item in enumerate(self.items, 1)
        ]
        removed = f"removed: {self.removed['floor']} by the floor, {self.removed['cut']} by the cut"
        return f"{table_of(head, rows)}<p>{removed}</p>"

    def plot(self) -> Any:
        """Return a matplotlib Figure: a bar a passage, made of what each leg added to its score (extra `plot`)."""
        pyplot = require("matplotlib.pyplot", extra="plot")
        figure, axes = pyplot.subplots(figsize=(7.0, 1.2 + 0.4 * max(1, len(self.items))), layout="constrained")
        labels = [item.passage.source or item.passage.id for item in self.items]
        # Two passages of one source are two bars.
        places = range(len(labels))
        left = [0.0] * len(labels)
        for number, leg in enumerate(self.legs):
            scores = [item.legs.get(leg) for item in self.items]
            widths = [_added(score) for score in scores]
            axes.barh(places, widths, left=left, label=leg, color=_COLOURS[number % len(_COLOURS)])
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.set_yticks(places, labels)
        axes.invert_yaxis()
        axes.set_xlabel("what each leg added to the score")
        axes.spines[["top", "right"]].set_visible(False)
        if self.legs:
            # Above the bars, which may fill the whole width.
            axes.legend(fontsize="small", frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
        pyplot.close(figure)
        return figure


def _added(score: LegScore | None) -> float:
    if score is None:
        return 0.0
    return score.score if score.contribution is None else score.contribution


def _cell(score: LegScore | None) -> str:
    if score is None:
        return "-"
    added = "" if score.contribution is None else f" +{score.contribution:.4g}"
    return f"#{score.rank} {score.score:.4g}{added}"


def _chain(recording: Recording) -> Iterator[Recording]:
    """Give what was written down along the one way from the outside to the first that asked several."""
    one: Recording | None = recording
    while one is not None:
        yield one
        one = one.parts[-1] if one.rankings is None and one.parts else None


def _source(recording: Recording) -> tuple[Recording, Recording | None]:
    """Return the retriever whose legs are shown, and the outermost reranking above it."""
    last, reranking = recording, None
    for one in _chain(recording):
        last = one
        if one.candidates is not None and reranking is None:
            reranking = one
    return last, reranking


def _names(source: Recording) -> tuple[str, ...]:
    legs = [source.retriever] if source.rankings is None else list(source.retriever.retrievers)
    kinds = [type(_behind(leg)).__name__ for leg in legs]
    repeated = {kind for kind, count in Counter(kinds).items() if count > 1}
    seen: Counter[str] = Counter()
    names = []
    for kind in kinds:
        seen[kind] += 1
        names.append(f"{kind} {seen[kind]}" if kind in repeated else kind)
    return tuple(names)


def _behind(leg: Any) -> Any:
    # A view shows what it is a view of.
    while hasattr(leg, "_explained_as"):
        leg = leg._explained_as
    return leg


def _explained(
    passage: Passage, query: str, names: Sequence[str], source: Recording, reranking: Recording | None
) -> ExplainedPassage:
    legs: dict[str, LegScore] = {}
    rankings = [source.found] if source.rankings is None else source.rankings
    for number, (name, ranking) in enumerate(zip(names, rankings, strict=True)):
        for place, found in enumerate(ranking):
            # A view of a namespace shows ids without it.
            if found.id.rpartition("\x1f")[2] == passage.id.rpartition("\x1f")[2]:
                gain = found.score if source.rankings is None else None
                if source.gains is not None:
                    gain = source.gains[number][place]
                weight = 1.0 if source.rankings is None else None if source.weights is None else source.weights[number]
                legs[name] = LegScore(place + 1, found.score, weight, gain)
                break
    before = after = None
    if reranking is not None:
        before, after = _place(reranking.candidates, passage.id), _place(reranking.ranked, passage.id)
    return ExplainedPassage(passage, legs, _matched(query, passage.text), before, after)


def _place(passages: Sequence[Passage] | None, key: str) -> int | None:
    return next((place for place, one in enumerate(passages or (), 1) if one.id == key), None)


def _matched(query: str, text: str) -> tuple[str, ...]:
    from agora_core.keyword import get_tokenizer

    tokenizer = get_tokenizer("unicode")
    words = set(tokenizer(text))
    return tuple(term for term in dict.fromkeys(tokenizer(query)) if term in words)

"""Measure retrievers side by side on judged questions."""

from __future__ import annotations

import html
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from agora_core.errors import InvalidArgumentError
from agora_core.evaluation.asking import Asker
from agora_core.extras import require
from agora_core.records import document_id_of
from agora_core.steps import Steps, arun, run
from agora_core.validation import check_top_k

By = Literal["chunk", "document"]

DEFAULT_MEASURES: Final = ("nDCG@10", "R@100", "RR@10")
_SAMPLES: Final = 10_000
_ENUMERATED: Final = 13
"""Up to so many questions every assignment of signs is looked at."""


def evaluate(
    retrievers: Mapping[str, Any],
    queries: Mapping[str, str],
    judgements: Mapping[str, Mapping[str, int]],
    *,
    measures: Sequence[str] = DEFAULT_MEASURES,
    top_k: int = 100,
    by: By = "chunk",
) -> Evaluation:
    """Ask every retriever every judged question and measure what it found (extra `evaluation`).

    The measures are those of ir_measures (`nDCG@10`, `R@100`, `RR@10`, `P@5`, `AP`, ...), on the order in which the
    passages came. A question without an answer counts 0. The retrievers are asked in turns, so that a busy moment costs
    all of them.

    Args:
        retrievers: name to retriever: of this library, of LangChain (`invoke`) or of LlamaIndex (`retrieve`). Those of
            the frameworks hold themselves how many results they give.
        queries: id to text.
        judgements: id of a query to the ids that answer it with their grades, 0 or more. A query without is not asked.
        measures: at least one.
        top_k: how many passages each is asked for, 1 or more.
        by: `chunk` judges ids as they are, `document` what `document_id_of` makes of them, each document once.

    Raises:
        InvalidArgumentError: an argument is not as described.
        MissingExtraError: ir_measures is not installed.

    Examples:
        >>> from agora_core.evaluation import evaluate
        >>> found = evaluate({"dense": retriever}, {"q": "directors"}, {"q": {"board#0": 1}}, measures=("RR@10",))
        >>> found.scores["dense"]["RR@10"]
        {'q': 1.0}
    """
    return run(_evaluating(retrievers, queries, judgements, measures, top_k, by))


async def aevaluate(
    retrievers: Mapping[str, Any],
    queries: Mapping[str, str],
    judgements: Mapping[str, Mapping[str, int]],
    *,
    measures: Sequence[str] = DEFAULT_MEASURES,
    top_k: int = 100,
    by: By = "chunk",
) -> Evaluation:
    """Async twin of `evaluate`."""
    return await arun(_evaluating(retrievers, queries, judgements, measures, top_k, by))


def _evaluating(
    retrievers: Mapping[str, Any],
    queries: Mapping[str, str],
    judgements: Mapping[str, Mapping[str, int]],
    measures: Sequence[str],
    top_k: int,
    by: By,
) -> Steps[Evaluation]:
    package = require("ir_measures", extra="evaluation")
    parsed = {name: _parsed(package, name) for name in _names(measures)}
    graded = _checked_judgements(queries, judgements)
    check_top_k(top_k)
    if by not in ("chunk", "document"):
        raise InvalidArgumentError(f"by must be 'chunk' or 'document', got {by!r}")
    given: Any = retrievers
    if not isinstance(given, Mapping) or not given:
        raise InvalidArgumentError("retrievers must be a mapping of at least one name to a retriever")
    askers = [Asker(str(name), retriever) for name, retriever in retrievers.items()]
    rankings: dict[str, dict[str, list[str]]] = {asker.name: {} for asker in askers}
    seconds: dict[str, list[float]] = {asker.name: [] for asker in askers}
    for number, query in enumerate(graded):
        # Each is the first of its turn as often as the others: the first one warms the caches.
        for asker in (askers[(number + place) % len(askers)] for place in range(len(askers))):
            begun = time.perf_counter()
            ids = yield from asker.ids(queries[query], top_k)
            seconds[asker.name].append(time.perf_counter() - begun)
            named = ids if by == "chunk" else dict.fromkeys(map(document_id_of, ids))
            rankings[asker.name][query] = list(named)
    scores = {name: _measured(package, parsed, graded, ranking) for name, ranking in rankings.items()}
    return Evaluation(tuple(parsed), tuple(graded), scores, seconds, rankings)


def _measured(
    package: Any, parsed: Mapping[str, Any], graded: Mapping[str, Mapping[str, int]], ranking: Mapping[str, list[str]]
) -> dict[str, dict[str, float]]:
    """Return measure to query to value. Places become scores, so that equal scores keep the order they came in."""
    found = {query: {key: -float(place) for place, key in enumerate(ids)} for query, ids in ranking.items()}
    names = {str(measure): name for name, measure in parsed.items()}
    values = {name: dict.fromkeys(graded, 0.0) for name in parsed}
    for metric in package.iter_calc(list(parsed.values()), graded, found):
        values[names[str(metric.measure)]][metric.query_id] = float(metric.value)
    return values


class Evaluation:
    """What was measured: for each retriever, measure and question a value, and the seconds each question took."""

    def __init__(
        self,
        measures: tuple[str, ...],
        queries: tuple[str, ...],
        scores: dict[str, dict[str, dict[str, float]]],
        seconds: dict[str, list[float]],
        rankings: dict[str, dict[str, list[str]]],
    ) -> None:
        """Take what was measured."""
        self.measures = measures
        self.queries = queries
        self.scores = scores
        """Retriever to measure to id of the query to value."""
        self.seconds = seconds
        """Retriever to the seconds each query took, in the order of `queries`."""
        self.rankings = rankings
        """Retriever to id of the query to the ids that it found, best first."""

    def mean(self, retriever: str, measure: str) -> float:
        """Return the mean of a measure over the questions."""
        return float(np.mean(list(self._values(retriever, measure).values())))

    def compare(self, a: str, b: str, *, measure: str | None = None) -> Comparison:
        """Compare two retrievers by a paired randomisation test (Smucker, Allan and Carterette, CIKM 2007), two-sided.

        If both were equally good, the sign of each question's difference would be a coin's toss. `p_value` is the share
        of all assignments of signs whose mean difference is at least as large as the one measured: all of them up to 13
        questions, 10,000 drawn ones (the same each time) above.

        Args:
            a: name of a retriever.
            b: name of the other.
            measure: the first of the evaluation unless it is given.

        Raises:
            InvalidArgumentError: a name is not one of the evaluation's.
        """
        name = self.measures[0] if measure is None else measure
        one, other = self._values(a, name), self._values(b, name)
        differences = np.array([one[query] - other[query] for query in self.queries])
        return Comparison(a, b, name, float(differences.mean()), _p_value(differences), len(differences))

    def _values(self, retriever: str, measure: str) -> dict[str, float]:
        if retriever not in self.scores:
            raise InvalidArgumentError(f"there is no retriever {retriever!r}; there are {', '.join(self.scores)}")
        if measure not in self.measures:
            raise InvalidArgumentError(f"there is no measure {measure!r}; there are {', '.join(self.measures)}")
        return self.scores[retriever][measure]

    def _rows(self) -> Iterator[tuple[str, list[float], float, float]]:
        for name in self.scores:
            values = [self.mean(name, measure) for measure in self.measures]
            milliseconds = 1000 * np.array(self.seconds[name])
            yield name, values, float(np.median(milliseconds)), float(np.quantile(milliseconds, 0.95))

    def to_frame(self) -> Any:
        """Return a pandas DataFrame: a row a retriever, a column a measure, and `ms_p50` and `ms_p95` a question."""
        pandas = require("pandas", extra="evaluation")
        rows = {name: [*values, p50, p95] for name, values, p50, p95 in self._rows()}
        return pandas.DataFrame.from_dict(rows, orient="index", columns=[*self.measures, "ms_p50", "ms_p95"])

    def __str__(self) -> str:
        head = ["", *self.measures, "ms p50", "ms p95"]
        lines = [head, *(self._cells(row) for row in self._rows())]
        widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if column == 0 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.scores)} retrievers, {len(self.queries)} queries)"

    @staticmethod
    def _cells(row: tuple[str, list[float], float, float]) -> list[str]:
        name, values, p50, p95 = row
        return [name, *(f"{value:.3f}" for value in values), f"{p50:.1f}", f"{p95:.1f}"]

    def _repr_html_(self) -> str:
        best = [max(self.mean(name, measure) for name in self.scores) for measure in self.measures]
        body = []
        for row in self._rows():
            name, *cells = self._cells(row)
            marked = [
                f"<td><b>{cell}</b></td>" if place < len(best) and row[1][place] == best[place] else f"<td>{cell}</td>"
                for place, cell in enumerate(cells)
            ]
            body.append(f"<tr><th style='text-align:left'>{html.escape(name)}</th>{''.join(marked)}</tr>")
        head = "".join(f"<th>{html.escape(name)}</th>" for name in ("", *self.measures, "ms p50", "ms p95"))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"

    def plot(self, *, measure: str | None = None) -> Any:
        """Return a matplotlib Figure: a bar a retriever, its mean of a measure with a 95 % interval (extra `plot`).

        The interval is that of the mean over 2,000 samples of the questions drawn with replacement.
        """
        pyplot = require("matplotlib.pyplot", extra="plot")
        name = self.measures[0] if measure is None else measure
        generator = np.random.default_rng(0)
        drawn = generator.integers(0, len(self.queries), (2_000, len(self.queries)))
        names = list(self.scores)
        values = np.array([list(self._values(one, name).values()) for one in names])
        means = values.mean(axis=1)
        low, high = np.quantile(values[:, drawn].mean(axis=2), (0.025, 0.975), axis=1)
        figure, axes = pyplot.subplots(figsize=(6.4, 0.9 + 0.45 * len(names)), layout="constrained")
        errors = np.abs(np.vstack([means - low, high - means]))
        axes.barh(names, means, xerr=errors, color="#4c78a8", ecolor="#888888", capsize=3)
        for place, value in enumerate(means):
            axes.text(0.005, place, f" {value:.3f}", va="center", color="white", fontsize="small")
        axes.invert_yaxis()
        axes.set_xlabel(f"{name}, mean of {len(self.queries)} questions, 95 % interval")
        axes.spines[["top", "right"]].set_visible(False)
        pyplot.close(figure)
        return figure


@dataclass(frozen=True, slots=True)
class Comparison:
    """How much better `a` is than `b` on average, and how easily chance alone would make as large a difference."""

    a: str
    b: str
    measure: str
    difference: float
    p_value: float
    questions: int

    def __str__(self) -> str:
        return (
            f"{self.a} - {self.b}: {self.difference:+.3f} {self.measure} over {self.questions} questions, "
            f"p = {self.p_value:.3g}"
        )


def _p_value(differences: Any) -> float:
    count = len(differences)
    # What differs from the measured difference by rounding only is as large.
    measured = abs(differences.sum()) - 1e-9
    if count <= _ENUMERATED:
        signs = 1 - 2 * ((np.arange(1 << count)[:, None] >> np.arange(count)) & 1)
        return float((np.abs(signs @ differences) >= measured).mean())
    generator = np.random.default_rng(0)
    signs = generator.choice(np.array([-1.0, 1.0]), (_SAMPLES, count))
    # The measured assignment is one of them (Phipson and Smyth, 2010), so no p-value is 0.
    return float((1 + (np.abs(signs @ differences) >= measured).sum()) / (1 + _SAMPLES))


def _names(measures: Any) -> list[str]:
    if isinstance(measures, str) or not isinstance(measures, Sequence) or not measures:
        raise InvalidArgumentError(f"measures must be a list of at least one name such as 'nDCG@10', got {measures!r}")
    return list(dict.fromkeys(measures))


def _parsed(package: Any, name: Any) -> Any:
    try:
        return package.parse_measure(name)
    except Exception as error:
        # It raises NameError, ValueError and others.
        raise InvalidArgumentError(
            f"measures holds {name!r}, which ir_measures does not know; use names such as 'nDCG@10', 'R@100', 'RR@10'"
        ) from error


def _checked_judgements(queries: Any, judgements: Any) -> dict[str, dict[str, int]]:
    if not isinstance(queries, Mapping) or not isinstance(judgements, Mapping):
        raise InvalidArgumentError("queries must map ids to texts, and judgements ids of queries to {id: grade}")
    graded: dict[str, dict[str, int]] = {}
    for query, grades in judgements.items():
        if query not in queries:
            raise InvalidArgumentError(f"judgements has the query {query!r}, which queries has not")
        if not isinstance(queries[query], str) or not queries[query].strip():
            raise InvalidArgumentError(f"queries[{query!r}] must be a text, got {queries[query]!r}")
        if not isinstance(grades, Mapping):
            raise InvalidArgumentError(
                f"judgements[{query!r}] must map ids to grades, got {type(grades).__name__}; for a list of ids give "
                "dict.fromkeys(ids, 1)"
            )
        graded[query] = {key: _grade(query, key, grade) for key, grade in grades.items()}
    graded = {query: grades for query, grades in graded.items() if any(grades.values())}
    if not graded:
        raise InvalidArgumentError("judgements must name at least one query with an id that answers it, got none")
    return graded


def _grade(query: str, key: Any, grade: Any) -> int:
    if isinstance(grade, (int, float)) and math.isfinite(grade) and grade >= 0 and grade == int(grade):
        return int(grade)
    raise InvalidArgumentError(
        f"judgements[{query!r}][{key!r}] must be a whole number of 0 or more, 0 for what does not answer, got {grade!r}"
    )

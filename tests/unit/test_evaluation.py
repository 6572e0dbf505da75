"""Evaluation: measures against figures worked by hand, the paired test against all signs, what is shown."""

from __future__ import annotations

import itertools
import math
import random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import HybridRetriever, InvalidArgumentError, Passage, tune_hybrid
from agora_core.evaluation import Evaluation, aevaluate, evaluate
from agora_core.evaluation.evaluate import _p_value
from agora_core.evaluation.tuning import _pays

QUERIES = {"q1": "one", "q2": "two", "unjudged": "three"}
JUDGEMENTS = {"q1": {"a#0": 1, "b#0": 0}, "q2": {"c#1": 2, "d#0": 1}}


class Answers:
    """Finds what it is told to, and remembers what it was asked."""

    def __init__(self, answers: dict[str, list[str]]) -> None:
        self.answers, self.asked = answers, []  # type: ignore[var-annotated]

    def retrieve(self, query: str, *, top_k: int = 5) -> list[Passage]:
        self.asked.append((query, top_k))
        return [Passage(key, "text", 1.0) for key in self.answers[query]][:top_k]


GOOD = {"one": ["a#0", "x#0"], "two": ["c#1", "d#0", "y#0"], "three": []}
POOR = {"one": ["x#0", "a#0"], "two": ["y#0"], "three": []}


def test_the_measures_are_those_of_the_formulas() -> None:
    good, poor = Answers(GOOD), Answers(POOR)
    found = evaluate({"good": good, "poor": poor}, QUERIES, JUDGEMENTS, top_k=7)
    assert found.scores["good"]["nDCG@10"] == pytest.approx({"q1": 1.0, "q2": 1.0})
    assert found.scores["poor"]["nDCG@10"] == pytest.approx({"q1": 1 / math.log2(3), "q2": 0.0})
    assert found.scores["poor"]["RR@10"] == {"q1": 0.5, "q2": 0.0}
    assert found.scores["poor"]["R@100"] == {"q1": 1.0, "q2": 0.0}
    assert found.mean("poor", "R@100") == 0.5
    # What is not judged is not asked, and each is asked once per question.
    assert sorted(good.asked) == [("one", 7), ("two", 7)]
    assert list(found.rankings["poor"]["q1"]) == ["x#0", "a#0"]


def test_equal_scores_keep_the_order_they_came_in() -> None:
    """All passages have the score 1.0 here; a measure that broke ties by id would see "a#0" first or last."""
    found = evaluate({"it": Answers({"one": ["z#0", "a#0", "b#0"]})}, {"q1": "one"}, {"q1": {"a#0": 1}})
    assert found.scores["it"]["RR@10"] == {"q1": 0.5}


def test_documents_can_be_judged() -> None:
    answers = Answers({"one": ["x#0", "x#1", "a#4"], "two": ["c#9"], "three": []})
    found = evaluate({"it": answers}, QUERIES, {"q1": {"a": 1}, "q2": {"c": 1}}, measures=["RR@10"], by="document")
    assert found.scores["it"]["RR@10"] == {"q1": 0.5, "q2": 1.0}


async def test_retrievers_of_the_frameworks_stand_beside_ours() -> None:
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from llama_index.core.retrievers import BaseRetriever as LlamaRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

    class Chain(BaseRetriever):
        def _get_relevant_documents(self, query: str, **_: Any) -> list[Document]:
            return [Document(page_content="text", id=key) for key in GOOD[query]]

    class Index(LlamaRetriever):
        def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
            return [NodeWithScore(node=TextNode(id_=key, text="x"), score=1.0) for key in GOOD[query_bundle.query_str]]

    class Async:
        async def aretrieve(self, query: str, *, top_k: int = 5) -> list[Passage]:
            return Answers(GOOD).retrieve(query, top_k=top_k)

    retrievers = {"ours": Answers(GOOD), "chain": Chain(), "index": Index()}
    for found in (
        evaluate(retrievers, QUERIES, JUDGEMENTS),
        await aevaluate({**retrievers, "async": Async()}, QUERIES, JUDGEMENTS),
    ):
        assert {name: found.mean(name, "nDCG@10") for name in found.scores} == dict.fromkeys(found.scores, 1.0)
    with pytest.raises(InvalidArgumentError, match="await aevaluate instead"):
        evaluate({"async": Async()}, QUERIES, JUDGEMENTS)


@given(st.lists(st.floats(-1, 1).map(lambda value: round(value, 2)), min_size=1, max_size=8))
def test_the_p_value_is_the_share_of_sign_assignments_as_extreme(differences: list[float]) -> None:
    import numpy as np

    sums = [
        abs(sum(sign * value for sign, value in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    expected = sum(value >= abs(sum(differences)) - 1e-9 for value in sums) / len(sums)
    assert _p_value(np.array(differences)) == pytest.approx(expected)


def test_drawn_signs_agree_with_all_of_them_and_are_never_zero() -> None:
    import numpy as np

    generator = random.Random(3)
    few = np.array([generator.gauss(0.2, 0.5) for _ in range(13)])
    # A question without a difference changes no sum, so the p-value of 14 is that of 13.
    assert _p_value(np.append(few, 0.0)) == pytest.approx(_p_value(few), abs=0.02)
    assert 0 < _p_value(np.ones(40)) < 0.001


def test_comparing() -> None:
    found = evaluate({"good": Answers(GOOD), "poor": Answers(POOR)}, QUERIES, JUDGEMENTS)
    compared = found.compare("good", "poor", measure="RR@10")
    assert (compared.difference, compared.questions) == (0.75, 2)
    assert compared.p_value == 0.5
    assert str(compared) == "good - poor: +0.750 RR@10 over 2 questions, p = 0.5"
    assert found.compare("good", "good").p_value == 1.0
    for a, measure in (("none", "RR@10"), ("good", "P@1")):
        with pytest.raises(InvalidArgumentError, match="there is no"):
            found.compare(a, "poor", measure=measure)


def shown() -> Evaluation:
    return Evaluation(
        ("nDCG@10",),
        ("q1", "q2"),
        {"<b>": {"nDCG@10": {"q1": 1.0, "q2": 0.5}}, "plain": {"nDCG@10": {"q1": 0.5, "q2": 0.0}}},
        {"<b>": [0.001, 0.001], "plain": [0.02, 0.02]},
        {},
    )


def test_it_shows_itself() -> None:
    found = shown()
    assert str(found).splitlines() == [
        "       nDCG@10  ms p50  ms p95",
        "<b>      0.750     1.0     1.0",
        "plain    0.250    20.0    20.0",
    ]
    assert repr(found) == "Evaluation(2 retrievers, 2 queries)"
    assert "&lt;b&gt;" in found._repr_html_()
    assert "<td><b>0.750</b></td>" in found._repr_html_()
    frame = found.to_frame()
    assert list(frame.columns) == ["nDCG@10", "ms_p50", "ms_p95"]
    assert frame.loc["plain", "nDCG@10"] == 0.25
    axes = found.plot().axes[0]
    assert [bar.get_width() for bar in axes.patches] == [0.75, 0.25]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"measures": ["nonsense@3"]}, "ir_measures does not know"),
        ({"measures": "nDCG@10"}, "measures must be a list"),
        ({"top_k": 0}, "top_k must be 1 or more"),
        ({"by": "page"}, "by must be 'chunk' or 'document'"),
        ({"retrievers": {}}, "at least one name"),
        ({"retrievers": {"x": 3}}, "must have a method retrieve"),
        ({"judgements": {}}, "at least one query with an id that answers it"),
        ({"judgements": {"q1": {"a": 0}}}, "at least one query with an id that answers it"),
        ({"judgements": {"q9": {"a": 1}}}, "which queries has not"),
        ({"judgements": {"q1": ["a"]}}, "must map ids to grades"),
        ({"judgements": {"q1": {"a": 0.5}}}, "must be a whole number"),
        ({"queries": {"q1": " "}}, "must be a text"),
        ({"retrievers": {"x": SimpleNamespace(retrieve=lambda query: [SimpleNamespace(id=None)])}}, "without an id"),
    ],
)
def test_what_cannot_be_measured_is_refused(change: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {
        "retrievers": {"it": Answers(GOOD)},
        "queries": QUERIES,
        "judgements": {"q1": {"a#0": 1}},
        **change,
    }
    retrievers, queries, judgements = (given.pop(name) for name in ("retrievers", "queries", "judgements"))
    with pytest.raises(InvalidArgumentError, match=words):
        evaluate(retrievers, queries, judgements, **given)


def test_winners_that_are_worse_on_what_was_left_out_do_not_pay() -> None:
    import numpy as np

    even, lucky, better = [0.5] * 4, [1.0, 0.1, 0.1, 0.1], [0.9, 0.8, 0.9, 0.8]
    # Two samples that hold the lucky question and leave out two others each.
    shares = np.array([[0.75, 0.25, 0, 0], [0.75, 0, 0.25, 0]])
    assert not _pays(np.array([even, lucky]), shares, np.array([1, 1]))
    assert _pays(np.array([even, better]), shares, np.array([1, 1]))


def test_a_grade_must_be_a_number() -> None:
    with pytest.raises(InvalidArgumentError, match="the grade of 'a' must be a finite number, got nan"):
        tune_hybrid(HybridRetriever([]), {"q1": {"a": math.nan}})

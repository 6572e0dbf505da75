"""The golden cases of keyword search."""

from __future__ import annotations

from typing import Any

import pytest

from agora_core import ChunkRecord
from agora_core.errors import InvalidArgumentError
from agora_core.retrievers import KeywordRetriever
from tests.golden_cases import GoldenCase, drop_undefined, golden_params

# The original takes a floor and ignores it; here it reaches the scores of the retriever it is given to.
FLOOR_IGNORED = ("fixed/min_score_ignored",)


@pytest.mark.parametrize("case", golden_params("keyword_retriever", without=FLOOR_IGNORED))
def test_keyword_retriever(case: GoldenCase) -> None:
    parameters = drop_undefined(case.input["options"])
    retriever = KeywordRetriever(tokenizer="ascii", **parameters)
    answers: list[Any] = []
    for step in drop_undefined(case.input["steps"]):
        if step["op"] == "add":
            retriever.add([ChunkRecord(**record) for record in step["records"]])
        elif step["options"].get("topK") == 0:
            # The original answers nothing; here a top_k below 1 is refused everywhere.
            with pytest.raises(InvalidArgumentError, match="top_k must be 1 or more"):
                ask(retriever, step)
            answers.append(([], 0))
        else:
            answers.append((ask(retriever, step), step["options"].get("topK", 5)))
    assert len(answers) == len(case.expected)
    for (answer, top_k), expected in zip(answers, case.expected, strict=True):
        assert_same_up_to_ties(answer, expected, cut=len(expected) == top_k)


def ask(retriever: KeywordRetriever, step: dict[str, Any]) -> list[dict[str, Any]]:
    options = step["options"]
    given = {"top_k": "topK", "filter": "filter", "min_score": "minScore"}
    passages = retriever.retrieve(
        step["query"], **{ours: options[name] for ours, name in given.items() if name in options}
    )
    names = ("id", "text", "score", "source", "metadata")
    return [{name: getattr(p, name) for name in names if getattr(p, name) is not None} for p in passages]


def assert_same_up_to_ties(answer: list[dict[str, Any]], expected: list[dict[str, Any]], *, cut: bool) -> None:
    """Compare two rankings; equal scores go by id here and by insertion there, also where the last of them are cut."""
    assert [one["score"] for one in answer] == pytest.approx([one["score"] for one in expected], rel=1e-9)
    last = expected[-1]["score"] if expected and cut else None
    for one in expected:
        if last is not None and one["score"] == pytest.approx(last, rel=1e-9):
            continue
        found = [other for other in answer if other["id"] == one["id"]]
        assert found == [{**one, "score": pytest.approx(one["score"], rel=1e-9)}]

"""What an answer cites, and whether its quotations are in the passages."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import Passage, Quote, parse_citations, verify_quotes

A = Passage("a", "Refunds take\n five days, as a rule.", 0.9, "faq.md")
B = Passage("b", "Die Frist beträgt zwanzig Tage im Jahr.", 0.8)
C = Passage("c", "年休は一年に二十日です。申請は上司へ。", 0.7)
ALL = [A, B, C]


@pytest.mark.parametrize(
    ("answer", "cited", "spans", "unknown"),
    [
        ("no citation", [], [], []),
        ("It does [2], and [1]; [2].", [B, A], [(8, 11, 2), (17, 20, 1), (22, 25, 2)], []),
        ("[1, 2]", [A, B], [(0, 6, 1), (0, 6, 2)], []),
        ("[1][2]", [A, B], [(0, 3, 1), (3, 6, 2)], []),
        ("[1-3]", ALL, [(0, 5, 1), (0, 5, 2), (0, 5, 3)], []),
        ("[1\u20133]", ALL, [(0, 5, 1), (0, 5, 2), (0, 5, 3)], []),
        ("[3, 1-2]", [C, A, B], [(0, 8, 3), (0, 8, 1), (0, 8, 2)], []),
        ("[4] [0] [4]", [], [(0, 3, 4), (4, 7, 0), (8, 11, 4)], [4, 0]),
        ("[2-4]", [B, C], [(0, 5, 2), (0, 5, 3), (0, 5, 4)], [4]),
        ("[3-1]", [], [(0, 5, 3), (0, 5, 1)], [3, 1]),
        ("[1-101]", [], [(0, 7, 1), (0, 7, 101)], [1, 101]),
        ("[1-100] [x] [1.5] [] [a1] [-1]", ALL, [(0, 7, n) for n in range(1, 101)], list(range(4, 101))),
        ("[[2]](http://x) [ 1 ]", [B, A], [(1, 4, 2), (16, 21, 1)], []),
    ],
)
def test_citations(answer: str, cited: list[Passage], spans: list[tuple[int, int, int]], unknown: list[int]) -> None:
    found = parse_citations(answer, ALL)
    assert found.cited == cited
    assert found.spans == spans
    assert found.unknown == unknown


@pytest.mark.parametrize(
    "marks",
    [*("\u201c\u201d", "\u201e\u201c", "\u201e\u201d", "\u201d\u201d", "\u00ab\u00bb", "\u00bb\u00ab", "\u2039\u203a"),
     *("\u2018\u2019", "\u201a\u2018", '""', "''", "\u300c\u300d", "\u300e\u300f", "\uff02\uff02", "\u301d\u301f")],
)  # fmt: skip
def test_every_usual_mark_opens_and_closes(marks: str) -> None:
    answer = f"It's said: {marks[0]}Refunds take five days{marks[1]}, and {marks[0]}not a word of it{marks[1]} too."
    first, second = verify_quotes(answer, ALL)
    assert first == Quote("Refunds take five days", 12, 34, A)
    assert (second.text, second.passage) == ("not a word of it", None)
    assert answer[second.start : second.end] == second.text


@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        ('only "three short words" and "one"', []),
        ("\u300c年休は一年に二十\u300d", []),
        ("\u300c年休は一年に二十日\u300d", ["年休は一年に二十日"]),
        ('他说"年休は一年に二十日です"吗', ["年休は一年に二十日です"]),
        ("the employees' own rules don't say 'what they can't do now'.", ["what they can't do now"]),
        ('a 5" pipe and "a quotation of four words"', ["a quotation of four words"]),
        ("\u201cHe said \u2018it\u2019s not our fault at all\u2019 to me\u201d",
         ["He said \u2018it\u2019s not our fault at all\u2019 to me", "it\u2019s not our fault at all"]),
        ('never "closed and so on', []),
    ],
)  # fmt: skip
def test_what_counts_as_a_quotation(answer: str, texts: list[str]) -> None:
    assert [quote.text for quote in verify_quotes(answer, ALL)] == texts


def test_the_first_passage_that_holds_it() -> None:
    twice = Passage("d", "Refunds  take five\tdays, as a rule.", 0.1)
    assert verify_quotes('"Refunds take five days, as"', [B, twice, A])[0].passage == twice
    assert verify_quotes('"refunds take five days"', ALL)[0].passage is None
    assert verify_quotes("\u300e二十日です。申請は上司へ\u300f", ALL)[0].passage == C


@given(st.text(st.sampled_from("[]123-, \"'\u201c\u201d\u00ab\u00bb\u2019ab\n年"), max_size=60))
def test_spans_point_into_the_answer(answer: str) -> None:
    for start, end, number in parse_citations(answer, ALL).spans:
        assert (answer[start], answer[end - 1]) == ("[", "]")
        assert number >= 0
    for quote in verify_quotes(answer, ALL):
        assert answer[quote.start : quote.end] == quote.text


@pytest.mark.parametrize("piece", ["[1,", "[1-", '"a ', "'a ", "\u201e", "\u00ab\u00bb", "[" * 5, "1, "])
def test_the_cost_is_linear(piece: str) -> None:
    def seconds(length: int) -> float:
        answer = "[" + piece * (length // len(piece))
        started = time.process_time()
        parse_citations(answer, ALL)
        verify_quotes(answer, ALL)
        return time.process_time() - started

    small, large = min(seconds(10_000) for _ in range(3)), min(seconds(80_000) for _ in range(2))
    assert large < 40 * small + 0.05

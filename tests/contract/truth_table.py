"""The truth table of the filter language: (record, filter) pairs by topic, written to be read as a document."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agora_core.filters import all_of, any_of, field, not_
from agora_core.protocols import AnyFilter

NAMES: dict[str, Any] = {"all_of": all_of, "any_of": any_of, "field": field, "not_": not_}


@dataclass(frozen=True)
class Topic:
    """Every record of a topic is held against every filter of it. Both are Python source, as a user writes them."""

    title: str
    law: str
    records: tuple[str, ...]
    filters: tuple[str, ...]

    def pairs(self) -> Iterator[tuple[str, str]]:
        return itertools.product(self.records, self.filters)


TOPICS = (
    Topic(
        "Scalars keep their JSON type",
        '`1` equals `1.0`, and never `True` or `"1"`. Strings compare exactly: no case, no trimming.',
        (
            '{"k": 1}',
            '{"k": 1.0}',
            '{"k": True}',
            '{"k": "1"}',
            '{"k": "true"}',
            '{"k": 0}',
            '{"k": False}',
            '{"k": ""}',
        ),
        ('{"k": 1}', '{"k": 1.0}', '{"k": True}', '{"k": "1"}', '{"k": 0}', '{"k": False}'),
    ),
    Topic(
        "Null, missing, empty",
        "`None` matches a stored null and no missing key; `[]` is the deny; `{}` is no condition.",
        ("{}", '{"k": None}', '{"k": []}', '{"k": ""}', '{"k": {}}', '{"j": 1}'),
        (
            '{"k": None}',
            '{"k": []}',
            "{}",
            '{"k": {}}',
            'field("k").exists()',
            'field("k").is_null()',
            'field("k") == []',
            "any_of()",
        ),
    ),
    Topic(
        "Lists: match-any, and a scalar is no list",
        "A list in the filter matches a value that is one of its items or a list that shares one. "
        "A scalar in the filter never looks into a list.",
        (
            '{"k": "a"}',
            '{"k": ["a"]}',
            '{"k": ["a", "b"]}',
            '{"k": ["c"]}',
            '{"k": [["a"]]}',
            '{"k": [1, None]}',
            '{"k": [True]}',
        ),
        (
            '{"k": "a"}',
            '{"k": ["a", "z"]}',
            '{"k": [["a"]]}',
            '{"k": [1]}',
            '{"k": ["1"]}',
            '{"k": [True]}',
            '{"k": [None]}',
        ),
    ),
    Topic(
        "Whole values and members, said apart",
        "`in_` and `==` look at the whole value; `contains_any` and `contains_all` look into lists only.",
        ('{"k": "a"}', '{"k": ["a"]}', '{"k": ["a", "b"]}', '{"k": []}', '{"k": "ab"}', "{}"),
        (
            'field("k").in_(["a", "b"])',
            'field("k").not_in(["a", "b"])',
            'field("k") == ["a"]',
            'field("k").contains_any(["a", "z"])',
            'field("k").contains_all(["a", "b"])',
            'field("k").contains_all([])',
            'field("k").contains_any([])',
        ),
    ),
    Topic(
        "Objects and paths",
        "Objects compare deeply, the order of keys aside. A dot of `field` steps into an object; "
        "a dot of a mapping's key is a dot.",
        (
            '{"k": {"a": 1}}',
            '{"k": {"a": 1.0, "b": [2]}}',
            '{"k": {"b": [2], "a": 1}}',
            '{"k.a": 1}',
            '{"k": {"a": None}}',
        ),
        (
            '{"k": {"a": 1}}',
            '{"k": {"b": [2], "a": 1}}',
            '{"k.a": 1}',
            'field("k.a") == 1',
            r'field(r"k\.a") == 1',
            'field("k.a").exists()',
            'field("k.b").contains_any([2])',
        ),
    ),
    Topic(
        "Order: numbers with numbers, strings with strings",
        "A comparison with another type, or on a missing key, is false. Strings are ordered by code point.",
        ('{"k": 1}', '{"k": 2.5}', '{"k": -3}', '{"k": "2"}', '{"k": "b"}', '{"k": True}', '{"k": [5]}', "{}"),
        (
            'field("k") >= 1',
            'field("k") < 2.5',
            'field("k") > "1"',
            'field("k") <= "b"',
            'field("k").between(-3, 1)',
            'not_(field("k") >= 1)',
        ),
    ),
    Topic(
        "Numbers at their limits",
        "Integers are exact to 64 bits; a float equals an integer only where both are the same number.",
        (
            '{"k": 9007199254740992}',
            '{"k": 9007199254740993}',
            '{"k": 9223372036854775807}',
            '{"k": 1e21}',
            '{"k": -0.0}',
            '{"k": 5e-324}',
        ),
        (
            '{"k": 9007199254740992}',
            '{"k": 9007199254740993}',
            '{"k": 1e21}',
            '{"k": 0}',
            'field("k") > 9007199254740992',
            'field("k") < 1e-300',
        ),
    ),
    Topic(
        "Text",
        "`matches_text` finds a literal piece of a string, `starts_with` one at its beginning: no wildcard, no list. "
        "Without case, character by character.",
        ('{"k": "100% _sure_"}', '{"k": "Straße"}', '{"k": "STRASSE"}', '{"k": ["Straße"]}', '{"k": 100}'),
        (
            'field("k").matches_text("% _")',
            'field("k").matches_text("aß")',
            'field("k").matches_text("straß", case_sensitive=False)',
            'field("k").matches_text("100")',
            'field("k").matches_text("")',
            'field("k").starts_with("Stra")',
            'field("k").starts_with("STRA", case_sensitive=False)',
            'field("k").starts_with("100% _")',
            'field("k").starts_with("tra")',
        ),
    ),
    Topic(
        "Negation",
        "`not_` is true exactly where its condition is false: on a missing key and on another type too.",
        ('{"k": 1}', '{"k": 2}', '{"k": "1"}', '{"k": ["a"]}', '{"k": None}', "{}"),
        (
            'field("k") != 1',
            'not_({"k": 1})',
            'not_({"k": ["a", 2]})',
            'not_(field("k").exists())',
            'not_(field("k").contains_any(["a"]))',
            'not_(not_({"k": 1}))',
        ),
    ),
    Topic(
        "And, or, both at once",
        "Keys of a mapping are ANDed; two conditions on one key are both kept.",
        ('{"k": ["a"], "y": 2021}', '{"k": ["a", "b"], "y": 2019}', '{"k": "b", "y": 2021}', '{"y": 2021}'),
        (
            '{"k": ["a"], "y": 2021}',
            'all_of({"k": ["a", "b"]}, field("y") >= 2020)',
            'all_of({"k": ["a"]}, {"k": ["b"]})',
            'any_of({"k": "b"}, field("y") < 2020)',
            'all_of({"k": ["a"]}, {"k": []})',
            "all_of()",
        ),
    ),
    Topic(
        "Keys and values are data",
        "No character of a key or a value means anything to a backend.",
        (
            '{"it\'s \\"q\\"": "x\' OR \'1\'=\'1"}',
            '{"a[0]": ["%s", ":x", "--"]}',
            '{"__proto__": "é"}',
            '{"": "\\\\"}',
            '{"$eq": "😀"}',
        ),
        (
            '{"it\'s \\"q\\"": "x\' OR \'1\'=\'1"}',
            '{"a[0]": ["--"]}',
            '{"__proto__": "é"}',
            '{"": "\\\\"}',
            '{"$eq": "😀"}',
            '{"a": ["--"]}',
        ),
    ),
)


def value_of(source: str) -> Any:
    """Return what a piece of the table's Python source means."""
    return eval(source, dict(NAMES))


def filter_of(source: str) -> AnyFilter:
    """Return the filter that a piece of the table's source builds."""
    result: AnyFilter = value_of(source)
    return result


def render(columns: dict[str, dict[tuple[str, str], bool]]) -> str:
    """Return the table as Markdown; `columns` maps each backend to its answers."""
    lines: list[str] = []
    for topic in TOPICS:
        lines += [f"### {topic.title}", "", topic.law, ""]
        lines += ["| record | filter | " + " | ".join(columns) + " |", "| --- | --- |" + " --- |" * len(columns)]
        for pair in topic.pairs():
            answers = " | ".join("yes" if answers[pair] else "no" for answers in columns.values())
            lines.append(f"| {_code(pair[0])} | {_code(pair[1])} | {answers} |")
        lines.append("")
    return "\n".join(lines)


def _code(source: str) -> str:
    return "`" + source.replace("|", "\\|") + "`"

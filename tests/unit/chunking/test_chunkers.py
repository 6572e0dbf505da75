"""Chunkers: laws that hold for each of them on any text, and what each does with its own kind of text."""

from __future__ import annotations

import inspect
import pydoc_data.topics
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agora_core.chunking.prose
from agora_core import (
    Chunk,
    CodeChunker,
    IngestDocument,
    InvalidArgumentError,
    InvalidMetadataError,
    MarkdownChunker,
    MemoryVectorStore,
    ProseChunker,
    RecordChunker,
    SentenceChunker,
    chunk_documents,
    chunk_text,
    ingest_documents,
)
from agora_core.chunking import BLANKS, BaseChunker
from agora_core.chunking.chunkers import sentences
from agora_core.testing import FakeEmbeddingProvider

PIECES = ["word", "Dr.", "e.g.", "end. ", "Ende! ", "\n", "\n\n", "# Head\n", "## Deeper\n", "```\n", "---\n", "===\n"]
PIECES += [
    "    x = 1\n",
    "def f():\n",
    "    '''",
    '"""',
    "}\n",
    "\ufeff",
    "\u3000",
    "私は学生です。",
    "กินข้าว",
    "😀",
    " ",
    "a",
]
texts = st.lists(st.sampled_from(PIECES), max_size=60).map("".join)
CHUNKERS = [ProseChunker, RecordChunker, MarkdownChunker, SentenceChunker, CodeChunker]
# A line or a record is never cut, however long it is.
CUTS = [ProseChunker, MarkdownChunker, SentenceChunker]


def words(text: str) -> int:
    return len(text.split())


def squeezed(text: str) -> str:
    return "".join(character for character in text if character not in BLANKS)


@pytest.mark.parametrize("kind", CHUNKERS)
@given(text=texts, size=st.integers(1, 60), lap=st.integers(0, 59), at=st.sampled_from(["word", "character"]))
def test_a_chunk_is_the_text_between_its_offsets(
    kind: type[BaseChunker], text: str, size: int, lap: int, at: Any
) -> None:
    chunks = kind(size, min(lap, size - 1), overlap_at=at, offsets=True).split(text)
    for chunk in chunks:
        assert chunk.start is not None
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.text.strip(BLANKS)
        assert len(chunk.text) <= size or kind not in CUTS
    places = [(chunk.start or 0, chunk.end or 0) for chunk in chunks]
    assert places == sorted(places)


@pytest.mark.parametrize("kind", CHUNKERS)
@given(text=texts, size=st.integers(1, 60))
def test_nothing_but_white_space_is_lost(kind: type[BaseChunker], text: str, size: int) -> None:
    separators = "\n" if kind is RecordChunker else ""
    kept = "".join(chunk.text for chunk in kind(size, 0).split(text))
    assert squeezed(kept).replace(separators, "") == squeezed(text).replace(separators, "")


@pytest.mark.parametrize("kind", CHUNKERS)
@given(text=texts, size=st.integers(1, 60))
def test_offsets_change_no_text_where_records_are_not_padded(kind: type[BaseChunker], text: str, size: int) -> None:
    plain = "\n".join(line.strip(BLANKS) for line in text.split("\n") if line.strip(BLANKS))
    assert [one.text for one in kind(size, offsets=True).split(plain)] == [one.text for one in kind(size).split(plain)]


@given(text=texts, size=st.integers(1, 60))
def test_prose_is_that_of_chunk_text_and_records_those_of_its_separator(text: str, size: int) -> None:
    assert [chunk.text for chunk in ProseChunker(size).split(text)] == chunk_text(text, chunk_size=size)
    lines = [chunk.text for chunk in RecordChunker(size).split(text)]
    assert lines == chunk_text(text, chunk_size=size, separator="\n")


@pytest.mark.parametrize("kind", CUTS)
@given(text=st.lists(st.sampled_from(["word", "two words", "\n\n", ". ", "# H\n", "a "]), max_size=60).map(" ".join))
def test_a_measure_of_ones_own_bounds_the_chunks(kind: type[BaseChunker], text: str) -> None:
    chunks = kind(7, 2, measure=words).split(text)
    assert all(words(chunk.text) <= 7 for chunk in chunks)
    assert set(text.split()) == {word for chunk in chunks for word in chunk.text.split()}


def test_what_is_repeated_at_a_word_begins_with_one() -> None:
    text = pydoc_data.topics.topics["lambda"] + pydoc_data.topics.topics["yield"]
    inside = 0
    for at in ("character", "word"):
        chunks = ProseChunker(200, 40, overlap_at=at, offsets=True).split(text)
        inside = sum(text[chunk.start - 1] not in BLANKS for chunk in chunks[1:] if chunk.start)
        assert (inside > len(chunks) / 3) is (at == "character")
        assert all(one.end and two.start and two.start <= one.end for one, two in pairwise(chunks))
    assert inside == 0


def test_a_script_without_spaces_overlaps_at_a_word_too() -> None:
    chunks = ProseChunker(20, 5, overlap_at="word", offsets=True).split("私は学生です" * 10)
    assert [(chunk.start, chunk.end) for chunk in chunks][:2] == [(0, 20), (15, 35)]


MARKDOWN = """Before any heading.

# Guide

## Install

Run `pip`.

```sh
# no heading
pip install x

more
```

Setext
------
Under it.

## Empty
## Next
text
# Other #
<!-- # hidden
# hidden too -->
end
"""


def test_markdown_chunks_know_their_headings_and_cross_none() -> None:
    found = [(chunk.metadata, chunk.text.split("\n")[0]) for chunk in MarkdownChunker().split(MARKDOWN)]
    assert found == [
        (None, "Before any heading."),
        ({"headings": ["Guide", "Install"]}, "# Guide"),
        ({"headings": ["Guide", "Setext"]}, "Setext"),
        ({"headings": ["Guide", "Empty"]}, "## Empty"),
        ({"headings": ["Guide", "Next"]}, "## Next"),
        ({"headings": ["Other"]}, "# Other #"),
    ]


def test_a_fenced_block_that_fits_stays_whole() -> None:
    block = "```py\n" + "x = 1\n\n" * 8 + "```"
    text = "# A\n\n" + "word " * 12 + "\n\n" + block + "\n\nafter"
    assert any(block in chunk.text for chunk in MarkdownChunker(80, 0).split(text))


def test_front_matter_is_no_heading() -> None:
    text = "---\ntitle: x\n---\n# Head\nbody"
    assert [chunk.metadata for chunk in MarkdownChunker().split(text)] == [None, {"headings": ["Head"]}]


def test_sentences_are_cut_at_their_ends_and_nowhere_else() -> None:
    text = (
        'Dr. Smith met J. R. Tolkien at 3.5 p.m. on Jan. 5. He said: "Go!" Then, e.g. this. Is it? yes! No.\n'
        "1. First item.\n2. Second.\nNo. 3 and Figs. 3 and 4 show it (see Fig. 2). It is 1999. "
        "私は学生です。彼も！「はい。」次。"
    )
    assert [text[start:end].strip() for start, end in sentences(text)] == [
        "Dr. Smith met J. R. Tolkien at 3.5 p.m. on Jan. 5.",
        'He said: "Go!"',
        "Then, e.g. this.",
        "Is it? yes!",
        "No.",
        "1. First item.",
        "2. Second.",
        "No. 3 and Figs. 3 and 4 show it (see Fig. 2).",
        "It is 1999.",
        "私は学生です。",
        "彼も！",
        "「はい。」",
        "次。",
    ]


def test_functions_that_fit_stay_whole() -> None:
    source = inspect.getsource(agora_core.chunking.prose)
    size = 1700
    chunks = CodeChunker(size).split(source, source="prose.py")
    for name in ("chunk_text", "check_sizes", "check_separator", "without_nul", "_cut", "pack_records"):
        body = inspect.getsource(getattr(agora_core.chunking.prose, name)).strip()
        assert len(body) <= size
        assert sum(body in chunk.text for chunk in chunks) == 1, name


def test_methods_of_a_class_that_does_not_fit_stay_whole_with_their_indentation() -> None:
    body = "\n\n".join(
        f"    @one\n    def m{n}(self):\n        if a:\n            b()\n\n        return {n}" for n in range(6)
    )
    chunks = CodeChunker(130).split(f"class A:\n    x = 1\n\n{body}\n", source="a.py")
    for n in range(6):
        assert sum(f"    @one\n    def m{n}(self)" in one.text and f"return {n}" in one.text for one in chunks) == 1
    assert chunks[-1].text.startswith("    @one")


def test_code_is_not_cut_inside_a_string() -> None:
    quoted = "'''\n" + "\n\n".join(f"line {n}" for n in range(8)) + "\n'''"
    source = f'a = 1\n\nb = {quoted}\n\nc = "don\'t"\n\nd = 3\n'
    assert any(quoted in chunk.text for chunk in CodeChunker(90).split(source, source="x.py"))
    braces = "function f() {\n  a();\n\n  b();\n}\n\nfunction g() {\n  return `x\n\ny`;\n}\n"
    assert [chunk.text.count("\n}") for chunk in CodeChunker(40).split(braces, source="x.js")] == [1, 1]


def test_documents_are_cut_by_a_chunker_of_any_kind() -> None:
    def halves(document: IngestDocument) -> list[Chunk]:
        return [Chunk(document.text[:3], 0, 3, {"acl": "forged", "part": 1}), Chunk("  "), Chunk(document.text[3:])]

    chunks = chunk_documents([IngestDocument("d", "a\x00bcdef", None, {"acl": "real"})], chunker=halves)
    assert [(one.id, one.text) for one in chunks] == [("d#0", "abc"), ("d#1", "def")]
    assert chunks[0].metadata == {"acl": "real", "part": 1, "start": 0, "end": 3}
    store = MemoryVectorStore()
    document = IngestDocument("d", MARKDOWN, "guide.md")
    ingest_documents([document], embedder=FakeEmbeddingProvider(8), store=store, chunker=MarkdownChunker())
    assert store.count({"headings": ["Install"]}) == 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ProseChunker(0), "chunk_size must be 1 or more"),
        (lambda: ProseChunker(10, 10), "overlap must be 0 or more and below"),
        (lambda: ProseChunker(overlap_at="line"), "overlap_at must be 'character' or 'word', got 'line'"),  # type: ignore[arg-type]
        (lambda: ProseChunker(measure=3), "measure must be a callable"),  # type: ignore[arg-type]
        (lambda: ProseChunker(measure=lambda text: 1.5).split("text"), "measure must answer with an int"),  # type: ignore[arg-type,return-value]
        (lambda: RecordChunker(separator=""), "separator must not be empty"),
        (lambda: ProseChunker().split(3), "text must be a str, got int"),  # type: ignore[arg-type]
        (lambda: chunk_documents([], chunker=ProseChunker(), chunk_size=3), "give them to chunker= itself"),
        (lambda: chunk_documents([], chunker=ProseChunker), "chunker must be a callable"),  # type: ignore[arg-type]
        (lambda: chunk_documents([IngestDocument("d", "x")], chunker=lambda _: ["x"]), "its answer 0 for document 'd'"),  # type: ignore[list-item]
        (lambda: chunk_documents([IngestDocument("d", "x")], chunker=lambda _: "x"), "got str"),  # type: ignore[arg-type,return-value]
    ],
)
def test_what_cannot_be_is_refused(make: Any, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        make()


def test_metadata_of_a_chunk_is_checked_before_anything_is_embedded() -> None:
    with pytest.raises(InvalidMetadataError, match="chunk 0 of document 'd'"):
        chunk_documents([IngestDocument("d", "x")], chunker=lambda _: [Chunk("x", metadata={"a": object()})])

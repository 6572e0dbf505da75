"""Chunking: the rules of the design, and laws that hold for any text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core import IngestDocument, InvalidArgumentError, chunk_documents, chunk_text
from agora_core.chunking import BLANKS

WORDS = "Ship torque bridge warranty; free boat closes. "

texts = st.text(st.sampled_from("ab. \n\t\ufeff\u3000é界😀-"), max_size=300)
patterns = st.text(st.sampled_from("xxx \n\t\ufeff\u3000"), max_size=300)
records = st.lists(st.text(st.sampled_from("abc é😀"), max_size=12), max_size=30)


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int]:
    size = draw(st.integers(1, 60))
    return size, draw(st.integers(0, size - 1))


def squeezed(text: str) -> str:
    return "".join(character for character in text if character not in BLANKS)


@given(texts, sizes())
def test_prose_chunks_are_stripped_pieces_of_the_text_no_longer_than_asked(text: str, limits: tuple[int, int]) -> None:
    size, overlap = limits
    for chunk in chunk_text(text, chunk_size=size, overlap=overlap):
        assert 0 < len(chunk) <= size
        assert chunk in text
        assert chunk == chunk.strip(BLANKS)


@given(patterns, sizes())
def test_prose_loses_nothing_but_white_space(pattern: str, limits: tuple[int, int]) -> None:
    """Each character that is not blank is made one of its own, so that chunks tell where they come from."""
    text = "".join(one if one in BLANKS else chr(0x4E00 + place) for place, one in enumerate(pattern))
    size, overlap = limits
    places = {one: place for place, one in enumerate(squeezed(text))}
    end = 0
    for chunk in chunk_text(text, chunk_size=size, overlap=overlap):
        found = [places[one] for one in squeezed(chunk)]
        assert found == list(range(found[0], found[-1] + 1))
        assert found[0] <= end
        # A chunk repeats at most `overlap` characters, and ends no earlier than the one before.
        assert end - found[0] <= overlap
        assert found[-1] + 1 >= end
        end = found[-1] + 1
    assert end == len(places)


@given(texts, st.integers(1, 60))
def test_prose_without_overlap_is_the_text_without_white_space(text: str, size: int) -> None:
    assert squeezed("".join(chunk_text(text, chunk_size=size, overlap=0))) == squeezed(text)


@given(texts, sizes())
def test_prose_ends(text: str, limits: tuple[int, int]) -> None:
    size, overlap = limits
    assert len(chunk_text(text, chunk_size=size, overlap=overlap)) <= max(1, len(text))


@given(records, sizes(), st.sampled_from(["\n", "---", ", "]))
def test_records_are_never_cut_and_none_is_lost(parts: list[str], limits: tuple[int, int], separator: str) -> None:
    size, overlap = limits
    whole = [part.strip(BLANKS) for part in parts]
    whole = [part for part in whole if part]
    chunks = chunk_text(separator.join(parts), chunk_size=size, overlap=overlap, separator=separator)
    position = 0
    for chunk in chunks:
        packed = chunk.split(separator)
        assert len(chunk) <= size or len(packed) == 1
        # A chunk is a run of records; it starts at most one run back, and no record is skipped.
        start = next(at for at in range(position, -1, -1) if whole[at : at + len(packed)] == packed)
        position = max(position, start + len(packed))
    assert position == len(whole)


@given(records, st.integers(1, 60))
def test_records_without_overlap_come_once(parts: list[str], size: int) -> None:
    chunks = chunk_text("\n".join(parts), chunk_size=size, overlap=0, separator="\n")
    assert "\n".join(chunks).split("\n") == [part.strip() for part in parts if part.strip()] or not chunks


@given(st.text(max_size=80), sizes(), st.sampled_from([None, "\n"]))
def test_any_text_can_be_cut(text: str, limits: tuple[int, int], separator: str | None) -> None:
    chunk_text(text, chunk_size=limits[0], overlap=limits[1], separator=separator)


def test_lengths_are_code_points_and_no_character_is_cut_in_half() -> None:
    assert chunk_text("😀" * 6, chunk_size=8, overlap=0) == ["😀" * 6]
    assert chunk_text("ab😀cd😀ef", chunk_size=3, overlap=0) == ["ab😀", "cd😀", "ef"]


def test_a_byte_order_mark_is_white_space() -> None:
    assert chunk_text("\ufeff") == []
    assert chunk_text("\ufeffname,age\ufeff") == ["name,age"]
    assert chunk_text("\ufeffa\n\ufeffb", separator="\n") == ["a\nb"]


def test_the_default_overlap_fits_small_chunks() -> None:
    text = WORDS * 60
    assert chunk_text(text, chunk_size=64) == chunk_text(text, chunk_size=64, overlap=8)
    assert chunk_text(text, chunk_size=100) == chunk_text(text, chunk_size=100, overlap=12)
    assert chunk_text(text, chunk_size=101) == chunk_text(text, chunk_size=101, overlap=100)
    assert chunk_text(text) == chunk_text(text, chunk_size=800, overlap=100)
    assert chunk_text("abc", chunk_size=1) == ["a", "b", "c"]


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "800"])
def test_refuses_a_chunk_size_that_is_no_int_of_1_or_more(size: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="chunk_size must be"):
        chunk_text("text", chunk_size=size)


@pytest.mark.parametrize("overlap", [-1, 10, 11, 0.5, True])
def test_refuses_an_overlap_not_below_the_chunk_size(overlap: Any) -> None:
    with pytest.raises(ValueError, match="overlap must be"):
        chunk_text("text", chunk_size=10, overlap=overlap)


def test_refuses_what_is_no_text() -> None:
    with pytest.raises(InvalidArgumentError, match="text must be a str, got bytes"):
        chunk_text(b"text")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="separator must be a str or None, got int"):
        chunk_text("text", separator=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        chunk_text("text", chunk_sise=10)  # type: ignore[call-arg]


def test_an_empty_separator_cuts_prose() -> None:
    assert chunk_text(WORDS * 40, separator="") == chunk_text(WORDS * 40)


def test_documents_lose_nul_from_text_and_source_first() -> None:
    document = IngestDocument("a", "one\x00 two", "a\x00.pdf", {"page": 1})
    (chunk,) = chunk_documents([document])
    assert (chunk.id, chunk.text, chunk.source, chunk.metadata) == ("a#0", "one two", "a.pdf", {"page": 1})


def test_documents_without_text_give_no_chunk() -> None:
    assert chunk_documents([IngestDocument("a", " \n\ufeff"), IngestDocument("b", "\x00")]) == []


def test_documents_may_come_from_an_iterator() -> None:
    documents = (IngestDocument(key, "text") for key in "ab")
    assert [chunk.id for chunk in chunk_documents(documents)] == ["a#0", "b#0"]


@pytest.mark.parametrize("documents", ["text", IngestDocument("a", "text"), 7, None])
def test_refuses_what_is_no_list_of_documents(documents: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="documents must be a list of IngestDocument"):
        chunk_documents(documents)


@pytest.mark.parametrize("document", ["text", {"id": "a", "text": "b"}, IngestDocument("a", None), None])  # type: ignore[arg-type]
def test_refuses_what_is_no_document(document: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"documents\[1\] must be an IngestDocument"):
        chunk_documents([IngestDocument("x", "text"), document])

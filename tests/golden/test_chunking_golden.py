"""The golden cases of chunking."""

from __future__ import annotations

from typing import Any

import pytest

from agora_core import ChunkRecord, IngestDocument, chunk_documents, chunk_text
from tests.golden_cases import GoldenCase, assert_same, drop_undefined, golden_params

# An overlap that is not below the chunk size makes prose crawl by one character a chunk, and repeats every record it
# can: the original takes it, this library refuses it (see test_refuses_an_overlap_not_below_the_chunk_size).
PROSE_REFUSED = ("overlap_ge/size10_ov10", "overlap_ge/size10_ov15")
RECORDS_REFUSED = (
    "csv_crlf/2",
    "csv_crlf/3",
    'separators/", "_1',
    'separators/", "_2',
    'separators/"###\\n"_0',
    'separators/"###\\n"_2',
    'separators/"é"_2',
    'separators/"."_2',
    "overlong/2",
    "overlong/5",
    "overlong/11",
    "overlap_budget/1000",
    "overlap_budget/random6",
    "overlap_budget/random10",
)


def options_of(case: GoldenCase, key: str = "options") -> dict[str, Any]:
    names = {"chunkSize": "chunk_size", "overlap": "overlap", "separator": "separator"}
    return {names[name]: value for name, value in drop_undefined(case.input[key]).items()}


@pytest.mark.parametrize("case", golden_params("chunk_prose", without=PROSE_REFUSED))
def test_prose(case: GoldenCase) -> None:
    assert chunk_text(case.input["text"], **options_of(case)) == case.expected


@pytest.mark.parametrize("case", golden_params("chunk_records", without=RECORDS_REFUSED))
def test_records(case: GoldenCase) -> None:
    assert chunk_text(case.input["text"], **options_of(case)) == case.expected


@pytest.mark.parametrize("case", golden_params("chunk_documents"))
def test_documents(case: GoldenCase) -> None:
    documents = [IngestDocument(**document) for document in drop_undefined(case.input["documents"])]
    chunks = chunk_documents(documents, **options_of(case))
    assert_same([plain(chunk) for chunk in chunks], case.expected)


def plain(chunk: ChunkRecord) -> dict[str, Any]:
    fields = {"id": chunk.id, "text": chunk.text, "source": chunk.source, "metadata": chunk.metadata}
    return {name: value for name, value in fields.items() if value is not None}

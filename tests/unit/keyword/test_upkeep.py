"""What the index holds after many writes: no more than a constant factor of what a fresh one holds."""

from __future__ import annotations

import random
from unittest.mock import patch

from agora_core import ChunkRecord
from agora_core.keyword.index import BM25Index
from agora_core.keyword.postings import BLOCK_POSTINGS
from agora_core.retrievers import KeywordRetriever


def index_of(retriever: KeywordRetriever) -> BM25Index:
    return retriever._text.index


def words(rng: random.Random, fresh: int) -> str:
    common = [f"w{int(rng.paretovariate(0.7)) % 500}" for _ in range(40)]
    return " ".join([*common, *(f"only{fresh}x{n}" for n in range(4))])


def test_replacing_over_and_over_does_not_creep() -> None:
    rng = random.Random(5)
    retriever = KeywordRetriever()
    retriever.add([ChunkRecord(f"d{n}", words(rng, n)) for n in range(200)])
    for number in range(200, 3000):
        retriever.add([ChunkRecord(f"d{rng.randrange(200)}", words(rng, number))])
    index = index_of(retriever)
    postings = index.postings
    assert index.rows == 200
    assert postings.live == sum(len(distinct) // 4 for distinct in index._distinct)
    assert postings.dirty <= max(4096, postings.live // 8)
    stored = sum(len(block.rows) for block in postings.blocks)
    assert stored <= postings.live + postings.dirty
    # 11,200 words were seen once; those that are gone have given their numbers back.
    assert len(index.vocabulary) == int((index.document_frequency > 0).sum())
    assert len(index.vocabulary.words) <= len(index.vocabulary) + 500


def test_dirt_is_counted_as_it_is() -> None:
    rng = random.Random(6)
    with patch("agora_core.keyword.postings._LEAST_DIRT", 64), patch("agora_core.keyword.postings.BLOCK_POSTINGS", 256):
        retriever = KeywordRetriever()
        for number in range(400):
            retriever.add([ChunkRecord(f"d{rng.randrange(60)}", words(rng, number))])
            if number % 5 == 0:
                retriever.remove(f"d{rng.randrange(60)}")
            postings = index_of(retriever).postings
            tails = sum(1 if isinstance(tail, int) else len(tail) for tail in postings._tails.values())
            zeros = sum(int((block.frequencies == 0).sum()) for block in postings.blocks)
            assert postings.dirty == tails + zeros
            assert postings.dirty == sum(block.dirty for block in postings.blocks) + postings._fringe_dirt
            assert sum(postings._zeros.values()) == zeros
            assert postings.live == sum(len(block.rows) for block in postings.blocks) - zeros + tails


def test_an_emptied_index_gives_its_terms_back() -> None:
    retriever = KeywordRetriever()
    retriever.add([ChunkRecord(f"d{n}", words(random.Random(n), n)) for n in range(800)])
    retriever.remove([f"d{n}" for n in range(800)])
    index = index_of(retriever)
    assert (index.documents, index.total_length, index.postings.live) == (0, 0, 0)
    assert index.postings.dirty == 0
    assert len(index.vocabulary) == 0
    assert sum(len(block.rows) for block in index.postings.blocks) == 0


def test_a_block_is_of_bounded_size() -> None:
    with patch("agora_core.keyword.postings.BLOCK_POSTINGS", 100):
        retriever = KeywordRetriever()
        retriever.add([ChunkRecord(f"d{n}", f"common u{n} v{n % 7}") for n in range(600)])
        blocks = index_of(retriever).postings.blocks
    assert BLOCK_POSTINGS > 100
    assert all(len(block.rows) <= 100 or block.stop - block.first == 1 for block in blocks)
    assert [block.first for block in blocks[1:]] == [block.stop for block in blocks[:-1]]

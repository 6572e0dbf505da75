"""The cache of embeddings: paid once, by any number of processes, whatever fails."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agora_core import CachedEmbeddingProvider, EmbeddingError, InvalidArgumentError
from agora_core.testing import FakeEmbeddingProvider


class Counting(FakeEmbeddingProvider):
    def __init__(self) -> None:
        super().__init__(4)
        self.calls: list[list[str]] = []

    def embed(self, texts: Sequence[str]) -> Any:
        self.calls.append(list(texts))
        return super().embed(texts)


async def test_each_text_is_embedded_once(tmp_path: Path) -> None:
    counting = Counting()
    cached = CachedEmbeddingProvider(counting, tmp_path / "cache.db", model="m")
    expected = FakeEmbeddingProvider(4).embed(["a", "b", "a", "ü\ud800"])
    assert cached.embed(["a", "b", "a", "ü\ud800"]) == expected
    assert counting.calls == [["a", "b", "ü\ud800"]]
    again = CachedEmbeddingProvider(counting, tmp_path / "cache.db", model="m")
    assert await again.aembed(["b", "a"]) == [expected[1], expected[0]]
    assert again.embed_query("a") == await again.aembed_query("a") == expected[0]
    assert again.embed([]) == []
    assert len(counting.calls) == 1
    other = CachedEmbeddingProvider(counting, tmp_path / "cache.db", model="other")
    other.embed(["a"])
    assert counting.calls[1:] == [["a"]]


def test_batches_are_bounded_by_count_and_characters_and_kept_one_by_one(tmp_path: Path) -> None:
    class Failing(Counting):
        fails = True

        def embed(self, texts: Sequence[str]) -> Any:
            if self.fails and "e" * 30 in texts:
                raise ConnectionError("down")
            return super().embed(texts)

    failing = Failing()
    cached = CachedEmbeddingProvider(failing, tmp_path / "c.db", model="m", batch_size=2, batch_characters=10)
    texts = ["a", "b", "c", "d" * 9, "e" * 30]
    with pytest.raises(ConnectionError):
        cached.embed(texts)
    assert failing.calls == [["a", "b"], ["c", "d" * 9]]
    failing.fails = False
    assert len(cached.embed(texts)) == 5
    assert failing.calls[2:] == [["e" * 30]]


def test_queries_have_vectors_of_their_own_where_the_model_has(tmp_path: Path) -> None:
    class Asymmetric(Counting):
        def embed_query(self, text: str) -> list[float]:
            self.calls.append([f"query: {text}"])
            return [9.0, 0.1, 0.2, 0.3]

    asymmetric = Asymmetric()
    cached = CachedEmbeddingProvider(asymmetric, tmp_path / "c.db", model="m")
    assert cached.embed_query("a") == cached.embed_query("a") == [9.0, 0.1, 0.2, 0.3]
    cached.embed(["a"])
    assert asymmetric.calls == [["query: a"], ["a"]]


def _fill(path: str, start: int) -> None:
    cached = CachedEmbeddingProvider(FakeEmbeddingProvider(4), path, model="m", batch_size=3)
    for n in range(start, start + 30):
        cached.embed([f"text {n}", f"text {n + 1}"])


def test_processes_share_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "shared.db")
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_fill, args=(path, start)) for start in (0, 10, 20)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    counting = Counting()
    CachedEmbeddingProvider(counting, path, model="m").embed([f"text {n}" for n in range(50)])
    assert counting.calls == []


def test_bad_arguments_and_answers_are_refused(tmp_path: Path) -> None:
    for options, words in (
        ({"model": " "}, "model must name"),
        ({"model": "m", "batch_size": 0}, "batch_size must be 1 or more"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            CachedEmbeddingProvider(Counting(), tmp_path / "c.db", **options)
    with pytest.raises(InvalidArgumentError, match="its folder does not exist"):
        CachedEmbeddingProvider(Counting(), tmp_path / "nowhere" / "c.db", model="m")

    class Short(Counting):
        def embed(self, texts: Sequence[str]) -> Any:
            return []

    with pytest.raises(EmbeddingError):
        CachedEmbeddingProvider(Short(), tmp_path / "c.db", model="m").embed(["a"])

"""The static table: equal to the package's own output, offline, never NaN."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agora_core.embedders import WordLlamaEmbeddingProvider
from agora_core.embedders import wordllama as module
from agora_core.errors import InvalidArgumentError, MissingExtraError
from agora_core.local_models import read_safetensors
from agora_core.protocols import EmbeddingProvider

TEXTS = [
    "hello world",
    "The quick brown fox jumps over the lazy dog.",
    "a",
    "Grüße aus München, 東京 и Москва \U0001f600",
    "def f(x):\n    return x ** 2\n" * 50,
    "word " * 6_000,
]


@pytest.fixture(scope="module")
def embedder() -> WordLlamaEmbeddingProvider:
    return WordLlamaEmbeddingProvider()


@pytest.fixture(scope="module")
def original() -> Any:
    """The package's own loader, told where its files really are and not to download."""
    spec = importlib.util.find_spec("wordllama")
    assert spec is not None
    assert spec.origin is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from wordllama import WordLlama

        return WordLlama.load(cache_dir=Path(spec.origin).parent, disable_download=True)


def test_equals_the_package_itself(embedder: WordLlamaEmbeddingProvider, original: Any) -> None:
    expected = original.embed(TEXTS, norm=True, batch_size=1)
    np.testing.assert_allclose(np.stack(embedder.embed(TEXTS)), expected, atol=2e-6)


@pytest.mark.parametrize("dimensions", [64, 128])
def test_fewer_dimensions_are_the_first_ones_made_unit(
    dimensions: int, embedder: WordLlamaEmbeddingProvider, original: Any
) -> None:
    small = WordLlamaEmbeddingProvider(dimensions=dimensions)
    assert small.dimension == dimensions
    cut = original.embed(TEXTS, batch_size=1)[:, :dimensions]
    expected = cut / np.linalg.norm(cut, axis=1, keepdims=True)
    np.testing.assert_allclose(np.stack(small.embed(TEXTS)), expected, atol=2e-6)


@pytest.mark.parametrize("text", ["", " ", "\n\t \u3000", "<unk>", "<unk><unk>"])
def test_a_text_without_a_known_token_is_the_zero_vector(text: str, embedder: WordLlamaEmbeddingProvider) -> None:
    vectors = embedder.embed(["before", text, "after"])
    assert not vectors[1].any()
    assert vectors[0] @ vectors[0] == pytest.approx(1.0)
    assert not embedder.embed_query(text).any()


def test_shapes_and_types(embedder: WordLlamaEmbeddingProvider) -> None:
    assert isinstance(embedder, EmbeddingProvider)
    assert embedder.dimension == 256
    vectors = embedder.embed(["one", "two"])
    assert [vector.shape for vector in vectors] == [(256,), (256,)]
    assert vectors[0].dtype == np.float32
    assert embedder.embed([]) == []
    assert embedder.embed_query("one").tolist() == vectors[0].tolist()
    assert repr(embedder) == "WordLlamaEmbeddingProvider(dimensions=256)"


def test_near_texts_are_near(embedder: WordLlamaEmbeddingProvider) -> None:
    cat, kitten, bond = embedder.embed(["a cat sat on the mat", "the kitten is on the rug", "government bond yields"])
    assert cat @ kitten > cat @ bond + 0.2


@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=8))
def test_any_text_gives_a_unit_or_a_zero_vector(texts: list[str]) -> None:
    vectors = SHARED.embed(texts)
    assert len(vectors) == len(texts)
    for vector in vectors:
        length = float(np.linalg.norm(vector))
        assert length == 0.0 or length == pytest.approx(1.0, abs=1e-5)


SHARED = WordLlamaEmbeddingProvider(batch_size=3)


def test_batches_change_nothing(embedder: WordLlamaEmbeddingProvider) -> None:
    texts = [*TEXTS, "", "end"]
    small = WordLlamaEmbeddingProvider(batch_size=1)
    assert np.array_equal(np.stack(small.embed(texts)), np.stack(embedder.embed(texts)))


async def test_both_colours_agree(embedder: WordLlamaEmbeddingProvider) -> None:
    fresh = WordLlamaEmbeddingProvider()
    # The first time the model is read, in a thread; later short queries are embedded at once, long ones in a thread.
    for query in ("tea", "tea", "tea " * 1_000):
        assert np.array_equal(await fresh.aembed_query(query), embedder.embed_query(query))
    assert np.array_equal(np.stack(await fresh.aembed(TEXTS)), np.stack(embedder.embed(TEXTS)))


def test_threads_load_the_model_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[int] = []
    real = read_safetensors

    def counted(*args: Any) -> Any:
        loads.append(1)
        return real(*args)

    monkeypatch.setattr(module, "read_safetensors", counted)
    fresh = WordLlamaEmbeddingProvider()
    barrier = threading.Barrier(4)
    results: list[list[float]] = []

    def work() -> None:
        barrier.wait()
        results.append(fresh.embed_query("same").tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert loads == [1]
    assert results == [results[0]] * 4


@pytest.mark.parametrize("dimensions", [0, -1, 100, 512, 256.0, True, "256", None])
def test_dimensions_are_those_of_the_table(dimensions: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"dimensions must be one of \(64, 128, 256\)"):
        WordLlamaEmbeddingProvider(dimensions=dimensions)


@pytest.mark.parametrize("size", [0, -3, 1.5, True, None])
def test_a_batch_size_is_a_positive_int(size: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="batch_size must be an int of 1 or more"):
        WordLlamaEmbeddingProvider(batch_size=size)


def test_an_unknown_argument_is_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        WordLlamaEmbeddingProvider(dim=64)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one str", "got one str; wrap it in a list"),
        (b"bytes", "got one bytes"),
        (["a", None], r"texts\[1\] must be a str, got NoneType"),
        (["a", "b\ud800"], r"texts\[1\] contains a lone surrogate"),
    ],
)
def test_texts_are_checked(texts: Any, message: str, embedder: WordLlamaEmbeddingProvider) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        embedder.embed(texts)


def test_names_the_extra_where_the_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'agora-retrieval\[wordllama\]'"):
        WordLlamaEmbeddingProvider()


SCRIPT = """
import socket, sys
def refuse(*args, **kwargs):
    raise AssertionError("a connection was tried")
socket.socket.connect = refuse
from agora_core.embedders import WordLlamaEmbeddingProvider
embedder = WordLlamaEmbeddingProvider()
assert "tokenizers" not in sys.modules
vector = embedder.embed_query("hello world")
assert abs(float(vector @ vector) - 1) < 1e-5
assert not {"wordllama", "requests", "pydantic", "safetensors"} & set(sys.modules), "a heavy import"
import os
child = os.fork()
if child == 0:
    embedder.embed(["after the fork"])
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def test_needs_no_network_and_neither_wordllama_nor_a_warning() -> None:
    env = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
    core = Path(__file__).parents[3] / "core"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        env={**env, "PYTHONPATH": str(core)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_runs_from_several_event_loops() -> None:
    fresh = WordLlamaEmbeddingProvider()
    first = asyncio.run(fresh.aembed(["x"]))
    second = asyncio.run(fresh.aembed(["x"]))
    assert np.array_equal(first[0], second[0])


def test_shipped_embedders_name_their_model() -> None:
    """A store refuses another model's vectors only where embedders have names."""
    from agora_core import OnnxEmbeddingProvider, OpenAICompatibleEmbeddingProvider

    assert WordLlamaEmbeddingProvider().model == "wordllama"
    assert OpenAICompatibleEmbeddingProvider("http://localhost/v1", model="m").model == "m"
    model = OnnxEmbeddingProvider(__file__, __file__, name="minilm")
    assert (model.model, OnnxEmbeddingProvider(__file__, __file__).model) == ("minilm", None)

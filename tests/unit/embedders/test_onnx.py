"""The ONNX embedder on a tiny model whose answers can be computed by hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from agora_core.embedders import OnnxEmbeddingProvider
from agora_core.embedders.onnx import pool
from agora_core.errors import EmbeddingError, InvalidArgumentError, MissingExtraError
from agora_core.protocols import EmbeddingProvider
from tests.onnx_files import WORDS, write_encoder, write_image_model, write_tokenizer

TABLE = np.random.default_rng(5).normal(size=(len(WORDS), 6)).astype(np.float32)
TABLE[WORDS.index("zero")] = 0.0
# What padding would add if the mask were not used.
TABLE[0] = 100.0


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    return write_encoder(tmp_path / "model.onnx", TABLE), write_tokenizer(tmp_path / "tokenizer.json")


def rows(text: str) -> NDArray[np.float32]:
    words = ["[CLS]", *text.split(), "[SEP]"]
    return TABLE[[WORDS.index(word) if word in WORDS else 1 for word in words]]


def unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    scaled: NDArray[np.float32] = vector / np.linalg.norm(vector)
    return scaled


TEXTS = ["cat", "dog tea rain red blue cat dog", "tea tea", "", "never seen"]


@pytest.mark.parametrize("batch_size", [1, 2, 16])
def test_mean_pooling_leaves_padding_out(files: tuple[Path, Path], batch_size: int) -> None:
    embedder = OnnxEmbeddingProvider(*files, batch_size=batch_size)
    expected = [unit(rows(text).mean(axis=0)) for text in TEXTS]
    np.testing.assert_allclose(np.stack(embedder.embed(TEXTS)), np.stack(expected), rtol=1e-5, atol=1e-6)


def test_cls_and_last_pooling(files: tuple[Path, Path]) -> None:
    first = OnnxEmbeddingProvider(*files, pooling="cls", normalize=False).embed(TEXTS)
    last = OnnxEmbeddingProvider(*files, pooling="last", normalize=False).embed(TEXTS)
    for vector in first:
        np.testing.assert_allclose(vector, TABLE[2], rtol=1e-6)
    for vector in last:
        np.testing.assert_allclose(vector, TABLE[3], rtol=1e-6)


def test_a_model_that_pools_itself_is_taken_as_it_is(tmp_path: Path) -> None:
    model = write_encoder(tmp_path / "m.onnx", TABLE, pooled=True)
    embedder = OnnxEmbeddingProvider(model, write_tokenizer(tmp_path / "t.json"), normalize=False)
    expected = [rows(text).sum(axis=0) for text in TEXTS]
    np.testing.assert_allclose(np.stack(embedder.embed(TEXTS)), np.stack(expected), rtol=1e-5, atol=1e-5)


def test_shapes_and_types(files: tuple[Path, Path]) -> None:
    embedder = OnnxEmbeddingProvider(str(files[0]), str(files[1]), threads=1)
    assert isinstance(embedder, EmbeddingProvider)
    assert embedder.dimension == 6
    assert embedder.embed([]) == []
    (vector,) = embedder.embed(["cat"])
    assert vector.dtype == np.float32
    assert vector.shape == (6,)
    assert float(np.linalg.norm(vector)) == pytest.approx(1.0)


def test_prefixes_tell_queries_from_passages(files: tuple[Path, Path]) -> None:
    embedder = OnnxEmbeddingProvider(*files, query_prefix="red ", passage_prefix="blue ", normalize=False)
    np.testing.assert_allclose(embedder.embed_query("cat"), rows("red cat").mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(embedder.embed(["cat"])[0], rows("blue cat").mean(axis=0), rtol=1e-5)


def test_texts_are_cut_to_max_tokens_and_not_to_what_the_file_says(files: tuple[Path, Path]) -> None:
    long = "cat dog tea rain red blue"
    whole = OnnxEmbeddingProvider(*files, normalize=False).embed_query(long)
    np.testing.assert_allclose(whole, rows(long).mean(axis=0), rtol=1e-5)
    cut = OnnxEmbeddingProvider(*files, max_tokens=5, normalize=False).embed_query(long)
    np.testing.assert_allclose(cut, rows("cat dog tea").mean(axis=0), rtol=1e-5)


def test_no_token_at_all_gives_a_zero_vector_and_not_nan(tmp_path: Path) -> None:
    model = write_encoder(tmp_path / "m.onnx", TABLE)
    bare = OnnxEmbeddingProvider(model, write_tokenizer(tmp_path / "t.json", add_special_tokens=False))
    alone, beside, word = bare.embed([""])[0], *bare.embed(["", "cat"])
    assert not alone.any()
    assert not beside.any()
    assert word.any()
    assert not bare.embed(["zero"])[0].any()


async def test_both_colours_agree(files: tuple[Path, Path]) -> None:
    embedder = OnnxEmbeddingProvider(*files)
    assert np.array_equal(np.stack(await embedder.aembed(TEXTS)), np.stack(embedder.embed(TEXTS)))
    assert np.array_equal(await embedder.aembed_query("tea"), embedder.embed_query("tea"))


def test_infinite_states_are_refused(tmp_path: Path) -> None:
    table = TABLE.copy()
    table[WORDS.index("rain")] = np.inf
    model = write_encoder(tmp_path / "m.onnx", table)
    embedder = OnnxEmbeddingProvider(model, write_tokenizer(tmp_path / "t.json"))
    assert embedder.embed(["cat"])[0].any()
    with pytest.raises(EmbeddingError, match="answered with NaN or infinity"):
        embedder.embed(["rain"])


def test_a_token_beyond_the_model_is_an_error_without_the_text(tmp_path: Path) -> None:
    model = write_encoder(tmp_path / "m.onnx", TABLE[:6])
    embedder = OnnxEmbeddingProvider(model, write_tokenizer(tmp_path / "t.json"))
    with pytest.raises(EmbeddingError, match="failed on a batch of 1 texts") as caught:
        embedder.embed(["blue"])
    assert "blue" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "max"}, "pooling must be 'mean', 'cls' or 'last', got 'max'"),
        ({"max_tokens": 0}, "max_tokens must be an int of 1 or more, got 0"),
        ({"batch_size": 2.0}, "batch_size must be an int of 1 or more, got 2.0"),
        ({"threads": -1}, "threads must be an int of 1 or more, got -1"),
        ({"providers": "CPUExecutionProvider"}, "providers must be a sequence of names"),
        ({"query_prefix": None}, r"texts\[0\] must be a str"),
    ],
)
def test_bad_arguments(files: tuple[Path, Path], options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        OnnxEmbeddingProvider(*files, **options)


def test_missing_files_are_named_at_once(files: tuple[Path, Path], tmp_path: Path) -> None:
    model, tokenizer = files
    with pytest.raises(InvalidArgumentError, match=r"model: there is no file .*absent\.onnx"):
        OnnxEmbeddingProvider(tmp_path / "absent.onnx", tokenizer)
    with pytest.raises(InvalidArgumentError, match=r"tokenizer: there is no file"):
        OnnxEmbeddingProvider(model, tmp_path)
    with pytest.raises(InvalidArgumentError, match="model must be the path of a file, got int"):
        OnnxEmbeddingProvider(3, tokenizer)  # type: ignore[arg-type]


def test_files_of_another_kind_are_named_at_first_use(files: tuple[Path, Path], tmp_path: Path) -> None:
    model, tokenizer = files
    with pytest.raises(InvalidArgumentError, match=r"model\.onnx' is not a tokenizer\.json"):
        OnnxEmbeddingProvider(model, model).embed(["cat"])
    with pytest.raises(InvalidArgumentError, match=r"tokenizer\.json' is not an ONNX model"):
        OnnxEmbeddingProvider(tokenizer, tokenizer).embed(["cat"])
    image = write_image_model(tmp_path / "image.onnx")
    with pytest.raises(InvalidArgumentError, match="asks for the input 'pixel_values'"):
        OnnxEmbeddingProvider(image, tokenizer).embed(["cat"])
    with pytest.raises(InvalidArgumentError, match=r"no output 'x', only \['last_hidden_state'\]"):
        OnnxEmbeddingProvider(model, tokenizer, output="x").embed(["cat"])


def test_names_the_extra_where_onnxruntime_is_missing(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = OnnxEmbeddingProvider(*files)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'agora-retrieval\[onnx\]'"):
        embedder.embed(["cat"])


def test_pooling_by_hand() -> None:
    states = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    mask = np.array([[1, 1, 0], [1, 0, 0]])
    assert pool(states, mask, "mean").tolist() == [[1.0, 2.0], [6.0, 7.0]]
    assert pool(states, mask, "cls").tolist() == [[0.0, 1.0], [6.0, 7.0]]
    assert pool(states, mask, "last").tolist() == [[2.0, 3.0], [6.0, 7.0]]

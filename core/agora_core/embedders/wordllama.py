"""The static WordLlama table: small, quick, offline, English; made to stand beside keyword search in a hybrid."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from agora_core.concurrency import fork_safe_lock
from agora_core.embedders.vectors import Vector, to_unit_rows
from agora_core.errors import EmbeddingError, InvalidArgumentError, MissingExtraError
from agora_core.local_models import load_tokenizer, read_safetensors
from agora_core.model_inputs import check_count, check_texts

_WEIGHTS: Final = ("weights/l2_supercat_256.safetensors",)
# Releases before 0.4 kept the tokenizer in another folder.
_TOKENIZERS: Final = (
    "tokenizers/l2_supercat_tokenizer_config.json",
    "tokenizer/l2_supercat_tokenizer_config.json",
)
# Bounds the rows gathered at once for one text: 4 MB.
_TOKENS_AT_ONCE: Final = 4_096
# Characters of a query that is embedded on the event loop: within about 0.2 ms.
_SHORT: Final = 2_000
_DIMENSIONS: Final = (64, 128, 256)


@dataclass(frozen=True, slots=True)
class _Model:
    table: NDArray[np.float32]
    tokenizer: Any
    unknown: int | None


class WordLlamaEmbeddingProvider:
    """Embeds with the 256-dimensional static table that comes inside the `wordllama` wheel; no network, no torch.

    A text's vector is the mean of its tokens' rows, made a unit vector. A text without a known token (an empty or
    blank one) gives the zero vector, whose cosine similarity to anything is 0. The model is English and knows no word
    order: use it in a hybrid with a keyword index (weights about 0.3 to 0.7), not alone and not for other languages.

    The model is read at the first use, once (about 0.1 s, 35 MB), and shared between threads. The tokenizer runs in
    the calling thread: `TOKENIZERS_PARALLELISM` is set to `false` unless the environment sets it, which also keeps it
    from warning in a process that forks.

    Args:
        dimensions: 256 (default), 128 or 64: the first so many of the table's, made unit vectors after the cut.
        batch_size: texts handed to the tokenizer at once; default 256. It bounds memory and changes no result.

    Raises:
        InvalidArgumentError: an argument is none of those.
        MissingExtraError: `wordllama` is not installed (`pip install 'agora-retrieval[wordllama]'`).

    Examples:
        >>> len(WordLlamaEmbeddingProvider(dimensions=64).embed(["days of leave"])[0])
        64
    """

    def __init__(self, *, dimensions: int = 256, batch_size: int = 256) -> None:
        if type(dimensions) is not int or dimensions not in _DIMENSIONS:
            raise InvalidArgumentError(f"dimensions must be one of {_DIMENSIONS}, got {dimensions!r}")
        self._dimension = dimensions
        self._batch_size = check_count(batch_size, argument="batch_size")
        self._folder = _package_folder()
        self._lock = fork_safe_lock(after=2)
        self._model: _Model | None = None

    def __repr__(self) -> str:
        return f"WordLlamaEmbeddingProvider(dimensions={self._dimension})"

    @property
    def model(self) -> str:
        """The name of the model, which stores remember."""
        return "wordllama"

    @property
    def dimension(self) -> int:
        """The length of every vector."""
        return self._dimension

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one unit vector per text, in the same order; the zero vector for a text without a known token."""
        checked = check_texts(texts)
        model = self._loaded()
        matrix = np.zeros((len(checked), self._dimension), dtype=np.float32)
        for start in range(0, len(checked), self._batch_size):
            for row, ids in enumerate(_tokenize(model, checked[start : start + self._batch_size]), start):
                if ids:
                    matrix[row] = _mean_row(model.table, ids)
        return list(to_unit_rows(matrix))

    async def aembed(self, texts: Sequence[str]) -> list[Vector]:
        """Do what `embed` does in a worker thread."""
        return await asyncio.to_thread(self.embed, texts)

    def embed_query(self, text: str) -> Vector:
        """Return the vector of one query; the same as of a passage."""
        return self.embed([text])[0]

    async def aembed_query(self, text: str) -> Vector:
        """Do what `embed_query` does; on the event loop where that takes less than the hop to a thread."""
        (text,) = check_texts([text])
        if self._model is None or len(text) > _SHORT:
            return (await self.aembed([text]))[0]
        return self.embed([text])[0]

    def _loaded(self) -> _Model:
        model = self._model
        if model is None:
            with self._lock:
                model = self._model
                if model is None:
                    self._model = model = self._load()
        return model

    def _load(self) -> _Model:
        table = read_safetensors(_first(self._folder, _WEIGHTS), "embedding.weight")[:, : self._dimension]
        tokenizer = load_tokenizer(_first(self._folder, _TOKENIZERS), extra="wordllama")
        return _Model(np.ascontiguousarray(table, dtype=np.float32), tokenizer, tokenizer.token_to_id("<unk>"))


def _package_folder() -> Path:
    """Return the folder of the wordllama package without importing it: that would load requests and pydantic."""
    spec = importlib.util.find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise MissingExtraError(
            "the package 'wordllama' is needed here and is not installed; "
            "install it with: pip install 'agora-retrieval[wordllama]'"
        )
    return Path(spec.origin).parent


def _first(folder: Path, names: Sequence[str]) -> Path:
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise EmbeddingError(
        f"the installed wordllama has no {names[0]!r}; install a release that holds its model, for example 0.4"
    )


def _tokenize(model: _Model, texts: list[str]) -> list[list[int]]:
    # A blank text has a token for its spaces; it means nothing, so it gets none.
    encoded = model.tokenizer.encode_batch_fast(
        [text if text and not text.isspace() else "" for text in texts], add_special_tokens=False
    )
    unknown = model.unknown
    return [
        ids if unknown is None or unknown not in ids else [token for token in ids if token != unknown]
        for ids in (item.ids for item in encoded)
    ]


def _mean_row(table: NDArray[np.float32], ids: list[int]) -> NDArray[np.float32]:
    """Return the mean of the rows `ids` of a (tokens, dimension) table; `ids` is not empty.

    One text at a time: `np.add.reduceat` over a whole batch takes eighteen times as long.
    """
    total = np.zeros(table.shape[1], dtype=np.float32)
    for start in range(0, len(ids), _TOKENS_AT_ONCE):
        rows = table.take(np.array(ids[start : start + _TOKENS_AT_ONCE], dtype=np.int32), axis=0)
        total += np.add.reduce(rows, axis=0)
    total /= len(ids)
    return total

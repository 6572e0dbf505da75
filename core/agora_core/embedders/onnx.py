"""Transformer embedders in ONNX form, run by onnxruntime from local files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from agora_core.embedders.vectors import Vector, to_unit_rows
from agora_core.errors import EmbeddingError, InvalidArgumentError
from agora_core.local_models import OnnxTextModel, PathLike
from agora_core.model_inputs import check_count, check_name, check_texts

Pooling = Literal["mean", "cls", "last"]


class OnnxEmbeddingProvider:
    """Embeds with a transformer exported to ONNX (MiniLM, BGE, E5, GTE, ...); files are local, nothing is fetched.

    Texts are sorted by their number of tokens before they are batched, so that little padding is computed; results
    come back in the order given. A text that is empty after its prefix gives the vector the model has for it. With
    dynamically quantised (int8) models a vector depends a little on the batch it was computed in.

    Args:
        model: path of the .onnx file. Its inputs are among input_ids, attention_mask, token_type_ids, position_ids.
        tokenizer: path of the model's tokenizer.json.
        pooling: how the vectors of the tokens, shape (tokens, dimension), become one: `mean` over the text's tokens
            (default; MiniLM, E5, GTE), `cls` the first token (BGE), `last` the last one (decoder models). A model that
            answers with one vector per text already needs none.
        normalize: make unit vectors; default True. A zero vector stays zero.
        query_prefix, passage_prefix: put before queries (`embed_query`) and passages (`embed`), for models trained
            so: E5 wants `"query: "` and `"passage: "`. Default none.
        max_tokens: a text's longest length in tokens, special ones included; what is beyond is cut. Default 512.
        batch_size: texts computed at once; default 16. Memory grows with batch_size x tokens squared.
        threads: threads one run may use; None (default) takes all cores, 1 suits servers that run many at once.
        providers: onnxruntime's execution providers in order of preference; default the CPU.
        output: name of the output to pool; default the model's first.
        name: what stores remember the model by, and refuse another's vectors; None (default) goes unnamed.

    Raises:
        InvalidArgumentError: an argument breaks a rule, or a file is not there (at once) or not readable (first use).
        MissingExtraError: onnxruntime or tokenizers is missing (`pip install 'agora-retrieval[onnx]'`), at first use.
        EmbeddingError: the model failed or answered with something that is not vectors.

    Examples:
        >>> minilm = OnnxEmbeddingProvider(
        ...     models / "minilm.onnx", models / "tokenizer.json", pooling="mean", name="minilm"
        ... )
        >>> len(minilm.embed(["days of leave", "notice"]))
        2
    """

    def __init__(
        self,
        model: PathLike,
        tokenizer: PathLike,
        *,
        pooling: Pooling = "mean",
        normalize: bool = True,
        query_prefix: str = "",
        passage_prefix: str = "",
        max_tokens: int = 512,
        batch_size: int = 16,
        threads: int | None = None,
        providers: Sequence[str] = ("CPUExecutionProvider",),
        output: str | None = None,
        name: str | None = None,
    ) -> None:
        if pooling not in ("mean", "cls", "last"):
            raise InvalidArgumentError(f"pooling must be 'mean', 'cls' or 'last', got {pooling!r}")
        self._model = OnnxTextModel(
            model, tokenizer, max_tokens=max_tokens, threads=threads, providers=providers, output=output
        )
        self._pooling = pooling
        self._normalize = normalize
        self._query_prefix, self._passage_prefix = check_texts([query_prefix, passage_prefix])
        self._batch_size = check_count(batch_size, argument="batch_size")
        self._dimension: int | None = None
        self._name = str(model)
        self.model = None if name is None else check_name(name, argument="name")

    def __repr__(self) -> str:
        return f"OnnxEmbeddingProvider({self._name!r}, pooling={self._pooling!r})"

    @property
    def dimension(self) -> int:
        """The length of every vector; the first reading runs the model once on a short text."""
        if self._dimension is None:
            self._embed(["a"])
        assert self._dimension is not None  # noqa: S101 (set by every run)
        return self._dimension

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector per passage, in the same order."""
        return self._embed([self._passage_prefix + text for text in check_texts(texts)])

    async def aembed(self, texts: Sequence[str]) -> list[Vector]:
        """Do what `embed` does in a worker thread."""
        return await asyncio.to_thread(self.embed, texts)

    def embed_query(self, text: str) -> Vector:
        """Return the vector of one query."""
        return self._embed([self._query_prefix + check_texts([text])[0]])[0]

    async def aembed_query(self, text: str) -> Vector:
        """Do what `embed_query` does in a worker thread."""
        return await asyncio.to_thread(self.embed_query, text)

    def _embed(self, texts: list[str]) -> list[Vector]:
        if not texts:
            return []
        encodings = self._model.encode(texts)
        order = sorted(range(len(encodings)), key=lambda position: len(encodings[position].ids))
        rows: list[Vector] = [np.empty(0, dtype=np.float32)] * len(texts)
        for start in range(0, len(order), self._batch_size):
            positions = order[start : start + self._batch_size]
            try:
                states, mask = self._model.run([encodings[position] for position in positions])
            except Exception as error:  # onnxruntime raises a dozen classes of its own
                raise EmbeddingError(f"{self._name!r} failed on a batch of {len(positions)} texts: {error}") from error
            for position, row in zip(positions, self._to_vectors(states, mask), strict=True):
                rows[position] = row
        return rows

    def _to_vectors(self, states: NDArray[np.float32], mask: NDArray[np.int64]) -> NDArray[np.float32]:
        vectors = pool(states, mask, self._pooling) if states.ndim == 3 else states
        if vectors.ndim != 2 or len(vectors) != len(mask):
            raise EmbeddingError(f"{self._name!r} answered with shape {states.shape} to {len(mask)} texts")
        if not np.isfinite(vectors).all():
            raise EmbeddingError(f"{self._name!r} answered with NaN or infinity")
        vectors = np.array(vectors, dtype=np.float32)
        self._dimension = vectors.shape[1]
        return to_unit_rows(vectors) if self._normalize else vectors


def pool(states: NDArray[np.float32], mask: NDArray[np.int64], pooling: Pooling) -> NDArray[np.float32]:
    """Return (n, dimension) from token states (n, tokens, dimension) and the mask (n, tokens) of the tokens that count.

    A text without tokens gives zeros under `mean`.
    """
    if pooling == "cls":
        first: NDArray[np.float32] = states[:, 0]
        return first
    if pooling == "last":
        ends: NDArray[np.float32] = states[np.arange(len(states)), np.maximum(mask.sum(axis=1) - 1, 0)]
        return ends
    weights = mask[:, :, None].astype(np.float32)
    pooled: NDArray[np.float32] = (states * weights).sum(axis=1) / np.maximum(weights.sum(axis=1), 1.0)
    return pooled

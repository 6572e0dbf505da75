"""Cross-encoders in ONNX form: a model reads query and passage together and gives one score."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from agora_core.errors import InvalidArgumentError, RerankingError
from agora_core.local_models import OnnxTextModel, PathLike
from agora_core.model_inputs import check_count
from agora_core.records import Passage
from agora_core.rerankers.ordering import check_max_chars, check_request, in_order

Activation = Literal["none", "sigmoid"]


class CrossEncoderReranker:
    """Scores passages with a cross-encoder exported to ONNX (MS MARCO MiniLM, BGE reranker, ...) from local files.

    Args:
        model: path of the .onnx file. It answers with one number per pair, or two (the score is then the second less
            the first, the logit of "relevant").
        tokenizer: path of the model's tokenizer.json; it joins query and passage as the model was trained.
        activation: `sigmoid` (default) maps the model's logit to (0, 1); `none` gives it as it is. The order is the
            same.
        max_tokens: longest length of query and passage together, in tokens; default 512. The longer of the two is cut
            first, which is the passage in practice.
        batch_size: pairs computed at once; default 16.
        max_passage_chars: only so many leading characters of a passage are read; default None, all of it.
        threads: threads one run may use; None (default) takes all cores.
        providers: onnxruntime's execution providers in order of preference; default the CPU.
        output: name of the output to read; default the model's first.

    Raises:
        InvalidArgumentError: an argument breaks a rule, or a file is not there (at once) or not readable (first use).
        MissingExtraError: onnxruntime or tokenizers is missing (`pip install 'agora-retrieval[onnx]'`), at first use.
        RerankingError: the model failed, or answered with something else than a score per pair.

    Examples:
        >>> reranker = CrossEncoderReranker(models / "msmarco.onnx", models / "tokenizer.json")
        >>> len(reranker.rerank("days of leave", passages, top_k=1))
        1
    """

    def __init__(
        self,
        model: PathLike,
        tokenizer: PathLike,
        *,
        activation: Activation = "sigmoid",
        max_tokens: int = 512,
        batch_size: int = 16,
        max_passage_chars: int | None = None,
        threads: int | None = None,
        providers: Sequence[str] = ("CPUExecutionProvider",),
        output: str | None = None,
    ) -> None:
        if activation not in ("none", "sigmoid"):
            raise InvalidArgumentError(f"activation must be 'none' or 'sigmoid', got {activation!r}")
        self._model = OnnxTextModel(
            model, tokenizer, max_tokens=max_tokens, threads=threads, providers=providers, output=output
        )
        self._activation = activation
        self._batch_size = check_count(batch_size, argument="batch_size")
        self._max_chars = check_max_chars(max_passage_chars)
        self._name = str(model)

    def __repr__(self) -> str:
        return f"CrossEncoderReranker({self._name!r})"

    def rerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        """Return fresh passages by the model's score, best first, the best `top_k` where it is given."""
        checked = check_request(query, passages, top_k)
        if not checked:
            return []
        encodings = self._model.encode([(query, passage.text[: self._max_chars]) for passage in checked])
        # Pairs of like length together: little padding is computed.
        order = sorted(range(len(encodings)), key=lambda position: len(encodings[position].ids))
        scores = np.zeros(len(checked), dtype=np.float64)
        for start in range(0, len(order), self._batch_size):
            positions = order[start : start + self._batch_size]
            scores[positions] = self._score([encodings[position] for position in positions])
        return in_order(checked, scores.tolist(), top_k)

    async def arerank(self, query: str, passages: Sequence[Passage], *, top_k: int | None = None) -> list[Passage]:
        """Do what `rerank` does in a worker thread."""
        return await asyncio.to_thread(self.rerank, query, passages, top_k=top_k)

    def _score(self, encodings: list[Any]) -> NDArray[np.float64]:
        try:
            answer, _ = self._model.run(encodings)
        except Exception as error:  # onnxruntime raises a dozen classes of its own
            raise RerankingError(f"{self._name!r} failed on a batch of {len(encodings)} pairs: {error}") from error
        logits = to_logits(answer, len(encodings))
        if logits is None:
            raise RerankingError(
                f"{self._name!r} answered with shape {answer.shape} to {len(encodings)} pairs; "
                "a reranker gives one or two numbers a pair"
            )
        return sigmoid(logits) if self._activation == "sigmoid" else logits


def to_logits(answer: NDArray[Any], count: int) -> NDArray[np.float64] | None:
    """Return one number per pair from an answer of shape (n,), (n, 1) or (n, 2); None where it has another shape."""
    if answer.shape == (count, 2):
        two = answer.astype(np.float64)
        margins: NDArray[np.float64] = two[:, 1] - two[:, 0]
        return margins
    return answer.astype(np.float64).reshape(count) if answer.shape in ((count,), (count, 1)) else None


def sigmoid(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 1 / (1 + exp(-x)), in the form that overflows for no x."""
    halves: NDArray[np.float64] = 0.5 * (1.0 + np.tanh(0.5 * logits))
    return halves

"""Models read from local files: tokenizer.json, safetensors tables and ONNX graphs. Nothing here opens a connection."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Union

import numpy as np
from numpy.typing import NDArray

from agora_core.concurrency import fork_safe_lock
from agora_core.errors import InvalidArgumentError
from agora_core.extras import require
from agora_core.model_inputs import check_count

PathLike = Union[str, "os.PathLike[str]"]
TextOrPair = str | tuple[str, str]

_DTYPES: Final = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}
_LONGEST_HEADER: Final = 100_000_000
_INTEGERS: Final[dict[str, Any]] = {"tensor(int64)": np.dtype(np.int64), "tensor(int32)": np.dtype(np.int32)}


def check_file(path: Any, *, argument: str) -> Path:
    """Return `path` as the Path of a file that is there.

    Raises:
        InvalidArgumentError: it is not a path, or no file is there.
    """
    try:
        checked = Path(path)
    except TypeError:
        raise InvalidArgumentError(f"{argument} must be the path of a file, got {type(path).__name__}") from None
    if not checked.is_file():
        raise InvalidArgumentError(f"{argument}: there is no file {str(checked)!r}; give the path of a local file")
    return checked


def load_tokenizer(path: Path, *, extra: str) -> Any:
    """Return the tokenizer of a tokenizer.json with its padding and truncation taken off.

    `TOKENIZERS_PARALLELISM` is set to `false` unless the environment sets it: the package otherwise starts a thread a
    core and warns in a process that forks afterwards.

    Raises:
        InvalidArgumentError: the file cannot be read.
        MissingExtraError: the package `tokenizers` is not installed; the message names `extra`.
    """
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    tokenizers = require("tokenizers", extra=extra)
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises no narrower class
        raise InvalidArgumentError(f"tokenizer: {str(path)!r} is not a tokenizer.json: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def read_safetensors(path: Path, name: str) -> NDArray[Any]:
    """Return one float tensor of a safetensors file, mapped into memory.

    The form: 8 bytes little-endian header length, a JSON header `{name: {dtype, shape, data_offsets}}`, the data
    (https://github.com/huggingface/safetensors, "Format").

    Raises:
        InvalidArgumentError: the file is not a safetensors file or has no such tensor.
    """
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > _LONGEST_HEADER:
                raise ValueError("the header is too long")
            entry = json.loads(file.read(length))[name]
        dtype, shape = np.dtype(_DTYPES[entry["dtype"]]), tuple(entry["shape"])
        start, stop = entry["data_offsets"]
        if stop - start != int(np.prod(shape)) * dtype.itemsize:
            raise ValueError("shape and size differ")
        return np.memmap(path, dtype=dtype, mode="r", offset=8 + length + start, shape=shape)
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"weights: {str(path)!r} holds no readable tensor {name!r} ({type(error).__name__})"
        raise InvalidArgumentError(message) from error


class OnnxTextModel:
    """An ONNX transformer with its tokenizer, both from local files, read once at the first use.

    Safe to share between threads. `max_tokens` bounds a text (or a pair) with its special tokens; what is beyond is
    cut. `threads` is the number of threads one run uses; None leaves it to onnxruntime (all cores).
    """

    def __init__(
        self,
        model: PathLike,
        tokenizer: PathLike,
        *,
        max_tokens: int,
        threads: int | None,
        providers: Sequence[str],
        output: str | None,
    ) -> None:
        self._model_path = check_file(model, argument="model")
        self._tokenizer_path = check_file(tokenizer, argument="tokenizer")
        if isinstance(providers, str):
            raise InvalidArgumentError(f"providers must be a sequence of names, got the str {providers!r}")
        self._max_tokens = check_count(max_tokens, argument="max_tokens")
        self._threads = None if threads is None else check_count(threads, argument="threads")
        self._providers = list(providers)
        self._output = output
        self._lock = fork_safe_lock(after=2)
        self._loaded: tuple[Any, Any] | None = None

    def __repr__(self) -> str:
        return f"OnnxTextModel({str(self._model_path)!r})"

    def encode(self, texts: Sequence[TextOrPair]) -> list[Any]:
        """Return the encodings of texts or pairs of texts, with special tokens, cut to `max_tokens`."""
        tokenizer, _ = self._parts()
        encoded: list[Any] = tokenizer.encode_batch(list(texts))
        return encoded

    def run(self, encodings: Sequence[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the output for a batch and the batch's attention mask (n, longest), padded on the right."""
        _, session = self._parts()
        shape = (len(encodings), max((len(item.ids) for item in encodings), default=0) or 1)
        ids, mask, kinds = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        for row, item in enumerate(encodings):
            ids[row, : len(item.ids)] = item.ids
            mask[row, : len(item.ids)] = 1
            kinds[row, : len(item.ids)] = item.type_ids
        known: dict[str, NDArray[np.int64]] = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": kinds,
            "position_ids": np.broadcast_to(np.arange(shape[1], dtype=np.int64), shape),
        }
        feed = {entry.name: known[entry.name].astype(_INTEGERS[entry.type]) for entry in session.get_inputs()}
        (out,) = session.run([self._output_name(session)], feed)
        return np.asarray(out), mask

    def _parts(self) -> tuple[Any, Any]:
        """Return the tokenizer and the session, loading them at the first call."""
        loaded = self._loaded
        if loaded is None:
            with self._lock:
                loaded = self._loaded
                if loaded is None:
                    loaded = self._load()
                    # Published last: other threads see both parts ready or none.
                    self._loaded = loaded
        return loaded

    def _load(self) -> tuple[Any, Any]:
        runtime = require("onnxruntime", extra="onnx")
        tokenizer = load_tokenizer(self._tokenizer_path, extra="onnx")
        tokenizer.enable_truncation(self._max_tokens)
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        if self._threads is not None:
            options.intra_op_num_threads = self._threads
        try:
            session = runtime.InferenceSession(str(self._model_path), options, providers=self._providers)
        except Exception as error:  # the package raises a dozen classes of its own
            raise InvalidArgumentError(f"model: {str(self._model_path)!r} is not an ONNX model: {error}") from error
        self._check_inputs(session)
        self._output_name(session)
        return tokenizer, session

    def _check_inputs(self, session: Any) -> None:
        known = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
        for entry in session.get_inputs():
            if entry.name not in known or entry.type not in _INTEGERS:
                raise InvalidArgumentError(
                    f"model: {str(self._model_path)!r} asks for the input {entry.name!r} ({entry.type}); a text model "
                    f"takes integers called {', '.join(known)}"
                )

    def _output_name(self, session: Any) -> str:
        names: list[str] = [entry.name for entry in session.get_outputs()]
        if self._output is None:
            return names[0]
        if self._output not in names:
            raise InvalidArgumentError(f"output: the model has no output {self._output!r}, only {names}")
        return self._output

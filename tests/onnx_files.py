"""Tiny models in files, so that tests run the real loading code: an ONNX encoder, a cross-encoder, a tokenizer.

The ONNX files are written field by field in protobuf's wire form (https://protobuf.dev/programming-guides/encoding,
field numbers from onnx.proto3), which spares the test suite a large package.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "cat", "dog", "tea", "rain", "red", "blue", "zero")
_FLOAT, _INT64 = 1, 7


def write_tokenizer(path: Path, *, add_special_tokens: bool = True) -> Path:
    """Write a tokenizer.json of whole words, with [CLS] and [SEP] as BERT has them."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    tokenizer = Tokenizer(WordLevel({word: n for n, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    if add_special_tokens:
        tokenizer.post_processor = TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
        )
    # As published files often have it; a loader that kept these would cut and pad.
    tokenizer.enable_truncation(4)
    tokenizer.enable_padding(length=128)
    tokenizer.save(str(path))
    return path


def write_encoder(path: Path, table: NDArray[np.float32], *, pooled: bool = False) -> Path:
    """Write a model whose token states are the rows of `table` (words, dimension); `pooled` sums them per text."""
    nodes = [_node("Gather", ["table", "input_ids"], ["states" if pooled else "last_hidden_state"])]
    outputs = [_value("last_hidden_state", _FLOAT, ("n", "tokens", table.shape[1]))]
    if pooled:
        nodes += [
            *_masked("states", "attention_mask", "kept"),
            _node("ReduceSum", ["kept", "axis_1"], ["sentence_embedding"], keepdims=0),
        ]
        outputs = [_value("sentence_embedding", _FLOAT, ("n", table.shape[1]))]
    return _write(path, nodes, table, outputs)


def write_cross_encoder(path: Path, table: NDArray[np.float32]) -> Path:
    """Write a model whose answer (n, columns) is the sum of the rows of `table` at the tokens of the second text."""
    nodes = [
        _node("Gather", ["table", "input_ids"], ["states"]),
        *_masked("states", "token_type_ids", "kept"),
        _node("ReduceSum", ["kept", "axis_1"], ["logits"], keepdims=0),
    ]
    return _write(path, nodes, table, [_value("logits", _FLOAT, ("n", table.shape[1]))])


def write_image_model(path: Path) -> Path:
    """Write a model that takes no text."""
    node = _node("Identity", ["pixel_values"], ["out"])
    graph = _field(1, node) + _field(2, b"graph") + _field(11, _value("pixel_values", _FLOAT, ("n", 3)))
    path.write_bytes(_model(graph + _field(12, _value("out", _FLOAT, ("n", 3)))))
    return path


def _masked(states: str, mask: str, out: str) -> list[bytes]:
    """Return the nodes that multiply states (n, tokens, d) by a mask (n, tokens)."""
    return [
        _node("Cast", [mask], ["mask_float"], to=_FLOAT),
        _node("Unsqueeze", ["mask_float", "axis_2"], ["mask_column"]),
        _node("Mul", [states, "mask_column"], [out]),
    ]


def _write(path: Path, nodes: Sequence[bytes], table: NDArray[np.float32], outputs: Sequence[bytes]) -> Path:
    constants = [
        _tensor("table", np.ascontiguousarray(table, dtype=np.float32)),
        _tensor("axis_1", np.array([1], dtype=np.int64)),
        _tensor("axis_2", np.array([2], dtype=np.int64)),
    ]
    inputs = [_value(name, _INT64, ("n", "tokens")) for name in ("input_ids", "attention_mask", "token_type_ids")]
    graph = _fields(1, nodes) + _field(2, b"graph") + _fields(5, constants) + _fields(11, inputs) + _fields(12, outputs)
    path.write_bytes(_model(graph))
    return path


def _model(graph: bytes) -> bytes:
    opset = _field(1, b"") + _number(2, 13)
    return _number(1, 8) + _field(8, opset) + _field(7, graph)


def _node(kind: str, inputs: Sequence[str], outputs: Sequence[str], **integers: int) -> bytes:
    attributes = [_field(1, name.encode()) + _number(3, value) + _number(20, 2) for name, value in integers.items()]
    names = _fields(1, [name.encode() for name in inputs]) + _fields(2, [name.encode() for name in outputs])
    return names + _field(4, kind.encode()) + _fields(5, attributes)


def _tensor(name: str, array: NDArray[np.float32] | NDArray[np.int64]) -> bytes:
    kind = _FLOAT if array.dtype == np.float32 else _INT64
    dims = b"".join(_number(1, size) for size in array.shape)
    return dims + _number(2, kind) + _field(8, name.encode()) + _field(9, array.tobytes())


def _value(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    dims = [_number(1, size) if isinstance(size, int) else _field(2, size.encode()) for size in shape]
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, kind) + _field(2, _fields(1, dims))))


def _fields(number: int, contents: Iterable[bytes]) -> bytes:
    return b"".join(_field(number, content) for content in contents)


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])

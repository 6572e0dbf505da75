"""The Python blocks of the page on embedders run, with tiny models where the page names files."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.onnx_files import WORDS, write_cross_encoder, write_encoder, write_tokenizer

PAGE = Path(__file__).parents[3] / "docs" / "embedders.md"


def test_the_python_blocks_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = np.ones((len(WORDS), 4), dtype=np.float32)
    for name in ("all-MiniLM-L6-v2", "e5-small", "bge-small", "ms-marco-MiniLM-L6-v2"):
        folder = tmp_path / name
        folder.mkdir()
        write_tokenizer(folder / "tokenizer.json")
        if name.startswith("ms-marco"):
            write_cross_encoder(folder / "model.onnx", table[:, :1])
        else:
            write_encoder(folder / "model.onnx", table)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) == 5
    namespace: dict[str, object] = {"__name__": "page", "key": "not a real key"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), namespace)
    for name in ("minilm", "e5", "bge"):
        provider = namespace[name]
        assert len(provider.embed(["cat"])) == 1  # type: ignore[attr-defined]

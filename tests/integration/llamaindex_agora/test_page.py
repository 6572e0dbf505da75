"""The page on LlamaIndex runs, block after block in one namespace, and names all there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import llamaindex_agora

PAGE = Path(__file__).resolve().parents[3] / "docs" / "llamaindex.md"


@pytest.mark.filterwarnings("ignore:.*langchain-community.*:DeprecationWarning")
def test_the_python_blocks_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    namespace: dict[str, Any] = {"__name__": __name__}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), namespace)
    assert len(blocks) >= 3


def test_every_exported_name_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8") + (PAGE.parent / "migrate-llamaindex.md").read_text(encoding="utf-8")
    assert [name for name in llamaindex_agora.__all__ if name not in text] == []

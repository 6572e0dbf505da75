"""The page on LangChain runs, block after block in one namespace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import langchain_agora

PAGE = Path(__file__).resolve().parents[3] / "docs" / "langchain.md"


def test_the_python_blocks_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    # A dataclass looks for its module by name.
    namespace: dict[str, Any] = {"__name__": __name__}
    for block in blocks:
        exec(compile(block, PAGE.name, "exec"), namespace)
    assert len(blocks) >= 7
    assert namespace["answer"].content == "30 days [1]."


def test_every_exported_name_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in langchain_agora.__all__ if name not in text] == []

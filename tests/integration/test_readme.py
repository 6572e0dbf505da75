"""The README's Python blocks run, in order, in one namespace; its links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_blocks_run(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) == 4
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), namespace)
    printed = capsys.readouterr().out
    assert "You have 30 days [1]." in printed
    assert "Everyone has 30 days of leave." in printed


@pytest.mark.parametrize("page", sorted(["README.md", *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]))
def test_relative_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
    missing = [item for item in targets if "://" not in item and not (path.parent / item).exists()]
    assert missing == []

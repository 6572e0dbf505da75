"""Type checkers see what is wrong: a misspelt option, a store that is none, an answer that may be None."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
USES = ROOT / "tests" / "typing" / "uses.py"


def wrong_lines() -> list[int]:
    return [n for n, line in enumerate(USES.read_text().splitlines(), 1) if line.endswith("# wrong")]


@pytest.mark.slow
def test_mypy_refuses_exactly_the_wrong_uses() -> None:
    config = ("--config-file", str(USES.parent / "mypy.ini"), "--cache-dir", str(ROOT / ".mypy_cache" / "uses"))
    command = [sys.executable, "-m", "mypy", "--no-error-summary", *config, "-O", "json", str(USES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    own = [each for each in found if each["file"].endswith("uses.py") and each["severity"] == "error"]
    assert sorted({each["line"] for each in own}) == wrong_lines(), done.stdout


@pytest.mark.slow
def test_pyright_refuses_exactly_the_wrong_uses(tmp_path: Path) -> None:
    project = tmp_path / "pyrightconfig.json"
    paths = {"include": [str(USES)], "extraPaths": [str(ROOT / "core"), str(ROOT)], "typeCheckingMode": "standard"}
    project.write_text(json.dumps({**paths, "pythonVersion": "3.10"}))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "-p", str(project)]
    done = subprocess.run([*command, "--pythonpath", sys.executable], capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [each for each in found if each["severity"] == "error"]
    assert sorted({each["range"]["start"]["line"] + 1 for each in errors}) == wrong_lines(), done.stdout

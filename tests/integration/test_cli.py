"""The command line, as a person and as a program would use it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agora_core.cli import main


def agora(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for team in ("hr", "board"):
        (tmp_path / "docs" / team).mkdir(parents=True)
    (tmp_path / "docs" / "hr" / "leave.md").write_text("# Leave\n\nEveryone has 30 days of leave.")
    (tmp_path / "docs" / "board" / "pay.md").write_text("# Pay\n\nDirectors have 40 days of leave.")
    (tmp_path / "docs" / "photo.png").write_bytes(b"\x89PNG\x00")
    return tmp_path / "docs"


@pytest.mark.parametrize("kind", ["memory", "postgres"])
def test_sync_ask_check(folder: Path, tmp_path: Path, kind: str, request: pytest.FixtureRequest) -> None:
    place = str(tmp_path / "files.agora")
    table = "agora_files"
    if kind == "postgres":
        place, table = request.getfixturevalue("pg_conninfo"), request.getfixturevalue("fresh_name")
    common = ("--table", table)
    planned = agora("sync", str(folder), "--store", place, "--label", "team=1", "--dry-run", *common)
    assert planned.exit_code == 0, planned.output
    if kind == "postgres":  # asking and planning make nothing
        assert "planned as for an empty store: the table" in planned.output
        early = agora("ask", place, "leave", *common)
        assert (early.exit_code, "does not exist" in early.output) == (1, True), early.output
    done = agora("sync", str(folder), "--store", place, "--label", "team=1", *common)
    assert done.exit_code == 0, done.output
    assert "embedded          2  board/pay.md, hr/leave.md" in done.output
    assert "photo.png: unsupported-type" in done.output
    again = json.loads(agora("sync", str(folder), "--store", place, "--label", "team=1", "--json", *common).stdout)
    assert (len(again["unchanged"]), again["chunks_embedded"]) == (2, 0)
    found = agora("ask", place, "days of leave", "--filter", '{"team": ["hr"]}', *common)
    assert found.exit_code == 0, found.output
    assert "[1] hr/leave.md" in found.output
    assert "pay.md" not in found.output
    explained = agora("ask", place, "days of leave", "--explain", *common)
    assert "removed: 0 by the floor" in explained.output
    rows: Any = json.loads(agora("ask", place, "days of leave", "--json", "--top-k", "1", *common).stdout)
    assert [sorted(row) for row in rows] == [["id", "metadata", "score", "source", "text"]]
    assert agora("check", place, *common).output.startswith("ok: ")


def test_a_folder_is_asked_without_a_store(folder: Path) -> None:
    found = agora("ask", str(folder), "leave", "--label", "team=1", "--filter", '{"team": "board"}')
    assert "board/pay.md" in found.output
    assert "hr/leave.md" not in found.output


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("ask", "nowhere", "x"), 2, "'nowhere' does not exist"),
        (("ask", ".", "x", "--filter", "{"), 2, "not JSON"),
        (("ask", ".", "x", "--filter", "[]"), 2, "write an object"),
        (("ask", ".", "x", "--top-k", "0"), 2, "top-k"),
        (("sync", ".", "--store", "x", "--label", "team"), 2, "write KEY=LEVEL"),
        (("check", "postgresql://nobody@127.0.0.1:1/none"), 1, "not ok"),
        (("check", "nowhere"), 2, "does not exist"),
        (("check", "."), 1, "Error: [Errno 21] Is a directory: '.'"),
        (("check", "a.txt"), 1, "Error: path 'a.txt' is not a saved memory store"),
        (("sync", ".", "--store", "."), 1, "Error: [Errno 21] Is a directory: '.'"),
    ],
)
def test_what_cannot_be_done_says_why(
    arguments: tuple[str, ...], code: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("text")
    done = agora(*arguments)
    assert (done.exit_code, words in done.output) == (code, True), done.output


def test_in_a_terminal(folder: Path) -> None:
    main_end, other_end = pty.openpty()
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "core"), str(root)]), "TERM": "xterm"}
    command = [sys.executable, "-c", "from agora_core.cli import main; main()", "ask", str(folder), "leave"]
    done = subprocess.run(command, stdout=other_end, stderr=other_end, env=environment, timeout=120)
    os.close(other_end)
    shown = os.read(main_end, 65_536).decode()
    assert done.returncode == 0, shown
    assert "\x1b[1m[1] " in shown

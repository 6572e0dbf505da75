"""A saved context that another process goes on with does not retrieve again, where the same actor asks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
WORKER = "tests.integration.llamaindex_agora.resume_worker"


def process(folder: Path, kind: str, phase: str, tenant: str) -> dict[str, Any]:
    order = {"kind": kind, "phase": phase, "tenant": tenant}
    order |= {"saved": str(folder / "context.json"), "log": str(folder / "retrievals.log")}
    done = subprocess.run(
        [sys.executable, "-m", WORKER, json.dumps(order)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "core"), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


@pytest.mark.parametrize(("kind", "stopped"), [("agent", "failed"), ("workflow", "failed"), ("interrupted", "waiting")])
def test_a_saved_context_goes_on_in_a_new_process_without_retrieving_again(
    tmp_path: Path, kind: str, stopped: str
) -> None:
    started = process(tmp_path, kind, "start", "a")
    assert started["stopped"] == stopped
    report = process(tmp_path, kind, "go-on", "a")
    assert report["answer"] == "done"
    assert "retrieve" in report["calls"]
    assert (tmp_path / "retrievals.log").read_text().split() == ["a"]
    systems = [*started["systems"], *report["systems"]]
    assert all("at A" in system and "at B" not in system for system in systems)
    assert report["systems"]


@pytest.mark.parametrize("kind", ["agent", "workflow", "interrupted"])
def test_a_saved_turn_shows_another_actor_nothing_of_the_first(tmp_path: Path, kind: str) -> None:
    process(tmp_path, kind, "start", "a")
    report = process(tmp_path, kind, "go-on", "b")
    assert report["systems"]
    assert all("at B" in system and "at A" not in system for system in report["systems"])
    assert (tmp_path / "retrievals.log").read_text().split() == ["a", "b"]

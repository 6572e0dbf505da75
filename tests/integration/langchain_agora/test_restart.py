"""A turn whose process is killed and started again retrieves once; its checkpoints are in SQLite on disk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
WORKER = "tests.integration.langchain_agora.restart_worker"


class Turn:
    """The files that outlive the processes of one turn."""

    def __init__(self, folder: Path, kind: str, colour: str) -> None:
        self.order = {"kind": kind, "colour": colour, "database": str(folder / "state.db")}
        self.log = folder / "retrievals.log"

    def process(self, phase: str, tenant: str) -> subprocess.CompletedProcess[str]:
        order = {**self.order, "log": str(self.log), "phase": phase, "tenant": tenant}
        path = os.pathsep.join([str(ROOT / "core"), str(ROOT)])
        return subprocess.run(
            [sys.executable, "-m", WORKER, json.dumps(order)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=120,
        )

    def go_on(self, tenant: str) -> dict[str, Any]:
        done = self.process("go-on", tenant)
        assert done.returncode == 0, done.stderr
        report: dict[str, Any] = json.loads(done.stdout)
        return report

    @property
    def retrievals(self) -> list[str]:
        return self.log.read_text().split()


@pytest.mark.parametrize(
    ("kind", "colour"), [("killed-in-tool", "sync"), ("killed-in-tool", "async"), ("killed-in-model", "sync")]
)
def test_a_killed_agent_goes_on_in_a_new_process_without_retrieving_again(
    tmp_path: Path, kind: str, colour: str
) -> None:
    turn = Turn(tmp_path, kind, colour)
    assert turn.process("start", "a").returncode == -signal.SIGKILL
    report = turn.go_on("b")
    assert report["answer"] == "done"
    assert turn.retrievals == ["a"]
    assert all("at A" in system and "at B" not in system for system in report["systems"])
    assert report["systems"]


def test_an_interrupted_agent_is_resumed_by_another_actor_in_a_new_process(tmp_path: Path) -> None:
    turn = Turn(tmp_path, "interrupted", "sync")
    assert turn.process("start", "a").returncode == 0
    report = turn.go_on("b")
    assert report["answer"] == "done"
    assert turn.retrievals == ["a"]
    assert ["at A" in system for system in report["systems"]] == [True]


@pytest.mark.parametrize(
    ("kind", "colour"),
    [
        ("task-killed", "sync"),
        pytest.param(
            "task-killed",
            "async",
            marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="LangGraph's async tasks need Python 3.11"),
        ),
        ("task-interrupted", "sync"),
    ],
)
def test_a_task_of_a_graph_of_ones_own_is_not_run_again(tmp_path: Path, kind: str, colour: str) -> None:
    turn = Turn(tmp_path, kind, colour)
    started = turn.process("start", "a")
    assert started.returncode == (-signal.SIGKILL if kind == "task-killed" else 0), started.stderr
    report = turn.go_on("b")
    assert turn.retrievals == ["a"]
    assert len(report["texts"]) == 2
    assert all("at A" in text for text in report["texts"])

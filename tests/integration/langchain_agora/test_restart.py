"""A turn whose process is killed and started again retrieves once; its checkpoints are in SQLite on disk."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.langchain_agora import restart_worker

ROOT = Path(__file__).resolve().parents[3]
WHOLE = ("killed-in-tool", "sync")
"""The case that is run in whole interpreters of its own."""

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([restart_worker.__name__])


def run_interpreter(order: dict[str, str]) -> int:
    path = os.pathsep.join([str(ROOT / "core"), str(ROOT)])
    command = [sys.executable, "-m", "tests.integration.langchain_agora.restart_worker", json.dumps(order)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, timeout=120)
    return done.returncode


class Turn:
    """The files that outlive the processes of one turn."""

    def __init__(self, folder: Path, kind: str, colour: str, **order: str) -> None:
        self.log, self.report = folder / "retrievals.log", folder / "report.json"
        self.order = {"kind": kind, "colour": colour, "database": str(folder / "state.db"), **order}
        self.order |= {"log": str(self.log), "report": str(self.report)}

    def process(self, phase: str, tenant: str) -> int:
        """Run one phase in a process that shares nothing with the others but the files; return how it ended."""
        order = {**self.order, "phase": phase, "tenant": tenant}
        if (self.order["kind"], self.order["colour"]) == WHOLE:
            return run_interpreter(order)
        # Forked from a server that has done its imports and nothing else: seconds are saved, no state is shared.
        process = FORKS.Process(target=restart_worker.work, args=(order,))
        process.start()
        process.join(120)
        assert process.exitcode is not None, "the process hangs"
        return process.exitcode

    def go_on(self, tenant: str) -> dict[str, Any]:
        assert self.process("go-on", tenant) == 0
        report: dict[str, Any] = json.loads(self.report.read_text())
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
    assert turn.process("start", "a") == -signal.SIGKILL
    report = turn.go_on("a")
    assert report["answer"] == "done"
    assert turn.retrievals == ["a"]
    assert all("at A" in system and "at B" not in system for system in report["systems"])
    assert report["systems"]


def test_a_killed_agent_that_keeps_nothing_starts_the_turn_over(tmp_path: Path) -> None:
    """With `durability="exit"` there is nothing to go on from; what is found is found for who asks again."""
    turn = Turn(tmp_path, "killed-in-tool", "async", durability="exit")
    assert turn.process("start", "a") == -signal.SIGKILL
    report = turn.go_on("b")
    assert turn.retrievals == ["a", "b"]
    assert all("at B" in system and "at A" not in system for system in report["systems"])


def test_an_interrupted_agent_that_another_actor_resumes_in_a_new_process_shows_nothing_of_the_first(
    tmp_path: Path,
) -> None:
    turn = Turn(tmp_path, "interrupted", "sync")
    assert turn.process("start", "a") == 0
    report = turn.go_on("b")
    assert report["answer"] == "done"
    assert turn.retrievals == ["a", "b"]
    assert [("at A" in system, "at B" in system) for system in report["systems"]] == [(False, True)]


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
    assert turn.process("start", "a") == (-signal.SIGKILL if kind == "task-killed" else 0)
    report = turn.go_on("b")
    assert turn.retrievals == ["a"]
    assert len(report["texts"]) == 2
    assert all("at A" in text for text in report["texts"])

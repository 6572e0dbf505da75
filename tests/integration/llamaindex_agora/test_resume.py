"""A saved context that another process goes on with does not retrieve again, where the same actor asks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
WORKER = "tests.integration.llamaindex_agora.resume_worker"
STOPPED = {"agent": "failed", "workflow": "failed", "interrupted": "waiting"}

Reports = dict[tuple[str, str], dict[str, Any]]


def process(orders: list[tuple[Path, str, str]], phase: str) -> list[dict[str, Any]]:
    """Let one process start, or go on with, the turn of each folder, kind and tenant."""
    written = [
        {"kind": kind, "phase": phase, "tenant": tenant}
        | {"saved": str(folder / "context.json"), "log": str(folder / "retrievals.log")}
        for folder, kind, tenant in orders
    ]
    done = subprocess.run(
        [sys.executable, "-m", WORKER, json.dumps(written)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "core"), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    reports: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return reports


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    """Each kind of turn, started by one process as tenant a; a second one goes on as a, and from a copy as b."""
    folder = tmp_path_factory.mktemp("turns")
    for kind in STOPPED:
        (folder / kind).mkdir()
    started = process([(folder / kind, kind, "a") for kind in STOPPED], "start")
    again = [(kind, tenant) for kind in STOPPED for tenant in "ab"]
    copies = [shutil.copytree(folder / kind, folder / f"{kind}-{tenant}") for kind, tenant in again]
    orders = [(copy, kind, tenant) for copy, (kind, tenant) in zip(copies, again, strict=True)]
    reports: Reports = {(kind, "start"): report for kind, report in zip(STOPPED, started, strict=True)}
    for (copy, kind, tenant), report in zip(orders, process(orders, "go-on"), strict=True):
        reports[kind, tenant] = {**report, "retrieved": (copy / "retrievals.log").read_text().split()}
    return reports


@pytest.mark.parametrize("kind", list(STOPPED))
def test_a_saved_context_goes_on_in_a_new_process_without_retrieving_again(turns: Reports, kind: str) -> None:
    started, report = turns[kind, "start"], turns[kind, "a"]
    assert started["stopped"] == STOPPED[kind]
    assert report["answer"] == "done"
    assert "retrieve" in report["calls"]
    assert report["retrieved"] == ["a"]
    systems = [*started["systems"], *report["systems"]]
    assert all("at A" in system and "at B" not in system for system in systems)
    assert report["systems"]


@pytest.mark.parametrize("kind", list(STOPPED))
def test_a_saved_turn_shows_another_actor_nothing_of_the_first(turns: Reports, kind: str) -> None:
    report = turns[kind, "b"]
    assert report["systems"]
    assert all("at B" in system and "at A" not in system for system in report["systems"])
    assert report["retrieved"] == ["a", "b"]

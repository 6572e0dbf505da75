"""The import arrows of the packages: none goes up or round, and none takes what a sibling keeps to itself."""

from __future__ import annotations

import ast
import importlib.util
import sys
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def _script() -> Any:
    spec = importlib.util.spec_from_file_location("draw_arrows", ROOT / "scripts" / "draw_arrows.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


drawing = _script()


def test_every_arrow_between_parts_points_down() -> None:
    floor_of = {part: n for n, floor in enumerate(drawing.FLOORS) for part in floor}
    found = drawing.package_arrows()
    # A part without a floor yet is held by the circles alone.
    known = {one: others & set(floor_of) for one, others in found.items() if one in floor_of}
    up = [(one, other) for one, others in known.items() for other in others if floor_of[other] <= floor_of[one]]
    assert not up, f"these imports go up: {up}"


def test_no_file_imports_itself_by_a_way_round() -> None:
    known = drawing.modules()
    graph: dict[str, set[str]] = {}
    deferred = set()
    for name, path in known.items():
        for target, inside, _ in drawing.arrows(name, path, known):
            if inside and (name, target) in drawing.DEFERRED:
                deferred.add((name, target))
            elif name and target and target != name:
                graph.setdefault(name, set()).add(target)
    assert deferred == drawing.DEFERRED
    tuple(TopologicalSorter(graph).static_order())
    parts = drawing.package_arrows()
    tuple(TopologicalSorter(parts).static_order())


def test_nobody_takes_what_another_module_keeps_to_itself() -> None:
    taken = []
    for package in ("core/agora_core", "langchain_agora", "llamaindex_agora"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(drawing.parsed(path)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in (
                    "agora_core",
                    "langchain_agora",
                    "llamaindex_agora",
                ):
                    taken += [f"{path.name}: {a.name}" for a in node.names if a.name.startswith("_")]
    assert not taken


def test_the_core_knows_no_framework_and_the_adapters_not_each_other() -> None:
    barred = {
        "core/agora_core": {"langchain_agora", "llamaindex_agora", "langchain", "langchain_core", "llama_index"},
        "langchain_agora": {"llamaindex_agora", "llama_index"},
        "llamaindex_agora": {"langchain_agora", "langchain", "langchain_core"},
    }
    for package, names in barred.items():
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(drawing.parsed(path)):
                if isinstance(node, ast.ImportFrom):
                    assert (node.module or "").split(".")[0] not in names, path
                elif isinstance(node, ast.Import):
                    assert not {a.name.split(".")[0] for a in node.names} & names, path


def test_the_picture_shows_every_part() -> None:
    drawn = drawing.picture()
    assert all(f">{part}</text>" in drawn for part in ("retrievers", "stores.postgres", "filters", "records"))
    assert drawn.count("<path d=") > 20

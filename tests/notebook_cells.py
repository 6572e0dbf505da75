"""Runs the code cells of a notebook without Jupyter; `python -m tests.notebook_cells PATH` writes the outputs in."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import sys
from pathlib import Path
from typing import Any


def run_cells(notebook: dict[str, Any]) -> list[str]:
    """Return what each code cell shows: what it prints, then the value of its last line where that is an expression."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    return [_run("".join(cell["source"]), namespace) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def stored_outputs(notebook: dict[str, Any]) -> list[str]:
    """Return what the notebook says each code cell shows."""
    return [
        "".join("".join(output["text"]) for output in cell["outputs"])
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def _run(source: str, namespace: dict[str, Any]) -> str:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        exec(compile(tree, "<cell>", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)
            if value is not None:
                print(repr(value))
    return shown.getvalue()


def _write(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    code_cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, text) in enumerate(zip(code_cells, run_cells(notebook), strict=True), start=1):
        cell["execution_count"] = number
        cell["outputs"] = (
            [{"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}] if text else []
        )
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write(Path(sys.argv[1]))

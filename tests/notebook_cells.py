"""Runs the code cells of a notebook without Jupyter; `python -m tests.notebook_cells PATH` writes the outputs in.

A cell shows what it would in Jupyter: its prints, then the value of its last line, as a picture, as HTML or as text.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

_NUMBER = re.compile(r"(</?b>)?\b\d+\.\d+\b(</?b>)?")
_PICTURE = "image/png"


def run_notebook(path: Path) -> list[list[dict[str, Any]]]:
    """Return the outputs of each code cell, run in the folder of the notebook."""
    cells, before = _code_cells(_read(path)), Path.cwd()
    namespace: dict[str, Any] = {"__name__": "__main__"}
    os.chdir(path.parent)
    try:
        return [_run("".join(cell["source"]), namespace) for cell in cells]
    finally:
        os.chdir(before)


def stored_outputs(path: Path) -> list[list[dict[str, Any]]]:
    """Return the outputs that stand in a notebook."""
    return [cell["outputs"] for cell in _code_cells(_read(path))]


def comparable(outputs: list[dict[str, Any]]) -> list[Any]:
    """Return what two runs of a cell have in common: no measured numbers, and of a picture that it is one."""
    shown: list[Any] = []
    for output in outputs:
        for kind, text in {"stream": output.get("text", []), **output.get("data", {})}.items():
            if text:
                shown.append(kind if kind == _PICTURE else _NUMBER.sub("0.0", "".join(text)))
    return shown


def _read(path: Path) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return notebook


def _code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _run(source: str, namespace: dict[str, Any]) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    value: Any = None
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        exec(compile(tree, "<cell>", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if printed := shown.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)})
    if value is not None:
        outputs.append({"data": _shown(value), "metadata": {}, "output_type": "display_data"})
    return outputs


def _shown(value: Any) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if hasattr(value, "savefig"):
        picture = io.BytesIO()
        value.savefig(picture, format="png", dpi=80)
        data[_PICTURE] = base64.b64encode(picture.getvalue()).decode("ascii")
        data["text/plain"] = ["<Figure>"]
    elif hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_().splitlines(keepends=True)
        data["text/plain"] = [f"<{type(value).__name__}>"]
    else:
        data["text/plain"] = repr(value).splitlines(keepends=True)
    return data


def _write(path: Path) -> None:
    notebook = _read(path)
    for number, (cell, outputs) in enumerate(zip(_code_cells(notebook), run_notebook(path), strict=True), start=1):
        cell["execution_count"], cell["outputs"] = number, outputs
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write(Path(sys.argv[1]))

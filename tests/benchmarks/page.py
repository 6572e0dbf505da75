"""The page that benchmarks write into: each has a section between markers of its own name."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

TABLE_HEAD = ["| what | measured | target | |", "| --- | --- | --- | --- |"]


def write_section(path: Path, name: str, text: str) -> None:
    """Put `text` between the markers of `name` in a page, at the end of one that has none, or in a new page."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    page = path.read_text(encoding="utf-8") if path.exists() else "# Benchmarks\n"
    before, found, rest = page.partition(begin)
    after = rest.partition(end)[2] if found else "\n"
    head = before if found else f"{before.rstrip()}\n\n"
    path.write_text(f"{head}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def measured_on(distributions: Iterable[str]) -> str:
    """Return a line that tells the machine and the versions of what is installed of `distributions`."""
    versions = []
    for name in distributions:
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    system = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return f"Measured on: {', '.join([system, *versions])}."


def table_section(title: str, note: str, rows: Iterable[str], distributions: Iterable[str]) -> str:
    """Return a section: a heading, how to read it, the machine, and the lines of a table."""
    return "\n".join([f"## {title}", "", note, "", measured_on(distributions), "", *TABLE_HEAD, *rows])

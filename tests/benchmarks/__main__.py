"""`python -m tests.benchmarks [NAME [ARGUMENTS]]`: one benchmark by name, or those of speed one after another."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

# Needs a folder of collections, so it runs only when it is named.
NAMED_ONLY = "quality"


def names() -> list[str]:
    """Return the benchmarks there are, by the names of their files."""
    return sorted(path.stem.removeprefix("bench_") for path in Path(__file__).parent.glob("bench_*.py"))


def run(name: str, arguments: list[str]) -> None:
    """Run one benchmark as if it had been started by itself."""
    sys.argv = [f"bench_{name}", *arguments]
    runpy.run_module(f"tests.benchmarks.bench_{name}", run_name="__main__", alter_sys=False)


if __name__ == "__main__":
    given = sys.argv[1:]
    if given and given[0] in names():
        run(given[0], given[1:])
    elif given and not given[0].startswith("-"):
        sys.exit(f"no benchmark is called {given[0]!r}; there are {', '.join(names())}")
    else:
        for each in names():
            if each != NAMED_ONLY:
                print(f"\n== {each}", flush=True)
                run(each, given)

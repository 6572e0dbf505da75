"""Break the filter compilers on purpose, one way at a time, and see that the proof catches each.

Run with `python -m tests.contract.mutants` (some minutes): it works on a copy and prints one line a mutant.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILTERS = "core/agora_core/filters/"
STORES = "core/agora_core/stores/"


@dataclass(frozen=True)
class Mutant:
    """One change of one file, and the tests (by pytest's -k) that should notice."""

    what: str
    path: str
    old: str
    new: str
    tests: str


MEMORY, POSTGRES, QDRANT = "TestMemoryStore", "TestPostgresStore", "TestQdrantStore"

MUTANTS = (
    Mutant(
        "memory: a patch leaves the old value in the index",
        "core/agora_core/metadata_index/index.py",
        "    if old is not MISSING:\n        index.discard(row, old)\n",
        "",
        MEMORY,
    ),
    Mutant(
        "memory: True and 1 share a posting",
        "core/agora_core/metadata_index/postings.py",
        "return value if type(value) is not bool else _TRUE if value else _FALSE",
        "return value",
        MEMORY,
    ),
    Mutant(
        "memory: Not does nothing",
        "core/agora_core/metadata_index/index.py",
        "        return ~rows\n",
        "        return rows\n",
        MEMORY,
    ),
    Mutant(
        "memory: match-any forgets the members of lists",
        "core/agora_core/metadata_index/index.py",
        "entries += map(index.member, literals)",
        "pass",
        MEMORY,
    ),
    Mutant(
        "postgres: Not of an unknown is unknown",
        STORES + "postgres/conditions.py",
        'return sql.SQL("coalesce({}, false)").format(self.value_condition(leaf))',
        "return self.value_condition(leaf)",
        POSTGRES,
    ),
    Mutant(
        "postgres: a token of a list or object is taken for its value",
        STORES + "postgres/tokens.py",
        'return literal.type not in ("array", "object")',
        "return True",
        POSTGRES,
    ),
    Mutant(
        "postgres: a number's token is that of the string",
        STORES + "postgres/tokens.py",
        'return "n" + number_text(value)',
        'return "s" + number_text(value)',
        POSTGRES,
    ),
    Mutant(
        "postgres: comparisons forget the type",
        STORES + "postgres/conditions.py",
        "(jsonb_typeof({value}) = 'number' AND {value} {operator} {other}::jsonb)",
        "({value} {operator} {other}::jsonb)",
        POSTGRES,
    ),
    Mutant(
        "postgres: case is folded on one side only",
        STORES + "postgres/conditions.py",
        'text = sql.SQL("translate({}, {}::text, {}::text)").format(text, self.bind(folded), self.bind(into))',
        "self.bind(folded), self.bind(into)",
        POSTGRES,
    ),
    Mutant(
        "qdrant: a negation is lost on the way down",
        STORES + "qdrant/filters.py",
        "return self.superset(node.child, negated=not negated, depth=depth)",
        "return self.superset(node.child, negated=negated, depth=depth)",
        QDRANT,
    ),
    Mutant(
        "qdrant: what may match is taken for what matches",
        STORES + "qdrant/filters.py",
        "        self.exact = False\n        # The condition",
        "        # The condition",
        QDRANT,
    ),
    Mutant(
        "qdrant: equality looks into lists",
        STORES + "qdrant/filters.py",
        "return self._any(node, [exact_token(path, node.literal)]), True",
        "return self._any(node, [exact_token(path, node.literal), member_token(path, node.literal)]), True",
        QDRANT,
    ),
    Mutant(
        "qdrant: integers beyond 2^53 are compared as floats",
        STORES + "qdrant/numbers.py",
        "        rest = value - int(base)\n",
        "",
        QDRANT,
    ),
    Mutant(
        "all: an empty list matches everything",
        FILTERS + "build.py",
        "tuple(dict.fromkeys(entry))) if entry else FALSE",
        "tuple(dict.fromkeys(entry))) if entry else TRUE",
        "test_deny_answers_nothing",
    ),
)


def run(mutant: Mutant) -> bool:
    """Say whether the tests noticed `mutant`."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache"))
        path = copy / mutant.path
        source = path.read_text(encoding="utf-8")
        if source.count(mutant.old) != 1:
            raise SystemExit(f"{mutant.what}: its place is found {source.count(mutant.old)} times in {mutant.path}")
        path.write_text(source.replace(mutant.old, mutant.new), encoding="utf-8")
        chosen = mutant.tests if mutant.tests.startswith("test_") else f"{mutant.tests} and (means or patch or scope)"
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "tests/contract/test_stores.py", "-k", chosen],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 1):
            raise SystemExit(f"{mutant.what}: the tests did not run\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.returncode == 1


def main() -> None:
    caught = 0
    for mutant in MUTANTS:
        noticed = run(mutant)
        caught += noticed
        print(f"{'caught' if noticed else 'MISSED'}  {mutant.what}", flush=True)
    print(f"{caught} of {len(MUTANTS)} mutants caught")
    sys.exit(caught != len(MUTANTS))


if __name__ == "__main__":
    main()

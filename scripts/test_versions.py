"""Test every supported Python with the highest and the lowest dependencies.

    python scripts/test_versions.py                      # all, in environments below .venv-versions/
    python scripts/test_versions.py --python 3.10 --resolution lowest-direct tests/unit

Environments are made by `uv`, which is installed beside this Python where it is missing, from the Pythons that are
installed (PATH and pyenv's folder).
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".venv-versions"
PYTHONS = ("3.10", "3.11", "3.12", "3.13")
RESOLUTIONS = ("highest", "lowest-direct")
TESTS = ("tests/unit", "tests/golden", "tests/contract/test_stores.py")
# The oldest releases call what newer releases of their own dependencies tell them not to.
OLD = ("DeprecationWarning", "ResourceWarning", "pytest.PytestUnraisableExceptionWarning")


def python_of(version: str) -> str | None:
    """Return the interpreter of a version, or None where it is not installed."""
    found = shutil.which(f"python{version}")
    if found and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
        return found
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return next((str(path) for path in sorted(root.glob(f"{version}.*/bin/python3"), reverse=True)), None)


def uv(*arguments: str) -> None:
    """Run uv, which shows what it downloads."""
    if shutil.which("uv", path=str(Path(sys.executable).parent)) is None:
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "uv"], check=True)
    subprocess.run(
        [sys.executable, "-m", "uv", *arguments], check=True, cwd=ROOT, env={**os.environ, "UV_LINK_MODE": "copy"}
    )


def environment(name: str, python: str, *install: str) -> str:
    """Make an environment anew; return its interpreter."""
    folder = FOLDER / name
    uv("venv", "--quiet", "--seed", "--clear", "--python", python, str(folder))
    uv("pip", "install", "--python", str(folder / "bin" / "python"), *install)
    return str(folder / "bin" / "python")


def test_version(version: str, resolution: str, tests: list[str]) -> bool | None:
    """Say whether the tests pass; None where that Python is not installed."""
    python = python_of(version)
    if python is None:
        return None
    wanted = ("--resolution", resolution, "--editable", ".[all]", "--group", "test")
    own = environment(f"{version}-{resolution}", python, *wanted)
    warnings = [f"-Wignore::{name}" for name in OLD] if resolution != "highest" else []
    command = [own, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", "-m", "not slow", *warnings]
    return subprocess.run([*command, *tests], cwd=ROOT, check=False).returncode == 0


def main() -> None:
    """Read the command line, run, and print one line for each environment."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", choices=PYTHONS, help="one version; may be given again")
    parser.add_argument("--resolution", action="append", choices=RESOLUTIONS)
    parser.add_argument("tests", nargs="*", default=list(TESTS))
    options = parser.parse_args()
    results: dict[str, bool | None] = {}
    for version in options.python or PYTHONS:
        for resolution in options.resolution or RESOLUTIONS:
            results[f"{version} {resolution}"] = test_version(version, resolution, options.tests)
    for name, passed in results.items():
        print(f"{name:24} {'not installed' if passed is None else 'passed' if passed else 'FAILED'}")
    sys.exit(False in results.values())


if __name__ == "__main__":
    main()

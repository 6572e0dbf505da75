"""The package is light to import, names all that it exports, and says which extra is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import llamaindex_agora

ROOT = Path(__file__).resolve().parents[3]


def run(code: str) -> str:
    prelude = f"import sys; sys.path[:0] = {[str(ROOT / 'core'), str(ROOT)]!r}\n"
    done = subprocess.run([sys.executable, "-c", prelude + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_name_is_there() -> None:
    for name in llamaindex_agora.__all__:
        assert getattr(llamaindex_agora, name).__name__ == name
    assert set(llamaindex_agora.__all__) <= set(dir(llamaindex_agora))
    with pytest.raises(AttributeError, match="no attribute 'AgoraVectorstore'"):
        llamaindex_agora.AgoraVectorstore  # noqa: B018


def test_every_component_knows_its_own_name() -> None:
    """Without a `class_name` of its own a component is saved under another's."""
    for name in ("AgoraVectorStore", "AgoraReranker", "AgoraNodeParser", "AccessFilterPostprocessor"):
        assert getattr(llamaindex_agora, name).class_name() == name
    assert llamaindex_agora.InjectContextPostprocessor.class_name() == "InjectContextPostprocessor"


def test_the_import_brings_in_no_framework() -> None:
    code = "import llamaindex_agora; print([m for m in ('llama_index', 'langchain_core') if m in sys.modules])"
    assert run(code) == "[]"


def test_a_missing_package_is_named_with_its_extra() -> None:
    code = """
sys.modules["llama_index"] = None
import llamaindex_agora
try:
    llamaindex_agora.AgoraVectorStore
except ImportError as error:
    print(error)
"""
    assert "pip install 'agora-retrieval[llamaindex]'" in run(code)

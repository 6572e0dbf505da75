"""The package is light to import, names all that it exports, and says which extra is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import langchain_agora

ROOT = Path(__file__).resolve().parents[3]


def run(code: str) -> str:
    prelude = f"import sys; sys.path[:0] = {[str(ROOT / 'core'), str(ROOT)]!r}\n"
    done = subprocess.run([sys.executable, "-c", prelude + code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_name_is_there() -> None:
    for name in langchain_agora.__all__:
        assert getattr(langchain_agora, name).__name__ == name
    assert set(langchain_agora.__all__) <= set(dir(langchain_agora))
    with pytest.raises(AttributeError, match="no attribute 'AgoraVectorstore'"):
        langchain_agora.AgoraVectorstore  # noqa: B018


def test_the_import_brings_in_no_framework() -> None:
    code = (
        "import langchain_agora; print([m for m in ('langchain_core', 'langchain', 'langgraph') if m in sys.modules])"
    )
    assert run(code) == "[]"


def test_the_store_and_the_retriever_bring_in_no_agents() -> None:
    names = "AgoraVectorStore, AgoraRetriever, AgoraReranker, AgoraTextSplitter, InjectContext, create_retrieve_tool"
    heavy = ("langchain", "langgraph", "llama_index")
    code = f"from langchain_agora import {names}; print([m for m in {heavy} if m in sys.modules])"
    assert run(code) == "[]"


@pytest.mark.parametrize(
    ("missing", "name", "extra"),
    [
        ("langchain_core", "AgoraVectorStore", "langchain"),
        ("langchain", "InjectContextMiddleware", "langchain-agents"),
        ("langgraph", "retrieve_task", "langchain-agents"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(missing: str, name: str, extra: str) -> None:
    code = f"""
sys.modules[{missing!r}] = None
import langchain_agora
try:
    langchain_agora.{name}
except ImportError as error:
    print(error)
"""
    assert f"pip install 'agora-retrieval[{extra}]'" in run(code)

"""The Python blocks of the README and of the pages run, page by page in one namespace; links lead somewhere."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from qdrant_client import QdrantClient

import agora_core
import langchain_agora
import llamaindex_agora
from agora_core import AgoraError

ROOT = Path(__file__).parents[2]
GUIDES = tuple(sorted(f"docs/guides/{path.name}" for path in (ROOT / "docs" / "guides").glob("*.md")))
RUN = (
    *GUIDES,
    "README.md",
    "docs/architecture.md",
    "docs/evaluation.md",
    "docs/files.md",
    "docs/ingestion.md",
    "docs/inject.md",
    "docs/own-store.md",
    "docs/retrievers.md",
    "docs/stores.md",
)
PAGES = ("README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")))


def run_blocks(page: str, **given: object) -> int:
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    namespace: dict[str, object] = {"__name__": page, **given}
    for block in blocks:
        exec(compile(block, page, "exec"), namespace)
    return len(blocks)


@pytest.mark.postgres
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
@pytest.mark.parametrize("page", RUN)
def test_the_python_blocks_run(page: str, pg_conninfo: str) -> None:
    assert run_blocks(page, conninfo=pg_conninfo) > 0


def test_the_page_on_errors_names_every_error_and_no_other() -> None:
    """An error that is added without a cause and a remedy is found here."""
    for package in (agora_core, langchain_agora, llamaindex_agora):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)

    def below(error: type[AgoraError]) -> set[str]:
        names = {error.__name__}
        for one in error.__subclasses__():
            names |= below(one)
        return names

    ours = {name for name in below(AgoraError) if not name.startswith("_")}
    rows = re.findall(r"^\| `(\w+)` \| .+ \| .+ \|$", (ROOT / "docs" / "errors.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(ours)


def test_the_security_page_names_tests_that_exist() -> None:
    text = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(?:tests/[\w/]*/)?(test_\w+\.py)`", text))
    assert len(names) > 10
    assert [name for name in names if not list((ROOT / "tests").rglob(name))] == []


def test_the_readme_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    run_blocks("README.md")
    printed = capsys.readouterr().out
    assert "You have 30 days [1]." in printed
    assert "Everyone has 30 days of leave." in printed


@pytest.mark.postgres
def test_the_calls_that_the_readme_names_in_passing_work(pg_conninfo: str) -> None:
    """Kind: code in a sentence, which no block runs."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    calls = re.findall(r"`(retrievers\.(?:pgvector|qdrant)\([^`]+\))`", text)
    assert len(calls) == 2
    names = {"retrievers": agora_core.retrievers, "conninfo": pg_conninfo, "client": QdrantClient(":memory:")}
    document = agora_core.IngestDocument("leave", "Everyone has 30 days of leave.")
    for call in calls:
        retriever = eval(call, {**names, "embedder": agora_core.WordLlamaEmbeddingProvider()})
        assert retriever.add([document]) == 1
        assert retriever.retrieve("days of leave", top_k=1)[0].id == "leave#0"
        retriever.store.close()


def test_the_readme_stays_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 130


def test_the_page_on_inject_mode_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    run_blocks("docs/inject.md")
    text = (ROOT / "docs" / "inject.md").read_text(encoding="utf-8")
    (promised,) = re.findall(r"^```text\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    assert capsys.readouterr().out == promised


@pytest.mark.parametrize("page", PAGES)
def test_relative_links_lead_somewhere(page: str) -> None:
    path = ROOT / page
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
    assert [item for item in targets if "://" not in item and not (path.parent / item).exists()] == []

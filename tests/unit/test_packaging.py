"""What is shipped: the wheel holds exactly the three packages, and every public name can be imported."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import agora_core

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "agora_core": ROOT / "core" / "agora_core",
    "langchain_agora": ROOT / "langchain_agora",
    "llamaindex_agora": ROOT / "llamaindex_agora",
}

PUBLIC_NAMES = {
    "agora_core": """
        Passage IngestDocument ChunkRecord VectorRecord IndexedDocument
        document_id_of chunk_id_to_point_id
        AgoraError InvalidMetadataError InvalidFilterError DimensionMismatchError UnsafeRemovalError
        UnsupportedFilterError
        EmbeddingProvider Reranker Retriever VectorStore LexicalVectorStore is_lexical_vector_store
        MetadataFilter matches_filter filter_denies_all assert_removal_filter field all_of any_of not_
        MetadataPatch UNSET apply_metadata_patch effective_patch_keys
        cosine_similarity maximal_marginal_relevance reciprocal_rank_fusion
        EmbeddingRetriever KeywordRetriever LexicalRetriever HybridRetriever RerankingRetriever retrievers
        MemoryVectorStore PgVectorStore PgLexicalVectorStore QdrantStore
        render_context ContextInjector Injection
        chunk_text chunk_documents ingest_chunks ingest_documents
        WordLlamaEmbeddingProvider OpenAICompatibleEmbeddingProvider
    """,
    "agora_core.retrievers": "memory pgvector qdrant",
    "agora_core.testing": "FakeEmbeddingProvider FakeReranker in_memory_retriever VectorStoreContract",
    "langchain_agora": """
        AgoraVectorStore AgoraRetriever AgoraReranker AgoraTextSplitter InjectContext InjectContextMiddleware
        create_retrieve_tool LangChainEmbeddingProvider LangChainRetriever LangChainReranker
    """,
    "llamaindex_agora": """
        AgoraVectorStore AgoraRetriever AgoraReranker AgoraNodeParser AccessFilterPostprocessor
        InjectContextPostprocessor InjectContext
        LlamaIndexEmbeddingProvider LlamaIndexRetriever LlamaIndexReranker
    """,
}


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in PUBLIC_NAMES.items() for name in names.split()]
)
def test_public_name_can_be_imported(module: str, name: str) -> None:
    assert getattr(importlib.import_module(module), name) is not None


@pytest.mark.parametrize("module", PACKAGES)
def test_every_exported_name_exists(module: str) -> None:
    package = importlib.import_module(module)
    assert len(package.__all__) == len(set(package.__all__))
    assert [name for name in package.__all__ if not hasattr(package, name)] == []
    assert set(package.__all__) <= set(dir(package))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    return Path(next(iter(WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"]))))


def test_the_wheel_holds_exactly_the_three_packages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}
    expected = {
        f"{package}/{path.relative_to(folder).as_posix()}"
        for package, folder in PACKAGES.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert shipped == expected
    assert {f"{package}/py.typed" for package in PACKAGES} <= shipped


def test_the_metadata_says_what_was_promised(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = message_from_bytes(archive.read(name))
    assert (metadata["Name"], metadata["Version"]) == ("agora-retrieval", agora_core.__version__)
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.10"
    requirements = metadata.get_all("Requires-Dist") or []
    assert [item.split(">")[0].split("<")[0] for item in requirements if "extra ==" not in item] == ["numpy"]
    assert set(metadata.get_all("Provides-Extra") or []) == {
        *("langchain", "langchain-agents", "llamaindex", "postgres", "embedded-postgres", "qdrant"),
        *(
            "wordllama",
            "stemming",
            "onnx",
            "progress",
            "simd",
            "files",
            "fsspec",
            "watch",
            "evaluation",
            "plot",
            "opentelemetry",
            "cli",
            "all",
        ),
    }
    # Each requirement has a floor that was tested and a ceiling.
    assert [item for item in requirements if ("<" not in item or ">=" not in item) and "[" not in item] == []


def test_the_wheel_installs_and_runs_by_itself(wheel: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", str(tmp_path), str(wheel)], check=True)
    code = (
        "import agora_core, pathlib, sys; "
        "assert pathlib.Path(agora_core.__file__).parents[1] == pathlib.Path(sys.argv[1]).resolve(); "
        "print([p.text for p in agora_core.KeywordRetriever().retrieve('x')])"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path.resolve())}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        check=True,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "[]"


def test_the_sdist_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    sdist = next(iter(SdistBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])))
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    again = next(iter(WheelBuilder(str(source)).build(directory=str(tmp_path), versions=["standard"])))
    with zipfile.ZipFile(wheel) as first, zipfile.ZipFile(again) as second:
        assert set(first.namelist()) == set(second.namelist())
    for name in ("Makefile", "README.md", "LICENSE", "tests/conftest.py", "examples/quickstart.py"):
        assert (source / name).is_file(), name

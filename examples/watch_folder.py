"""Keep a store equal to a folder, for as long as the program runs.

python examples/watch_folder.py FOLDER STORE.agora [--turns 3]

Each burst of changes is one sync: only changed text is embedded, a file that is gone is removed. The name of the first
folder below FOLDER is the label `team`.
"""

from __future__ import annotations

import argparse
from pathlib import Path, PurePath
from typing import Any

from agora_core import (
    FileChunker,
    MemoryLexicalVectorStore,
    WordLlamaEmbeddingProvider,
    read_files,
    sync_documents,
    watch_files,
)


def main() -> None:
    """Watch and sync."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("store", type=Path, help="the file that keeps the index")
    parser.add_argument("--turns", type=int, help="end after so many; without it, never")
    options = parser.parse_args()

    def labels(path: PurePath) -> dict[str, Any]:
        above = path.relative_to(options.folder).parts[:-1]
        return {"team": above[0]} if above else {}

    embedder = WordLlamaEmbeddingProvider()
    known = options.store.exists()
    store = MemoryLexicalVectorStore.load(options.store) if known else MemoryLexicalVectorStore()
    for turn, _ in enumerate(watch_files(options.folder), 1):
        report = sync_documents(
            read_files(options.folder, metadata=labels),
            embedder=embedder,
            store=store,
            chunker=FileChunker(),
            allow_empty=True,
        )
        store.save(options.store)
        print(f"turn {turn}: embedded {report.embedded}, removed {report.removed}, {store.count()} chunks", flush=True)
        if turn == options.turns:
            break


if __name__ == "__main__":
    main()

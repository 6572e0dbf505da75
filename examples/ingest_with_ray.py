"""Keep a store equal to a source on many workers: the same function over Ray Data or Dask.

python examples/ingest_with_ray.py documents.jsonl --store postgresql://... [--shards 8] [--on dask]

Every line of the source is a document: {"id": ..., "text": ..., "source": ..., "metadata": ...}. Documents are dealt
into shards by their ids, and each shard is synced by one worker through a view of its own: it reads, writes and removes
nothing of another shard, so workers need not know of each other, and one that dies is simply run again.
"""

from __future__ import annotations

import argparse
import json
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from agora_core import (
    IngestDocument,
    PgVectorStore,
    QdrantStore,
    SyncReport,
    WordLlamaEmbeddingProvider,
    sync_documents,
)

DIMENSION = 256
SHARD = "shard"
LISTS = ("embedded", "reused", "relabelled", "unchanged", "removed", "failed")


def open_store(place: str, table: str) -> Any:
    """Return the store at a connection string of Postgres or at a URL of Qdrant."""
    if place.startswith("postgres"):
        return PgVectorStore(place, table=table, dimension=DIMENSION)
    # Asking for the server's version once more for each task would tell nothing new.
    options = {"check_compatibility": False}
    return QdrantStore(place, collection=table, dimension=DIMENSION, client_options=options)


def shard_of(line: str, shards: int) -> int:
    """Return the shard of a document: it must be the same in every run."""
    return zlib.crc32(json.loads(line)["id"].encode()) % shards


def sync_shard(lines: Iterable[str], shard: int, place: str, table: str) -> dict[str, int]:
    """Sync one shard, on whichever machine this runs; return how many documents stand in each list of the report."""
    documents: Iterator[IngestDocument] = (IngestDocument(**json.loads(line)) for line in lines)
    with open_store(place, table) as store:
        view = store.scoped({SHARD: shard}, on_write="stamp")
        # A shard may have lost its last document; that the source as a whole is not empty was seen before.
        report: SyncReport = sync_documents(
            documents, embedder=WordLlamaEmbeddingProvider(dimensions=DIMENSION), store=view, allow_empty=True
        )
    return {SHARD: shard, **{name: len(getattr(report, name)) for name in LISTS}}


def on_ray(source: str, place: str, table: str, shards: int) -> list[dict[str, int]]:
    """Sync by Ray Data: each group of documents is one task."""
    import ray

    def dealt(row: dict[str, Any]) -> dict[str, Any]:
        return {SHARD: shard_of(row["text"], shards), "line": row["text"]}

    def synced(group: dict[str, Any]) -> dict[str, list[int]]:
        done = sync_shard(group["line"].tolist(), int(group[SHARD][0]), place, table)
        return {name: [count] for name, count in done.items()}

    groups = ray.data.read_text(source).map(dealt).groupby(SHARD)
    return [dict(row) for row in groups.map_groups(synced, batch_format="numpy").take_all()]


def on_dask(source: str, place: str, table: str, shards: int) -> list[dict[str, int]]:
    """Sync by Dask: each group of documents is one task."""
    import dask.bag

    def synced(group: tuple[int, list[str]]) -> dict[str, int]:
        return sync_shard(group[1], group[0], place, table)

    lines = dask.bag.read_text(source).filter(str.strip)
    return list(lines.groupby(lambda line: shard_of(line, shards)).map(synced).compute())


def sync(source: str, place: str, table: str, *, shards: int = 8, on: str = "ray") -> dict[str, int]:
    """Sync a whole source; return the sums over its shards."""
    with open_store(place, table) as store:
        store.ensure_schema() if isinstance(store, PgVectorStore) else store.ensure_collection()
    done = (on_dask if on == "dask" else on_ray)(source, place, table, shards)
    if not done:
        raise SystemExit("the source is empty; nothing was changed")
    # No task is started for a shard that has no document any more, and what it had is gone.
    done += [sync_shard([], shard, place, table) for shard in {*range(shards)} - {one[SHARD] for one in done}]
    return {name: sum(one[name] for one in done) for name in LISTS}


def main() -> None:
    """Sync and print the sums."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("source", help="a file of JSON lines, or a pattern of them")
    parser.add_argument("--store", required=True, help="postgresql://... or the http address of Qdrant")
    parser.add_argument("--table", default="agora_scale")
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--on", choices=("ray", "dask"), default="ray")
    options = parser.parse_args()
    print(sync(options.source, options.store, options.table, shards=options.shards, on=options.on))


if __name__ == "__main__":
    main()

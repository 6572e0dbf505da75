"""Speed of the Qdrant store beside qdrant-client's own calls, turn by turn in one process.

    python -m tests.benchmarks.bench_qdrant [--rounds 15] [--records 3000]

On local mode, on the engine in this process (`qdrant-edge-py`), and over HTTP on the server of the tests, which serves
that engine. Each side keeps its own collection of the same records, and asks for what the other asks for.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from qdrant_client import QdrantClient, models

from agora_core import QdrantStore, VectorRecord, chunk_id_to_point_id, document_id_of
from tests.benchmarks.bench_fusion import Row, measure, ratio
from tests.benchmarks.page import table_section, write_section
from tests.benchmarks.vector_data import vectors
from tests.integration.qdrant.edge_client import EdgeClient
from tests.integration.qdrant.rest_server import CLIENT_OPTIONS, rest_server

DIMENSION = 64
CHUNKS = 5
READ = {"with_vectors": False, "shard_key_selector": None}


def records(count: int) -> list[VectorRecord]:
    """Return records of documents of five chunks, a tenth of them in each group."""
    rows = vectors(count, 1)[:, :DIMENSION].tolist()
    return [
        VectorRecord(
            f"doc{n // CHUNKS}#{n % CHUNKS}", f"text {n}" * 20, rows[n], "s.md", {"group": f"g{n % 10}", "year": n}
        )
        for n in range(count)
    ]


def point(record: VectorRecord) -> models.PointStruct:
    """Return a record as somebody writes it who uses the client alone."""
    payload: dict[str, Any] = {"id": record.id, "documentId": document_id_of(record.id), "text": record.text}
    payload |= {"source": record.source, "metadata": record.metadata}
    return models.PointStruct(id=chunk_id_to_point_id(record.id), vector=list(record.embedding), payload=payload)


def clients(stack: ExitStack) -> Iterator[tuple[str, Any]]:
    """Yield a client of each kind."""
    yield "local mode", stack.enter_context(_closed(QdrantClient(":memory:")))
    yield "engine", stack.enter_context(_closed(EdgeClient()))
    server = stack.enter_context(rest_server(EdgeClient()))
    options: dict[str, Any] = {**CLIENT_OPTIONS}
    yield "REST", stack.enter_context(_closed(QdrantClient(server.url, **options)))


class _closed:  # noqa: N801 # reads as a word
    def __init__(self, client: Any) -> None:
        self._client = client

    def __enter__(self) -> Any:
        return self._client

    def __exit__(self, *error: object) -> None:
        self._client.close()


def contestants(store: QdrantStore, client: Any, plain: str, made: list[VectorRecord]) -> Iterator[tuple[str, Any]]:
    """Yield what is measured, with the two who do it."""
    asked = list(made[7].embedding)
    turn = itertools.count()
    group = models.Filter(must=[models.FieldCondition(key="metadata.group", match=models.MatchValue(value="g3"))])
    document = models.Filter(must=[models.FieldCondition(key="documentId", match=models.MatchValue(value="doc3"))])
    fields = ["id", "text", "source", "metadata"]

    def query(condition: Any) -> Any:
        return client.query_points(
            plain, query=asked, using=None, query_filter=condition, limit=10, with_payload=fields, search_params=None,
            **READ,
        )  # fmt: skip

    def patch() -> Any:
        change = models.SetPayload(payload={"year": next(turn)}, key="metadata", filter=document)
        count = client.count(plain, count_filter=document, exact=True, shard_key_selector=None)
        client.batch_update_points(plain, update_operations=[models.SetPayloadOperation(set_payload=change)], wait=True)
        return count

    def listing() -> set[str]:
        found: set[str] = set()
        offset = None
        while True:
            page, offset = client.scroll(
                plain, scroll_filter=None, limit=256, offset=offset, with_payload=["documentId"], **READ
            )
            found.update(one.payload["documentId"] for one in page)
            if offset is None:
                return found

    some = made[:100]
    yield "search", (lambda: store.search(asked, top_k=10), lambda: query(None))
    yield (
        "search, filter of 10 %",
        (
            lambda: store.search(asked, top_k=10, filter={"group": "g3"}),
            lambda: query(group),
        ),
    )
    yield (
        "upsert of 100",
        (
            lambda: store.upsert(some),
            lambda: client.upsert(plain, points=[point(record) for record in some], wait=True),
        ),
    )
    yield "patch of a document", (lambda: store.update_metadata("doc3", {"year": next(turn)}), patch)
    yield "list of documents", (store.list_document_ids, listing)


def rows(rounds: int, count: int) -> Iterator[Row]:
    """Measure every operation on every kind of client."""
    made = records(count)
    with ExitStack() as stack:
        for kind, client in clients(stack):
            store = QdrantStore(client, collection="ours", dimension=DIMENSION)
            store.ensure_collection()
            store.upsert(made)
            config = models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)
            client.create_collection("plain", config)
            for name in ("documentId", "metadata.group"):
                client.create_payload_index(
                    "plain", field_name=name, field_schema=models.PayloadSchemaType.KEYWORD, wait=True
                )
            for start in range(0, count, 100):
                client.upsert("plain", points=[point(record) for record in made[start : start + 100]], wait=True)
            for what, (ours, theirs) in contestants(store, client, "plain", made):
                both: dict[str, Callable[[], Any]] = {"ours": ours, "theirs": theirs}
                seconds = measure(both, rounds)
                yield Row(f"{kind}: {what}", ratio(seconds, "ours", "theirs"), "×", 1.15)


def main() -> None:
    """Measure, print, and write the section of the page where asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--records", type=int, default=3000)
    parser.add_argument("--write", type=Path, help="a page whose section is written")
    options = parser.parse_args()
    lines = []
    for row in rows(options.rounds, options.records):
        lines.append("| " + " | ".join(row.cells()) + " |")
        print(lines[-1], flush=True)
    if options.write:
        note = (
            "`make bench ARGS=qdrant`. Times to those of qdrant-client's own calls on the same records. All "
            "is in one process, REST too, so nothing but the work itself counts. A call in the engine takes "
            "0.15 ms, and checking arguments, ties and scopes as much again. A filter asks for points without "
            "tokens as well, an upsert writes the tokens that filters need (most of its time is the binding's "
            "reading of them), and a patch is seen whole, which takes six requests: see docs/qdrant.md."
        )
        write_section(options.write, "qdrant", table_section("Qdrant", note, lines, ["qdrant-client"]))


if __name__ == "__main__":
    main()

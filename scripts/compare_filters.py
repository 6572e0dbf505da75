"""Ask four libraries the same filters, and draw what they answer: `python scripts/compare_filters.py`.

Writes docs/filters-compared.svg and .json from a real run: Chroma, LangChain's PGVector on an embedded PostgreSQL,
LlamaIndex's SimpleVectorStore, and this library's three stores, which answer alike or the script fails.
"""

from __future__ import annotations

import html
import json
import sys
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "core")]

# What is asked in words, the record's metadata, key and value of the filter (a list is match-any), the right answer.
ROWS: list[tuple[str, dict[str, Any], str, Any, bool]] = [
    ("who may see [staff, board]; record: [board]", {"acl": ["board"]}, "acl", ["staff", "board"], True),
    ("an actor without a single group: []", {"acl": ["board"]}, "acl", [], False),
    ('"board"; record: [board, staff]', {"acl": ["board", "staff"]}, "acl", "board", False),
    ("1.0; record: 1", {"n": 1}, "n", 1.0, True),
    ("true; record: 1", {"n": 1}, "n", True, False),
    ('"1"; record: 1', {"n": 1}, "n", "1", False),
    ("null; record: null", {"n": None}, "n", None, True),
    ("null; record without the key", {"m": 1}, "n", None, False),
    ('"de"; record: the same key with a dot in it', {"lang.code": "de"}, "lang.code", "de", True),
    ("{x: 1}; record: {x: 1, y: 2}", {"o": {"x": 1, "y": 2}}, "o", {"x": 1}, False),
]

Ask = Callable[[dict[str, Any], str, Any], bool]


def chroma() -> Ask:
    """Chroma's own client, in memory."""
    import chromadb

    client = chromadb.EphemeralClient(chromadb.config.Settings(anonymized_telemetry=False))

    def ask(metadata: dict[str, Any], key: str, value: Any) -> bool:
        collection = client.create_collection(f"c{uuid.uuid4().hex}", embedding_function=None)
        collection.add(ids=["r"], embeddings=[[1.0, 0.0]], metadatas=[metadata], documents=["x"])
        condition = {key: {"$in": value}} if isinstance(value, list) else {key: value}
        return bool(collection.query(query_embeddings=[[1.0, 0.0]], n_results=1, where=condition)["ids"][0])

    return ask


def langchain_postgres(conninfo: str) -> Ask:
    """LangChain's PGVector."""
    from langchain_core.embeddings import DeterministicFakeEmbedding
    from langchain_postgres import PGVector

    def ask(metadata: dict[str, Any], key: str, value: Any) -> bool:
        store = PGVector(
            DeterministicFakeEmbedding(size=2),
            connection=conninfo.replace("postgresql://", "postgresql+psycopg://"),
            collection_name=uuid.uuid4().hex,
        )
        store.add_texts(["x"], metadatas=[metadata])
        condition = {key: {"$in": value}} if isinstance(value, list) else {key: {"$eq": value}}
        return bool(store.similarity_search("x", k=1, filter=condition))

    return ask


def llamaindex() -> Ask:
    """LlamaIndex's SimpleVectorStore."""
    from llama_index.core.schema import TextNode
    from llama_index.core.vector_stores import FilterOperator, MetadataFilter, MetadataFilters, SimpleVectorStore
    from llama_index.core.vector_stores.types import VectorStoreQuery

    def ask(metadata: dict[str, Any], key: str, value: Any) -> bool:
        store = SimpleVectorStore()
        store.add([TextNode(id_="r", text="x", embedding=[1.0, 0.0], metadata=metadata)])
        operator = FilterOperator.ANY if isinstance(value, list) else FilterOperator.EQ
        filters = MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])
        query = VectorStoreQuery(query_embedding=[1.0, 0.0], similarity_top_k=1, filters=filters)
        return bool(store.query(query).ids)

    return ask


def ours(conninfo: str) -> Ask:
    """The three stores of this library; they must agree."""
    from agora_core import MemoryVectorStore, PgVectorStore, QdrantStore, VectorRecord

    stores: list[Any] = [MemoryVectorStore(dimension=2), PgVectorStore(conninfo, table="ours", dimension=2, index=None)]
    stores.append(QdrantStore(":memory:", collection="ours", dimension=2))
    stores[1].ensure_schema()
    stores[2].ensure_collection()

    def ask(metadata: dict[str, Any], key: str, value: Any) -> bool:
        answers = set()
        for store in stores:
            store.upsert([VectorRecord("r", "x", [1.0, 0.0], None, metadata)])
            answers.add(bool(store.search([1.0, 0.0], top_k=1, filter={key: value})))
        (answer,) = answers
        return answer

    return ask


def measured() -> dict[str, list[str]]:
    """Return for each library `found`, `nothing` or `error` for each row."""
    from tests.fix_postgres import start_embedded_server

    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        server = start_embedded_server(Path(folder) / "data")
        try:
            libraries = {
                "Chroma": chroma(),
                "LangChain PG": langchain_postgres(server.get_uri()),
                "LlamaIndex": llamaindex(),
                "Agora, 3 stores": ours(server.get_uri()),
            }
            return {name: [_answer(ask, row) for row in ROWS] for name, ask in libraries.items()}
        finally:
            server.cleanup()


def _answer(ask: Ask, row: tuple[str, dict[str, Any], str, Any, bool]) -> str:
    try:
        return "found" if ask(row[1], row[2], row[3]) else "nothing"
    except Exception:
        # A refusal is an answer too, and shown as one.
        return "error"


def picture(answers: dict[str, list[str]]) -> str:
    """Return the table as an SVG."""
    left, width, top, height = 372, 132, 62, 27
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width * len(answers) + 12} '
        f'{top + height * len(ROWS) + 34}" font-family="system-ui, sans-serif" font-size="13" role="img">',
        "<title>The same filter, four libraries</title>",
        f'<rect width="{left + width * len(answers) + 12}" height="{top + height * len(ROWS) + 34}" fill="#ffffff"/>',
        '<text x="12" y="24" font-size="16" font-weight="600" fill="#1c232b">The same filter, four libraries</text>',
        '<text x="12" y="48" fill="#4a5560">the filter; the record</text>',
    ]
    for column, name in enumerate(answers):
        x = left + width * column + width / 2
        parts.append(f'<text x="{x}" y="48" text-anchor="middle" font-weight="600" fill="#1c232b">{name}</text>')
    for number, row in enumerate(ROWS):
        y = top + height * number
        parts.append(f'<text x="12" y="{y + 18}" fill="#1c232b">{html.escape(row[0])}</text>')
        for column, name in enumerate(answers):
            answer = answers[name][number]
            right = answer == ("found" if row[4] else "nothing")
            fill, ink = ("#dff3e4", "#1b6e35") if right else ("#fbe3e0", "#a12a1e")
            x = left + width * column + 4
            mark = "✓" if right else "✗"
            parts.append(f'<rect x="{x}" y="{y + 1}" width="{width - 8}" height="{height - 4}" rx="4" fill="{fill}"/>')
            parts.append(
                f'<text x="{x + (width - 8) / 2}" y="{y + 18}" text-anchor="middle" fill="{ink}">{mark} {answer}</text>'
            )
    foot = top + height * len(ROWS) + 20
    parts.append(
        f'<text x="12" y="{foot}" font-size="11.5" fill="#4a5560">✓ what access control needs. Chroma, LangChain '
        "PGVector, LlamaIndex SimpleVectorStore; measured by scripts/compare_filters.py. An error is safe, and no "
        "answer.</text></svg>"
    )
    return "\n".join(parts)


def main() -> None:
    """Measure, write, and print the table."""
    answers = measured()
    (ROOT / "docs" / "filters-compared.svg").write_text(picture(answers), encoding="utf-8")
    rows = [{"asked": row[0], **{name: found[n] for name, found in answers.items()}} for n, row in enumerate(ROWS)]
    (ROOT / "docs" / "filters-compared.json").write_text(
        json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    for one in rows:
        print(one)


if __name__ == "__main__":
    main()

"""Dumps of the tables that earlier versions made, and what was written into them through those versions.

`layout_1.sql` holds the tables `plain`, `lexical` and `english` (`PgLexicalVectorStore` with `simple` and `english`) of
version 0.1.0 in the schema `agora_layout`. The records of each are those of `records()`, `d3` patched and `d5` removed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import psycopg

from agora_core import VectorRecord

SCHEMA: Final = "agora_layout"
TABLES: Final = ("plain", "lexical", "english")
PATCH: Final[dict[str, Any]] = {"acl": ["board"], "year": None}

_TEXTS: Final = (
    "The heat pump runs quietly at night",
    "Wärmepumpe und Straße: größer als 100 %",
    "算法与数据结构",
    "invoice INV-2024-0003 for getUserName, see config.yaml",
    "",
    "running runners run; the quick brown fox",
    'a "quoted" text with \\ and \n a newline',
    "сервер недоступен",
)


def records() -> list[VectorRecord]:
    """What was written into every table, before the patch and the removal."""
    return [
        VectorRecord(
            f"d{n // 4}#{n % 4}",
            _TEXTS[n % len(_TEXTS)],
            [1.0, n / 8, 0.0 if n % 7 else -2.0],
            f"source-{n}.md" if n % 3 else None,
            None
            if n % 11 == 10
            else {
                "year": 2020 + n % 5,
                "acl": ["all", f"team-{n % 3}"],
                "nested": {"z": n, "a": [1.5, None, True, {"k": "v" * (n % 4)}]},
                "long": "x" * (300 if n % 9 == 0 else 1),
            },
        )
        for n in range(40)
    ]


def load(conninfo: str, dump: str, schema: str) -> None:
    """Run a dump in a session of its own, its schema renamed."""
    text = (Path(__file__).parent / dump).read_text(encoding="utf-8").replace(SCHEMA, schema)
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(text.encode())

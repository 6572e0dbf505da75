"""Two tables change names: rows, indexes, text index and remembered model go with them."""

from __future__ import annotations

from typing import Any

import pytest

from agora_core import InvalidArgumentError, VectorRecord


@pytest.mark.parametrize("lexical", [False, True])
async def test_tables_change_names_whole(make_store: Any, admin: Any, fresh_name: str, lexical: bool) -> None:
    options: dict[str, Any] = {"lexical": lexical, **({"tokenizer": "unicode"} if lexical else {})}
    old, new = make_store(**options), make_store(table=f"{fresh_name}_new", **options)
    old.check_model("small", fills=True)
    new.check_model("large", fills=True)
    old.upsert([VectorRecord("a", "alpha old", [1, 0, 0]), VectorRecord("b", "beta", [0, 1, 0])])
    new.upsert([VectorRecord("a", "alpha new", [0, 0, 1])])

    def indexes(table: str) -> list[str]:
        query = "SELECT indexname FROM pg_indexes WHERE tablename = %s ORDER BY 1"
        return [row[0].removeprefix(table) for row in admin.execute(query, (table,))]

    before = indexes(old.table)
    old.swap_tables(new)
    assert [one.text for one in old.scan()] == ["alpha new"]
    assert [one.text for one in new.scan()] == ["alpha old", "beta"]
    assert indexes(old.table) == indexes(new.table) == before
    old.check_model("large")
    for store, text in ((old, "alpha new"), (new, "alpha old")):
        store.ensure_schema()
        store.upsert([VectorRecord("c", "gamma", [1, 1, 0])])
        store.remove("c")
        assert store.count() == (1 if store is old else 2)
        if lexical:
            assert [one.text for one in store.search_text("alpha gamma", top_k=5)] == [text]
            assert store.index_texts() == 0
    await old.aswap_tables(new)
    assert [one.text for one in old.scan()] == ["alpha old", "beta"]
    with pytest.raises(InvalidArgumentError, match="another table"):
        old.swap_tables(old)

"""Break filters, scopes, hooks and the block on purpose, one way at a time, and see that the proof catches each.

Run with `python -m tests.contract.mutants [word ...]` (some minutes): it works on a copy and prints one line a mutant,
of those that hold one of the words where any is given.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILTERS = "core/agora_core/filters/"
STORES = "core/agora_core/stores/"


@dataclass(frozen=True)
class Mutant:
    """One change of one file, and the tests (by pytest's -k, in the files `where`) that should notice."""

    what: str
    path: str
    old: str
    new: str
    tests: str
    where: str = "tests/contract/test_stores.py"


MEMORY, POSTGRES, QDRANT = "TestMemoryStore", "TestPostgresStore", "TestQdrantStore"

MUTANTS = (
    Mutant(
        "memory: a patch leaves the old value in the index",
        "core/agora_core/metadata_index/index.py",
        "    if old is not MISSING:\n        index.discard(row, old)\n",
        "",
        MEMORY,
    ),
    Mutant(
        "memory: True and 1 share a posting",
        "core/agora_core/metadata_index/postings.py",
        "return value if type(value) is not bool else _TRUE if value else _FALSE",
        "return value",
        MEMORY,
    ),
    Mutant(
        "memory: Not does nothing",
        "core/agora_core/metadata_index/index.py",
        "        return ~rows\n",
        "        return rows\n",
        MEMORY,
    ),
    Mutant(
        "memory: match-any forgets the members of lists",
        "core/agora_core/metadata_index/index.py",
        "index.entries(lookup))",
        "[e for e in index.entries(lookup) if e not in index.members.values()])",
        MEMORY,
    ),
    Mutant(
        "postgres: Not of an unknown is unknown",
        STORES + "postgres/conditions.py",
        'return sql.SQL("coalesce({}, false)").format(self.value_condition(leaf))',
        "return self.value_condition(leaf)",
        POSTGRES,
    ),
    Mutant(
        "postgres: a token of a list or object is taken for its value",
        STORES + "postgres/tokens.py",
        "says_all = lookup.exact and not lookup.has_compounds",
        "says_all = lookup.exact",
        POSTGRES,
    ),
    Mutant(
        "postgres: a number's token is that of the string",
        STORES + "postgres/tokens.py",
        'return "n" + number_text(value)',
        'return "s" + number_text(value)',
        POSTGRES,
    ),
    Mutant(
        "postgres: comparisons forget the type",
        FILTERS + "operators.py",
        "(jsonb_typeof({{value}}) = 'number' AND {{value}} {symbol} {{bound}})",
        "({{value}} {symbol} {{bound}})",
        POSTGRES,
    ),
    Mutant(
        "postgres: case is folded on one side only",
        FILTERS + "operators.py",
        'value = f"translate({value}, {{folded}}, {{into}})"',
        'value = f"translate({value}, {{folded}}, {{folded}} || {{into}})"',
        POSTGRES,
    ),
    Mutant(
        "qdrant: a negation is lost on the way down",
        STORES + "qdrant/filters.py",
        "return self.superset(node.child, negated=not negated, depth=depth)",
        "return self.superset(node.child, negated=negated, depth=depth)",
        "native or truth or range or widened",
        "tests/unit/stores/qdrant/test_filters.py",
    ),
    Mutant(
        "qdrant: what may match is taken for what matches",
        STORES + "qdrant/filters.py",
        "        self.exact = False\n        # The condition",
        "        # The condition",
        "native or truth or range or widened",
        "tests/unit/stores/qdrant/test_filters.py",
    ),
    Mutant(
        "qdrant: equality looks into lists",
        STORES + "qdrant/filters.py",
        "tokens = looked_for(node.path, lookup)",
        "tokens = [t for one in looked_for(node.path, lookup) for t in (one, '~' + one[1:])]",
        "exact_token or native or truth",
        "tests/unit/stores/qdrant/test_filters.py",
    ),
    Mutant(
        "qdrant: integers beyond 2^53 are compared as floats",
        STORES + "qdrant/numbers.py",
        "        rest = value - int(base)\n",
        "",
        "native or truth or range or widened",
        "tests/unit/stores/qdrant/test_filters.py",
    ),
    Mutant(
        "all: an empty list matches everything",
        FILTERS + "expressions.py",
        "            return FALSE\n        children[Leaf",
        "            return TRUE\n        children[Leaf",
        "test_deny_answers_nothing",
    ),
    Mutant(
        "operators: starts_with looks anywhere, on the server",
        FILTERS + "operators.py",
        'sql=_text_sql("starts_with({text}, {needle})")',
        'sql=_text_sql("strpos({text}, {needle}) > 0")',
        POSTGRES,
    ),
    Mutant(
        "operators: starts_with looks anywhere, in its meaning",
        FILTERS + "operators.py",
        "text.of(value).startswith(text.text)",
        "text.text in text.of(value)",
        "",
        "tests/unit/filters",
    ),
    Mutant(
        "operators: a bool is found among numbers",
        FILTERS + "literals.py",
        '    if kind == "boolean":\n        return ("boolean", value)\n',
        "",
        "",
        "tests/unit/filters",
    ),
    Mutant(
        "postgres: a long list forgets what its tokens do not say",
        STORES + "postgres/conditions.py",
        "return sql.SQL(text).format(self.tokens, parameter), looked_for.says_all",
        "return sql.SQL(text).format(self.tokens, parameter), True",
        POSTGRES,
    ),
    Mutant(
        "postgres: a long list is asked the other way round",
        STORES + "postgres/conditions.py",
        "WHERE token = ANY ({}::text[]))",
        "WHERE token <> ALL ({}::text[]))",
        POSTGRES,
    ),
    Mutant(
        "mapping: operators of other systems are taken for data",
        FILTERS + "foreign.py",
        "if names and all(",
        "if not names and all(",
        "operators",
        "tests/unit/filters/test_bad_input.py",
    ),
    Mutant(
        "mapping: operators are looked for on the first level only",
        FILTERS + "foreign.py",
        "            pending += [(item, depth + 1) for item in inner.values()]\n",
        "",
        "operators",
        "tests/unit/filters/test_bad_input.py",
    ),
    Mutant(
        "deny: nothing is told as everything is",
        STORES + "qdrant/filters.py",
        "return CompiledFilter(conjunction([_nothing()]), True",
        "return CompiledFilter(None, True",
        "nothing",
        "tests/unit/stores/qdrant/test_filters.py",
    ),
    Mutant(
        "deny: an empty list of alternatives is left to the server",
        STORES + "qdrant/filters.py",
        "return None if isinstance(node, And) is not negated else _nothing()",
        "return self._models.Filter(should=[])",
        "nothing",
        "tests/unit/stores/qdrant/test_filters.py",
    ),
    Mutant(
        "local mode: what has no metadata is not judged",
        STORES + "qdrant/local_mode.py",
        "if not matches({}):",
        "if matches:",
        "local_mode",
        "tests/unit/stores/qdrant/test_filters.py",
    ),
    Mutant(
        "kept selections: a patched row stays where it was",
        STORES + "memory/reading.py",
        "            if held != now:\n",
        "            if False:\n",
        "",
        "tests/unit/stores/test_memory_selections.py",
    ),
    Mutant(
        "kept selections: a removed row is still selected",
        STORES + "memory/reading.py",
        "rows = alive if len(alive) != len(rows) else rows",
        "rows = rows",
        "",
        "tests/unit/stores/test_memory_selections.py",
    ),
    Mutant(
        "facets: rows that are gone still count",
        STORES + "memory/store.py",
        "if rows is not None or table.dead_count:",
        "if rows is not None:",
        "facets",
        "tests/unit/stores/test_memory_facets.py",
    ),
    Mutant(
        "facets: a member counts as often as it stands in a list",
        STORES + "facets.py",
        "iter(dict.fromkeys(map(facet_text, value)))",
        "map(facet_text, value)",
        "facets and Qdrant",
    ),
    Mutant(
        "facets: a scope is left out",
        STORES + "scoped.py",
        "self._port.facets(key, filter=self._narrow(filter), limit=limit)",
        "self._port.facets(key, filter=filter, limit=limit)",
        "facets and Memory",
    ),
    Mutant(
        "scope: only the outermost view is told",
        STORES + "scoped.py",
        "return compile_filter(self._scope if behind is None else conjoin(behind, self._scope))",
        "return compile_filter(self._scope)",
        "",
        "tests/contract/test_walls.py tests/unit/ingestion/test_ingestion.py",
    ),
    Mutant(
        "scope: reads by id go around it",
        STORES + "scoped.py",
        'self._port.get(self._kept_ids(ids, "ids"), within=self._narrow(within))',
        'self._port.get(self._kept_ids(ids, "ids"), within=within)',
        MEMORY,
    ),
    Mutant(
        "scope: removals by document go around it",
        STORES + "scoped.py",
        'self._port.remove(self._kept(document_id, "document_id"), within=self._narrow(within))',
        'self._port.remove(self._kept(document_id, "document_id"), within=within)',
        MEMORY,
    ),
    Mutant(
        "hooks: a scope function that returns None bounds nothing",
        STORES + "run_scope.py",
        "        return frozen_filter(filter)\n",
        "        return frozen_filter({} if filter is None else filter)\n",
        "",
        "tests/unit/langchain_agora/test_vectorstore_scope.py",
    ),
    Mutant(
        "hooks: retrieval_filter that returns None retrieves everything",
        "core/agora_core/inject/injector.py",
        "        return frozen_filter(bound)\n",
        "        return frozen_filter({} if bound is None else bound)\n",
        "",
        "tests/unit/inject/test_injector.py",
    ),
    Mutant(
        "hooks: a missing actor is asked for as None",
        "core/agora_core/inject/injector.py",
        "            if asker.actor is UNSET:\n",
        "            if False:\n",
        "",
        "tests/unit/inject/test_injector.py",
    ),
    Mutant(
        "namespace: ids are kept as they are shown",
        STORES + "namespaces.py",
        'return f"{self.prefix}{key}"',
        "return key",
        "",
        "tests/contract/test_walls.py",
    ),
    Mutant(
        "authorized: an id that was not asked for is taken",
        "core/agora_core/retrievers/authorized.py",
        "if not isinstance(key, str) or key not in asked:",
        "if not isinstance(key, str):",
        "",
        "tests/unit/retrievers/test_authorized.py",
    ),
    Mutant(
        "block: a passage's text is not judged",
        "core/agora_core/inject/block.py",
        "    return _escaped(text, [*fences_in(text), *items])\n",
        "    return text\n",
        "",
        "tests/unit/inject/test_block.py",
    ),
    Mutant(
        "block: a source may end its parenthesis",
        "core/agora_core/inject/block.py",
        "return _escaped(label, [*fences_in(label), *early, *items])",
        "return _escaped(label, [*fences_in(label), *items])",
        "",
        "tests/unit/inject/test_block.py",
    ),
    Mutant(
        "backed index: the call's filter is left out",
        "core/agora_core/retrievers/backing.py",
        "port.get([key for _, key in fresh], within=filter)",
        "port.get([key for _, key in fresh])",
        "",
        "tests/unit/retrievers/test_backing.py",
    ),
    Mutant(
        "backed index: a text that changed is still found",
        "core/agora_core/retrievers/backing.py",
        "if record is not None and _still_found(record, query, tokenizer):",
        "if record is not None:",
        "",
        "tests/unit/retrievers/test_backing.py",
    ),
    Mutant(
        "backed index: the bound of its store is not told",
        "core/agora_core/retrievers/keyword.py",
        "return None if self.backed_by is None else StorePort(self.backed_by).scope()",
        "return None",
        "",
        "tests/unit/retrievers/test_backing.py",
    ),
    Mutant(
        "backed index: statistics from outside the store's bound",
        "core/agora_core/retrievers/backing.py",
        "scope = called if behind is None else conjoin(behind, called)",
        "scope = called",
        "",
        "tests/unit/retrievers/test_backing.py",
    ),
    Mutant(
        "backed index: a view backs it by itself",
        "core/agora_core/ingestion_plan.py",
        'if self._within is None and getattr(keyword, "backed_by", store) is None',
        'if getattr(keyword, "backed_by", store) is None',
        "",
        "tests/unit/ingestion/test_ingestion.py",
    ),
    Mutant(
        "text in memory: statistics from outside the scope",
        STORES + "memory/lexical.py",
        "bound = None if filter is None else scope_of(filter)",
        "bound = None",
        "hidden and memory",
        "tests/contract/test_walls_of_retrievers.py",
    ),
    Mutant(
        "text in postgres: statistics from outside the scope",
        STORES + "postgres/text/index.py",
        'scope = getattr(self._filter, "scope", None)',
        "scope = None",
        "hidden and postgres",
        "tests/contract/test_walls_of_retrievers.py",
    ),
    Mutant(
        "text in qdrant: statistics from outside the scope",
        STORES + "qdrant/lexical.py",
        "scope = None if filter is None else scope_of(filter)",
        "scope = None",
        "hidden and qdrant",
        "tests/contract/test_walls_of_retrievers.py",
    ),
    Mutant(
        "row security: it is not forced",
        STORES + "postgres/row_security.py",
        '            sql.SQL("ALTER TABLE {table} FORCE ROW LEVEL SECURITY"),\n',
        "",
        "",
        "tests/integration/postgres/test_row_security.py",
    ),
    Mutant(
        "row security: another permissive policy is passed over",
        STORES + "postgres/row_security.py",
        'if policy["permissive"] and policy["name"] != _POLICY]',
        "if False]",
        "",
        "tests/integration/postgres/test_row_security.py",
    ),
    Mutant(
        "row security: a changed policy is taken for ours",
        STORES + "postgres/row_security.py",
        'return bool(keys) and told == written and policy["check"] == policy["using"]',
        "return bool(keys)",
        "",
        "tests/integration/postgres/test_row_security.py",
    ),
    Mutant(
        "row security: an owner's member is not seen",
        STORES + "postgres/row_security.py",
        "    if owns:\n",
        "    if False:\n",
        "",
        "tests/integration/postgres/test_row_security.py",
    ),
    Mutant(
        "authorized: the leg of a hybrid reranks before the check",
        "core/agora_core/retrievers/hybrid.py",
        "        if not any(inside):\n",
        "        if True:\n",
        "reranker",
        "tests/unit/retrievers/test_authorized.py",
    ),
    Mutant(
        "authorized: the keys of a mapping of decisions are consent",
        "core/agora_core/retrievers/authorized.py",
        "if isinstance(answer, (str, bytes, Mapping))",
        "if isinstance(answer, (str, bytes))",
        "",
        "tests/unit/retrievers/test_authorized.py",
    ),
    Mutant(
        "reranking: the reranker's own text is shown",
        "core/agora_core/rerankers/ordering.py",
        "chosen[name] = with_score(known[name], passage.score)",
        "chosen[name] = passage",
        "",
        "tests/unit/retrievers/test_reranking.py",
    ),
    Mutant(
        "expanding: neighbours lie outside the base's scope",
        "core/agora_core/retrievers/expanding.py",
        "bound = filter if scope is None else conjoin(scope, filter)",
        "bound = filter",
        "",
        "tests/unit/retrievers/test_expanding.py",
    ),
    Mutant(
        "namespace: a record of the namespace hides no other",
        STORES + "namespaces.py",
        "return [entry for entry in entries if twins.get(entry.id) not in own]",
        "return list(entries)",
        "memory",
        "tests/contract/test_walls.py",
    ),
    Mutant(
        "namespace: an error tells the ids that are kept",
        STORES + "namespaces.py",
        'message = message.replace(prefix, "")',
        "pass",
        "memory",
        "tests/contract/test_walls.py",
    ),
    Mutant(
        "reembedding: what is gone stays in the new store",
        "core/agora_core/corpus/reembedding.py",
        "yield from self._target.delete(ids[start : start + self._size])",
        "yield from self._target.get(ids[start : start + self._size])",
        "model",
        "tests/integration/corpus/test_sync.py",
    ),
    Mutant(
        "reembedding: a changed label is taken for unchanged",
        "core/agora_core/corpus/reembedding.py",
        "or not json_equal(there.metadata or {}, here.metadata or {}):",
        "or False:",
        "model",
        "tests/integration/corpus/test_sync.py",
    ),
    Mutant(
        "sync: a scope bounds no removal",
        "core/agora_core/corpus/syncing.py",
        "self._store = StorePort(store if scope is None else store.scoped(scope))",
        "self._store = StorePort(store)",
        "scope",
        "tests/integration/corpus/test_sync.py",
    ),
    Mutant(
        "sync of permissions: the scope is left out",
        "core/agora_core/corpus/permissions.py",
        "self._store = StorePort(store if scope is None else store.scoped(scope))",
        "self._store = StorePort(store)",
        "permission or labels",
        "tests/integration/corpus/test_sync.py",
    ),
    Mutant(
        "langchain: a fixed scope reads operators",
        "langchain_agora/vectorstore_base.py",
        "ScopedVectorStore(self.store, to_scope(scope)",
        'ScopedVectorStore(self.store, __import__("langchain_agora").to_core_filter(scope)',
        "operators",
        "tests/contract/test_walls_of_adapters.py",
    ),
    Mutant(
        "langchain: a retriever of theirs hides the scope of ours",
        "langchain_agora/retriever.py",
        "return known_scope(self.retriever)",
        "return None",
        "scope",
        "tests/contract/test_walls_of_adapters.py",
    ),
    Mutant(
        "llamaindex: an empty OR is everything",
        "llamaindex_agora/filters.py",
        "    FilterCondition.OR: any_of,\n",
        "    FilterCondition.OR: lambda *all: any_of(*all) if all else all_of(),\n",
        "",
        "tests/contract/llamaindex/test_filter_table.py tests/unit/llamaindex_agora",
    ),
    Mutant(
        "llamaindex: an agent's kept retrieval is anybody's",
        "llamaindex_agora/agent.py",
        'if kept.get("asker") == await arun(asker.identity()):',
        "if kept:",
        "actor or asks",
        "tests/integration/llamaindex_agora/test_agent.py",
    ),
    Mutant(
        "llamaindex: a record names a file of this machine",
        "llamaindex_agora/nodes.py",
        '    rest.pop("image_path", None)\n',
        "",
        "",
        "tests/unit/llamaindex_agora/test_vectorstore_bounds.py",
    ),
    Mutant(
        "fork: locks are not taken",
        "core/agora_core/concurrency.py",
        "    for lock, _ in sorted(_kept.items(), key=lambda entry: entry[1]):\n",
        "    for lock, _ in []:\n",
        "forked and Keyword",
        "tests/unit/test_concurrency.py",
    ),
    Mutant(
        "text: a filter is left out of a term's scores",
        "core/agora_core/keyword/search.py",
        "            kept = _selected(rows, selection)\n",
        "            kept = slice(None)\n",
        "",
        "tests/unit/stores/test_memory_lexical.py",
    ),
    Mutant(
        "text: a scope's document frequencies are those of all",
        "core/agora_core/keyword/search.py",
        "rows, frequencies, frequency = rows[kept], frequencies[kept], len(kept)",
        "rows, frequencies = rows[kept], frequencies[kept]",
        "",
        "tests/unit/stores/test_memory_lexical.py",
    ),
    Mutant(
        "text: a scope's lengths are those of all",
        "core/agora_core/keyword/search.py",
        "documents, average = scope.count, scope.average_length(index.lengths)",
        "documents = scope.count",
        "",
        "tests/unit/stores/test_memory_lexical.py",
    ),
    Mutant(
        "text: a word that is repeated in a query counts once",
        "core/agora_core/keyword/search.py",
        " * (self._k1 + 1) * factor",
        " * (self._k1 + 1)",
        "",
        "tests/unit/keyword",
    ),
    Mutant(
        "text: rows are dropped before what common words add",
        "core/agora_core/keyword/search.py",
        "kept = (scores >= least * _BELOW - slack).nonzero()[0]",
        "kept = (scores >= least * _BELOW).nonzero()[0]",
        "",
        "tests/unit/keyword",
    ),
    Mutant(
        "text: the bound of a term is not kept for later",
        "core/agora_core/keyword/search.py",
        "            slack -= known.bound\n",
        "            slack = 0.0\n",
        "",
        "tests/unit/keyword",
    ),
    Mutant(
        "text: what is replaced still counts in the average length",
        "core/agora_core/keyword/index.py",
        "        self.total_length -= int(self.lengths[held].sum())\n",
        "",
        "",
        "tests/unit/keyword",
    ),
    Mutant(
        "text: what is removed still counts in N",
        "core/agora_core/keyword/index.py",
        "        self.documents -= len(held)\n",
        "",
        "",
        "tests/unit/keyword",
    ),
    Mutant(
        "text: long words that begin alike are one",
        "core/agora_core/keyword/cutting.py",
        "(first[holders] == first[tokens]) & (second[holders] == second[tokens])",
        "first[holders] == first[tokens]",
        "",
        "tests/unit/keyword",
    ),
    Mutant(
        "text: the parts of an identifier are lost in a batch",
        "core/agora_core/keyword/counting.py",
        "terms = np.concatenate((np.delete(terms, others), more))",
        "terms = np.concatenate((np.delete(terms, others), more * 0 + more[0]))",
        "",
        "tests/unit/keyword",
    ),
    Mutant(
        "text: a phrase is found where its words stand apart",
        "core/agora_core/keyword/querying.py",
        "return all(phrase.stands_in(tokenizer, text) for phrase in self.phrases) and not any(",
        "return not any(",
        "",
        "tests/unit/stores/test_memory_lexical.py",
    ),
    Mutant(
        "text: an excluded phrase excludes nothing",
        "core/agora_core/keyword/querying.py",
        "phrase.stands_in(tokenizer, text) for phrase in self.excluded\n",
        "False for phrase in self.excluded\n",
        "",
        "tests/unit/stores/test_memory_lexical.py",
    ),
    Mutant(
        "text: a plain question is read as operators",
        "core/agora_core/keyword/querying.py",
        'if check_syntax(syntax) != "web":',
        'if check_syntax(syntax) == "":',
        "",
        "tests/unit/stores/test_memory_lexical.py tests/unit/keyword",
    ),
    Mutant(
        "text: equal scores are cut before they are ordered by id",
        "core/agora_core/keyword/search.py",
        "[pair for pair in sums.items() if pair[1] >= floor]",
        "[pair for pair in sums.items() if pair[1] > floor]",
        "",
        "tests/unit/keyword",
    ),
    Mutant(
        "text, postgres: what was replaced is still found",
        STORES + "postgres/text/segments.py",
        "~np.isin(numbers, dead) if len(dead) else np.ones(len(numbers), bool)",
        "np.ones(len(numbers), bool)",
        "",
        "tests/integration/postgres/test_text_index.py",
    ),
    Mutant(
        "text, postgres: a scope does not bound the rows",
        STORES + "postgres/text/segments.py",
        "            live &= np.isin(numbers, visible[0])\n",
        "",
        "",
        "tests/integration/postgres/test_text_index.py",
    ),
    Mutant(
        "text, postgres: sweeping keeps the postings of dead rows",
        STORES + "postgres/text/segments.py",
        'return postings[~np.isin(postings["row"].astype(np.int64), dead)].tobytes()',
        "return postings.tobytes()",
        "",
        "tests/integration/postgres/test_text_index.py",
    ),
    Mutant(
        "text, postgres: equal scores are parted between stretches",
        STORES + "postgres/text/segments.py",
        '            end = int(np.searchsorted(-scores, -scores[end - 1], side="right"))\n',
        "            pass\n",
        "",
        "tests/integration/postgres/test_text_index.py",
    ),
    Mutant(
        "text, postgres: the floor is exclusive",
        STORES + "postgres/text/index.py",
        'np.searchsorted(-scores, -self._min_score, side="right")',
        'np.searchsorted(-scores, -self._min_score, side="left")',
        "",
        "tests/integration/postgres/test_text_index.py",
    ),
    Mutant(
        "text, postgres: a merge keeps one segment of a term",
        STORES + "postgres/text/index.py",
        "\"INSERT INTO {postings} SELECT term, string_agg(postings, '') FROM gone GROUP BY term\"",
        '"INSERT INTO {postings} SELECT term, min(postings) FROM gone GROUP BY term"',
        "",
        "tests/integration/postgres/test_text_index.py",
    ),
    Mutant(
        "text, postgres: texts that others wrote are not counted",
        STORES + "postgres/text/index.py",
        "        self._pending = [key for key, _, _ in pending]\n",
        "        pending = []\n        self._pending = []\n",
        "",
        "tests/integration/postgres/test_text_index.py",
    ),
)


def run(mutant: Mutant) -> bool:
    """Say whether the tests noticed `mutant`."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv*", "__pycache__", ".*_cache"))
        path = copy / mutant.path
        source = path.read_text(encoding="utf-8")
        if source.count(mutant.old) != 1:
            raise SystemExit(f"{mutant.what}: its place is found {source.count(mutant.old)} times in {mutant.path}")
        path.write_text(source.replace(mutant.old, mutant.new), encoding="utf-8")
        laws = f"{mutant.tests} and (means or patch or scope)"
        chosen = laws if mutant.tests in (MEMORY, POSTGRES, QDRANT) else mutant.tests
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", *mutant.where.split(), "-k", chosen],
            cwd=copy,
            env={**os.environ, "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode not in (0, 1):
            raise SystemExit(f"{mutant.what}: the tests did not run\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.returncode == 1


def main() -> None:
    caught, words = 0, sys.argv[1:]
    chosen = [mutant for mutant in MUTANTS if not words or any(word in mutant.what for word in words)]
    for mutant in chosen:
        noticed = run(mutant)
        caught += noticed
        print(f"{'caught' if noticed else 'MISSED'}  {mutant.what}", flush=True)
    print(f"{caught} of {len(chosen)} mutants caught")
    sys.exit(caught != len(chosen))


if __name__ == "__main__":
    main()

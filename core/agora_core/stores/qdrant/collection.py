"""Collections: made once, verified ever after, never changed silently."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

from agora_core.errors import AgoraError, InvalidArgumentError, SchemaError
from agora_core.records import JSON, indexed_text
from agora_core.steps import Steps
from agora_core.stores.base import Health
from agora_core.stores.qdrant import requests
from agora_core.stores.qdrant.filters import conjunction, qdrant_models
from agora_core.stores.qdrant.payload import (
    DOCUMENT_KEY,
    FORMAT,
    FORMAT_KEY,
    LENGTH_KEY,
    MARK_KEY,
    MARKED,
    context_of,
    number_keys,
    tokens_key,
)
from agora_core.stores.qdrant.requests import Call
from agora_core.stores.qdrant.settings import QdrantSettings

_log: Final = logging.getLogger(__name__)

# Under this name a collection's own metadata says how its text was indexed.
METADATA_KEY: Final = "agora_text"
_TEXT_REMEDY: Final = "Open it with that tokenizer, or call index_texts() to index it with this one"
# Each indexed key costs memory and is built for every point; a corpus with free-form keys must not make thousands.
MAX_AUTOMATIC_INDEXES: Final = 64

_COLLECTION_OPTIONS: Final = (
    "shard_number",
    "sharding_method",
    "replication_factor",
    "write_consistency_factor",
    "on_disk_payload",
    "hnsw_config",
    "optimizers_config",
    "wal_config",
    "quantization_config",
    "strict_mode_config",
    "metadata",
)


def check_collection_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of `create_collection` that were given.

    Raises:
        InvalidArgumentError: an option is not known.
    """
    unknown = sorted(set(options) - {*_COLLECTION_OPTIONS, "on_disk"})
    if unknown:
        raise InvalidArgumentError(
            f"unknown collection options {', '.join(unknown)}; known are on_disk, {', '.join(_COLLECTION_OPTIONS)}"
        )
    return {name: value for name, value in options.items() if value is not None}


def ensure(
    settings: QdrantSettings, options: Mapping[str, Any], indexed: Sequence[str], tenant: str | None
) -> Steps[None]:
    """Create the collection where there is none, and verify it where there is one.

    Raises:
        SchemaError: it exists and is not as this store needs it; the message says everything that differs.
    """
    name = settings.collection
    if not (yield Call("collection_exists", {"collection_name": name})):
        try:
            yield create(settings, options)
        except Exception as error:
            # Somebody else may have made it in between; then it is verified like any other.
            if not (yield Call("collection_exists", {"collection_name": name})):
                raise SchemaError(f"the Qdrant collection {name!r} could not be created: {error}") from error
    if settings.shard_key is not None and not settings.local:
        yield from _ensure_shard_keys(settings)
    info = yield Call("get_collection", {"collection_name": name})
    differences = describe_all_differences(settings, info)
    if differences:
        raise SchemaError(
            f"the Qdrant collection {name!r} is not as this store needs it: {'; '.join(differences)}. "
            "Open it with the options it was made with, use another collection, or where only the text differs call "
            "index_texts()"
        )
    if not settings.local:
        present = set(info.payload_schema)
        calls = base_indexes(settings)
        for key in dict.fromkeys([*indexed, *([tenant] if tenant else [])]):
            calls += [tokens_index(settings, key, tenant=key == tenant), *numbers_indexes(settings, key)]
        for call in calls:
            if call.arguments["field_name"] not in present:
                yield call
    blind = yield from count_without_tokens(settings)
    if blind:
        _log.warning(
            "the Qdrant collection %r holds %d points of another writer, which filters judge one by one; "
            "reindex_filters() makes them as fast as the others",
            name,
            blind,
        )


def create(settings: QdrantSettings, options: Mapping[str, Any]) -> Call:
    """Return the request that makes the collection."""
    models = qdrant_models()
    given = dict(options)
    vectors = models.VectorParams(
        size=settings.dimension, distance=models.Distance(settings.distance), on_disk=given.pop("on_disk", None)
    )
    arguments: dict[str, Any] = {"collection_name": settings.collection, "vectors_config": vectors}
    if settings.sparse is not None:
        arguments["sparse_vectors_config"] = {settings.sparse.vector_name: models.SparseVectorParams()}
        # Kept with the collection, so that one opened with another tokenizer is told apart.
        given["metadata"] = {**(given.get("metadata") or {}), METADATA_KEY: settings.sparse.fingerprint()}
    if settings.shard_key is not None:
        given.setdefault("sharding_method", models.ShardingMethod.CUSTOM)
    return Call("create_collection", {**arguments, **given})


def _ensure_shard_keys(settings: QdrantSettings) -> Steps[None]:
    wanted = settings.shard_key if isinstance(settings.shard_key, (list, tuple)) else [settings.shard_key]
    answer = yield Call("list_shard_keys", {"collection_name": settings.collection})
    present = {description.key for description in getattr(answer, "shard_keys", None) or ()}
    for key in wanted:
        if key not in present:
            yield Call("create_shard_key", {"collection_name": settings.collection, "shard_key": key})


def describe_all_differences(settings: QdrantSettings, info: Any) -> list[str]:
    """Return what about an existing collection is not as the store needs it, in words; empty where all is well."""
    return [
        *describe_differences(settings, info.config.params),
        *describe_text_differences(settings, getattr(info.config, "metadata", None)),
    ]


def describe_differences(settings: QdrantSettings, params: Any) -> list[str]:
    """Return how the vectors of a collection differ from what the store needs, in words."""
    vectors = params.vectors
    if isinstance(vectors, Mapping):
        vectors = vectors.get("")
    if vectors is None:
        return ["it has no unnamed vector"]
    differences = []
    if vectors.size != settings.dimension:
        differences.append(f"its dimension is {vectors.size}, the store's {settings.dimension}")
    distance = getattr(vectors.distance, "value", vectors.distance)
    if distance != settings.distance:
        needed = f"the store's metric {settings.metric!r} needs {settings.distance}"
        differences.append(f"its distance is {distance}, {needed}")
    if getattr(vectors, "multivector_config", None) is not None:
        differences.append("its vector is a multivector")
    if settings.sparse is not None:
        name = settings.sparse.vector_name
        sparse = (params.sparse_vectors or {}).get(name)
        if sparse is None:
            differences.append(f"it has no sparse vector {name!r}")
        elif getattr(sparse.modifier, "value", sparse.modifier) == "idf":
            differences.append(
                f"its sparse vector {name!r} is of an earlier layout, with an idf by the server; copy its "
                "records into a new collection with scan() and upsert()"
            )
    return differences


def describe_text_differences(settings: QdrantSettings, metadata: Any) -> list[str]:
    """Return how the sparse vectors of a collection were made otherwise than this store makes them, in words."""
    made = metadata.get(METADATA_KEY) if isinstance(metadata, Mapping) else None
    if settings.sparse is None or not isinstance(made, Mapping):
        return []
    mine = settings.sparse.fingerprint()
    return [
        f"its text was indexed with {name} {made.get(name)!r}, the store has {mine[name]!r}"
        for name in mine
        if made.get(name) != mine[name]
    ]


def check_text(settings: QdrantSettings) -> Steps[None]:
    """Make sure that a collection's text was indexed as this store indexes it.

    Raises:
        SchemaError: it was not; both ways are named.
    """
    info = yield Call("get_collection", {"collection_name": settings.collection})
    differences = describe_text_differences(settings, getattr(info.config, "metadata", None))
    if differences:
        raise SchemaError(f"the Qdrant collection {settings.collection!r}: {'; '.join(differences)}. {_TEXT_REMEDY}")


def kept_tokenizer(settings: QdrantSettings) -> Steps[str | None]:
    """Return the name of the tokenizer that is kept with the collection; None where there is none."""
    if not (yield Call("collection_exists", {"collection_name": settings.collection})):
        return None
    info = yield Call("get_collection", {"collection_name": settings.collection})
    metadata = getattr(info.config, "metadata", None)
    made = metadata.get(METADATA_KEY) if isinstance(metadata, Mapping) else None
    name = made.get("tokenizer") if isinstance(made, Mapping) else None
    return name if isinstance(name, str) else None


def index_texts(settings: QdrantSettings) -> Steps[int]:
    """Index every text anew with this store's tokenizer, and keep that with the collection. Return how many."""
    encoder = settings.sparse
    if encoder is None:
        return 0
    name = settings.collection
    unfinished = {METADATA_KEY: {**encoder.fingerprint(), "tokenizer": "(being indexed)"}}
    yield Call("update_collection", {"collection_name": name, "metadata": unfinished})
    indexed, offset = 0, None
    while True:
        points, offset = yield requests.scroll(settings, None, requests.PASSAGE_FIELDS, offset)
        mine = [point for point in points if "id" in (point.payload or {})]
        texts = [indexed_text(p.payload["text"], context_of(p.payload)) for p in mine]
        made = {str(p.id): one for p, one in zip(mine, encoder.documents(texts), strict=True)}
        if made:
            yield requests.update(settings, requests.text_operations(settings, encoder.vector_name, made))
        indexed += len(made)
        if offset is None:
            break
    yield Call("update_collection", {"collection_name": name, "metadata": {METADATA_KEY: encoder.fingerprint()}})
    return indexed


def base_indexes(settings: QdrantSettings) -> list[Call]:
    """Return the requests for the payload indexes that every collection has."""
    schema = qdrant_models().PayloadSchemaType
    return [
        _index(settings, DOCUMENT_KEY, schema.KEYWORD),
        _index(settings, FORMAT_KEY, schema.INTEGER),
        _index(settings, MARK_KEY, schema.KEYWORD),
        *([] if settings.sparse is None else [_index(settings, LENGTH_KEY, schema.INTEGER)]),
    ]


def tokens_index(settings: QdrantSettings, key: str, *, tenant: bool = False) -> Call:
    """Return the request for the index of a top-level key's tokens; that of a tenant keeps its points together."""
    models = qdrant_models()
    keyword: Any = models.PayloadSchemaType.KEYWORD
    if tenant:
        keyword = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    return _index(settings, tokens_key((key,)), keyword)


def numbers_indexes(settings: QdrantSettings, key: str) -> list[Call]:
    """Return the requests for the indexes of a top-level key's numbers, which are kept as two integers."""
    schema = qdrant_models().PayloadSchemaType.INTEGER
    return [_index(settings, name, schema) for name in number_keys((key,))]


def _index(settings: QdrantSettings, field_name: str, schema: Any) -> Call:
    return Call(
        "create_payload_index",
        {
            "collection_name": settings.collection,
            "field_name": field_name,
            "field_schema": schema,
            "wait": True,
        },
    )


def new_indexes(
    settings: QdrantSettings, written: Iterable[Mapping[str, JSON] | None], tenant: str | None, present: set[str]
) -> list[Call]:
    """Return the requests for the indexes that metadata about to be written needs and that are not `present`.

    At most `MAX_AUTOMATIC_INDEXES` in all; a key beyond that is filtered without an index.
    """
    calls: dict[str, Call] = {}
    looked: set[tuple[str, bool]] = set()
    for metadata in written:
        for key, value in (metadata or {}).items():
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if (key, number) in looked:
                continue
            looked.add((key, number))
            wanted = [tokens_key((key,)), *(number_keys((key,)) if number else ())]
            if all(name in present or name in calls for name in wanted):
                continue
            made = [tokens_index(settings, key, tenant=key == tenant)]
            made += numbers_indexes(settings, key) if number else []
            for call in made:
                if call.arguments["field_name"] not in present:
                    calls.setdefault(call.arguments["field_name"], call)
    return list(calls.values())[: max(MAX_AUTOMATIC_INDEXES - len(present), 0)]


def try_index(call: Call) -> Steps[None]:
    """Create an index; where the server refuses one more, say so and go on: filters are right without it."""
    try:
        yield call
    except Exception as error:
        if getattr(error, "status_code", None) not in (400, 403, 422):
            raise
        _log.warning("Qdrant refused the payload index %s: %s", call.arguments["field_name"], error)


def count_without_tokens(settings: QdrantSettings) -> Steps[int]:
    """Count the points that another writer left without the tokens that filters need."""
    has_tokens = requests.matches(FORMAT_KEY, [FORMAT, MARKED])
    return int((yield requests.count(settings, conjunction([], must_not=[has_tokens]))).count)


def check(settings: QdrantSettings) -> Steps[Health]:
    """Say whether the collection can be reached and is as the store needs it. Nothing of a request or URL is told."""
    versions = {"client": version("qdrant-client")}
    try:
        if not settings.local:
            versions["server"] = str((yield Call("info")).version)
        info = yield Call("get_collection", {"collection_name": settings.collection})
        points = int((yield requests.count(settings, None)).count)
        blind = yield from count_without_tokens(settings)
    except AgoraError as error:
        return Health(False, str(error), versions)
    except Exception as error:
        return Health(False, f"Qdrant cannot be reached or refuses: {type(error).__name__}", versions)
    differences = describe_all_differences(settings, info)
    detail = "; ".join(differences) or f"the collection {settings.collection!r} is as it should be"
    return Health(not differences, detail, versions, {"points": points, "without_tokens": blind})


_MODEL_KEY: Final = "agora-embedding-model"


def model_of(settings: QdrantSettings) -> Steps[str | None]:
    """Return the embedding model that filled the collection, None where none is known."""
    info = yield Call("get_collection", {"collection_name": settings.collection})
    metadata = getattr(info.config, "metadata", None)
    found = metadata.get(_MODEL_KEY) if isinstance(metadata, Mapping) else None
    return found if isinstance(found, str) else None


def keep_model(settings: QdrantSettings, model: str) -> Steps[None]:
    """Keep the name of the model with the collection; a server before 1.16 keeps none."""
    yield Call("update_collection", {"collection_name": settings.collection, "metadata": {_MODEL_KEY: model}})

"""A service over HTTP: who asks decides what can be found, and a health check tells of the store.

uvicorn examples.fastapi_service:app                      # an embedded store in memory
HANDBOOK=postgresql://app@db/app gunicorn -c examples/gunicorn.conf.py examples.fastapi_service:app

curl -H 'Authorization: Bearer ben' 'localhost:8000/search?question=days+of+leave'
"""

from __future__ import annotations

import os
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Query, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from agora_core import (
    EmbeddingRetriever,
    HybridRetriever,
    IngestDocument,
    LexicalRetriever,
    MemoryLexicalVectorStore,
    Passage,
    PgLexicalVectorStore,
    StoreUnavailableError,
    WordLlamaEmbeddingProvider,
    passage_to_dict,
    sync_documents,
)

DOCUMENTS = [
    IngestDocument("leave", "Everyone has 30 days of paid leave a year.", "leave.md", {"acl": ["staff"]}),
    IngestDocument("bonus", "The leave of directors is 40 days a year.", "board.md", {"acl": ["board"]}),
]
# Your sessions or tokens stand here.
USERS = {"ada": ["staff", "board"], "ben": ["staff"], "eve": []}


def open_store(place: str | None) -> Any:
    """Return the store of the service, filled; with a connection string all workers share one table."""
    store: Any = MemoryLexicalVectorStore()
    if place is not None:
        store = PgLexicalVectorStore(place, table="handbook_service", dimension=256)
        store.ensure_schema()
    sync_documents(DOCUMENTS, embedder=EMBEDDER, store=store)
    return store


EMBEDDER = WordLlamaEmbeddingProvider(dimensions=256)
# Made when the module is imported: with gunicorn's preload once, before the workers are forked. Connections are not
# inherited; each worker makes its own.
STORE = open_store(os.environ.get("HANDBOOK"))
RETRIEVER = HybridRetriever([EmbeddingRetriever(EMBEDDER, STORE), LexicalRetriever(STORE)], fusion="adaptive")

app = FastAPI(title="Handbook")


def groups_of(given: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]) -> list[str]:
    """Return the groups of who asks; an unknown token is refused."""
    if given.credentials not in USERS:
        raise HTTPException(401, "unknown token")
    return USERS[given.credentials]


@app.get("/search")
async def search(
    question: Annotated[str, Query(min_length=1, max_length=2_000)],
    groups: Annotated[list[str], Depends(groups_of)],
    top_k: Annotated[int, Query(ge=1, le=20)] = 5,
) -> list[dict[str, Any]]:
    """Answer within what the groups may see; no group at all sees nothing."""
    mine = RETRIEVER.scoped({"acl": groups})
    try:
        found: list[Passage] = await mine.aretrieve(question, top_k=top_k)
    except StoreUnavailableError as error:
        raise HTTPException(503, "the index cannot be reached; try again later") from error
    return [passage_to_dict(passage) for passage in found]


@app.get("/health")
async def health(response: Response) -> dict[str, Any]:
    """Say whether the store answers; 503 where it does not, for the load balancer."""
    state = await STORE.acheck()
    response.status_code = 200 if state.ok else 503
    return {"ok": state.ok, "detail": state.detail, "versions": dict(state.versions), "worker": os.getpid()}

"""An agent that is killed between retrieval and answer, and goes on in a new process without retrieving again.

python examples/resuming_agent.py

The passages of a turn live in the agent's checkpoint (SQLite here), so whoever resumes it, and whatever the index holds
by then, the model sees what was retrieved for the person who asked.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from langgraph.checkpoint.sqlite import SqliteSaver

from agora_core import (
    EmbeddingRetriever,
    IngestDocument,
    MemoryVectorStore,
    WordLlamaEmbeddingProvider,
    ingest_documents,
)
from langchain_agora import InjectContextMiddleware

DOCUMENTS = [
    IngestDocument("leave", "Everyone has 30 days of paid leave a year.", "leave.md", {"acl": ["all"]}),
    IngestDocument("bonus", "The leave of directors is 40 days a year.", "board.md", {"acl": ["board"]}),
]
THREAD: Any = {"configurable": {"thread_id": "turn-1"}}


@dataclass
class User:
    """Who asks."""

    groups: list[str]


class DyingModel(FakeListChatModel):
    """A model whose server takes the whole process with it."""

    def _call(self, *arguments: Any, **options: Any) -> str:
        print("the model is called, and the process is killed", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
        return ""


def work(database: str, *, dies: bool) -> None:
    """Run the turn, or go on with it where it stands."""
    embedder, store = WordLlamaEmbeddingProvider(), MemoryVectorStore()
    ingest_documents(DOCUMENTS, embedder=embedder, store=store)

    def allowed(user: User) -> dict[str, list[str]]:
        print(f"retrieving for {user.groups}", flush=True)
        return {"acl": user.groups}

    middleware = InjectContextMiddleware(EmbeddingRetriever(embedder, store), top_k=2, retrieval_filter=allowed)
    model = DyingModel(responses=["never said"]) if dies else FakeListChatModel(responses=["You have 30 days [1]."])
    with SqliteSaver.from_conn_string(database) as checkpointer:
        agent = create_agent(model, middleware=[middleware], context_schema=User, checkpointer=checkpointer)
        # Durable before each step; None goes on from the checkpoint.
        turn: Any = {"messages": [("human", "How much leave do I get?")]} if dies else None
        answer = agent.invoke(turn, THREAD, context=User(["all"]), durability="sync")["messages"][-1].text
        passages = agent.get_state(THREAD).values["agora_passages"]
    print("answer:", answer)
    print("sources:", [passage["source"] for passage in passages])


def main() -> None:
    """Start a process that dies, then one that goes on."""
    if len(sys.argv) > 1:
        work(sys.argv[2], dies=sys.argv[1] == "die")
        return
    with tempfile.TemporaryDirectory() as folder:
        database = str(Path(folder) / "checkpoints.sqlite")
        for number, part in enumerate(("die", "resume"), 1):
            print(f"process {number}:", flush=True)
            done = subprocess.run([sys.executable, __file__, part, database], check=False)
            print(f"  ended with {done.returncode}", flush=True)


if __name__ == "__main__":
    main()

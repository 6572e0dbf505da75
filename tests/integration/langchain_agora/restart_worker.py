"""A process that is killed in the middle of a turn, and the one that goes on; run by test_restart.py.

python -m tests.integration.langchain_agora.restart_worker '{"kind": ..., "phase": ..., ...}'
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.func import entrypoint
from langgraph.types import Command, interrupt

from agora_core.inject import passages_from_step
from langchain_agora import InjectContextMiddleware, aretrieve_task, retrieve_task
from tests.integration.langchain_agora.scripted import ScriptedModel, calls_tool, tenants

CONFIG: Any = {"configurable": {"thread_id": "turn"}}


@dataclass
class Actor:
    tenant: str


def die() -> None:
    """End this process as a power cut would: nothing is flushed, nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


class Worker:
    """One process of a turn."""

    def __init__(self, order: dict[str, str]) -> None:
        self.order = order
        self.retriever = tenants()
        self.model = ScriptedModel(script=[calls_tool("refund", amount=5), "done"])

    def own_tenant(self, actor: Any) -> dict[str, str]:
        """Derive the filter, and write down on disk that it was derived."""
        tenant = actor["tenant"] if isinstance(actor, dict) else actor.tenant
        with Path(self.order["log"]).open("a") as log:
            log.write(f"{tenant}\n")
        return {"tenant": tenant}

    @property
    def starts(self) -> bool:
        return self.order["phase"] == "start"

    @property
    def durability(self) -> Any:
        return self.order.get("durability", "sync")

    def agent(self, checkpointer: Any) -> Any:
        starts, where = self.starts, self.order["kind"]

        @tool
        def refund(amount: int) -> str:
            """Refund an amount."""
            if starts and where == "killed-in-tool":
                die()
            return f"refunded {amount}"

        worker = self

        class MortalModel(ScriptedModel):
            def _generate(self, *args: Any, **options: Any) -> Any:
                if worker.starts and where == "killed-in-model":
                    die()
                return super()._generate(*args, **options)

        if not self.starts and where != "killed-in-model":
            self.model.script.pop(0)
        self.model = MortalModel(script=self.model.script)
        middleware: list[Any] = [InjectContextMiddleware(self.retriever, top_k=2, retrieval_filter=self.own_tenant)]
        if where == "interrupted":
            middleware.append(HumanInTheLoopMiddleware(interrupt_on={"refund": True}))
        return create_agent(
            self.model,
            [refund],
            system_prompt="You help.",
            middleware=middleware,
            context_schema=Actor,
            checkpointer=checkpointer,
        )

    def input(self) -> Any:
        if self.starts or self.durability == "exit":
            return {"messages": [HumanMessage("paid leave")]}
        if self.order["kind"] == "interrupted":
            return Command(resume={"decisions": [{"type": "approve"}]})
        return None

    def report(self, result: Any) -> dict[str, Any]:
        return {
            "systems": [self.model.system(call) for call in range(len(self.model.seen))],
            "answer": result["messages"][-1].text,
        }

    def run_agent(self) -> dict[str, Any]:
        with SqliteSaver.from_conn_string(self.order["database"]) as checkpointer:
            actor = Actor(self.order["tenant"])
            agent = self.agent(checkpointer)
            return self.report(agent.invoke(self.input(), CONFIG, context=actor, durability=self.durability))

    async def arun_agent(self) -> dict[str, Any]:
        async with AsyncSqliteSaver.from_conn_string(self.order["database"]) as checkpointer:
            actor = Actor(self.order["tenant"])
            agent = self.agent(checkpointer)
            return self.report(await agent.ainvoke(self.input(), CONFIG, context=actor, durability=self.durability))

    def task_input(self) -> Any:
        if self.starts:
            return {"query": "paid leave", "tenant": self.order["tenant"]}
        return Command(resume="go on") if self.order["kind"] == "task-interrupted" else None

    def is_saved(self) -> bool:
        """Say whether the result of the task is on disk: LangGraph writes it while the turn goes on."""
        if not self.starts or self.order["kind"] == "task-interrupted":
            return True
        with contextlib.closing(sqlite3.connect(self.order["database"])) as connection:
            found = connection.execute("SELECT count(*) FROM writes WHERE channel = '__return__'").fetchone()
        return bool(found[0])

    def after_retrieval(self) -> None:
        if self.order["kind"] == "task-interrupted":
            interrupt("may I?")
        elif self.starts:
            die()

    def run_task(self) -> dict[str, Any]:
        retrieve = retrieve_task(self.retriever, top_k=2, retrieval_filter=self.own_tenant)
        with SqliteSaver.from_conn_string(self.order["database"]) as checkpointer:

            @entrypoint(checkpointer=checkpointer)
            def turn(asked: dict[str, str]) -> list[str]:
                found = retrieve(asked["query"], {"tenant": asked["tenant"]}).result()
                while not self.is_saved():
                    time.sleep(0.01)
                self.after_retrieval()
                return [passage.text for passage in passages_from_step(found)]

            return {"texts": turn.invoke(self.task_input(), CONFIG, durability="sync")}

    async def arun_task(self) -> dict[str, Any]:
        retrieve = aretrieve_task(self.retriever, top_k=2, retrieval_filter=self.own_tenant)
        async with AsyncSqliteSaver.from_conn_string(self.order["database"]) as checkpointer:

            @entrypoint(checkpointer=checkpointer)
            async def turn(asked: dict[str, str]) -> list[str]:
                found = await retrieve(asked["query"], {"tenant": asked["tenant"]})
                while not self.is_saved():  # noqa: ASYNC110 # another process's file has no event to wait for
                    await asyncio.sleep(0.01)
                self.after_retrieval()
                return [passage.text for passage in passages_from_step(found)]

            return {"texts": await turn.ainvoke(self.task_input(), CONFIG, durability="sync")}


def work(order: dict[str, str]) -> None:
    """Do one phase of a turn, and write down how it went."""
    worker = Worker(order)
    sync = order["colour"] == "sync"
    if order["kind"].startswith("task"):
        report = worker.run_task() if sync else asyncio.run(worker.arun_task())
    else:
        report = worker.run_agent() if sync else asyncio.run(worker.arun_agent())
    Path(order["report"]).write_text(json.dumps(report, default=repr))


if __name__ == "__main__":
    work(json.loads(sys.argv[1]))

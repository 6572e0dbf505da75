"""Turns that stop half way, their contexts saved on disk, and the process that goes on; run by test_resume.py.

python -m tests.integration.llamaindex_agora.resume_worker '[{"kind": ..., "phase": ..., ...}, ...]'
"""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from pathlib import Path
from typing import Any

from llama_index.core.agent.workflow import AgentWorkflow
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.workflow import Context, HumanResponseEvent, InputRequiredEvent

from llamaindex_agora import InjectingFunctionAgent
from tests.integration.llamaindex_agora.scripted import llm, tenants

MESSAGE = "paid leave"


class Agreed(HumanResponseEvent):
    """What a person answers."""

    response: str


async def refund(ctx: Context, amount: int) -> str:
    """Refund an amount, if a person agrees."""
    answer = await ctx.wait_for_event(Agreed, waiter_event=InputRequiredEvent())
    return f"refunded {amount}: {answer.response}"


# LlamaIndex knows a context by the annotation itself, and here annotations are strings.
refund.__annotations__["ctx"] = Context


def add_one(number: int) -> int:
    """Add one."""
    return number + 1


def perform(order: dict[str, str]) -> dict[str, Any]:
    """Start a turn or go on with one; return what became of it."""

    def own_tenant(actor: str) -> dict[str, str]:
        """Derive the filter, and write down on disk that it was derived."""
        with Path(order["log"]).open("a") as log:
            log.write(f"{actor}\n")
        return {"tenant": actor}

    starts, kind = order["phase"] == "start", order["kind"]
    script: list[Any] = ["done"]
    if starts and kind == "interrupted":
        script = [[("refund", {"amount": 5})]]
    elif starts:
        script = [[("add_one", {"number": 1})], RuntimeError("down")]
    model = llm(*script)
    made = InjectingFunctionAgent(
        name="agent",
        description="helps",
        retriever=tenants(),
        top_k=2,
        retrieval_filter=own_tenant,
        actor=lambda: order["tenant"],
        llm=model,
        tools=[add_one, refund],
    )
    workflow: Any = AgentWorkflow(agents=[made]) if kind == "workflow" else made
    saved = Path(order["saved"])
    report = asyncio.run(start(workflow, saved) if starts else go_on(workflow, json.loads(saved.read_text()), kind))
    report["systems"] = [model.system(call) for call in range(len(model.seen))]
    return report


async def start(workflow: Any, saved: Path) -> dict[str, Any]:
    context = Context(workflow)
    handler = workflow.run(MESSAGE, ctx=context)
    async for event in handler.stream_events():
        if isinstance(event, InputRequiredEvent):
            save(handler.ctx, saved)
            await handler.cancel_run()
            return {"stopped": "waiting"}
    try:
        await handler
    except RuntimeError:
        save(context, saved)
        return {"stopped": "failed"}
    raise AssertionError("the turn should have stopped")


def save(context: Context, saved: Path) -> None:
    with warnings.catch_warnings():
        # LlamaIndex does not save its own memory, and says so.
        warnings.simplefilter("ignore")
        saved.write_text(json.dumps(context.to_dict()))


async def go_on(workflow: Any, state: dict[str, Any], kind: str) -> dict[str, Any]:
    context = Context.from_dict(workflow, state)
    memory = ChatMemoryBuffer.from_defaults()
    if kind == "interrupted":
        await context.store.set("memory", memory)
        handler = workflow.run(ctx=context)
        handler.ctx.send_event(Agreed(response="yes"))
    else:
        handler = workflow.run(MESSAGE, ctx=context, memory=memory)
    output = await handler
    return {"answer": str(output), "calls": [call.tool_name for call in output.tool_calls]}


if __name__ == "__main__":
    print(json.dumps([perform(order) for order in json.loads(sys.argv[1])]))

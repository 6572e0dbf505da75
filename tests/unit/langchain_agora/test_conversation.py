"""The query made of a conversation, and the answer beside its passages, in LangChain's chains."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda, RunnablePassthrough

from agora_core import InvalidFilterError, Passage
from langchain_agora import InjectContext, condense_question, create_retrieve_tool
from tests.unit.langchain_agora.colours import Run
from tests.unit.langchain_agora.test_inject import Fixed

LEAVE = Passage("leave#0", "Paid leave is 30 days.", 0.5, "leave.md", {"acl": ["all"]})
TALK = [HumanMessage("How long is paid leave?"), AIMessage("30 days."), HumanMessage("And for visitors?")]


def model(*answers: str) -> GenericFakeChatModel:
    return GenericFakeChatModel(messages=iter(answers))


def test_a_follow_up_is_asked_with_its_conversation(run: Run) -> None:
    retriever = Fixed(LEAVE)
    step = InjectContext(retriever, query_from=condense_question(model("paid leave for visitors ")))
    run(step, "invoke", TALK)
    run(step, "invoke", TALK[:1])
    assert [query for query, _ in retriever.calls] == ["paid leave for visitors", "How long is paid leave?"]


def test_a_model_that_fails_fails_the_turn(run: Run) -> None:
    retriever = Fixed(LEAVE)
    with pytest.raises((StopIteration, RuntimeError)):
        run(InjectContext(retriever, query_from=condense_question(model())), "invoke", TALK)
    assert retriever.calls == []


def test_an_answer_with_its_passages_in_one_retrieval(run: Run) -> None:
    retriever = Fixed(LEAVE)
    prompt = ChatPromptTemplate.from_messages([("system", "{context}"), ("human", "{question}")])
    answer = prompt | model("Thirty days [1].", "Thirty days [1].") | StrOutputParser()
    inject = InjectContext(retriever, key="question", output_key="context", passages_key="sources")
    chain = inject | RunnablePassthrough.assign(answer=answer)
    result = run(chain, "invoke", {"question": "How long is paid leave?"})
    assert result["answer"] == "Thirty days [1]."
    assert [document.metadata["source"] for document in result["sources"]] == ["leave.md"]
    assert result["sources"][0].metadata["score"] == 0.5
    pieces = list(chain.stream({"question": "How long is paid leave?"}))
    assert "".join(piece["answer"] for piece in pieces if "answer" in piece) == "Thirty days [1]."
    assert any(piece.get("sources") for piece in pieces)
    assert len(retriever.calls) == 2


OPERATORS: list[Any] = [
    {"$ne": ""}, {"$not": {"$in": []}}, {"$gte": ""}, {"$exists": True}, {"$nin": []}, {"$in": ["a", "b"]},
    {"$lt": "z"}, {"$lte": "z"}, {"$gt": ""}, {"$eq": "b"}, {"$between": ["", "z"]},
]  # fmt: skip


@pytest.mark.parametrize("claim", OPERATORS, ids=[str(claim) for claim in OPERATORS])
def test_an_operator_as_a_claim_is_data(run: Run, claim: Any) -> None:
    """Data read as syntax: an actor named {"$ne": ""} saw every tenant."""
    retriever = Fixed(LEAVE)
    config: Any = {"configurable": {"actor": claim}}
    with pytest.raises(InvalidFilterError):
        run(InjectContext(retriever, retrieval_filter=lambda actor: {"tenant": actor}), "invoke", "x", config)
    tool = create_retrieve_tool(retriever, retrieval_filter=lambda actor: {"tenant": actor})
    with pytest.raises(InvalidFilterError):
        run(tool, "invoke", {"query": "x"}, config)
    assert retriever.calls == []


def test_a_missing_actor_fails_and_a_configured_none_is_passed_on(run: Run) -> None:
    retriever = Fixed(LEAVE)
    step = InjectContext(retriever, retrieval_filter=lambda actor: {"acl": actor})
    with pytest.raises(InvalidFilterError, match="no actor"):
        run(step, "invoke", "x")
    with pytest.raises(InvalidFilterError, match="no actor"):
        run(RunnableLambda(lambda text: text) | step, "invoke", "x", {"configurable": {"thread_id": "1"}})
    run(step, "invoke", "x", {"configurable": {"actor": None}})
    run(step, "invoke", "x", actor=None)
    assert [options["filter"] for _, options in retriever.calls] == [{"acl": None}] * 2


def test_the_room_holds_in_a_chain(run: Run) -> None:
    long = Passage("long#0", "word " * 500, 0.4)
    text = run(InjectContext(Fixed(LEAVE, long), max_chars=60), "invoke", "x")
    assert "\u2026" in text
    assert len(text) < 300

"""Inject mode: retrieve once a turn, and fold what was found into the system prompt with numbered citations."""

from agora_core.inject.asking import Asker
from agora_core.inject.block import Measure, check_budget, fitting, fold_block, fold_context, render_context
from agora_core.inject.calls import (
    CONDENSE_PROMPT,
    TOOL_NAME,
    passage_from_dict,
    passage_to_dict,
    passages_from_step,
    retrieval_call,
)
from agora_core.inject.citations import Citations, CitationSpan, Quote, parse_citations, verify_quotes
from agora_core.inject.injector import STEP_NAME, ContextInjector, Injection, QueryFrom, RetrievalFilter

__all__ = [
    "CONDENSE_PROMPT",
    "STEP_NAME",
    "TOOL_NAME",
    "Asker",
    "CitationSpan",
    "Citations",
    "ContextInjector",
    "Injection",
    "Measure",
    "QueryFrom",
    "Quote",
    "RetrievalFilter",
    "check_budget",
    "fitting",
    "fold_block",
    "fold_context",
    "parse_citations",
    "passage_from_dict",
    "passage_to_dict",
    "passages_from_step",
    "render_context",
    "retrieval_call",
    "verify_quotes",
]

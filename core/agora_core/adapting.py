"""The kit for adapters: what a package needs that makes a framework's pieces serve here, or ours serve there.

The adapters for LangChain and LlamaIndex are built with it, and one of your own may be. What is here is public: it
stays, or its change is told. Beside it an adapter needs only what `agora_core` exports.

* Calling: `Method` and the ports resolve somebody's object where it is handed in and call it from sync and async code;
  `Steps`, `ask`, `together`, `run`, `arun` are explained in `agora_core.steps`.
* A foreign retriever answers with what it likes: `cut_answer` holds it to the call.
* A reranker orders what it was given: `trusted_order` refuses anything else.
* The block of inject mode: `fold_context` puts it into a system prompt, `fold_block` into any text.
* A package that imports its framework late: `lazy_attributes`.
"""

from __future__ import annotations

from collections.abc import Iterable

from agora_core.calling import Method as Method
from agora_core.calling import given as given
from agora_core.calling import offers as offers
from agora_core.calling import scope_of as scope_of
from agora_core.embedding import EmbedderPort as EmbedderPort
from agora_core.embedding import check_query as check_query
from agora_core.extras import lazy_attributes as lazy_attributes
from agora_core.filters import matches_filter
from agora_core.inject import fold_block as fold_block
from agora_core.inject import fold_context as fold_context
from agora_core.protocols import AnyFilter
from agora_core.records import Passage
from agora_core.rerankers.ordering import trusted_order as trusted_order
from agora_core.retrievers.base import at_least
from agora_core.retrievers.ports import RerankerPort as RerankerPort
from agora_core.retrievers.ports import RetrieverPort as RetrieverPort
from agora_core.steps import Steps as Steps
from agora_core.steps import arun as arun
from agora_core.steps import ask as ask
from agora_core.steps import run as run
from agora_core.steps import together as together
from agora_core.stores.per_document import cut_per_document
from agora_core.stores.ports import StorePort as StorePort
from agora_core.validation import check_min_score as check_min_score
from agora_core.validation import check_top_k as check_top_k


def cut_answer(
    passages: Iterable[Passage],
    *,
    top_k: int | None = None,
    filter: AnyFilter | None = None,
    min_score: float | None = None,
    per_document: int | None = None,
) -> list[Passage]:
    """Return what of a foreign retriever's answer a call allows, in its order.

    Args:
        passages: what it answered, best first.
        top_k: the most to return; None returns all.
        filter: what their metadata must match; fewer may remain than were asked for, and never one too many.
        min_score: keep `score >= min_score`.
        per_document: at most this many of one document.
    """
    allowed = [passage for passage in passages if filter is None or matches_filter(passage.metadata, filter)]
    return cut_per_document(at_least(allowed, min_score), per_document, top_k)

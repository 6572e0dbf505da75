"""Keyword search: tokenizers, the BM25 formula, and the index that keeps it exact."""

from __future__ import annotations

from agora_core.keyword.analysis import (
    AsciiTokenizer,
    Tokenizer,
    UnicodeTokenizer,
    passage_terms,
    query_terms,
    query_weights,
)
from agora_core.keyword.bm25 import bm25_idf, bm25_score, bm25_term_score
from agora_core.keyword.querying import Phrase, TextQuery, parse_query
from agora_core.keyword.registry import get_tokenizer, suggest_tokenizer, tokenizer_names
from agora_core.keyword.stemming import SnowballTokenizer

__all__ = [
    "AsciiTokenizer",
    "Phrase",
    "SnowballTokenizer",
    "TextQuery",
    "Tokenizer",
    "UnicodeTokenizer",
    "bm25_idf",
    "bm25_score",
    "bm25_term_score",
    "get_tokenizer",
    "parse_query",
    "passage_terms",
    "query_terms",
    "query_weights",
    "suggest_tokenizer",
    "tokenizer_names",
]

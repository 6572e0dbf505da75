"""Keyword search: tokenizers, the BM25 formula, and the index that keeps it exact."""

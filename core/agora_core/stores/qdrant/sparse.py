"""Sparse vectors of text, for Qdrant to weigh by idf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SparseEncoder:
    """Turns texts into sparse vectors."""

    vector_name: str

    def documents(self, texts: Sequence[str]) -> list[Any]:
        """Return the sparse vector of each text."""
        raise NotImplementedError

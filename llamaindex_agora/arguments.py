"""Keywords that LlamaIndex's own classes swallow in silence are refused: a misspelt filter would be no filter."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any


def refuse_unknown(owner: type[Any], given: Mapping[str, Any], *, also: Collection[str] = ()) -> None:
    """Refuse keywords that are neither a field of the model `owner` nor in `also`.

    Raises:
        TypeError: there is one.
    """
    unknown = sorted(set(given).difference(owner.model_fields, also))
    if unknown:
        raise TypeError(f"{owner.__name__} got unexpected keyword arguments: {', '.join(unknown)}")

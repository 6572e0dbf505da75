"""Optional packages, imported when they are first needed."""

from __future__ import annotations

import importlib
from typing import Any

from agora_core.errors import MissingExtraError


def require(module: str, *, extra: str) -> Any:
    """Import and return `module`.

    Raises:
        MissingExtraError: the package is not installed; the message names the extra that brings it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(
            f"the package {module.partition('.')[0]!r} is needed here and could not be imported; "
            f"install it with: pip install 'agora-retrieval[{extra}]'"
        ) from error

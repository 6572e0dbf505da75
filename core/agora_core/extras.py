"""Optional packages, imported when they are first needed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
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


def stand_in(name: str, error: MissingExtraError) -> type:
    """Return a class in the place of one whose package is missing: it can be named, and raises `error` when it is used.

    So `hasattr`, `isinstance` and `from ... import *` work on an installation without the extra.
    """

    class Missing(type):
        def __call__(cls, *_: Any, **__: Any) -> Any:
            raise error

        def __getattr__(cls, attribute: str) -> Any:
            # What Python and its tools ask of every class is not a use of this one.
            raise AttributeError(attribute) if attribute.startswith("_") else error

    return Missing(name, (), {"__doc__": str(error)})


def lazy_attributes(
    package: str,
    modules: Mapping[str, str],
    *,
    needs: tuple[str, str],
    also: Mapping[str, tuple[str, str]] | None = None,
) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that imports its modules when their names are first used.

    Args:
        package: its `__name__`.
        modules: for each public name the module of the package that has it.
        needs: the package that all of them need, and the extra that installs it.
        also: for some modules another package and its extra.
    """

    def lazily(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = modules[name]
        for needed in (needs, (also or {}).get(module)):
            if needed is not None:
                require(needed[0], extra=needed[1])
        value = getattr(importlib.import_module(f"{package}.{module}"), name)
        vars(importlib.import_module(package))[name] = value
        return value

    return lazily

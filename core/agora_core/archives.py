"""Reading files that this library saved: whatever is wrong inside one is told in one way."""

from __future__ import annotations

import contextlib
import errno
import os
import zipfile
import zlib
from collections.abc import Iterator
from typing import Final

from agora_core.errors import AgoraError, InvalidArgumentError

# What zipfile, json and numpy raise over a file that was cut, changed or made by somebody else. RuntimeError is theirs
# for encryption and for nesting without end, MemoryError for an array that claims to be larger than any.
_DAMAGE: Final = (
    AgoraError,
    zipfile.BadZipFile,
    zlib.error,
    ArithmeticError,
    EOFError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)


@contextlib.contextmanager
def reading_archive(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Turn what goes wrong inside into an InvalidArgumentError that names the file; `what` it should be.

    A file that is not there, or may not be read, is told by the OSError it is.

    Raises:
        TypeError: `path` is no path.
        InvalidArgumentError: the file is no archive of ours, or is damaged.
    """
    name = os.fspath(path)
    try:
        yield
    except OSError as error:
        # A seek to where an offset in a damaged file points.
        if error.errno != errno.EINVAL:
            raise
        raise _damaged(name, what, error) from error
    except _DAMAGE as error:
        raise _damaged(name, what, error) from error


def _damaged(name: str, what: str, error: BaseException) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"path {name!r} is no saved {what}, or is damaged ({type(error).__name__}: {error}); save the {what} again"
    )

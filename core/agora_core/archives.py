"""Files that this library saves: each takes its place whole, and whatever is wrong inside one is told in one way."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from agora_core.errors import AgoraError, InvalidArgumentError

_fcntl: Any
try:
    import fcntl as _fcntl
except ImportError:  # on Windows, where what a killed writer left stays
    _fcntl = None

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
        TypeError: `path` is not a path.
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
    except NewerFileError as error:
        raise NewerFileError(f"path {name!r}: {error}") from None
    except _DAMAGE as error:
        raise _damaged(name, what, error) from error


class NewerFileError(InvalidArgumentError):
    """A file was saved by a newer release than this one."""


def check_version(head: Any, *, form: str, known: int, what: str) -> None:
    """Check the head of a file.

    Raises:
        NewerFileError: the file is of a newer release.
        InvalidArgumentError: it is no file of this form.
    """
    if not isinstance(head, dict) or head.get("format") != form:
        raise InvalidArgumentError("the head does not name the format")
    version = head.get("version")
    if type(version) is int and version > known:
        raise NewerFileError(
            f"the file is a {what} of version {version}, saved by a newer release; this one reads up to {known}: "
            "update agora-retrieval"
        )
    if type(version) is not int or version < 1:
        raise InvalidArgumentError(f"version {version!r} is none that there was")


@contextlib.contextmanager
def writing_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file beside `path` that takes its place when all is written and on disk; a failure leaves the old one.

    A symbolic link keeps pointing to where the file is, which keeps its mode. What a killed writer left behind is
    swept away first.
    """
    target = Path(os.path.realpath(path))
    prefix = f".{target.name[:100]}."
    _sweep(target.parent, prefix)
    descriptor, name = _locked_file(target.parent, prefix)
    try:
        with os.fdopen(descriptor, "wb") as file:
            with contextlib.suppress(OSError):
                # mkstemp makes a file that is its owner's alone; a new one gets what open() would give it.
                Path(name).chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o666 & ~_umask())
            yield file
            file.flush()
            os.fsync(file.fileno())
            Path(name).replace(target)
        _sync_folder(target.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


_SUFFIX: Final = ".partial"


def _locked_file(folder: Path, prefix: str) -> tuple[int, str]:
    """Make a file that no sweep takes away while this process lives."""
    while True:
        descriptor, name = tempfile.mkstemp(dir=folder, prefix=prefix, suffix=_SUFFIX)
        if _fcntl is None:
            return descriptor, name
        # A sweep may have come before the lock: then the name stands for nothing any more.
        with contextlib.suppress(OSError):
            _fcntl.flock(descriptor, _fcntl.LOCK_EX)
        if Path(name).exists():
            return descriptor, name
        os.close(descriptor)


def _sweep(folder: Path, prefix: str) -> None:
    """Remove what writers of the same file left that are no more: nobody holds the lock on it."""
    if _fcntl is None:
        return
    for left in folder.glob(f"{prefix.replace('[', '[[]')}*{_SUFFIX}"):
        with contextlib.suppress(OSError), left.open("rb") as file:
            _fcntl.flock(file, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
            left.unlink()


def _umask() -> int:
    # There is no way to read it but to set it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _damaged(name: str, what: str, error: BaseException) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"path {name!r} is not a saved {what}, or is damaged ({type(error).__name__}: {error}); save the {what} again"
    )

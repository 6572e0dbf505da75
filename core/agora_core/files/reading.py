"""Documents from files, folders, patterns and URLs, one at a time."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Final

from agora_core.errors import InvalidArgumentError
from agora_core.extras import require
from agora_core.files.content_types import detected_content_type
from agora_core.files.parts import TOO_LARGE, UnreadableFileError, check_max_bytes
from agora_core.files.registry import GivenReaders, Readers
from agora_core.metadata import copy_metadata
from agora_core.records import IngestDocument, Metadata

PathLike = str | os.PathLike[str]
OnSkip = Callable[[PurePath, str], object]
FileMetadata = Metadata | Callable[[PurePath], Metadata | None]
DEFAULT_MAX_BYTES: Final = 50_000_000

_MAGIC: Final = frozenset("*?[")


def read_files(
    paths: PathLike | Iterable[PathLike],
    *,
    metadata: FileMetadata | None = None,
    max_bytes: int = DEFAULT_MAX_BYTES,
    readers: GivenReaders | None = None,
    on_skip: OnSkip | None = None,
) -> Iterator[IngestDocument]:
    """Read files into documents, one at a time, in the order of their names.

    A file's id is its path relative to the folder that was given (its name where the file itself was), with `/`; a part
    of a file with several (a page, a sheet, a slide, a chapter) has `path!n`, n from 1, and says which it is in its
    metadata. The source is the path. Each real file is read once, however many links lead to it; hidden files, and
    links that leave the folder, are skipped. PDF, Word, Excel, PowerPoint and EPUB need the extra `files`, URLs the
    extra `fsspec`.

    Args:
        paths: files, folders, patterns such as `docs/**/*.md`, URLs such as `s3://bucket/folder`; one or several.
        metadata: of each document, or a function of the file's path that gives it; the part's own keys are added.
        max_bytes: of a file, and of what it unpacks to; a larger one is skipped.
        readers: functions of bytes and content type to a text or to `FilePart`s, by content type or family (`audio/*`).
        on_skip: called with the path and the reason of each file that was skipped: `unsupported-type`, `too-large`,
            `empty-text`, `encrypted`, `unreadable`, `timeout`, `not-a-file`, `hidden` or `outside`, and after a colon
            what more is known.

    Raises:
        FileNotFoundError: a path does not exist, or a pattern matches nothing; at once, before anything is read.
        InvalidArgumentError: an argument is not as described; or, while reading, two files have the same id.

    Examples:
        >>> [document.id for document in read_files(folder, metadata={"acl": ["staff"]})]
        ['guide.md']
    """
    check_max_bytes(max_bytes)
    if metadata is not None and not callable(metadata) and not isinstance(metadata, Mapping):
        raise InvalidArgumentError(f"metadata must be a mapping or a function of a path, got {metadata!r}")
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    roots = [root for path in given for root in _roots(path)]
    return _Reading(metadata, max_bytes, Readers(readers, max_bytes=max_bytes), on_skip).documents(roots)


def _roots(path: PathLike) -> Iterator[tuple[Any, Any]]:
    """Give each place a path stands for, with the folder that its ids are relative to.

    Raises:
        FileNotFoundError: it stands for none.
    """
    name = os.fspath(path)
    if "://" in name:
        fsspec = require("fsspec.core", extra="fsspec")
        system, place = fsspec.url_to_fs(name)
        if not system.exists(place):
            raise FileNotFoundError(f"{name!r} does not exist; give paths of files and folders that do")
        yield system, place
        return
    if os.path.lexists(name) or not _MAGIC & set(name):
        if not Path(name).exists():
            raise FileNotFoundError(f"path {name!r} does not exist; give paths of files and folders that do")
        root = Path(name)
        yield (root, root if root.is_dir() else root.parent)
        return
    found = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 # pathlib takes no absolute pattern
    if not found:
        raise FileNotFoundError(f"no file matches {name!r}; a pattern such as 'docs/**/*.md' must match one")
    fixed = []
    for part in Path(name).parts:
        if _MAGIC & set(part):
            break
        fixed.append(part)
    for entry in found:
        if Path(entry).is_file():
            yield Path(entry), Path(*fixed) if fixed else Path()


class _Reading:
    def __init__(self, metadata: FileMetadata | None, max_bytes: int, readers: Readers, on_skip: OnSkip | None) -> None:
        self._metadata, self._max_bytes, self._readers, self._on_skip = metadata, max_bytes, readers, on_skip
        self._taken: dict[str, PurePath] = {}
        self._real: set[tuple[int, int]] = set()

    def documents(self, roots: Iterable[tuple[Any, Any]]) -> Iterator[IngestDocument]:
        for root, base in roots:
            if not isinstance(root, Path):
                yield from self._of_url(root, base)
                continue
            for path in self._files(root, base.resolve()) if root.is_dir() else [root]:
                yield from self._of_file(path, path.relative_to(base).as_posix())

    def _files(self, folder: Path, base: Path) -> Iterator[Path]:
        """Give the files of a folder and of those below it, in the order of their names."""
        if self._is_known(folder):
            return
        try:
            entries = sorted(folder.iterdir())
        except OSError as error:
            self._skip(folder, f"unreadable: {error.strerror}")
            return
        for entry in entries:
            if entry.name.startswith("."):
                self._skip(entry, "hidden")
            elif entry.is_symlink() and not entry.resolve().is_relative_to(base):
                self._skip(entry, "outside: a link that leaves the folder")
            elif entry.is_dir():
                yield from self._files(entry, base)
            else:
                yield entry

    def _of_file(self, path: Path, key: str) -> Iterator[IngestDocument]:
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                self._skip(path, "not-a-file")
                return
            if self._is_known(path):
                return
            if status.st_size > self._max_bytes:
                self._skip(path, f"{TOO_LARGE}: {status.st_size} bytes")
                return
            with path.open("rb") as file:
                # A file may have grown since, or not know its size, as those of /proc.
                data = file.read(self._max_bytes + 1)
        except OSError as error:
            self._skip(path, f"unreadable: {error.strerror}")
            return
        yield from self._of_bytes(path, key, data)

    def _of_url(self, system: Any, place: str) -> Iterator[IngestDocument]:
        names = [place] if system.isfile(place) else sorted(system.find(place))
        base = PurePosixPath(place) if not system.isfile(place) else PurePosixPath(place).parent
        for name in names:
            path = PurePosixPath(name)
            size = system.size(name)
            if size is not None and size > self._max_bytes:
                self._skip(path, f"{TOO_LARGE}: {size} bytes")
                continue
            try:
                with system.open(name, "rb") as file:
                    data = file.read(self._max_bytes + 1)
            except OSError as error:
                self._skip(path, f"unreadable: {error}")
                continue
            yield from self._of_bytes(path, path.relative_to(base).as_posix(), data)

    def _of_bytes(self, path: PurePath, key: str, data: bytes) -> Iterator[IngestDocument]:
        if len(data) > self._max_bytes:
            self._skip(path, TOO_LARGE)
            return
        earlier = self._taken.setdefault(key, path)
        if earlier is not path:
            raise InvalidArgumentError(
                f"the files {str(earlier)!r} and {str(path)!r} would both have the id {key!r}; give the folder that "
                "holds both, so that their ids differ"
            )
        try:
            parts = self._readers.read(data, detected_content_type(data, path.name))
        except UnreadableFileError as error:
            self._skip(path, str(error))
            return
        if not parts:
            self._skip(path, "empty-text")
            return
        own = self._metadata(path) if callable(self._metadata) else self._metadata
        known = copy_metadata(own, where=f"metadata of {key!r}")
        for number, part in enumerate(parts, 1):
            numbered = key if len(parts) == 1 and not part.metadata else f"{key}!{_number(part.metadata, number)}"
            # A label that was given is a bound; what stands in a file does not change it.
            merged = {**(part.metadata or {}), **(known or {})} if part.metadata else known
            yield IngestDocument(numbered, part.text, key, merged)

    def _is_known(self, path: Path) -> bool:
        """Say whether the real file or folder was met before, and remember it."""
        status = path.stat()
        place = (status.st_dev, status.st_ino)
        if place in self._real:
            return True
        self._real.add(place)
        return False

    def _skip(self, path: PurePath, reason: str) -> None:
        if self._on_skip is not None:
            self._on_skip(path, reason)


def _number(metadata: Metadata | None, number: int) -> int:
    # A page keeps its number where an earlier one has no text.
    own = next(iter((metadata or {}).values()), None)
    return own if isinstance(own, int) and not isinstance(own, bool) else number

"""The command line `agora`: sync a folder, ask it, check a store; it calls the public API."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, Final

import click

import agora_core
from agora_core import (
    AgoraError,
    FileChunker,
    Health,
    IngestDocument,
    MemoryVectorStore,
    RetrieverLegError,
    WordLlamaEmbeddingProvider,
    read_files,
    retrievers,
    sync_documents,
)

DIMENSION: Final = 256
FAILED: Final = 1
SHOWN: Final = 300
STORE_HELP: Final = "a file (kept in memory), postgresql://..., or the http address of a Qdrant server"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(agora_core.__version__, prog_name="agora")
def main() -> None:
    """Retrieval over your own files: who may see what is a filter."""


@main.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--store", "place", required=True, help=STORE_HELP)
@click.option("--table", default="agora_files", show_default=True, help="the table, or the collection")
@click.option("--label", metavar="KEY=LEVEL", help="label files by the folder at this level, 1 or more")
@click.option("--dry-run", is_flag=True, help="report what would be done, and do nothing")
@click.option("--json", "as_json", is_flag=True, help="print JSON for programs")
def sync(folder: Path, place: str, table: str, label: str | None, dry_run: bool, as_json: bool) -> None:
    """Keep a store equal to FOLDER.

    It holds the files of the folder afterwards and no others, at the cost of what changed.
    """
    skipped: dict[str, str] = {}
    documents = _documents(folder, label, skipped)
    with _told(), _opened(place, table, prepare=not dry_run) as store:
        if dry_run and not (health := store.check()).ok:
            click.echo(f"planned as for an empty store: {health.detail}", err=True)
            store = MemoryVectorStore(dimension=DIMENSION)
        report = sync_documents(
            documents,
            embedder=WordLlamaEmbeddingProvider(dimensions=DIMENSION),
            store=store,
            chunker=FileChunker(),
            dry_run=dry_run,
            show_progress=not as_json and _has_progress(),
        )
        if isinstance(store, MemoryVectorStore) and not dry_run:
            store.save(place)
    if as_json:
        click.echo(json.dumps({**dataclasses.asdict(report), "skipped": skipped}, ensure_ascii=False))
    else:
        click.echo(str(report))
        for name, reason in skipped.items():
            click.echo(f"skipped {name}: {reason}", err=True)
    if report.failed:
        raise SystemExit(FAILED)


@main.command()
@click.argument("source")
@click.argument("question")
@click.option("--table", default="agora_files", show_default=True, help="the table, or the collection")
@click.option("--filter", "bound", metavar="JSON", help='what may be found, as {"team": ["hr"]}')
@click.option("--label", metavar="KEY=LEVEL", help="for a folder: label files by the folder at this level")
@click.option("--top-k", default=5, show_default=True, type=click.IntRange(1))
@click.option("--explain", is_flag=True, help="say why each passage came")
@click.option("--json", "as_json", is_flag=True, help="print JSON for programs")
def ask(
    source: str,
    question: str,
    table: str,
    bound: str | None,
    label: str | None,
    top_k: int,
    explain: bool,
    as_json: bool,
) -> None:
    """Find what answers QUESTION.

    SOURCE is a folder, which is read now, or a store that `agora sync` filled.
    """
    options: dict[str, Any] = {"top_k": top_k, **({} if bound is None else {"filter": _filter(bound)})}
    embedder = WordLlamaEmbeddingProvider(dimensions=DIMENSION)
    with _told(), contextlib.ExitStack() as stack:
        if Path(source).is_dir():
            store: Any = MemoryVectorStore(dimension=DIMENSION)
            documents = _documents(Path(source), label, {})
            sync_documents(documents, embedder=embedder, store=store, chunker=FileChunker(), allow_empty=True)
        else:
            _check_exists(source, "SOURCE")
            store = stack.enter_context(_opened(source, table, prepare=False))
        hybrid = retrievers.memory(embedder, store=store, full_text={}) if _is_memory(store) else _over(store, embedder)
        if explain and not as_json:
            click.echo(str(hybrid.explain(question, **options)))
            return
        passages = hybrid.retrieve(question, **options)
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(one) for one in passages], ensure_ascii=False))
        return
    for place, one in enumerate(passages, 1):
        click.echo(click.style(f"[{place}] {one.source or one.id}", bold=True) + f"  {one.score:.3f}")
        click.echo(_shown(one.text))
    if not passages:
        click.echo("nothing found", err=True)


@main.command()
@click.argument("store")
@click.option("--table", default="agora_files", show_default=True, help="the table, or the collection")
@click.option("--json", "as_json", is_flag=True, help="print JSON for programs")
def check(store: str, table: str, as_json: bool) -> None:
    """Say whether STORE answers.

    And whether it is as it should be; the exit code is 1 where it is not.
    """
    _check_exists(store, "STORE")
    with _told(), _opened(store, table, prepare=False) as opened:
        health: Health = opened.check()
    if as_json:
        click.echo(json.dumps(dataclasses.asdict(health), default=dict))
    else:
        click.echo(f"{'ok' if health.ok else 'not ok'}: {health.detail}")
        for name, value in {**health.versions, **health.counts}.items():
            click.echo(f"  {name}: {value}")
    if not health.ok:
        raise SystemExit(FAILED)


def _documents(folder: Path, label: str | None, skipped: dict[str, str]) -> Iterator[IngestDocument]:
    key, _, level = (label or "").partition("=")
    if label is not None and not (key and level.isdigit() and int(level) >= 1):
        raise click.BadParameter("write KEY=LEVEL, as in team=1", param_hint="--label")

    def metadata(path: PurePath) -> dict[str, Any]:
        parts = path.relative_to(folder).parts[:-1] if label is not None else ()
        return {key: parts[int(level) - 1]} if label is not None and len(parts) >= int(level) else {}

    return read_files(folder, metadata=metadata, on_skip=lambda path, reason: skipped.update({str(path): reason}))


def _shown(text: str) -> str:
    words = " ".join(text.split())
    short = words if len(words) <= SHOWN else words[:SHOWN].rpartition(" ")[0] + " …"
    width = min(shutil.get_terminal_size().columns, 100)
    return click.wrap_text(short, width, initial_indent="    ", subsequent_indent="    ")


def _filter(text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"not JSON: {error}", param_hint="--filter") from error
    if not isinstance(value, dict):
        raise click.BadParameter('write an object, as {"team": ["hr"]}', param_hint="--filter")
    return value


@contextlib.contextmanager
def _opened(place: str, table: str, *, prepare: bool = True) -> Iterator[Any]:
    if place.startswith(("postgresql://", "postgres://")):
        from agora_core import PgLexicalVectorStore

        with PgLexicalVectorStore(place, table=table, dimension=DIMENSION) as postgres:
            if prepare:
                postgres.ensure_schema()
            yield postgres
    elif place.startswith(("http://", "https://")):
        from agora_core import QdrantLexicalVectorStore

        with QdrantLexicalVectorStore(place, collection=table, dimension=DIMENSION) as qdrant:
            if prepare:
                qdrant.ensure_collection()
            yield qdrant
    elif Path(place).exists():
        yield MemoryVectorStore.load(place)
    else:
        yield MemoryVectorStore(dimension=DIMENSION)


def _check_exists(place: str, argument: str) -> None:
    if "://" not in place and not Path(place).exists():
        raise click.BadParameter(f"{place!r} does not exist", param_hint=argument)


def _is_memory(store: Any) -> bool:
    return isinstance(store, MemoryVectorStore)


def _over(store: Any, embedder: Any) -> Any:
    from agora_core import EmbeddingRetriever, HybridRetriever, LexicalRetriever

    return HybridRetriever([EmbeddingRetriever(embedder, store), LexicalRetriever(store)], fusion="adaptive")


def _has_progress() -> bool:
    try:
        import tqdm  # noqa: F401
    except ImportError:
        return False
    return True


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Tell an error of the library or of a file in one line, and exit with 1."""
    try:
        yield
    except (AgoraError, OSError) as error:
        cause = (error.__cause__ if isinstance(error, RetrieverLegError) else None) or error
        raise click.ClickException(str(cause)) from error

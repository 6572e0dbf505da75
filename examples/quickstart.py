"""The demo: Python's own language reference searched four ways, by two people, and put into a prompt.

python examples/quickstart.py                              # everything, offline, in memory
python examples/quickstart.py --store postgres             # the same on an embedded PostgreSQL
python examples/quickstart.py --folder docs --ask "..."    # your own files: text, Markdown, HTML, PDF, Word, ...
python examples/quickstart.py --folder . --ask "..." --label team=1 --only team=docs    # as one team sees them
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import re
import tempfile
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from pydoc_data.topics import topics
from typing import Any

from agora_core import (
    ContextInjector,
    EmbeddingReranker,
    EmbeddingRetriever,
    FileChunker,
    HybridRetriever,
    IngestDocument,
    KeywordRetriever,
    LexicalRetriever,
    MemoryVectorStore,
    Passage,
    ProseChunker,
    RerankingRetriever,
    Retriever,
    VectorStore,
    WordLlamaEmbeddingProvider,
    document_id_of,
    ingest_documents,
    is_lexical_vector_store,
    read_files,
    render_context,
)

# Chapters on the inside of the language: in this demo only maintainers may read them. The labels stand for
# the access control lists that real documents come with.
MAINTAINERS_ONLY = {
    *(
        "attribute-access",
        "bltin-code-objects",
        "callable-types",
        "customization",
        "execmodel",
        "numeric-types",
    ),
    *("sequence-types", "specialattrs", "specialnames", "types"),
}
PEOPLE = {"Ada, a maintainer": ["everyone", "maintainers"], "Ben, a reader": ["everyone"]}
DIMENSION = 256
CUT = 10


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the topics that answer it."""

    text: str
    answers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Index:
    """The documents, searchable four ways."""

    dense: Retriever
    keyword: Retriever
    hybrid: Retriever
    reranked: Retriever
    chunks: int
    seconds: float


def reference_documents() -> list[IngestDocument]:
    """Return the language reference that is installed with Python, one document per topic."""
    return [
        IngestDocument(
            id=name,
            text=text,
            source=f"{name}.txt",
            metadata={"audience": ["maintainers" if name in MAINTAINERS_ONLY else "everyone"]},
        )
        for name, text in sorted(topics.items())
    ]


def folder_documents(
    folder: Path, label: tuple[str, int] | None, skipped: Callable[[PurePath, str], None]
) -> list[IngestDocument]:
    """Return the files of a folder and its subfolders; `label` names the folder level that becomes metadata."""

    def metadata(path: PurePath) -> Mapping[str, Any]:
        if label is None:
            return {}
        key, level = label
        folders = path.relative_to(folder).parts[:-1]
        return {key: folders[level - 1]} if len(folders) >= level else {}

    return list(read_files(folder, metadata=metadata, on_skip=skipped))


def questions() -> list[Question]:
    """Return the questions of questions.json, written by hand together with the topics that answer them."""
    raw = json.loads((Path(__file__).parent / "questions.json").read_text(encoding="utf-8"))
    return [Question(item["question"], frozenset(item["topics"])) for item in raw]


@contextmanager
def open_store(kind: str) -> Iterator[VectorStore]:
    """Open an empty store that needs no server: in memory, an embedded PostgreSQL, or Qdrant's local mode."""
    if kind == "postgres":
        from agora_core import PgLexicalVectorStore

        # As root the server runs as another user, who must be able to enter the folder.
        with (
            tempfile.TemporaryDirectory(prefix="agora-demo-") as folder,
            PgLexicalVectorStore.embedded(Path(folder) / "data", dimension=DIMENSION, text_search="english") as pg,
        ):
            yield pg
    elif kind == "qdrant":
        from agora_core import QdrantLexicalVectorStore

        with QdrantLexicalVectorStore(":memory:", dimension=DIMENSION, tokenizer="english") as qdrant:
            qdrant.ensure_collection()
            yield qdrant
    else:
        with MemoryVectorStore(dimension=DIMENSION) as memory:
            yield memory


def build_index(documents: Sequence[IngestDocument], store: VectorStore, chunker: Any) -> Index:
    """Cut, embed and store the documents, and return the four retrievers over them."""
    embedder = WordLlamaEmbeddingProvider(dimensions=DIMENSION)
    started = time.perf_counter()
    keyword: Retriever
    if is_lexical_vector_store(store):
        # It searches the text that it holds, so no second index is needed beside it.
        chunks = ingest_documents(documents, embedder=embedder, store=store, chunker=chunker)
        keyword = LexicalRetriever(store)
    else:
        keyword = KeywordRetriever(tokenizer="english")
        chunks = ingest_documents(documents, embedder=embedder, store=store, keyword=keyword, chunker=chunker)
    seconds = time.perf_counter() - started
    dense = EmbeddingRetriever(embedder, store)
    hybrid = HybridRetriever([dense, keyword])
    # Embeddings give the keyword ranking a second opinion; what they found themselves needs none of theirs.
    reranked = RerankingRetriever(keyword, EmbeddingReranker(embedder))
    return Index(dense, keyword, hybrid, reranked, chunks, seconds)


def ranked_topics(passages: Sequence[Passage]) -> list[str]:
    """Return the topics of the passages, best first, each once, cut at ten."""
    return list(dict.fromkeys(document_id_of(passage.id) for passage in passages))[:CUT]


def ndcg(ranking: Sequence[str], answers: frozenset[str]) -> float:
    """Return nDCG@10 with every answer worth the same (Järvelin and Kekäläinen 2002); 1 is perfect."""
    gain = sum(1 / math.log2(rank + 2) for rank, name in enumerate(ranking) if name in answers)
    return gain / sum(1 / math.log2(rank + 2) for rank in range(min(len(answers), CUT)))


def heading(number: int, text: str) -> None:
    """Print the heading of a section."""
    print(f"\n{number}. {text}\n")


def show_passages(passages: Sequence[Passage]) -> None:
    """Print one line per passage: score, source and some of its first words."""
    for passage in passages:
        words = re.sub(r"[*=\-]{3,}", "", passage.text).split()
        start = textwrap.shorten(" ".join(words), width=54, placeholder=" …")
        print(f"   {passage.score:6.3f}  {passage.source:<26}{start}")


def show_prompt(prompt: str) -> None:
    """Print a prompt, its long lines cut."""
    for line in prompt.splitlines():
        print("   | " + textwrap.shorten(line, width=110, placeholder=" …"))


def show_measures(index: Index, asked: Sequence[Question]) -> None:
    """Print how well and how fast each retriever finds the topics that answer the questions."""
    rows = {
        "dense": (index.dense, "similarity of embeddings"),
        "keyword": (index.keyword, "BM25"),
        "hybrid": (index.hybrid, "both, fused by rank"),
        "reranked": (index.reranked, "keyword, ordered by embeddings"),
    }
    print(f"   {'retriever':<10}{'':<32}{'nDCG@10':>8}{'recall@10':>11}{'ms per query':>14}")
    for name, (retriever, how) in rows.items():
        retriever.retrieve(asked[0].text)
        started = time.perf_counter()
        # A topic may take several places with its chunks; thirty of them hold ten topics or nearly so.
        rankings = [ranked_topics(retriever.retrieve(question.text, top_k=30)) for question in asked]
        milliseconds = (time.perf_counter() - started) / len(asked) * 1000
        pairs = list(zip(rankings, asked, strict=True))
        quality = sum(ndcg(ranking, question.answers) for ranking, question in pairs) / len(pairs)
        found = sum(len(question.answers & set(ranking)) / len(question.answers) for ranking, question in pairs)
        print(f"   {name:<10}{how:<32}{quality:>8.3f}{found / len(pairs):>11.3f}{milliseconds:>14.2f}")


def show_people(retriever: Retriever, question: str) -> None:
    """Print what two people get for one question; the filter works before the ranking, where the data is."""
    print(f"   {question}")
    for person, groups in PEOPLE.items():
        print(f"\n   {person} may read what is for {' and '.join(groups)}:")
        show_passages(retriever.retrieve(question, top_k=3, filter={"audience": groups}))


def show_langchain(retriever: Retriever, question: str) -> None:
    """Print the answer of a LangChain chain whose first step injects the context."""
    from langchain_core.language_models.chat_models import SimpleChatModel
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate

    from langchain_agora import InjectContext

    class Reader(SimpleChatModel):
        """Stands where a chat model would: it says what it was given to read."""

        @property
        def _llm_type(self) -> str:
            return "reader"

        def _call(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> str:
            marked = [line for line in messages[0].text.splitlines() if line.startswith("[") and "] (" in line]
            sources = ", ".join(line.partition(")")[0] + ")" for line in marked)
            return f"(no real model) The {messages[0].type} message holds {sources}."

    prompt = ChatPromptTemplate([("system", "You answer questions about Python."), ("human", "{question}")])
    chain = prompt | InjectContext(retriever=retriever, top_k=3) | Reader() | StrOutputParser()
    print("   prompt | InjectContext(...) | chat model | StrOutputParser()")
    print(f"   question: {question}")
    print(f"   answer:   {chain.invoke({'question': question})}")


def show_llamaindex(retriever: Retriever, question: str) -> None:
    """Print the sources that a LlamaIndex query engine answers from."""
    from llama_index.core.llms import MockLLM
    from llama_index.core.query_engine import RetrieverQueryEngine

    from llamaindex_agora import AgoraRetriever

    engine = RetrieverQueryEngine.from_args(
        AgoraRetriever(retriever=retriever, similarity_top_k=3), llm=MockLLM(max_tokens=64)
    )
    response = engine.query(question)
    print("   RetrieverQueryEngine.from_args(AgoraRetriever(...), llm=MockLLM())")
    print(f"   question: {question}")
    print(f"   sources:  {', '.join(item.node.node_id for item in response.source_nodes)}")


def show_reference(store: str, most: int | None) -> None:
    """Run the whole demo on Python's language reference, measured with at most so many questions."""
    documents = reference_documents()
    known = {document.id for document in documents}
    # Other versions of Python have slightly other topics.
    asked = [question for question in questions() if question.answers <= known][:most]
    with open_store(store) as opened:
        index = build_index(documents, opened, ProseChunker(overlap_at="word"))
        size = sum(len(document.text) for document in documents) / 1000
        print("Agora retrieval on the Python language reference")
        heading(1, "Ingest")
        print(f"   {len(documents)} topics, {size:.0f} kB, cut into {index.chunks} chunks, embedded offline")
        print(f"   ({DIMENSION} dimensions, WordLlama) and stored ({store}) in {index.seconds:.1f} s")

        heading(2, f"Four retrievers, {len(asked)} questions with known answers")
        show_measures(index, asked)

        heading(3, "One question, two people")
        show_people(index.hybrid, "Which method runs when an attribute cannot be found?")

        heading(4, "Inject mode: what stands in the system prompt")
        may_read = lambda actor: {"audience": actor}  # noqa: E731 # the hook: who asks, to a filter
        injector = ContextInjector(index.hybrid, top_k=2, max_chars=600, retrieval_filter=may_read)
        question = "When does the else clause of a loop run?"
        injection = injector.inject(question, system="You answer questions about Python.", actor=["everyone"])
        show_prompt(injection.system)

        number = 5
        for framework, package, show in (
            ("LangChain", "langchain_core", show_langchain),
            ("LlamaIndex", "llama_index", show_llamaindex),
        ):
            heading(number, f"The same through {framework}")
            if importlib.util.find_spec(package) is None:
                print(f"   {framework} is not installed: pip install 'agora-retrieval[{framework.lower()}]'")
            else:
                show(index.hybrid, question)
            number += 1


def show_folder(
    folder: Path, question: str, store: str, label: tuple[str, int] | None, only: Mapping[str, Any] | None
) -> None:
    """Answer one question from a folder of the user's own files, as one who may see `only` these."""
    skipped: list[tuple[PurePath, str]] = []
    documents = folder_documents(folder, label, lambda path, reason: skipped.append((path, reason)))
    if not documents:
        raise SystemExit(f"{folder} holds no file that can be read")
    with open_store(store) as opened:
        index = build_index(documents, opened, FileChunker())
        passages = index.hybrid.retrieve(question, top_k=5, filter=only)
    files = len({document.source for document in documents})
    print(f"{files} files, {index.chunks} chunks, stored ({store}) in {index.seconds:.1f} s")
    for reason, count in Counter(reason for _, reason in skipped).most_common():
        names = [path.name for path, why in skipped if why == reason]
        print(f"   skipped {count} ({reason}): {textwrap.shorten(', '.join(names), width=70, placeholder=' …')}")
    if label is not None:
        labels = Counter(str((document.metadata or {}).get(label[0])) for document in documents)
        print(f"   {label[0]}: " + ", ".join(f"{name} ({count})" for name, count in labels.most_common(10)))
    heading(1, question if only is None else f"{question}   (only {only})")
    show_passages(passages)
    heading(2, "As it would stand in a prompt")
    show_prompt(render_context(passages[:3], max_chars=1_500))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description="Retrieval on Python's language reference or on your own files.")
    parser.add_argument("--store", choices=("memory", "postgres", "qdrant"), default="memory")
    parser.add_argument("--questions", type=int, metavar="N", help="measure with the first N questions only")
    parser.add_argument("--folder", type=Path, help="a folder of your own files to search instead")
    parser.add_argument("--ask", help="the question for --folder")
    parser.add_argument("--label", metavar="KEY=LEVEL", help="label files by the folder at this level, 1 or more")
    parser.add_argument("--only", metavar="KEY=VALUE", help="see only files with this label")
    options = parser.parse_args(arguments)
    if (options.folder is None) != (options.ask is None):
        parser.error("--folder and --ask go together")
    if options.folder is None:
        show_reference(options.store, options.questions)
    elif options.folder.is_dir():
        key, _, level = (options.label or "").partition("=")
        if options.label and not (key and level.isdigit() and int(level) >= 1):
            parser.error(f"--label {options.label}: write KEY=LEVEL, as in team=1")
        name, mark, value = (options.only or "").partition("=")
        if options.only and not (name and mark):
            parser.error(f"--only {options.only}: write KEY=VALUE, as in team=docs")
        label = (key, int(level)) if options.label else None
        show_folder(options.folder, options.ask, options.store, label, {name: value} if options.only else None)
    else:
        parser.error(f"--folder {options.folder}: there is no such folder")


if __name__ == "__main__":
    main()

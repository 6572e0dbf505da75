"""What the site has beside its pages: `llms.txt`, made from the navigation, and each page as plain Markdown.

MkDocs calls `on_post_build` when `make docs` has built the pages.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any


def first_sentence(text: str) -> str:
    """Return the first sentence of the first paragraph of a Markdown page, without markup."""
    for block in re.split(r"\n\s*\n", re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)):
        if block.strip() and not block.lstrip().startswith(("#", "|", "!", "-", ":::", "<")):
            flat = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(block.split()))
            return re.split(r"(?<=[.!?]) ", flat)[0]
    return ""


def sections(nav: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yield the title of each section of the navigation and its pages as pairs of title and path."""
    for entry in nav:
        ((title, content),) = entry.items()
        pages = [content] if isinstance(content, str) else content
        yield title, [(title, page) if isinstance(page, str) else next(iter(page.items())) for page in pages]


def llms_text(name: str, summary: str, nav: Sequence[Mapping[str, Any]], docs: Path) -> str:
    """Return the text of `llms.txt`: what the project is, and each page with its first sentence."""
    lines = [f"# {name}", "", f"> {' '.join(summary.split())}"]
    for title, pages in sections(nav):
        lines += ["", f"## {title}", ""]
        for page, path in pages:
            about = first_sentence((docs / path).read_text(encoding="utf-8"))
            lines.append(f"- [{page}]({path})" + (f": {about}" if about else ""))
    return "\n".join(lines) + "\n"


def on_post_build(config: Any) -> None:
    """Write `llms.txt` and, beside each page, its Markdown."""
    docs, site = Path(config["docs_dir"]), Path(config["site_dir"])
    text = llms_text(config["site_name"], config["site_description"], config["nav"], docs)
    (site / "llms.txt").write_text(text, encoding="utf-8")
    for _, pages in sections(config["nav"]):
        for _, path in pages:
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(docs / path, site / path)

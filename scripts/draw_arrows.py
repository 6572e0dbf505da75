"""Read the import arrows of the core, and draw them: `python scripts/draw_arrows.py` writes docs/arrows.svg.

`tests/unit/test_arrows.py` holds the code against `FLOORS` by what is read here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
CORE = ROOT / "core" / "agora_core"

# From the top down; an arrow goes to a lower floor.
FLOORS = (
    ("adapting", "evaluation", "testing"),
    ("retrievers",),
    ("corpus", "media"),
    ("ingestion",),
    ("ingestion_plan", "stores.memory", "stores.postgres", "stores.qdrant"),
    ("embedders", "inject", "keyword", "rerankers", "stores"),
    ("embedding", "files", "metadata_index", "protocols", "similarity"),
    ("calling", "chunking", "events", "filters", "http_json", "local_models", "passages", "validation"),
    ("archives", "extras", "fusion", "http_retry", "metadata", "model_inputs", "steps"),
    ("concurrency", "errors", "records"),
)

# Made where they are used: a store and its views, a retriever and its views know each other.
DEFERRED = {
    ("stores.base", "stores.scoped"),
    ("stores.operations", "stores.scoped"),
    ("retrievers.base", "retrievers.scoped"),
}


def modules() -> dict[str, Path]:
    """Return the files of the core by module name, without the package's own."""
    found = {}
    for path in sorted(CORE.rglob("*.py")):
        name = ".".join(path.relative_to(CORE).with_suffix("").parts)
        found[name.removesuffix(".__init__") if name != "__init__" else ""] = path
    return found


@cache
def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file, read once."""
    return ast.parse(path.read_text(encoding="utf-8"))


def arrows(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[tuple[str, bool, list[str]]]:
    """Yield what a module imports of the core, whether only inside functions, and the names it takes from there."""
    tree = parsed(path)
    typing_only = {id(n) for t in ast.walk(tree) if _is_typing_only(t) for n in ast.walk(t)}
    inside = {
        id(n) for t in ast.walk(tree) if isinstance(t, (ast.FunctionDef, ast.AsyncFunctionDef)) for n in ast.walk(t)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or id(node) in typing_only or node.module is None:
            continue
        if node.module.split(".")[0] != "agora_core":
            continue
        module = node.module.removeprefix("agora_core").lstrip(".")
        for alias in node.names:
            target = f"{module}.{alias.name}".lstrip(".")
            yield (target if target in known else module), id(node) in inside, [alias.name]


def _is_typing_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def package(module: str) -> str:
    """Return the part of the picture that a module belongs to."""
    first, *rest = module.split(".")
    if first == "stores" and rest and (CORE / "stores" / rest[0]).is_dir():
        return f"stores.{rest[0]}"
    return first


def package_arrows() -> dict[str, set[str]]:
    """Return which parts each part imports, deferred imports included."""
    known = modules()
    found: dict[str, set[str]] = {}
    for name, path in known.items():
        if name:
            for target, _, _ in arrows(name, path, known):
                if target and package(target) != package(name):
                    found.setdefault(package(name), set()).add(package(target))
    return found


def picture() -> str:
    """Return the SVG: one row a floor; an arrow that another way says already is left out."""
    found = package_arrows()
    place: dict[str, tuple[float, float]] = {}
    boxes = []
    for row, floor in enumerate(FLOORS):
        present = [part for part in floor if part in found or any(part in to for to in found.values())]
        for column, part in enumerate(present):
            x, y = 1120 * (column + 0.5) / len(present) + 10, 40 + row * 92
            place[part] = (x, y)
            boxes.append(
                f'<rect x="{x - 62:.0f}" y="{y - 17:.0f}" width="124" height="34" rx="6"/>'
                f'<text x="{x:.0f}" y="{y + 5:.0f}">{part}</text>'
            )
    lines = []
    for part, targets in sorted(found.items()):
        below = set().union(*(_reach(target, found) for target in targets)) if targets else set()
        for target in sorted(targets - below):
            if part in place and target in place:
                (x, y), (to_x, to_y) = place[part], place[target]
                lines.append(f'<path d="M{x:.0f} {y + 17:.0f} L{to_x:.0f} {to_y - 19:.0f}"/>')
    height = 40 + len(FLOORS) * 92 - 40
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1140 {height}" font-family="sans-serif" font-size="13">'
        "<title>What imports what in the core: every arrow points down</title>"
        f'<rect width="1140" height="{height}" fill="#ffffff"/>'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#64748b" stroke="none"/></marker></defs>'
        f'<g stroke="#64748b" stroke-width="1" fill="none" marker-end="url(#tip)">{"".join(lines)}</g>'
        f'<g fill="#eef2ff" stroke="#4f46e5">{"".join(box.split("<text")[0] for box in boxes)}</g>'
        f'<g fill="#1e1b4b" text-anchor="middle">{"".join("<text" + box.split("<text")[1] for box in boxes)}</g>'
        "</svg>\n"
    )


def _reach(part: str, found: Mapping[str, set[str]]) -> set[str]:
    """Return all that a part imports, directly or not."""
    reached: set[str] = set()
    waiting = list(found.get(part, ()))
    while waiting:
        if (one := waiting.pop()) not in reached:
            reached.add(one)
            waiting += found.get(one, ())
    return reached


if __name__ == "__main__":
    (ROOT / "docs" / "arrows.svg").write_text(picture(), encoding="utf-8")

"""The rooms of the house as the code has them: their order in the import rules, their words, what they import.

Law. The order is that of the layers in `[tool.importlinter]`, from the bottom up; what a room holds is the first
sentence of its docstring. An import for type checkers only is none.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOUSE = ROOT / "src" / "thence"


def layers() -> list[list[str]]:
    """Return the rooms as the import rules have them, the bottom first, those that do not know each other together."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    lines = next(rule["layers"] for rule in rules if rule["type"] == "layers")
    return [[name.strip("() ") for name in line.split("|")] for line in reversed(lines)]


def source_of(room: str) -> Path | None:
    """Return the file whose docstring speaks for a room, or None if there is no such room."""
    package, module = (HOUSE / place for place in (f"{room}/__init__.py", f"{room}.py"))
    return package if package.exists() else module if module.exists() else None


def holds(source: Path) -> str:
    """Return the first sentence of a module's docstring, on one line."""
    paragraph = (ast.get_docstring(ast.parse(source.read_text())) or "").split("\n\n")[0]
    return " ".join(paragraph.split()).rstrip(".")


def _imports(node: ast.AST) -> Iterator[str]:
    """Yield the modules that a piece of code imports, leaving out what stands under `if TYPE_CHECKING`."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child)


def files_of(room: str) -> list[Path]:
    """Return the modules of a room."""
    place = source_of(room)
    assert place is not None
    return sorted(place.parent.rglob("*.py")) if place.name == "__init__.py" else [place]


@cache
def imported(room: str) -> set[str]:
    """Return the other rooms that a room imports itself."""
    names = {name for file in files_of(room) for name in _imports(ast.parse(file.read_text()))}
    return {name.split(".")[1] for name in names if name.startswith("thence.")} - {room}

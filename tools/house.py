"""Writes the list of rooms in docs/house.md from the import rules, so that there is one list and it cannot be wrong.

    python tools/house.py            write docs/house.md
    python tools/house.py --check    say whether it is current (exit code 1 if not)

Law. The order of the rooms is that of the layers in `[tool.importlinter]`, from the bottom up; what a room holds is the
first sentence of its docstring. A room that does not exist is not listed.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "house.md"
BEGIN, END = "<!-- rooms: made by tools/house.py -->\n", "<!-- end of rooms -->\n"


def layers() -> list[list[str]]:
    """Return the rooms as the import rules have them, the bottom first, those that do not know each other together."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    lines = next(rule["layers"] for rule in rules if rule["type"] == "layers")
    return [[name.strip("() ") for name in line.split("|")] for line in reversed(lines)]


def source_of(room: str) -> Path | None:
    """Return the file whose docstring speaks for a room, or None if there is no such room."""
    package, module = (ROOT / "src" / "thence" / place for place in (f"{room}/__init__.py", f"{room}.py"))
    return package if package.exists() else module if module.exists() else None


def holds(source: Path) -> str:
    """Return the first sentence of a module's docstring, on one line."""
    paragraph = (ast.get_docstring(ast.parse(source.read_text())) or "").split("\n\n")[0]
    return " ".join(paragraph.split()).rstrip(".")


def rooms() -> str:
    """Return the table of rooms."""
    rows = ["| room | holds |", "|---|---|"]
    for names in layers():
        found = [(name, source) for name in names if (source := source_of(name)) is not None]
        for name, source in found:
            place = f"`{name}/`" if source.name == "__init__.py" else f"`{name}.py`"
            rows.append(f"| {place} | {holds(source)} |")
    return "\n".join(rows) + "\n"


def page() -> str:
    """Return docs/house.md with the table as it should be."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    return before + BEGIN + "\n" + rooms() + "\n" + END + rest.split(END)[1]


def main() -> int:
    """Write the page, or with --check compare it."""
    if "--check" in sys.argv[1:]:
        current = PAGE.read_text() == page()
        print("docs/house.md is current" if current else "docs/house.md is not current: run python tools/house.py")
        return 0 if current else 1
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())

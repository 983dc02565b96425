"""Writes the tables of docs/explanation/architecture.md and docs/reference/protocols.md from the code.

    python tools/architecture.py            write the pages
    python tools/architecture.py --check    say whether they are current (exit code 1 if not)

The order of layers and packages is that of `[tool.importlinter]` in pyproject.toml; what a package holds is the first
sentence of its docstring. Every module that a page of the architecture or CONTRIBUTING names must exist. Line counts
are rounded, and written again once they are off by a tenth: growth shows, and not every change touches the page.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "thence"
PAGE = ROOT / "docs" / "explanation/architecture.md"
BEGIN, END = "<!-- packages: made by tools/architecture.py -->\n", "<!-- end of packages -->\n"
RULES = ROOT / "docs" / "explanation/architecture-rules.md"
PROTOCOLS = ROOT / "docs" / "reference/protocols.md"
FIRST, LAST = "<!-- protocols: made by tools/architecture.py -->\n", "<!-- end of protocols -->\n"


def contracts() -> list[tuple[str, list[str]]]:
    """Return each container of the import rules with its packages, those that import nothing of ours first."""
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    return [
        (rule["containers"][0], [name.strip("() ") for line in reversed(rule["layers"]) for name in line.split("|")])
        for rule in rules
        if rule["type"] == "layers"
    ]


def place_of(package: str) -> Path | None:
    """Return the file whose docstring describes a package or module, or None if there is none."""
    path = SOURCE.joinpath(*package.split(".")[1:])
    return next((each for each in (path / "__init__.py", path.with_suffix(".py")) if each.exists()), None)


def holds(source: Path) -> str:
    """Return the first sentence of a module's docstring, on one line."""
    paragraph = (ast.get_docstring(ast.parse(source.read_text())) or "").split("\n\n")[0]
    return " ".join(paragraph.split()).rstrip(".")


def lines(source: Path) -> int:
    """Return how many lines of Python a package or module has."""
    files = source.parent.rglob("*.py") if source.name == "__init__.py" else [source]
    return sum(len(file.read_text().splitlines()) for file in files)


def about(count: int, known: str | None) -> str:
    """Return a count to its second digit, or what the page says as long as that is off by less than a tenth."""
    if known is not None and abs(int(known.replace(",", "")) - count) < 0.1 * count:
        return known
    return f"{round(count, 2 - len(str(count))):,}"


def tables(listed: str) -> str:
    """Return a table for each container, given those that stand on the page."""
    made = []
    for container, names in contracts():
        made += [f"### `{container}`", "", "| package | lines, about | holds |", "|---|--:|---|"]
        for name in names:
            source = place_of(f"{container}.{name}")
            if source is not None:
                title = f"`{container}.{name}`"
                known = re.search(rf"^\| {re.escape(title)} \| ([\d,]+) \|", listed, re.M)
                made.append(f"| {title} | {about(lines(source), known and known[1])} | {holds(source)} |")
        made.append("")
    return "\n".join(made)


def page() -> str:
    """Return docs/explanation/architecture.md with the tables as they should be."""
    before, rest = PAGE.read_text().split(BEGIN)
    listed, after = rest.split(END)
    return before + BEGIN + "\n" + tables(listed) + END + after


def protocols() -> str:
    """Return docs/reference/protocols.md with its two tables as the registry has them."""
    from thence.core.protocols.registry import REGISTRY

    used = ["| protocol | use it when | needs | promises | cost |", "|---|---|---|---|---|"]
    others = ["| protocol | what it is | needs | promises | cost | source |", "|---|---|---|---|---|---|"]
    for name, entry in REGISTRY.items():
        needs = ", ".join(entry.needs)
        if entry.use:
            used.append(f"| `{name}` | {entry.use} | {needs} | {entry.guarantee} | {entry.cost} |")
        else:
            others.append(
                f"| `{name}` | {entry.summary} | {needs} | {entry.guarantee} | {entry.cost} | {entry.source} |"
            )
    before, rest = PROTOCOLS.read_text().split(FIRST)
    text = ["", *used, "", "The others exist to be compared with these, and to reproduce the papers:", "", *others, ""]
    return before + FIRST + "\n".join(text) + "\n" + LAST + rest.split(LAST)[1]


def missing() -> list[str]:
    """Return a sentence for each module that a page names and that does not exist."""
    return [
        f"{page.name} names {name}, which does not exist"
        for page in (PAGE, RULES, ROOT / "CONTRIBUTING.md")
        for name in sorted(set(re.findall(r"`([\w/]+/[\w/]+\.py)`", page.read_text())))
        if not any((place / name).exists() for place in (SOURCE, ROOT))
    ]


def main() -> int:
    """Write the page, or with --check compare it."""
    if faults := missing():
        print("\n".join(faults))
        return 1
    texts = {PAGE: page(), PROTOCOLS: protocols()}
    if "--check" not in sys.argv[1:]:
        for each, text in texts.items():
            each.write_text(text)
        return 0
    current = all(each.read_text() == text for each, text in texts.items())
    print("the tables are current" if current else "not current; run python tools/architecture.py")
    return 0 if current else 1


if __name__ == "__main__":
    sys.exit(main())

"""The pages: each is in the site's navigation, and the API reference names what is there."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest
from support.some import some

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))
NAMED = [
    name
    for page in (DOCS / "reference" / "api").glob("*.md")
    for name in re.findall(r"^::: ([\w.]+)$", page.read_text(), re.M)
]


def source_of(module: str) -> Path | None:
    place = ROOT / "src" / module.replace(".", "/")
    return next((file for file in (place / "__init__.py", place.with_suffix(".py")) if file.exists()), None)


def names_in(source: Path) -> set[str]:
    """Return what a module defines or imports, for type checkers too; it is not run: some load pyspark."""
    tree = list(ast.walk(ast.parse(source.read_text())))
    imported = {alias.asname or alias.name for node in tree if isinstance(node, ast.ImportFrom) for alias in node.names}
    return imported | {node.name for node in tree if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


@pytest.mark.parametrize("name", NAMED)
def test_the_reference_names_what_is_there(name: str) -> None:
    parts = name.split(".")
    module = next(end for end in range(len(parts), 0, -1) if source_of(".".join(parts[:end])))
    source = source_of(".".join(parts[:module]))
    assert source is not None
    assert set(parts[module:]) <= names_in(source)


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    assert sorted(re.findall(r"([\w./-]+\.md)$", navigation, re.M)) == PAGES


def test_every_moved_page_has_a_stub_that_leads_to_a_page() -> None:
    site = runpy.run_path(str(ROOT / "tools" / "site.py"))
    for old, new in some(site["moved"]().items()):
        assert f"{new}.md" in PAGES, old
        assert f"{old}.md" not in PAGES, "a stub would take the place of a page"
    made = dict(site["stubs"]())
    assert 'href="../explanation/delivery-rule/"' in made[Path("deliver/index.html")]
    assert 'href="../../reference/api/thence/"' in made[Path("api/thence/index.html")]
    assert 'href="../reference/api/"' in made[Path("api/index.html")]


def test_benchmark_pages_are_those_of_their_results() -> None:
    made = runpy.run_path(str(ROOT / "tools" / "benchmark_pages.py"))["pages"]()
    assert sorted(path.name for path in made) == sorted(path.name for path in (DOCS / "benchmarks").glob("*.md"))
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, "run python tools/benchmark_pages.py"


def test_reference_pages_are_what_the_code_says() -> None:
    made = runpy.run_path(str(ROOT / "tools" / "reference_pages.py"))["pages"]()
    for path, text in some(made.items()):
        assert path.read_text(encoding="utf-8") == text, "run python tools/reference_pages.py"
    listed = "".join(made.values())
    assert "thence_live_held" in listed
    assert "thence deliver" in listed


# -- modules and files that texts name -------------------------------------------------------------------------------

TEXTS = [
    *(ROOT / "src").rglob("*.py"),
    *(ROOT / "tests").rglob("*.py"),
    *(ROOT / "benchmarks").rglob("*.py"),
    *(ROOT / "tools").glob("*.py"),
    *DOCS.rglob("*.md"),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "tests" / "README.md",
]
PLACES = ("", "src/thence", "src/thence/tables", "tests", "benchmarks")
"""What the path of a file is relative to."""
INVENTED = {"thence.rosters", "thence.query", "thence.toml", "trace/nowhere.py", "kernels/gone.py", "thence.core.gone"}
"""Names that are no modules: metadata of a column, a name in JavaScript, a file of users, names that tests invent."""


def is_there(dotted: str) -> bool:
    """Return whether a module exists, and whether it mentions the name that follows it."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        source = source_of(".".join(parts[:length]))
        if source is not None:
            text = source.read_text()
            return length == len(parts) or "import *" in text or re.search(rf"\b{parts[length]}\b", text) is not None
    return False


def named_in(text: str) -> list[str]:
    """Return the modules and Python files that a text names in backticks, or as a path below tests."""
    modules = re.findall(r"`(thence(?:\.\w+)+)", text)
    files = re.findall(r"`((?:[\w-]+/)+[\w-]+\.py)(?:::?\w+)?`", text)
    return [name for name in modules + files if name not in INVENTED]


def missing_in(text: str) -> list[str]:
    return [
        name
        for name in named_in(text)
        if not (any((ROOT / place / name).exists() for place in PLACES) if "/" in name else is_there(name))
    ]


def test_every_module_and_file_that_a_text_names_is_there() -> None:
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in TEXTS}
    assert sum(len(named_in(text)) for text in texts.values()) > 300
    assert {path: missing for path, text in texts.items() if (missing := missing_in(text))} == {}


def test_a_module_that_is_gone_is_found() -> None:
    gone = ["kernels" + "/texts.py", "thence.core" + ".nothing", "thence.tables.judge.chunk" + ".no_such_name"]
    assert missing_in(" ".join(f"`{name}`" for name in gone)) == [gone[1], gone[2], gone[0]]

"""The pages: each is in the site's navigation, and the API reference names what is there."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

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
    module, _, attribute = name.rpartition(".")
    if source_of(name) is None:
        source = source_of(module)
        assert source is not None
        assert attribute in names_in(source)


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    assert sorted(re.findall(r"([\w./-]+\.md)$", navigation, re.M)) == PAGES


def test_benchmark_pages_are_those_of_their_results() -> None:
    made = runpy.run_path(str(ROOT / "tools" / "benchmark_pages.py"))["pages"]()
    assert sorted(path.name for path in made) == sorted(path.name for path in (DOCS / "benchmarks").glob("*.md"))
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, "run python tools/benchmark_pages.py"


def test_reference_pages_are_what_the_code_says() -> None:
    made = runpy.run_path(str(ROOT / "tools" / "reference_pages.py"))["pages"]()
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, "run python tools/reference_pages.py"
        assert "thence_live_held" in text or "thence deliver" in text

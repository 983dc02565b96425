"""The guide "From pandas, Polars, CSV, Delta": every block runs and prints what the page shows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from support.pages import run_page, steps

PAGE = Path(__file__).parents[2] / "docs" / "how-to/from-tables.md"


def test_every_block_prints_what_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_page(PAGE) == 7


def test_a_newcomer_needs_few_statements_for_each_kind() -> None:
    scripts = [step.source for step in steps(PAGE.read_text()) if step.language == "python"]
    assert max(len(ast.parse(script).body) for script in scripts) <= 5

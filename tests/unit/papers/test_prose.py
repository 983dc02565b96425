"""What the docs say of the results is what the results say."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benchmarks" / "reproduce"))

import prose  # noqa: E402

ERRATA = tomllib.loads((ROOT / "benchmarks" / "explore" / "errata.toml").read_text(encoding="utf-8"))["finding"]
PAGE = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")


def test_the_section_of_the_page_is_made_from_the_results() -> None:
    page = prose.PAGE.read_text(encoding="utf-8")
    assert prose.current(page) == page, "run benchmarks/reproduce/prose.py"


def test_another_result_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    by = prose.claims()
    by["ks98"]["minimum-copies"]["ours"] = "1 of 1 copies equal it"
    monkeypatch.setattr(prose, "claims", lambda: by)
    page = prose.PAGE.read_text(encoding="utf-8")
    assert prose.current(page) != page


@pytest.mark.parametrize("finding", ERRATA, ids=lambda finding: str(finding["number"]))
def test_the_errata_page_has_the_words_and_figures_of_its_source(finding: dict) -> None:
    """The diagrams are found again by tests/check/test_errata_found.py; the words are those of errata.toml."""
    quoted = prose.figures()
    for part in ("text", "repair", "evidence"):
        text = finding.get(part, "")
        assert (prose.filled(text, quoted) if "{" in text else text).strip() in PAGE
    assert f"### {finding['number']}. {finding['title']}" in PAGE

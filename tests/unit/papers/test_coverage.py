"""docs/coverage.md is current, and names only what is there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks" / "reproduce"))

import coverage


def test_the_page_is_current() -> None:
    assert coverage.PAGE.read_text(encoding="utf-8") == coverage.page(), "run benchmarks/reproduce/coverage.py"


@pytest.mark.parametrize("row", coverage.rows(), ids=lambda row: f"{row[0]}: {row[1]}")
def test_a_row_names_what_is_there(row: tuple[str, str, str, str]) -> None:
    _, _, where, evidence = row
    assert coverage.missing(where, evidence) == []


def test_what_is_not_there_is_noticed() -> None:
    assert coverage.missing(
        "src/thence/nowhere.py", "claim:ks98/nothing, tests/papers/test_ks98_lemmas.py::test_not"
    ) == [
        "src/thence/nowhere.py",
        "claim:ks98/nothing",
        "tests/papers/test_ks98_lemmas.py::test_not",
    ]


def test_every_claim_is_on_the_page() -> None:
    """Claims that stand for several rows, or for none of the papers' numbered parts, are named here."""
    given = [each for _, _, _, evidence in coverage.rows() for each in evidence.split(", ")]
    named = {each for each in given if each.startswith("claim:")}
    known = {f"claim:{paper}/{name}" for paper, of in coverage.claims().items() for name in of}
    assert len(known - named) <= 16

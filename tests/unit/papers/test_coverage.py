"""The pages of docs/reference/coverage are current, and name only what is there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks" / "reproduce"))

import coverage_page as coverage


def test_the_pages_are_current() -> None:
    made = coverage.pages()
    assert len(made) == 1 + len(coverage.TITLES)
    for path, text in made.items():
        assert path.read_text(encoding="utf-8") == text, "run benchmarks/reproduce/coverage_page.py"


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


def test_every_claim_has_a_row() -> None:
    given = [each for _, _, _, evidence in coverage.rows() for each in evidence.split(", ")]
    named = {each for each in given if each.startswith("claim:")}
    assert named == {f"claim:{paper}/{name}" for paper, of in coverage.claims().items() for name in of}


@pytest.mark.parametrize("paper", coverage.TITLES)
def test_everything_that_a_paper_numbers_has_a_row(paper: str) -> None:
    """And no row speaks of a theorem, lemma or figure that the paper does not have."""
    found = {each for of, part, _, _ in coverage.rows() if of == paper for each in coverage.named(part)}
    assert found == coverage.numbered(paper)


def test_lists_of_numbers_are_read() -> None:
    assert coverage.numbers("1 to 3, 8") == ["1", "2", "3", "8"]
    assert coverage.numbers("A.1, A.5 to A.6") == ["A.1", "A.5", "A.6"]
    assert coverage.named("Protocol 2; theorems 3.1, 3.2, lemma 3.4") == {
        ("protocol", "2"),
        ("theorem", "3.1"),
        ("theorem", "3.2"),
        ("lemma", "3.4"),
    }
    assert coverage.named("6.2, RCV as printed: refuted (erratum 32)") == set()

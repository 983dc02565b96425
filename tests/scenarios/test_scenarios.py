"""Every golden script says what it said. `python tests/scenarios/script.py` writes them anew, on purpose."""

from __future__ import annotations

from pathlib import Path

import pytest
from scenarios.script import play, scripts


@pytest.mark.parametrize("path", scripts(), ids=lambda path: path.stem)
def test_script(path: Path) -> None:
    text = path.read_text()
    assert play(text) == text


def test_answers_follow_from_commands() -> None:
    path = next(path for path in scripts() if path.stem == "ks98-4.4-snd")
    text = path.read_text()
    assert play(text.replace("  to 3: i1{2,3,6}", "  to 3: i1{2,3}")) == text  # answers are not read, they are given
    assert play(text.replace("> log j i1{2,3,4,6,8}", "> log j i1{2,3,4,8}")) != text


@pytest.mark.parametrize(
    ("pattern", "m2", "knew"),
    [(1, "k1", "k"), (2, "j1", None), (3, "k1", "k"), (4, "k2", "k"), (5, "k1", "k")],
)
def test_only_type_1_of_figure_1_has_to_carry_m1(pattern: int, m2: str, knew: str | None) -> None:
    """ci-dc, figure 1: in types 2 to 5 what is known of m1 (i1) is redundant; in 3 to 5 it was known before."""
    path = next(path for path in scripts() if path.stem == f"ci-dc-type-{pattern}")
    before, _, after = path.read_text().partition(f" sends {m2} to ")
    assert ("i1{j}" in after.splitlines()[1]) == (pattern == 1)
    assert knew is None or f"  {knew} keeps i1{{j}}" in before

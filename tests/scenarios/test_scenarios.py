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

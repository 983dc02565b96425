"""How-to guides and tutorials that need no Spark: every block runs and prints what the page shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.pages import run_page

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {
    "how-to/parent-ids.md": 4,
    "how-to/lost-cause.md": 1,
    "how-to/opentelemetry.md": 1,
    "how-to/fail-a-build.md": 2,
    "tutorials/live-trio.md": 2,
    "tutorials/protocol.md": 7,
}
SCREENS, WIDTH = 160, 100
"""A how-to guide fits on three screens: this many lines, each as wide as a line of text on the site."""


@pytest.mark.parametrize(("name", "steps"), PAGES.items())
def test_every_block_prints_what_the_page_shows(
    name: str, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_page(DOCS / name) == steps


@pytest.mark.parametrize("page", sorted((DOCS / "how-to").glob("*.md")), ids=lambda page: page.stem)
def test_a_guide_fits_on_three_screens(page: Path) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    assert sum(max(1, -(-len(line) // WIDTH)) for line in lines) <= SCREENS

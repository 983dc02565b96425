"""Every Python block and every command of the README and the docs' front pages is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/protocols.md", "docs/show.md")
BLOCKS = [
    pytest.param(block, id=f"{page}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL), 1)
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_blocks_run(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block, "block", "exec"), {})
    capsys.readouterr()


def test_the_readme_shows_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        exec(compile(block, "README.md", "exec"), {})
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("delivered 1 ordered")
    assert said[1].startswith("delivered 2 paid")
    assert said[2].startswith("blocked None shipped")
    assert "packed" in said[2]
    assert said[-2:] == ["b1 waits for a1", "[0, 1]"]


def test_relative_links_lead_somewhere() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"

"""The parts of `thence demo` that need no Spark: the cost of the traffic, and the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from thence.cli._common import console
from thence.cli.demo import DEMO_STEPS, Demo, catch_the_liar, cost_of_the_traffic, simulate_and_judge, write_page


def test_cost_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = Demo(tmp_path, console(), seed=1)
    for step in (simulate_and_judge, catch_the_liar, cost_of_the_traffic, write_page):
        assert step in DEMO_STEPS
        step(made)
    assert made.failures == []
    cost = made.result["cost"]
    chosen = cost["recommended"]["protocol"]
    sizes = {each["protocol"]: each["bytes_per_message"] for each in cost["recommended"]["ranking"]}
    assert sizes[chosen] == min(sizes.values())
    assert {"ks", "rst", "ech"} <= set(sizes)
    shown = capsys.readouterr().out
    assert f"Recommended for this traffic: {chosen}:" in shown
    page = (tmp_path / "index.html").read_text()
    assert [f"<h2>{section.title}</h2>" in page for section in made.sections] == [True] * 4
    assert '<a href="space-time.html">' in page
    assert "ks beside unordered" in (tmp_path / "space-time.html").read_text()
    assert "&lt;- too early" in page
    assert '<td class="bad">violated</td>' in page
    assert "it needs topology" in page

"""Plots: the same rows give the same SVG; the name says the format."""

from __future__ import annotations

from pathlib import Path

import pytest

from thence.errors import MisuseError
from thence.report.plots import cost_plot, curves, figure, save, sweep_plot
from thence.sim.stats import Estimate

COSTS = [
    {"protocol": "ks", "all_bytes_per_message": 20.0, "held_share": 0.1},
    {"protocol": "rst", "all_bytes_per_message": 50.0, "held_share": None},
    {"protocol": "bss", "all_bytes_per_message": None, "held_share": None},
]
SETTINGS = [
    {"protocol": p, "processes": n, "bytes_per_message": n * size, "bytes_per_message_ci95": half}
    for p, size, half in (("ks", 2.0, 0.5), ("rst", 5.0, None))
    for n in (4, 8)
]


def test_a_name_without_ending_gives_both(tmp_path: Path) -> None:
    found = save(cost_plot(COSTS, able=["ks"]), tmp_path / "cost")
    assert [path.name for path in found] == ["cost.png", "cost.svg"]
    assert found[0].read_bytes().startswith(b"\x89PNG")
    assert "recommended: ks" in found[1].read_text()
    assert "bss" not in found[1].read_text()


def test_the_same_rows_give_the_same_svg(tmp_path: Path) -> None:
    one, two = (save(sweep_plot(SETTINGS), tmp_path / name)[0].read_bytes() for name in ("1.svg", "2.svg"))
    assert one == two
    assert save(sweep_plot([]), tmp_path / "empty.svg")


def test_a_line_on_another_hides_it_not() -> None:
    """Lines with the same values differ in width, dashes and hollow markers, the widest at the bottom."""
    made, (panel,) = figure()
    same = {4: Estimate(1.0, 0.1, 3), 8: Estimate(2.0, 0.1, 3)}
    curves(panel, {"ks": same, "ci-dc": same, "rst": same, "ses": same}, x="n", y="bytes")
    lines = [box.lines[0] for box in panel.containers]
    assert len(lines) == 4
    looks = [(line.get_linewidth(), line.get_linestyle(), line.get_marker()) for line in lines]
    assert len(set(looks)) == 4
    assert [width for width, _, _ in looks[:2]] == sorted((width for width, _, _ in looks[:2]), reverse=True)
    assert {line.get_markerfacecolor() for line in lines} == {"none"}
    assert made.axes == [panel]


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match=r"neither \.png nor \.svg"):
        save(sweep_plot(SETTINGS), tmp_path / "plot.pdf")

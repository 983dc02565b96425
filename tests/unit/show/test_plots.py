"""Plots: the same rows give the same SVG; the name says the format."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from support.some import some

from thence.errors import MisuseError
from thence.lab.simulator.confidence import Estimate
from thence.show.plots import COLORED, COLORS, cost_plot, curves, figure, save, sweep_plot

COSTS = [
    {"protocol": "ks", "warm_bytes_per_message": 20.0, "held_share": 0.1},
    {"protocol": "rst", "warm_bytes_per_message": 50.0, "held_share": None},
    {"protocol": "bss", "warm_bytes_per_message": None, "held_share": None},
]
SETTINGS = [
    {"protocol": p, "processes": n, "bytes_per_message": n * size, "bytes_per_message_ci95": half}
    for p, size, half in (("ks", 2.0, 0.5), ("rst", 5.0, None))
    for n in (4, 8)
]


def test_a_name_without_ending_gives_both(tmp_path: Path) -> None:
    found = save(cost_plot(COSTS, recommended="ks", able=["ks"]), tmp_path / "cost")
    assert [path.name for path in found] == ["cost.png", "cost.svg"]
    assert found[0].read_bytes().startswith(b"\x89PNG")
    assert "recommended: ks" in found[1].read_text()
    assert "bss" not in found[1].read_text()


def test_the_same_rows_give_the_same_svg(tmp_path: Path) -> None:
    one, two = (save(sweep_plot(SETTINGS), tmp_path / name)[0].read_bytes() for name in ("1.svg", "2.svg"))
    assert one == two
    assert save(sweep_plot([]), tmp_path / "empty.svg")


@pytest.mark.parametrize("recommended", ["rst", None])
def test_the_picture_recommends_what_the_report_does(recommended: str | None, tmp_path: Path) -> None:
    """The cheapest is not always the one to take: it may still grow, or the next be within the margin."""
    (drawn,) = save(cost_plot(COSTS, recommended=recommended, able=["ks", "rst"]), tmp_path / "cost.svg")
    said = drawn.read_text()
    assert f"recommended: {recommended or 'nothing'}" in said
    assert "recommended: ks" not in said


NAMES = ("ks", "ci-dc", "ech", "prs", "rst", "ses", "vector clock")


def by_curves(sizes: dict[str, float]) -> Figure:
    made, (panel,) = figure()
    lines = {name: {4: Estimate(size, 0.1, 3), 8: Estimate(2 * size, 0.1, 3)} for name, size in sizes.items()}
    curves(panel, lines, x="n", y="bytes")
    return made


def by_sweep(sizes: dict[str, float]) -> Figure:
    rows = [{"protocol": p, "processes": n, "bytes_per_message": n * size} for p, size in sizes.items() for n in (4, 8)]
    return sweep_plot(rows)


@pytest.mark.parametrize("draw", [by_curves, by_sweep])
@pytest.mark.parametrize("pair", list(combinations(NAMES, 2)))
def test_a_line_on_another_hides_it_not(draw: Callable[[dict[str, float]], Figure], pair: tuple[str, str]) -> None:
    """Between the ends of two lines with the same values, both colors are seen."""
    made = draw({name: 20.0 if name in pair else 1.0 + number for number, name in enumerate(NAMES)})
    (panel,) = made.axes
    panel.set_axis_off()
    canvas = FigureCanvasAgg(made)
    canvas.draw()
    wide = canvas.get_width_height()[0]
    pixels = np.asarray(canvas.buffer_rgba())[:, wide * 2 // 5 : wide * 4 // 5, :3].astype(int)
    for name in some(pair):
        color = np.array(to_rgb(COLORS[COLORED.index(name)])) * 255
        seen = int((np.abs(pixels - color).sum(axis=2) < 90).sum())
        print(name, seen)
        assert seen > 60


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MisuseError, match=r"neither \.png nor \.svg"):
        save(sweep_plot(SETTINGS), tmp_path / "plot.pdf")

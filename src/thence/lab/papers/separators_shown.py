"""Chapter 7 of the separators paper as tables and histograms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from thence.lab.papers.chapter7.experiments import PUBLISHED
from thence.lab.papers.claims import DataSets
from thence.lab.papers.estimates import curve, rows_with
from thence.lab.papers.paper import Drawing
from thence.lab.papers.separators_runs import (
    DELAYS,
    READINGS,
    SCENARIO_NAMES,
    WATCHED,
    cells,
    chosen_runs,
    histogram,
    sizes_of,
)
from thence.tables.result_table import Cell, ResultTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def tables(data: DataSets) -> list[ResultTable]:
    """Return table 7.1 under every reading, the delays, and figures 7.5 and 7.7 in numbers."""
    rows: list[tuple[Cell, ...]] = []
    for n in sizes_of(data):
        for scheme in ("matrix clock", "vector clocks"):
            value = rows_with(data["fixed"], processes=n)[0][scheme]
            rows.append((n, scheme, PUBLISHED[scheme][n], *[str(value)] * len(READINGS)))
        for name in SCENARIO_NAMES:
            spread = ([v.mean for v in cells(data, n, name, reading).values()] for reading in READINGS)
            rows.append((n, name, PUBLISHED[name][n], *(f"{min(each):.2f} to {max(each):.2f}" for each in spread)))
    note = (
        "Ranges are over placements. Apart: one hop message for each link; together: one for all next hops; letter: "
        "R6.3 as printed."
    )
    shown = [ResultTable("Table 7.1: elements of a stamp", ("n", "scheme", "published", *READINGS), tuple(rows), note)]
    slow: list[tuple[Cell, ...]] = [
        (n, name, *(str(v) for v in curve(data["delays"], "elements", "delay", processes=n, scenario=name).values()))
        for n in sizes_of(data) for name in SCENARIO_NAMES
    ]  # fmt: skip
    titles = tuple(f"{1000 * delay:g} ms" for delay in DELAYS)
    shown.append(ResultTable("Other network delays, over all placements", ("n", "scheme", *titles), tuple(slow)))
    beside: list[tuple[Cell, ...]] = []
    for row in rows_with([*data["figure 7.5"], *data["figure 7.7"]], separators="with"):
        name, same = row["network"], (data["figure 7.5"], data["figure 7.7"])["broadcasts" in row["network"]]
        by = [curve(same, column, "separators", network=name) for column in ("elements", "history")]
        line = (name, *(str(each[where]) for each in by for where in ("without", "with")))
        beside += [line] if line not in beside else []
    columns = ("network", "stamps without", "stamps with", "history without", "history with")
    return [*shown, ResultTable("Figures 7.5 to 7.7: elements, without and with separators", columns, tuple(beside))]


def plots(data: DataSets, draw: Drawing) -> dict[str, Figure]:
    """Return the histograms of figures 7.2, 7.3, 7.4 and 7.7."""
    made: dict[str, Figure] = {}
    if 6 in sizes_of(data):
        drawn, panels = draw.figure(10.0, 3.4, columns=3)
        for panel, (place, name) in zip(panels, WATCHED.items(), strict=True):
            by = {s: dict(histogram(chosen_runs(data, 6, s), f"history {place}")) for s in SCENARIO_NAMES}
            draw.shares(panel, by, x=f"elements in the history of {name}")
        draw.legend(drawn, panels[0])
        made["separators-figure-7-2"] = drawn
    drawn, panels = draw.figure(9.0, 3.4, columns=len(sizes_of(data)))
    for panel, n in zip(panels, sizes_of(data), strict=True):
        draw.shares(
            panel,
            {s: dict(histogram(chosen_runs(data, n, s), "stamps")) for s in SCENARIO_NAMES},
            x=f"elements of a stamp, n = {n}",
        )
    draw.legend(drawn, panels[0])
    made["separators-figures-7-3-and-7-4"] = drawn
    if data["figure 7.7"]:
        drawn, panels = draw.figure(9.0, 3.4, columns=2)
        pairs = [row for row in data["figure 7.7"] if "pairs" in row["network"]]
        for panel, column, label in zip(
            panels, ("stamps", "histories"), ("a stamp in G1", "the history of p1"), strict=True
        ):
            by = {s: dict(histogram(rows_with(pairs, separators=s), column)) for s in ("without", "with")}
            draw.shares(panel, by, x=f"elements of {label}")
        draw.legend(drawn, panels[0], "separators")
        made["separators-figure-7-7"] = drawn
    return made

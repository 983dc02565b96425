"""The runs of chapter 7 of the separators paper, as rows: every placement that fits the text, under every reading."""

from __future__ import annotations

from collections import Counter

from thence.model.plain import Row
from thence.papers.chapter7.experiments import SCENARIOS, StampSizes, mean, stamp_sizes
from thence.papers.chapter7.networks import PLACEMENTS, Network, broadcasts, gateway, office
from thence.papers.claims import Data, NoDataError, Rows
from thence.papers.paper import Scale
from thence.papers.rows import choose, curve
from thence.sim.stats import Estimate

SIZES = ((6, 10),) * 3
CHOSEN = "apart"
NAMES = tuple(SCENARIOS)
WATCHED = {"pc": "p3", "db": "d2", "dc": "d3"}
"""processes whose histories figure 7.2 shows, with the paper's names"""
DELAYS = (0.025, 0.05, 0.1)
READINGS = {
    "apart": (False, False),
    "together": (True, False),
    "apart, letter": (False, True),
    "together, letter": (True, True),
}
"""hop messages of one forwarding together, R6.3 to the letter"""


def measure(scale: Scale) -> dict[str, Rows]:
    """Run everything of chapter 7."""
    sizes = scale.sizes(SIZES)
    messages, seeds = scale.pick(60, 300, 1000), scale.seeds(1, 5, 5)
    placements = list(PLACEMENTS)[: scale.pick(2, len(PLACEMENTS), len(PLACEMENTS))]
    made: dict[str, Rows] = {
        "fixed": [_fixed(n) for n in sizes],
        "table 7.1": [row for n in sizes for place in placements for row in _cells(n, place, messages, seeds)],
        "delays": [row for n in sizes for p in placements for seed in seeds for row in _delays(n, p, messages, seed)],
        "figure 7.5": [], "figure 7.7": [],
    }  # fmt: skip
    if not scale.processes:
        made["figure 7.5"] = [row for seed in seeds for row in _beside(gateway(4, 32), 2 * messages, seed)]
        made["figure 7.7"] = [
            row for seed in seeds for kind in ("pairs", "ring")
            for row in _beside(broadcasts(kind, 8), 2 * messages, seed)
        ]  # fmt: skip
    return made


def _fixed(n: int) -> Row:
    network = office(processes=n)
    return {"processes": n, "matrix clock": network.matrix, "vector clocks": network.vectors}


def _cells(n: int, placement: str, messages: int, seeds: list[int]) -> list[Row]:
    rows = []
    for reading, (together, literal) in READINGS.items():
        for scenario, chosen in SCENARIOS.items():
            for seed in seeds if reading == CHOSEN else seeds[:2]:
                network = office(placement, n)
                sizes = stamp_sizes(network, chosen, seed, messages=messages, together=together, literal=literal)
                row = {"processes": n, "placement": placement, "reading": reading, "scenario": scenario, "seed": seed}
                rows.append(row | _measured(sizes))
    return rows


def _measured(sizes: StampSizes) -> Row:
    row: Row = {"elements": sizes.average, "stamps": _plain(sizes.stamps)}
    return row | {f"history {name}": _plain(seen) for name, seen in sizes.histories.items()}


def _plain(seen: Counter[int]) -> dict[str, int]:
    """Return a counter as it survives JSON."""
    return {str(size): seen[size] for size in sorted(seen)}


def _delays(n: int, placement: str, messages: int, seed: int) -> list[Row]:
    network = office(placement, n)
    return [
        {"processes": n, "placement": placement, "scenario": scenario, "delay": delay, "seed": seed,
         "elements": stamp_sizes(network, chosen, seed, messages=messages, delay=delay).average}
        for delay in DELAYS
        for scenario, chosen in SCENARIOS.items()
    ]  # fmt: skip


def _beside(network: Network, messages: int, seed: int) -> list[Row]:
    rows = []
    for separators in ("without", "with"):
        chosen = tuple(network.extended.separators) if separators == "with" else ()
        sizes = stamp_sizes(network, chosen, seed, messages=messages)
        own = network.watched[0]
        rows.append({
            "network": network.name, "separators": separators, "seed": seed, "elements": sizes.focus_average,
            "history": mean(sizes.histories[own]), "stamps": _plain(sizes.focus),
            "histories": _plain(sizes.histories[own]),
        })  # fmt: skip
    return rows


# -- read back ----------------------------------------------------------------------------------------------------


def cells(data: Data, n: int, scenario: str, reading: str = CHOSEN) -> dict[str, Estimate]:
    """Return one cell of the table for each placement."""
    return curve(data["table 7.1"], "elements", "placement", processes=n, scenario=scenario, reading=reading)


def sizes_of(data: Data) -> list[int]:
    """Return the numbers of processes there are."""
    return sorted({row["processes"] for row in data["table 7.1"]})


def histogram(rows: Rows, column: str) -> Counter[int]:
    """Add up histograms over rows."""
    total: Counter[int] = Counter()
    for row in rows:
        total.update({int(size): seen for size, seen in row[column].items()})
    return total


def chosen(data: Data, n: int, scenario: str) -> Rows:
    """Return the runs of one scenario under the chosen reading, over all placements."""
    rows = choose(data["table 7.1"], processes=n, scenario=scenario, reading=CHOSEN)
    if not rows:
        raise NoDataError(f"n = {n}")
    return rows

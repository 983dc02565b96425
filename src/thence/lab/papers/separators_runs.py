"""The runs of chapter 7 of the separators paper, as rows: every placement that fits the text, under every reading."""

from __future__ import annotations

from collections import Counter

from thence.core.model.plain import Row
from thence.core.protocols.effects import Sent
from thence.core.protocols.registry import create
from thence.core.protocols.rst import RST
from thence.lab.papers.chapter7.experiments import SCENARIOS, StampSizes, mean, stamp_sizes
from thence.lab.papers.chapter7.group_clocks import group_run
from thence.lab.papers.chapter7.networks import PLACEMENTS, GroupNetwork, broadcasts, gateway, office
from thence.lab.papers.claims import DataRows, DataSets, NoDataError
from thence.lab.papers.estimates import curve, rows_with
from thence.lab.papers.paper import Scale
from thence.lab.simulator.confidence import Estimate

SEPARATOR_SIZES = ((6, 10),) * 3
CHOSEN = "apart"
SCENARIO_NAMES = tuple(SCENARIOS)
WATCHED = {"pc": "p3", "db": "d2", "dc": "d3"}
"""processes whose histories figure 7.2 shows, with the paper's names"""
USUAL = 0.05
"""seconds of delay on the mean, as published"""
OTHER_DELAYS = {"a tenth less and more": (0.045, 0.055), "half and twice": (0.025, 0.1)}
"""other delays: the paper does not say how different those were that it tried"""
DELAYS = tuple(sorted({USUAL, *(delay for pair in OTHER_DELAYS.values() for delay in pair)}))
PACES = {"": 1.0, ", small group a twentieth as often": 0.05}
"""how often the small group of figure 7.5 speaks, which is open"""
READINGS = {
    "apart": (False, False),
    "together": (True, False),
    "apart, letter": (False, True),
    "together, letter": (True, True),
}
"""hop messages of one forwarding together, R6.3 to the letter"""


def messages_of(scale: Scale) -> int:
    """Return the messages of a run."""
    return scale.pick(60, 300, 1000)


def seeds_of(scale: Scale) -> list[int]:
    """Return the seeds, each a run."""
    return scale.seeds(2, 5, 5)


def measure(scale: Scale) -> dict[str, DataRows]:
    """Run everything of chapter 7."""
    sizes = scale.sizes(SEPARATOR_SIZES)
    messages, seeds = messages_of(scale), seeds_of(scale)
    placements = list(PLACEMENTS)[: scale.pick(2, len(PLACEMENTS), len(PLACEMENTS))]
    made: dict[str, DataRows] = {
        "fixed": [_fixed(n, place, scale.seed) for n in sizes for place in placements],
        "table 7.1": [row for n in sizes for place in placements for row in _cells(n, place, messages, seeds)],
        "delays": [row for n in sizes for p in placements for seed in seeds for row in _delays(n, p, messages, seed)],
        "figure 7.5": [], "figure 7.7": [],
    }  # fmt: skip
    if not scale.processes:
        made["figure 7.5"] = [row for seed in seeds for row in _gateways(messages, seed)]
        made["figure 7.7"] = [
            row for seed in seeds for kind in ("pairs", "ring")
            for row in _beside(broadcasts(kind, 8), 2 * messages, seed)
        ]  # fmt: skip
    return made


def _fixed(n: int, placement: str, seed: int) -> Row:
    """Run what has clocks of a fixed size, and take the largest stamp."""
    network = office(placement, n)
    processes = network.extended.processes
    sent = create("rst", processes, 0).send(processes[1:])
    assert isinstance(sent, Sent)
    _, sizes = group_run(network.groups, seed, messages=60)
    clocks = {"matrix clock": RST.entries(sent.copies[0]), "vector clocks": max(sizes)}
    return {"processes": n, "placement": placement} | clocks


def _cells(n: int, placement: str, messages: int, seeds: list[int]) -> list[Row]:
    rows = []
    for reading, (together, literal) in READINGS.items():
        for scenario, chosen in SCENARIOS.items():
            for seed in seeds:
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


def _gateways(messages: int, seed: int) -> list[Row]:
    """Run figure 7.5 in every reading; where the small group speaks seldom, longer, so that it speaks at all."""
    return [
        row | {"network": row["network"] + how + ", R6.3 to the letter" * literal}
        for how, pace in PACES.items() for literal in (False, True)
        for row in _beside(gateway(4, 32), (2 if pace == 1.0 else 5) * messages, seed, literal=literal, pace=pace)
    ]  # fmt: skip


def _beside(network: GroupNetwork, messages: int, seed: int, *, literal: bool = False, pace: float = 1.0) -> list[Row]:
    rows = []
    for separators in ("without", "with"):
        chosen = tuple(network.extended.separators) if separators == "with" else ()
        sizes = stamp_sizes(network, chosen, seed, messages=messages, literal=literal, pace=pace)
        own = network.watched[0]
        rows.append({
            "network": network.name, "separators": separators, "seed": seed,
            "elements": sizes.focus_average if sizes.focus else None,
            "history": mean(sizes.histories[own]), "stamps": _plain(sizes.focus),
            "histories": _plain(sizes.histories[own]),
        })  # fmt: skip
    return rows


# -- read back ----------------------------------------------------------------------------------------------------


def cells(data: DataSets, n: int, scenario: str, reading: str = CHOSEN) -> dict[str, Estimate]:
    """Return one cell of the table for each placement."""
    return curve(data["table 7.1"], "elements", "placement", processes=n, scenario=scenario, reading=reading)


def everywhere(data: DataSets, n: int, scenario: str) -> dict[tuple[str, str], Estimate]:
    """Return one cell of the table for each reading and placement."""
    return {
        (reading, place): value for reading in READINGS for place, value in cells(data, n, scenario, reading).items()
    }


def placements_of(data: DataSets) -> list[str]:
    """Return the placements there are."""
    return sorted({row["placement"] for row in data["table 7.1"]})


def sizes_of(data: DataSets) -> list[int]:
    """Return the numbers of processes there are."""
    return sorted({row["processes"] for row in data["table 7.1"]})


def histogram(rows: DataRows, column: str) -> Counter[int]:
    """Add up histograms over rows."""
    total: Counter[int] = Counter()
    for row in rows:
        total.update({int(size): seen for size, seen in row[column].items()})
    return total


def chosen_runs(data: DataSets, n: int, scenario: str, placement: str | None = None) -> DataRows:
    """Return the runs of one scenario under the chosen reading, in one placement or over all of them."""
    where: Row = {} if placement is None else {"placement": placement}
    rows = rows_with(data["table 7.1"], processes=n, scenario=scenario, reading=CHOSEN, **where)
    if not rows:
        raise NoDataError(f"n = {n}")
    return rows

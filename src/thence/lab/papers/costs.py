"""The table that no paper has: facts, entries and bytes of `ks` beside six others, over n, fan-out and traffic.

The necessary minimum of a copy is what `ks` carries: that its facts are the minimum at every event is checked apart
(`ks98.py`). The ratio of a protocol is its facts over that minimum; where its stamps have no facts (matrices, vectors),
its entries over it.

A vector clock is `bss` where all traffic is broadcast. Elsewhere n numbers are not enough for causal order (erratum
12): the line shows their size only, computed.

How long runs are: 10 messages a process for multicasts, 4 n² messages for unicasts, half of them to settle, and no
more than a cap, which is lower for `ech`, slow on unicasts; `rst` and `ses`, mostly of full size after a few
messages, are run more briefly. A line whose run was cut by the cap is marked: what it shows may still be growing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from thence.core.model.plain import Row
from thence.lab.papers.claims import DataRows, DataSets, NoDataError, estimate_text
from thence.lab.papers.estimates import MEASURED, curve, mean_of, rows_with
from thence.lab.papers.paper import Drawing, Paper, Scale
from thence.lab.simulator.confidence import Estimate
from thence.lab.simulator.scenario import Scenario
from thence.lab.sweep.grid import Grid, grid_of
from thence.tables.result_table import Cell, ResultTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COSTED = ("ks", "ci-dc", "ech", "prs", "rst", "ses")
BRIEF = ("rst", "ses")
SOON = ("ks", "ci-dc")
NEAR_FULL = 0.95
"""of n² entries, a stamp of `ses` cannot grow much more"""
COSTED_SIZES = ((4, 8), (5, 10, 20, 30, 50, 75, 100), (5, 10, 20, 30, 50, 75, 100))
VECTOR = "vector clock"
PLOTTED = ("facts_per_message", "entries_per_message", "bytes_per_message", "paper_bytes_per_message", "facts_per_copy",
         "entries_per_copy", "bytes_per_copy")  # fmt: skip


class Traffic(NamedTuple):
    """A pattern of traffic with its fan-out."""

    name: str
    workload: str
    fanout: str | None

    @property
    def unicast(self) -> bool:
        """Whether a message goes to one process."""
        return self.fanout in (None, "unicast")


TRAFFIC = (
    Traffic("even, unicast", "poisson", "unicast"),
    Traffic("even, to n/2", "poisson", "uniform"),
    Traffic("even, broadcast", "poisson", "broadcast"),
    Traffic("hot spot, unicast", "hotspot", "unicast"),
    Traffic("hot spot, to n/2", "hotspot", "uniform"),
    Traffic("request and reply", "request-reply", None),
)


def grid(scale: Scale) -> Grid:
    """Return the grid of simulations at a scale."""
    return grid_of(_scenarios(scale), warmup=0.5)


def _scenarios(scale: Scale) -> Iterator[Scenario]:
    for n in scale.sizes(COSTED_SIZES):
        for traffic in TRAFFIC:
            for protocol in (*COSTED, *(("bss",) if traffic.fanout == "broadcast" else ())):
                for seed in scale.seeds(1, 1, 5):
                    messages = planned(scale, n, traffic, protocol)
                    yield Scenario(protocol, n, messages, fanout=traffic.fanout, workload=traffic.workload, seed=seed)


def planned(scale: Scale, n: int, traffic: Traffic, protocol: str) -> int:
    """Return how many messages a run has."""
    wanted = settled(n, traffic) if scale.level != "full" else 4 * settled(n, traffic)
    cap = scale.pick(200, 7500, 10**9) if traffic.unicast else scale.pick(40, 500, 10**9)
    if protocol == "ech" and traffic.unicast:
        cap = scale.pick(200, 2500, 10**9)
    brief = 20 * n if traffic.unicast else max(60, n)
    return min(wanted, cap, brief) if protocol in BRIEF and scale.level != "full" else min(wanted, cap)


def settled(n: int, traffic: Traffic) -> int:
    """Return how many messages it takes until sizes have stopped growing, half of them measured."""
    return max(200, 4 * n * n if traffic.unicast else 10 * n)


def is_settled(row: Row, traffic: Traffic) -> bool:
    """Return whether a run was long enough; `ks` and `ci-dc` settle sooner on unicasts, and what is full is settled."""
    n = row["processes"]
    if row["protocol"] in ("rst", "bss") or (row["protocol"] == "ses" and row["entries_per_copy"] >= NEAR_FULL * n * n):
        return True
    enough = min(50 * n, settled(n, traffic)) if row["protocol"] in SOON and traffic.unicast else settled(n, traffic)
    return bool(row["messages"] >= enough)


# -- lines -----------------------------------------------------------------------------------------------------------


def of(data: DataSets, traffic: Traffic, n: int) -> DataRows:
    """Return the runs of one setting."""
    return rows_with(data["runs"], workload=traffic.workload, fanout=traffic.fanout, processes=n)


def line(data: DataSets, traffic: Traffic, n: int, protocol: str) -> Row:
    """Return one line of the table; None where there is no such number."""
    some = of(data, traffic, n)
    minimum = mean_of(rows_with(some, protocol="ks"), "facts_per_copy")
    own = rows_with(some, protocol="bss" if protocol == VECTOR else protocol)
    base = {"traffic": traffic.name, "n": n, "protocol": protocol, "minimum": minimum}
    if not own:
        if protocol != VECTOR:
            raise NoDataError(protocol)
        return base | _computed(n, minimum, rows_with(some, protocol="ks"))
    found: Row = {key: _maybe(own, key) for key in MEASURED}
    size = found["facts_per_copy"] or found["entries_per_copy"]
    settled = all(is_settled(row, traffic) for row in own)
    return base | found | {"ratio": size.mean / minimum.mean, "settled": settled}


def _computed(n: int, minimum: Estimate, same: DataRows) -> Row:
    """Return the line of a vector clock where it is not enough: n numbers on each copy."""
    copies = mean_of(same, "entries_per_message").mean / mean_of(same, "entries_per_copy").mean
    found: Row = dict.fromkeys(MEASURED)
    found |= {"entries_per_message": Estimate(n * copies, None, 1), "entries_per_copy": Estimate(float(n), None, 1)}
    found["paper_bytes_per_message"] = Estimate(4 * n * copies, None, 1)
    return found | {"ratio": n / minimum.mean, "settled": True}


def _maybe(rows: DataRows, measure: str) -> Estimate | None:
    return None if rows[0][measure] is None else mean_of(rows, measure)


def sizes_of(data: DataSets) -> list[int]:
    """Return the numbers of processes there are."""
    return sorted({row["processes"] for row in data["runs"]})


def table_for(data: DataSets, traffic: Traffic) -> ResultTable:
    """Return the table of one traffic."""
    rows: list[tuple[Cell, ...]] = []
    for n in sizes_of(data):
        for protocol in (*COSTED, VECTOR):
            each = line(data, traffic, n, protocol)
            texts = (_text(each[key]) for key in PLOTTED)
            mark = "" if each["settled"] else "cut short"
            rows.append((n, protocol, *texts, f"{each['ratio']:.1f}", mark))
    columns = ("n", "protocol", *(key.replace("_per_", "/").replace("_", " ") for key in PLOTTED), "× minimum", "")
    note = "Paper bytes: 4 a timestamp, 2 a process id; ± half a 95 % interval"
    if traffic.fanout != "broadcast":
        note += "; n numbers of a vector clock are not enough here"
    return ResultTable(traffic.name, columns, tuple(rows), note)


def _text(value: Estimate | None) -> str | None:
    return None if value is None else estimate_text(value)


def tables(data: DataSets) -> list[ResultTable]:
    """Return the summary at the largest n, then a table for each traffic."""
    most = max(sizes_of(data))
    rows: list[tuple[Cell, ...]] = []
    for traffic in TRAFFIC:
        each = {protocol: line(data, traffic, most, protocol) for protocol in (*COSTED, VECTOR)}
        ratios = (f"{found['ratio']:.1f}" + ("" if found["settled"] else "+") for found in each.values())
        rows.append((traffic.name, str(each["ks"]["minimum"]), *ratios))
    note = "Facts over the minimum; entries where stamps have no facts. + : run cut short, sizes may still be growing."
    head = ResultTable(
        f"Times the necessary minimum, n = {most}", ("traffic", "minimum", *COSTED, VECTOR), tuple(rows), note
    )
    return [head, *(table_for(data, traffic) for traffic in TRAFFIC)]


def plots(data: DataSets, draw: Drawing) -> dict[str, Figure]:
    """Return bytes per copy over n, for each traffic."""
    made: dict[str, Figure] = {}
    for name, some in (("even", TRAFFIC[:3]), ("other", TRAFFIC[3:])):
        drawn, panels = draw.figure(11.0, 3.8, columns=3)
        for panel, traffic in zip(panels, some, strict=True):
            rows = rows_with(data["runs"], workload=traffic.workload, fanout=traffic.fanout)
            lines = {p: curve(rows, "bytes_per_copy", protocol=p) for p in COSTED}
            if traffic.fanout == "broadcast":
                lines[VECTOR] = curve(rows, "bytes_per_copy", protocol="bss")
            draw.curves(panel, lines, x="n (dark ring: run cut short)", y="bytes of a stamp", log=True)
            cut = [row for row in rows if not is_settled(row, traffic)]
            sizes = [row["bytes_per_copy"] for row in cut]
            panel.scatter([row["processes"] for row in cut], sizes, 14, "white", edgecolors="#2e4057", zorder=5)
            panel.set_title(traffic.name, loc="left", fontsize=10)
        draw.legend(drawn, panels[2 if name == "even" else 0])
        made[f"costs-{name}"] = drawn
    return made


PAPER = Paper(
    "costs",
    "What no paper has: facts, entries and bytes of ks beside the others",
    (
        "Exponential delays of 50 ms, not FIFO, 10 messages a second of each process; one hot process gets 80 %; n/4 "
        "servers.",
        "Numbers in stamps grow with the run, and so do bytes, slowly, for each protocol; not by the papers' account.",
    ),
    (),
    tables,
    plots,
    grid,
    sizes=COSTED_SIZES,
)

"""What a stamp holds and costs from 10 to 1,000 processes, for the protocols one would use, and rst and bss.

Fan-outs of 1, n/10 and n/2, and broadcast, drawn evenly; every process sends ten messages a second on the mean, copies
travel 50 ms, exponentially distributed, in any order. For each row: entries, facts and bytes of the stamp of a copy,
the share of copies held and for how long, messages on the network for each message, and microseconds of processor time
that the members take for a copy (their part of the send included, the simulator not).

A first run of few messages tells how many fit into `--seconds`; half of those are left out as warm-up. Where logs still
grow, `growth` says by which factor entries rose from the third quarter of the run to the last: above 1.05 the row is a
lower bound, and above 1.2 it is left out of the plots. Sizes and waiting are the same on any machine for the same
number of messages; times are not.

Each row is written when it is there. Call the script again to go on; it ends after `--minutes`.

    python benchmarks/protocols/scale.py [--minutes 8] [--seconds 2] [--only ks,rst] [--out FILE]
    python benchmarks/protocols/scale.py --cell ks,1000,1,400000      one cell with that many messages
    python benchmarks/protocols/scale.py --plots      draw what is there, into docs/pictures
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from time import monotonic, thread_time
from typing import Any

from thence.core.model.message import Copy
from thence.lab.simulator import Scenario, simulate
from thence.lab.simulator.simulation import Observer, Simulation
from thence.show import plots

RESULTS = Path(__file__).parent / "results" / "scale.json"
PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
PLOTTED = {"bytes": "bytes a copy", "us_a_copy": "CPU microseconds a copy"}
SIZES = (10, 30, 100, 300, 1000)
PROTOCOLS = ("ks", "ks-hardware", "rst", "ks-ft", "fifo")
BROADCAST = ("bss", "ks", "rst")
COPIES = 2000
PARTS = 20
"""parts of a run in which entries are counted"""
MOST_MESSAGES = 50_000
MOST_NUMBERS = 40_000_000
"""numbers that all matrices of a run may hold: 300 processes have 27 million, 1,000 would have 1,000 million"""
LOGS = ("ks", "ks-hardware", "ks-ft")
"""protocols whose stamps grow until logs are full"""
SETTLED = 1.2
"""growth up to which a row of theirs is drawn, if each process sent a message on the mean"""
MOST_OKS = 150
"""largest fan-out of `ks-ft`, whose acknowledgements grow with its square"""


class Growth(Observer):
    """Entries a copy in each twentieth of the messages."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.parts = [[0, 0] for _ in range(PARTS)]

    def begin(self, simulation: Simulation) -> None:
        """Take what tells the parts from each other."""
        self.members, self.expected = simulation.members, simulation.scenario.messages
        self.number: dict[tuple[int, int], int] = {}

    def sent(self, now: float, process: int, sent: Any, asked: float) -> None:
        """Number the message."""
        self.number[sent.message.sender, sent.message.count] = len(self.number)

    def arrived(self, now: float, copy: Copy) -> None:
        """Count the entries of a copy."""
        part = self.parts[min(PARTS - 1, PARTS * self.number[copy.sender, copy.count] // max(1, self.expected))]
        part[0] += 1
        part[1] += self.members[copy.destination].entries(copy)

    @property
    def factor(self) -> float:
        """By which factor entries rose from the third quarter to the last."""
        third, last = self.parts[PARTS // 2 : 3 * PARTS // 4], self.parts[3 * PARTS // 4 :]
        (before, old), (after, new) = (map(sum, zip(*quarter, strict=True)) for quarter in (third, last))
        return (new / after) / (old / before) if before and after and old else 1.0

    @property
    def curve(self) -> list[float | None]:
        """Entries a copy, part by part."""
        return [round(entries / copies, 1) if copies else None for copies, entries in self.parts]


def cells() -> Iterator[tuple[str, int, int]]:
    """Yield protocol, processes and fan-out, small sizes first."""
    for n in SIZES:
        fanouts = sorted({1, max(2, n // 10), n // 2})
        yield from ((protocol, n, fanout) for fanout in fanouts for protocol in PROTOCOLS)
        yield from ((protocol, n, n - 1) for protocol in BROADCAST)


def key(row: dict[str, Any]) -> tuple[str, int, int]:
    """Return which cell a row is of."""
    return row["protocol"], row["n"], row["fanout"]


def impractical(protocol: str, n: int, fanout: int) -> str:
    """Say why a cell is not run; nothing if it is."""
    if protocol == "rst" and n**3 > MOST_NUMBERS:
        return f"{n} matrices of {n**2:,} numbers"
    if protocol == "ks-ft" and fanout > MOST_OKS:
        return f"{fanout**2:,} acknowledgements for a message"
    return ""


def run(protocol: str, n: int, fanout: int, messages: int) -> tuple[dict[str, Any], float]:
    """Run a cell; return its row and its seconds of processor time."""
    scenario = Scenario(protocol, n, messages, "broadcast" if fanout == n - 1 else str(fanout))
    growth, start = Growth(), thread_time()
    result = simulate(scenario, cpu=True, warmup=0.5, watch=(growth,))
    took = thread_time() - start
    measures, outcome, cpu = result.measures, result.outcome, result.cpu
    assert measures is not None
    assert cpu is not None
    assert measures.early == 0 or protocol == "fifo"
    facts = measures.mean("facts_per_copy")
    spent = sum(row["calls"] * (row["mean_us"] or 0.0) for row in cpu)
    row = {
        "protocol": protocol, "n": n, "fanout": fanout, "messages": outcome.messages,
        "entries": round(measures.mean("entries_per_copy") or 0, 1),
        "facts": None if facts is None else round(facts, 1),
        "bytes": round(measures.mean("bytes_per_copy") or 0, 1),
        "held": round(measures.mean("held_per_copy") or 0, 4),
        "hold_ms": round(1000 * (measures.mean("hold_per_copy") or 0), 2),
        "on_network": round((outcome.copies + sum(outcome.hops.values())) / max(1, outcome.messages), 1),
        "us_a_copy": round(spent / max(1, outcome.deliveries), 1), "growth": round(growth.factor, 2),
    } | ({"curve": growth.curve} if protocol in LOGS else {})  # fmt: skip
    return row, took


def measured(protocol: str, n: int, fanout: int, seconds: float) -> dict[str, Any]:
    """Choose how many messages fit, and run."""
    if why := impractical(protocol, n, fanout):
        return {"protocol": protocol, "n": n, "fanout": fanout, "not run": why}
    each = fanout**2 if protocol == "ks-ft" else fanout
    first = max(8, COPIES // each)
    row, took = run(protocol, n, fanout, first)
    more = min(MOST_MESSAGES, int(first * seconds / max(took, 0.01)))
    if more > 2 * first:
        row, took = run(protocol, n, fanout, more)
    return row | {"cpu_s": round(took, 1), "load": round(os.getloadavg()[0], 1)}


def settled(row: dict[str, Any]) -> bool:
    """Return whether a row shows what stamps come to: sizes are fixed, or the run was long enough for logs to fill."""
    if "not run" in row:
        return False
    return row["protocol"] not in LOGS or (row["messages"] >= row["n"] and row["growth"] <= SETTLED)


def draw(rows: list[dict[str, Any]], column: str, label: str, target: Path) -> None:
    """Draw a column over n, a panel for each kind of fan-out."""
    kinds = {"fan-out 1": lambda n: 1, "fan-out n/10": lambda n: max(2, n // 10), "fan-out n/2": lambda n: n // 2,
             "broadcast": lambda n: n - 1}  # fmt: skip
    made, panels = plots.figure(11.0, 3.4, columns=len(kinds))
    names = (*PROTOCOLS, "bss")
    for panel, (kind, fanout) in zip(panels, kinds.items(), strict=True):
        for number, name in enumerate(names):
            own = [row for row in rows if row["protocol"] == name and row["fanout"] == fanout(row["n"])]
            mine = [row for row in own if settled(row)]
            if mine:
                panel.plot([row["n"] for row in mine], [row[column] for row in mine], color=plots.COLORS[number],
                           marker=plots.MARKERS[number], label=name)  # fmt: skip
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_title(kind)
        panel.set_xlabel("processes")
    panels[0].set_ylabel(label)
    panels[0].legend(frameon=False)
    panels[-1].legend(frameon=False)
    target.write_bytes(plots.svg(made))


def draw_growth(rows: list[dict[str, Any]], target: Path) -> None:
    """Draw how entries of `ks` grow with the messages of each process, over what they come to."""
    kinds = {"fan-out 1": lambda n: 1, "fan-out n/10": lambda n: max(2, n // 10), "fan-out n/2": lambda n: n // 2,
             "broadcast": lambda n: n - 1}  # fmt: skip
    made, panels = plots.figure(11.0, 3.4, columns=len(kinds))
    for panel, (kind, fanout) in zip(panels, kinds.items(), strict=True):
        for number, n in enumerate(SIZES):
            curves = [row for row in rows if key(row) == ("ks", n, fanout(n)) and "curve" in row and settled(row)]
            for row in curves:
                came_to = sum(row["curve"][PARTS // 2 :]) / (PARTS - PARTS // 2)
                each = row["messages"] / PARTS / n
                panel.plot([each * (part + 0.5) for part in range(PARTS)], [value / came_to for value in row["curve"]],
                           color=plots.COLORS[number], marker=plots.MARKERS[number], label=f"n = {n:,}")  # fmt: skip
        panel.set_xscale("log")
        panel.set_title(kind)
        panel.set_xlabel("messages a process has sent")
        panel.legend(frameon=False)
    panels[0].set_ylabel("entries, over the last half's")
    target.write_bytes(plots.svg(made))


def main() -> None:
    """Measure what is missing, for as long as wanted, or draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--plots", action="store_true")
    parser.add_argument("--only", default=",".join({*PROTOCOLS, *BROADCAST}), help="protocols to measure")
    parser.add_argument("--cell", help="measure one cell anew, however long it takes: ks,1000,1,400000 (messages last)")
    chosen = parser.parse_args()
    rows = json.loads(chosen.out.read_text(encoding="utf-8"))["rows"] if chosen.out.exists() else []
    if chosen.plots:
        for column, label in PLOTTED.items():
            draw(rows, column, label, PICTURES / f"scale-{column.split('_')[0]}.svg")
        draw_growth(rows, PICTURES / "scale-growth.svg")
        return
    if chosen.cell:
        protocol, *numbers = chosen.cell.split(",")
        n, fanout, messages = map(int, numbers)
        row, took = run(protocol, n, fanout, messages)
        row |= {"cpu_s": round(took, 1), "load": round(os.getloadavg()[0], 1)}
        print(row, flush=True)
        # Others may have been written in the meantime.
        rows = json.loads(chosen.out.read_text(encoding="utf-8"))["rows"] if chosen.out.exists() else []
        kept = [row if key(each) == key(row) else each for each in rows]
        kept += [row] if row not in kept else []
        chosen.out.write_text(json.dumps({"rows": kept}, indent=1) + "\n", encoding="utf-8")
        return
    done, until = {key(row) for row in rows}, monotonic() + 60 * chosen.minutes
    for cell in cells():
        if cell in done or cell[0] not in chosen.only.split(","):
            continue
        if monotonic() > until:
            print("call again to go on")
            return
        rows.append(measured(*cell, chosen.seconds))
        print(rows[-1], flush=True)
        chosen.out.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

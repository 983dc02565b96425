"""Broadcast with constant stamps beside vectors and logs: bytes, copies and delay of pc-broadcast, bss and ks.

Every process broadcasts, on the mean, ten messages a second; copies travel 50 ms, exponentially distributed, over FIFO
channels, the same for all protocols. `bss` and `ks` send each copy straight to its destination. `pc-broadcast` floods
an overlay: a ring with random chords, up to the mean number of neighbours in the column `degree`. In the rows with
`opened` each process opens one link, on the mean, while the messages travel.

Counts and simulated times: the same on any machine. Bytes of a message are those of all its copies, forwards and pings
included, without payload; a payload crosses the network as often as `copies` says.

    python benchmarks/protocols/broadcast.py [--out FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from thence.core.model.message import Copy
from thence.core.model.roster import Roster
from thence.core.protocols.effects import Sent
from thence.lab.simulator import Scenario, simulate
from thence.lab.simulator.simulation import Observer, Simulation

RESULTS = Path(__file__).parent / "results" / "broadcast.json"
SIZES = {10: 1000, 30: 500, 100: 500}
"""messages for each number of processes"""
DEGREES = (2, 4, 8)


def overlay(processes: int, degree: int) -> str:
    """Return a ring with random chords as the text of the option `overlay`."""
    rng, names = Random(f"{processes} {degree}"), Roster.of(processes).names
    links = {(place, (place + 1) % processes) for place in range(processes)}
    while len(links) * 2 < degree * processes:
        one, other = sorted(rng.sample(range(processes), 2))
        if (other, one) not in links:
            links.add((one, other))
    near: dict[str, list[str]] = {}
    for one, other in sorted(links):
        near.setdefault(names[one], []).append(names[other])
    return ";".join(f"{name}:{','.join((*others, ''))}" for name, others in near.items())


class Traffic(Observer):
    """Counts every copy that is handed to the network, and its bytes."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.copies = self.bytes = 0

    def begin(self, simulation: Simulation) -> None:
        """Take the members, which encode."""
        self.members = simulation.members

    def sent(self, now: float, process: int, sent: Sent, asked: float) -> None:
        """Count the copies of a send."""
        self.count(sent.copies)

    def hops_sent(self, now: float, copies: Sequence[Copy]) -> None:
        """Count what is forwarded."""
        self.count(copies)

    def count(self, copies: Sequence[Copy]) -> None:
        """Count copies."""
        self.copies += len(copies)
        self.bytes += sum(len(self.members[copy.source].encode(copy)) for copy in copies)


def row(protocol: str, processes: int, degree: int = 0, links: int = 0) -> dict[str, Any]:
    """Run one scenario."""
    options = (("overlay", overlay(processes, degree)),) if degree else ()
    scenario = Scenario(
        protocol, processes, SIZES[processes], "broadcast", fifo=True, links=links, options=options
    )  # fmt: skip
    traffic = Traffic()
    result = simulate(scenario, watch=(traffic,))
    measures, outcome = result.measures, result.outcome
    assert measures is not None
    assert measures.early == 0
    assert not outcome.stuck
    return {
        "protocol": protocol, "n": processes, "degree": degree, "opened": outcome.hops["pong"],
        "messages": outcome.messages, "bytes a copy": round(measures.mean("bytes_per_copy") or 0, 1),
        "entries a copy": round(measures.mean("entries_per_copy") or 0, 1),
        "copies": round(traffic.copies / outcome.messages, 1),
        "bytes a message": round(traffic.bytes / outcome.messages),
        "delay": round(1000 * (measures.mean("latency_per_copy") or 0)),
        "held": round(measures.mean("held_per_copy") or 0, 3), "pings": outcome.hops["ping"],
        "buffered at most": measures.log_size_max if degree else 0,
    }  # fmt: skip


def measured() -> list[dict[str, Any]]:
    """Return all rows."""
    rows = []
    for processes in SIZES:
        rows += [row("bss", processes), row("ks", processes)]
        rows += [row("pc-broadcast", processes, degree) for degree in DEGREES]
        rows.append(row("pc-broadcast", processes, DEGREES[1], links=processes))
    return rows


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    rows = measured()
    chosen.out.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")
    for each in rows:
        print(each)


if __name__ == "__main__":
    main()

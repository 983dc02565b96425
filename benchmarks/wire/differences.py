"""Bytes of `ks` stamps on FIFO links: whole in wire versions 1 and 2, and as differences from the copy before.

Means over the copies of the second half of simulated runs, whole stamps with their headers; the same on any machine.
*Smaller of both* takes for each copy the whole stamp or the difference in version 2, whichever is smaller, and a byte
that says which. `bursts:B,S` has processes that talk for B seconds on the mean and are silent for S; `stream` has one
process that sends 50 messages to the same n/2 processes before the next one does.

    python benchmarks/wire/differences.py [--out FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from thence.core.model.message import Copy
from thence.core.model.roster import Roster
from thence.core.protocols.effects import Sent
from thence.core.protocols.ks import KS
from thence.core.protocols.wire import encode
from thence.lab.papers.differences import KSDifferences, difference
from thence.lab.simulator.scenario import Scenario
from thence.lab.simulator.simulation import Observer, Simulation

RESULTS = Path(__file__).parent / "results" / "differences.json"
RUNS = (
    (8, "poisson", "unicast", 2000), (8, "poisson", "uniform", 600), (30, "poisson", "unicast", 5000),
    (30, "poisson", "uniform", 400), (30, "request-reply", None, 4000), (30, "bursts:1,30", "uniform", 400),
    (100, "poisson", "uniform", 400), (30, "stream", "uniform", 1500),
)  # fmt: skip
TALK = 50


class Sizes(Observer):
    """Adds up the sizes of what is sent after the first half of a run."""

    def __init__(self, n: int, skip: int) -> None:
        """Leave out the first messages."""
        self.roster, self.skip = Roster.of(n), skip
        self.messages = self.copies = 0
        self.last: dict[tuple[int, int], tuple[int, Any]] = {}
        self.totals = dict.fromkeys(("entries", "version_1", "version_2", "difference_1", "difference_2", "smaller"), 0)

    def sent(self, now: float, process: int, sent: Sent, asked: float) -> None:
        """Measure each copy."""
        self.messages += 1
        for copy in sent.copies:
            link = (copy.source, copy.destination)
            count, before = self.last.get(link, (0, KS(self.roster, 0).log))
            self.last[link] = (copy.count, copy.stamp)
            if self.messages > self.skip:
                stamp = (count, *difference(before, copy.stamp))
                self.add(copy, Copy(copy.sender, copy.count, copy.destinations, *link, stamp))

    def add(self, whole: Copy, differing: Copy) -> None:
        """Add the sizes of one copy in each form."""
        ways = [(KS, whole, 1), (KS, whole, 2), (KSDifferences, differing, 1), (KSDifferences, differing, 2)]
        sizes = [len(encode(kind, copy, self.roster, version)) for kind, copy, version in ways]
        self.copies += 1
        for name, size in zip(self.totals, [whole.stamp.entries, *sizes, 1 + min(sizes[1], sizes[3])], strict=True):
            self.totals[name] += size

    def row(self) -> dict[str, float]:
        """Return the means."""
        return {name: round(total / self.copies, 1) for name, total in self.totals.items()}


def streams(n: int, messages: int) -> Iterator[tuple[int, int]]:
    """Yield senders and destinations: one process talks to the same others for a while, then the next."""
    chance = Random(1)
    while messages > 0:
        sender = chance.randrange(n)
        to = sum(1 << place for place in chance.sample([p for p in range(n) if p != sender], n // 2))
        for _ in range(min(TALK, messages)):
            yield sender, to
        messages -= TALK


def measured(n: int, workload: str, fanout: str | None, messages: int) -> dict[str, Any]:
    """Run one kind of traffic and measure its stamps."""
    sizes = Sizes(n, messages // 2)
    if workload == "stream":
        members = [KS(sizes.roster, place) for place in range(n)]
        for sender, to in streams(n, messages):
            sent = members[sender].send(to)
            assert isinstance(sent, Sent)
            sizes.sent(0.0, sender, sent, 0.0)
            for copy in sent.copies:
                members[copy.destination].receive(copy)
    else:
        Simulation(Scenario("ks", n, messages, fanout=fanout, workload=workload, fifo=True), sizes).run()
    return {"n": n, "workload": workload, "fanout": fanout or "", "copies": sizes.copies, **sizes.row()}


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    rows = [measured(*each) for each in RUNS]
    for row in rows:
        print(row)
    chosen.out.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

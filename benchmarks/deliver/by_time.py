"""What people do instead: sort by timestamp. How often that is wrong, by the definition, when clocks differ a little.

    python benchmarks/deliver/by_time.py

Writes results/by_time.json. A simulated run (8 processes, delays of 50 ms on the mean) is delivered once more at
a sink beside each process: in the order of the timestamps, each clock off by up to `skew` seconds, and through
`Orderer` on minimal stamps made from the trace.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from thence import Orderer
from thence.core.model.events import Event
from thence.core.model.order import judge
from thence.lab.simulator import Scenario, simulate
from thence.tables.delivery.minimal_stamps import stamp_run

HERE = Path(__file__).parent
SEED, MESSAGES = 1, 400


def with_sinks(events: list[Event]) -> list[Event]:
    return [
        replace(e, destinations=(*(e.destinations or ()), *(f"{d} sink" for d in e.destinations or ())))
        if e.kind == "send"
        else e
        for e in events
    ]


def delivered(events: list[Event], orders: dict[str, list[str]]) -> list[Event]:
    more = [
        Event(events[0].run, sink, place, "deliver", message)
        for sink, messages in orders.items()
        for place, message in enumerate(messages, 1)
    ]
    return [replace(e, order=None) for e in events] + more


def main() -> None:
    result = simulate(Scenario(protocol="ks", processes=8, messages=MESSAGES, seed=SEED), trace=True, measure=False)
    events = with_sinks([e for e in result.events if e.kind in ("send", "deliver")])
    copies = sum(len(e.destinations or ()) for e in events if e.kind == "send") // 2
    told: dict[str, Any] = {"messages": MESSAGES, "copies at sinks": copies, "seed": SEED, "violations": {}}
    for skew in (0.0, 0.01, 0.05, 0.2):
        rng = Random(SEED)
        off: dict[str, float] = defaultdict(lambda rng=rng, skew=skew: rng.uniform(-skew, skew))  # type: ignore[misc]
        sends = sorted((e for e in events if e.kind == "send"), key=lambda e: (e.time or 0.0) + off[e.process])
        orders: dict[str, list[str]] = defaultdict(list)
        for e in sends:
            for d in e.destinations or ():
                if d.endswith("sink"):
                    orders[d].append(e.message or "")
        told["violations"][f"orderBy time, clocks off by up to {skew} s"] = len(
            judge(delivered(events, orders)).violations
        )
    rows = [s._asdict() for s in stamp_run(events) if s.destination.endswith("sink")]
    Random(SEED).shuffle(rows)
    orders = defaultdict(list)
    for row in Orderer("depends_on").deliver(rows):
        assert row["outcome"] == "delivered"
        orders[row["destination"]].append(row["message"])
    told["violations"]["deliver"] = len(judge(delivered(events, orders)).violations)
    (HERE / "results" / "by_time.json").write_text(json.dumps(told, indent=2) + "\n")
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()

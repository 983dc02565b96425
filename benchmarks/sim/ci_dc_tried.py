"""What would make the simulator faster, and by how much: the event queue, recording off, batches of copies.

Runs of the ci-dc experiment at n = 30. *Recording off*: the same run without measures. *A free queue*: what the heap
takes is measured by replaying its pushes and pops alone; the factor is what a queue that costs nothing would give, so
no other queue gives more. *Batches of copies*: the same replay with one event for each message, which holds its copies
by arrival and goes back onto the heap for the next; the factor is what the run would gain. Processor time of the
thread; the ratios are of runs right after each other.

    python benchmarks/sim/ci_dc_tried.py [--messages 600] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
from heapq import heappop, heappush
from pathlib import Path
from time import thread_time
from typing import Any

from thence.core.model.message import Copy
from thence.lab.simulator import Scenario, simulate, simulation

RESULTS = Path(__file__).parent / "results" / "ci_dc_tried.json"
PROTOCOLS = ("ks", "ci-dc", "rst", "prs")
N = 30
ROUNDS = 3

Entry = tuple[float, int, Any]
Batch = tuple[float, int, list[Entry]]
"""arrival of the first copy, its tick, the copies that are left, last first"""


def queue_log(scenario: Scenario) -> list[Entry | None]:
    """Run a scenario and return what its queue did: the entry of each push, None for each pop."""
    log: list[Entry | None] = []

    def pushed(heap: list[Entry], entry: Entry) -> None:
        log.append(entry)
        heappush(heap, entry)

    def popped(heap: list[Entry]) -> Entry:
        log.append(None)
        return heappop(heap)

    kept = simulation.heappush, simulation.heappop
    simulation.heappush, simulation.heappop = pushed, popped  # type: ignore[assignment]
    try:
        simulate(scenario, measure=False)
    finally:
        simulation.heappush, simulation.heappop = kept
    return log


def plain(log: list[Entry | None]) -> float:
    """Return the seconds that the queue alone takes."""
    heap: list[Entry] = []
    start = thread_time()
    for entry in log:
        if entry is None:
            heappop(heap)
        else:
            heappush(heap, entry)
    return thread_time() - start


def batched(log: list[Entry | None]) -> float:
    """Return the seconds of a queue with one event for each message."""
    batches: list[Batch | None] = []
    previous: tuple[int, int] | None = None
    for entry in log:
        if entry is None:
            batches.append(None)
            previous = None
            continue
        item = entry[2]
        message = (item.sender, item.count) if isinstance(item, Copy) else None
        if message is not None and message == previous and batches[-1] is not None:
            batches[-1][2].append(entry)
        else:
            batches.append((entry[0], entry[1], [entry]))
        previous = message
    heap: list[Batch] = []
    start = thread_time()
    for batch in batches:
        if batch is not None:
            left = batch[2]
            if len(left) > 1:
                left.sort(reverse=True)
            heappush(heap, (left[-1][0], left[-1][1], left))
        else:
            _, _, left = heappop(heap)
            left.pop()
            if left:
                heappush(heap, (left[-1][0], left[-1][1], left))
    return thread_time() - start


def seconds_of(scenario: Scenario, *, measure: bool) -> float:
    """Return the processor time of a run."""
    start = thread_time()
    simulate(scenario, measure=measure)
    return thread_time() - start


def case(protocol: str, mode: str, messages: int) -> dict[str, Any]:
    """Measure one protocol and way of sending; the least of several rounds, in turns."""
    fanout = "unicast" if mode == "unicast" else "uniform"
    scenario = Scenario(protocol, N, messages * (10 if mode == "unicast" else 1), fanout=fanout)
    log = queue_log(scenario)
    rounds = [
        (seconds_of(scenario, measure=True), seconds_of(scenario, measure=False), plain(log), batched(log))
        for _ in range(ROUNDS)
    ]
    measured, bare, queue, batches = (min(each[place] for each in rounds) for place in range(4))
    return {
        "protocol": protocol, "mode": mode, "messages": scenario.messages,
        "recording_off": round(measured / bare, 2),
        "free_queue": round(measured / (measured - queue), 3),
        "batches_of_copies": round(measured / (measured - queue + batches), 3),
    }  # fmt: skip


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=600)
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    rows = []
    for protocol in PROTOCOLS:
        for mode in ("multicast", "unicast"):
            rows.append(case(protocol, mode, chosen.messages))
            print(rows[-1], flush=True)
    found = {"n": N, "rows": rows, "load": round(os.getloadavg()[0], 1)}
    chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

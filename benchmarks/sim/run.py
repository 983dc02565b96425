"""Simulated deliveries per second for each protocol at n = 10, 30, 50, and the same scenario written for SimPy.

Three tables: `simulation`, the bare run, with the shares of it that the members' `send` and `receive` take (the rest is
the driver: heap, delays, workload); `simpy`, ours against `simpy_twin.py` with the same members; `recorded`, messages
per second at n = 8 with everything on (measures, trace written). Processor time of the thread, best of a few rounds,
ours and theirs in turn: read the ratios. `ech-r9` runs on two halves that one process parts.

    python benchmarks/sim/run.py [--quick] [--work N] [--out FILE] [--only ks,rst]

With `--only` the other rows of the file stay as they are, and each new row says under which load it was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import thread_time
from typing import Any

from simpy_twin import Twin

from thence.core.model.roster import Roster
from thence.core.protocols.registry import REGISTRY, lookup
from thence.errors import MisuseError
from thence.lab.simulator import Scenario, Simulation, simulate
from thence.lab.simulator.cpu import CpuClock

RESULTS = Path(__file__).parent / "results" / "sim.json"
SIZES = (10, 30, 50)
RECORDED = 1000


def scenario_for(protocol: str, processes: int, messages: int) -> Scenario | None:
    """Return the scenario of a protocol: uniform fan-out unless it needs another; None if none can run."""
    needs = lookup(protocol).needs
    fanout = "broadcast" if "broadcast only" in needs else "unicast" if "unicast only" in needs else "uniform"
    scenario = Scenario(
        protocol=protocol,
        processes=processes,
        messages=messages,
        fanout=fanout,
        fifo="fifo" in needs,
        bound=1 << 20 if protocol == "bounded" else None,
        options=(("separators", halves(processes)),) if "topology" in needs else (),
    )
    try:
        scenario.check()
    except MisuseError:
        return None
    return scenario


def halves(processes: int) -> str:
    """Return separators, both ways, by which the process in the middle parts those before it from those after it."""
    names, middle = Roster.of(processes).names, processes // 2
    before, after = ",".join(names[:middle]), ",".join(names[middle + 1 :])
    return f"{names[middle]}:{before}|{after};{names[middle]}:{after}|{before}"


def messages_for(scenario: Scenario, deliveries: int) -> int:
    """Return how many messages make about so many deliveries; fewer where every destination answers every other."""
    if "failure detector" in scenario.entry.needs:
        deliveries //= scenario.processes
    near = scenario.processes // 2 if scenario.reach else scenario.processes
    each = {"unicast": 1.0, "broadcast": near - 1.0}.get(scenario.fanout or "", near / 2)
    return max(20, int(deliveries / each))


def timed(work: Callable[[], int]) -> float:
    """Return how many of something per second of processor time."""
    start = thread_time()
    done = work()
    return done / (thread_time() - start)


def engine_row(scenario: Scenario, rounds: int) -> dict[str, Any]:
    """Measure one protocol at one size."""
    best = max(timed(lambda: Simulation(scenario).run().deliveries) for _ in range(rounds))
    clock = CpuClock(scenario.members())
    simulation = Simulation(scenario, members=clock.members)
    start = thread_time()
    outcome = simulation.run()
    readings = sum(map(len, clock.times.values()))
    whole = thread_time() - start - 2 * readings * clock.idle / 1e9
    spent = {name: clock.seconds(name) for name in clock.times}
    return {
        "protocol": scenario.protocol,
        "n": scenario.processes,
        "fanout": scenario.fanout,
        "messages": scenario.messages,
        "deliveries": outcome.deliveries,
        "hops": sum(outcome.hops.values()),
        "deliveries_per_s": round(best),
        "us_per_delivery": round(1e6 / best, 2),
        "send_share": round(spent["send"] / whole, 2),
        "receive_share": round(spent["receive"] / whole, 2),
    }


def simpy_row(protocol: str, processes: int, messages: int, rounds: int) -> dict[str, Any]:
    """Measure ours and both SimPy styles in turn."""
    scenario = Scenario(protocol=protocol, processes=processes, messages=messages)
    ours = store = callback = 0.0

    def twin(style: str) -> int:
        return Twin(protocol, processes, messages, 10.0, 0.05, "uniform").run(style)

    for _ in range(rounds):
        ours = max(ours, timed(lambda: Simulation(scenario).run().deliveries))
        store = max(store, timed(lambda: twin("store")))
        callback = max(callback, timed(lambda: twin("callback")))
    return {
        "protocol": protocol,
        "n": processes,
        "messages": messages,
        "ours_per_s": round(ours),
        "simpy_store_per_s": round(store),
        "simpy_callback_per_s": round(callback),
        "ratio": round(ours / store, 2),
        "ratio_to_callback": round(ours / callback, 2),
    }


def recorded_row(scenario: Scenario, rounds: int) -> dict[str, Any]:
    """Measure messages per second with measures on and the trace written."""

    def work(path: Path) -> int:
        result = simulate(scenario, trace=True)
        assert result.recorder is not None
        result.recorder.write(path)
        return result.outcome.messages

    with tempfile.TemporaryDirectory() as folder:
        lines = max(timed(lambda: work(Path(folder) / "trace.jsonl")) for _ in range(rounds))
        parquet = max(timed(lambda: work(Path(folder) / "trace.parquet")) for _ in range(rounds))
    return {
        "protocol": scenario.protocol,
        "n": scenario.processes,
        "fanout": scenario.fanout,
        "jsonl_messages_per_s": round(lines),
        "parquet_messages_per_s": round(parquet),
    }


def main() -> None:
    """Measure and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, for a look")
    parser.add_argument("--work", type=int, default=15_000, help="deliveries in each run")
    parser.add_argument("--only", default="", help="protocols, separated by commas")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    names = options.only.split(",") if options.only else list(REGISTRY)
    rounds, work = (2, 3000) if options.quick else (3, options.work)
    result: dict[str, Any] = {
        "command": " ".join(["python benchmarks/sim/run.py", *sys.argv[1:]]),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "load_average_at_start": round(os.getloadavg()[0], 1),
        "simulation": [],
        "simpy": [],
        "recorded": [],
    }

    def add(table: str, row: dict[str, Any]) -> None:
        result[table].append(row)
        print(table, *(f"{key}={value}" for key, value in row.items()), file=sys.stderr)

    for n in SIZES if not options.only else ():
        for protocol in ("unordered", "ks"):
            add("simpy", simpy_row(protocol, n, work * 4 // n, rounds + 2))
    for name in names:
        for n in SIZES:
            scenario = scenario_for(name, n, 1)
            if scenario is not None:
                add("simulation", engine_row(scenario.with_(messages=messages_for(scenario, work)), rounds))
        scenario = scenario_for(name, 8, RECORDED // 10 if options.quick else RECORDED)
        if scenario is not None:
            add("recorded", recorded_row(scenario, rounds))
    if options.only and options.out.exists():
        result = joined(json.loads(options.out.read_text()), result)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")


def joined(before: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Return what was measured before with new rows in the place of the old ones, in the order of the registry."""
    order, load = list(REGISTRY), new["load_average_at_start"]
    for table in ("simulation", "recorded"):
        rows = [row | {"load_average": load} for row in new[table]]
        measured = {row["protocol"] for row in rows}
        rows += [row for row in before[table] if row["protocol"] not in measured]
        before[table] = sorted(rows, key=lambda row: order.index(row["protocol"]))
    return before


if __name__ == "__main__":
    main()

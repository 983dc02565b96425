"""Simulator and explorer beside an earlier version: CPU seconds of the same work, both versions in turn.

    python benchmarks/sim/before.py --before FOLDER --package NAME [--rounds 5] [--out FILE]

Each version runs in a process of its own. `ratio` is the median over the rounds of the earlier seconds divided by
ours, so above 1 we are faster. Simulations are bare (no measures, no trace); explorations visit the same states.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

RESULTS = Path(__file__).parent / "results" / "before.json"
HERE = Path(__file__).parents[2] / "src"
MESSAGES = {8: 600, 32: 150}
FANOUTS = {"bss": "broadcast", "acked": "unicast"}
"""of protocols that take no other"""
SIMULATED = ("ks", "ks-hardware", "ci-dc", "rst", "bss", "ses", "history", "acked", "central", "a-causal", "ks-ft")
EXPLORED: list[dict[str, Any]] = [
    {"protocol": "ks", "processes": 3, "messages": 4},
    {"protocol": "ks", "processes": 3, "messages": 3, "destinations": "any"},
    {"protocol": "ci-dc", "processes": 3, "messages": 4},
    {"protocol": "rst", "processes": 3, "messages": 4},
    {"protocol": "epochs", "processes": 3, "messages": 4},
    {"protocol": "a-causal", "processes": 3, "messages": 2, "crashes": 1},
    {"protocol": "ks-ft", "processes": 3, "messages": 2, "crashes": 1},
]
WORK = """
import importlib, json, sys
from time import thread_time
folder, package = sys.argv[1:]
sys.path.insert(0, folder)
try:
    sim = importlib.import_module(f"{package}.lab.simulator")
    search, setting = (importlib.import_module(f"{package}.lab.explorer.{name}") for name in ("search", "setting"))
except ModuleNotFoundError:  # what version 0.1.0 called them
    sim = importlib.import_module(f"{package}.sim")
    search, setting = (importlib.import_module(f"{package}.check.{name}") for name in ("search", "setting"))
for line in sys.stdin:
    what, given = json.loads(line)
    start = thread_time()
    if what == "simulate":
        found = sim.simulate(sim.Scenario(**given), trace=False, measure=False).outcome.deliveries
    else:
        found = search.explore(setting.Setting(**given)).states
    print(json.dumps([thread_time() - start, found]), flush=True)
"""


class Version:
    """A version of the package in a process of its own."""

    def __init__(self, folder: Path, package: str) -> None:
        """Start it."""
        command = [sys.executable, "-c", WORK, str(folder), package]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, what: str, given: dict[str, Any]) -> tuple[float, int]:
        """Return the CPU seconds of one piece of work, and what it counted."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([what, given]), file=self.process.stdin, flush=True)
        spent, count = json.loads(self.process.stdout.readline())
        return spent, count


def work() -> list[tuple[str, dict[str, Any]]]:
    """Return what is measured."""
    runs = [
        {"protocol": name, "processes": n, "messages": count, "fanout": FANOUTS.get(name, "uniform")}
        for n, count in MESSAGES.items()
        for name in SIMULATED
    ]
    for run in runs:
        if run["fanout"] == "unicast":
            run["messages"] *= 10  # or it takes a few milliseconds
    return [*(("simulate", run) for run in runs), *(("explore", each) for each in EXPLORED)]


def measured(now: Version, before: Version, what: str, given: dict[str, Any], rounds: int) -> dict[str, Any]:
    """Return the row of one piece of work."""
    now.seconds(what, given), before.seconds(what, given)  # imports, and what is compiled on first use
    taken = [(now.seconds(what, given), before.seconds(what, given)) for _ in range(rounds)]
    (ours, counted), (theirs, other) = (min(each) for each in zip(*taken, strict=True))
    ratio = median(b / a for (a, _), (b, _) in taken)
    row = {"what": what, **given, "count": counted, "cpu_seconds": round(ours, 3), "before": round(theirs, 3)}
    return row | {"ratio": round(ratio, 2)} | ({} if counted == other else {"count_before": other})


def main() -> None:
    """Measure in turn and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="folder that holds an earlier package")
    parser.add_argument("--package", default="thence", help="what the earlier package is called")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    now, before = Version(HERE, "thence"), Version(asked.before, asked.package)
    rows = []
    for what, given in work():
        row = measured(now, before, what, given, asked.rounds)
        print(row, flush=True)
        rows.append(row)
    about = {"about": __doc__.splitlines()[0], "python": platform.python_version(), "rounds": asked.rounds}
    asked.out.write_text(
        json.dumps({**about, "load_average_at_end": os.getloadavg()[0], "rows": rows}, indent=1) + "\n"
    )


if __name__ == "__main__":
    main()

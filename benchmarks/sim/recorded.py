"""Recorded messages per second at n = 8 of the multicasts that survive crashes, beside an earlier version.

Each version runs in a process of its own, both in turn, and the best of several rounds counts; processor time of the
thread, the trace written, with what `thence simulate` measures beside it and without. Read the ratio: the machine may
be shared.

    python benchmarks/sim/recorded.py --before FOLDER --package NAME [--messages 400] [--rounds 20] [--out FILE]
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

RESULTS = Path(__file__).parent / "results" / "recorded.json"
HERE = Path(__file__).parents[2] / "src"
PROTOCOLS = ("a-fifo", "a-causal", "ks-ft")
WORK = """
import importlib, sys, tempfile
from pathlib import Path
from time import thread_time
folder, package, messages = sys.argv[1], sys.argv[2], int(sys.argv[3])
sys.path.insert(0, folder)
try:
    sim = importlib.import_module(f"{package}.lab.simulator")
except ModuleNotFoundError:  # what version 0.1.0 called it
    sim = importlib.import_module(f"{package}.sim")
with tempfile.TemporaryDirectory() as place:
    for line in sys.stdin:
        protocol, measure = line.split()
        scenario = sim.Scenario(protocol=protocol, processes=8, messages=messages, fanout="uniform")
        start = thread_time()
        result = sim.simulate(scenario, trace=True, measure=measure == "measured")
        result.recorder.write(Path(place) / "trace.jsonl")
        print(messages / (thread_time() - start), flush=True)
"""


class Version:
    """A version of the package in a process of its own."""

    def __init__(self, folder: Path, package: str, messages: int) -> None:
        command = [sys.executable, "-c", WORK, str(folder), package, str(messages)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def rate(self, protocol: str, how: str) -> float:
        """Return the messages per second of one run."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(protocol, how, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def main() -> None:
    """Measure in turn and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="folder that holds an earlier package")
    parser.add_argument("--package", default="thence", help="what the earlier package is called")
    parser.add_argument("--messages", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    now = Version(HERE, "thence", options.messages)
    before = Version(options.before, options.package, options.messages)
    rows = []
    for how in ("measured", "trace only"):
        for protocol in PROTOCOLS:
            rates = [
                (now.rate(protocol, how.split()[0]), before.rate(protocol, how.split()[0]))
                for _ in range(options.rounds)
            ]
            best, old = (max(column) for column in zip(*rates, strict=True))
            ratio = median(one / other for one, other in rates)
            rows.append({"protocol": protocol, "n": 8, "how": how, "messages_per_s": round(best), "before": round(old),
                         "median_ratio": round(ratio, 2)})  # fmt: skip
            print(rows[-1], file=sys.stderr)
    load = round(os.getloadavg()[0], 1)
    table = {"about": __doc__.splitlines()[0], "python": platform.python_version(), "load_average_at_end": load}
    options.out.write_text(json.dumps(table | {"rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

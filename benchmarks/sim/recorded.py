"""Recorded messages per second at n = 8 of the multicasts that survive crashes, beside an earlier version.

Each version runs in a process of its own, in turn, and the best of several rounds counts; processor time of the thread,
measures on, the trace written. Read the ratio: the machine may be shared.

    python benchmarks/sim/recorded.py --before FOLDER --package NAME [--messages 400] [--rounds 3] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "recorded.json"
HERE = Path(__file__).parents[2] / "src"
PROTOCOLS = ("a-fifo", "a-causal", "ks-ft")
WORK = """
import importlib, sys, tempfile
from pathlib import Path
from time import thread_time
folder, package, protocol, messages = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
sys.path.insert(0, folder)
sim = importlib.import_module(f"{package}.sim")
scenario = sim.Scenario(protocol=protocol, processes=8, messages=messages, fanout="uniform")
best = 0.0
with tempfile.TemporaryDirectory() as place:
    for _ in range(3):
        start = thread_time()
        sim.simulate(scenario, trace=True).recorder.write(Path(place) / "trace.jsonl")
        best = max(best, messages / (thread_time() - start))
print(best)
"""


def rate(folder: Path, package: str, protocol: str, messages: int) -> float:
    """Return the best of three runs."""
    command = [sys.executable, "-c", WORK, str(folder), package, protocol, str(messages)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Measure in turn and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="folder that holds an earlier package")
    parser.add_argument("--package", default="thence", help="what the earlier package is called")
    parser.add_argument("--messages", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = []
    for protocol in PROTOCOLS:
        now = before = 0.0
        for _ in range(options.rounds):
            now = max(now, rate(HERE, "thence", protocol, options.messages))
            before = max(before, rate(options.before, options.package, protocol, options.messages))
        rows.append({"protocol": protocol, "n": 8, "messages_per_s": round(now), "before": round(before),
                     "ratio": round(now / before, 2)})  # fmt: skip
        print(rows[-1], file=sys.stderr)
    load = round(os.getloadavg()[0], 1)
    table = {"about": __doc__.splitlines()[0], "python": platform.python_version(), "load_average_at_end": load}
    options.out.write_text(json.dumps(table | {"rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

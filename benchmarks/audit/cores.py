"""One run audited on one core and on two: seconds, and how many times faster two are.

Two processes audit the same files in turn, `--rounds` times: local[1] held to one core, driver and Java included, and
local[2]. Both have audited before (twice, as in `run.py`). Every second round goes the other way round, since the speed
of the machine drifts; the speedup is the median of the rounds' ratios.

    python benchmarks/audit/cores.py --data DIR [--rounds 5]
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

from run import RESULTS, WARM, candidate, timed

from thence.spark.session import local_session

ONE, TWO = "local[1] held to one core", "local[2]"


def audits(cores: int, data: str) -> None:
    """Audit once for each line that comes in, and say what it took."""
    if cores == 1:
        os.sched_setaffinity(0, {0})
    spark = local_session(cores=cores, conf={"spark.driver.memory": "4g"})
    for _ in sys.stdin:
        wall, spent, verdict = timed(candidate, spark, "files", data, {})
        print(json.dumps({"seconds": wall, "cpu_seconds": spent, "verdict": verdict}), flush=True)


class Child:
    """A process that audits when it is told to."""

    def __init__(self, cores: int, data: str) -> None:
        """Start it."""
        command = [sys.executable, __file__, "--child", str(cores), "--data", data]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def audit(self, name: str) -> dict[str, Any]:
        """Return what one audit took."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        print(f"{name}: {found['seconds']:.1f} s ({found['cpu_seconds']:.1f} s CPU)", flush=True)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--child", type=int)
    given = parser.parse_args()
    if given.child is not None:
        audits(given.child, given.data)
        return
    children = {ONE: Child(1, given.data), TWO: Child(2, given.data)}
    taken: dict[str, list[dict[str, Any]]] = {name: [] for name in children}
    for turn in range(given.rounds + WARM):
        for name in list(children)[:: 1 if turn % 2 == 0 else -1]:
            found = children[name].audit(f"{name}, round {turn}{' (warming up)' if turn < WARM else ''}")
            if turn >= WARM:
                taken[name].append(found)
    for child in children.values():
        child.process.communicate()
    seconds = {name: [each["seconds"] for each in some] for name, some in taken.items()}
    ratios = [one / two for one, two in zip(seconds[ONE], seconds[TWO], strict=True)]
    verdicts = [each["verdict"] for some in taken.values() for each in some]
    assert all(verdict == verdicts[0] for verdict in verdicts), verdicts
    result = {
        "data": Path(given.data).name, "verdict": verdicts[0], "seconds": seconds,
        "cpu_seconds": {name: [each["cpu_seconds"] for each in some] for name, some in taken.items()},
        "median_seconds": {name: median(some) for name, some in seconds.items()},
        "ratios": ratios, "speedup": median(ratios), "python": platform.python_version(),
    }  # fmt: skip
    (RESULTS / "cores.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()

"""What the first audit on a machine compiles, and how long that takes: an empty cache, violations, a hundred proofs.

    python benchmarks/audit/compiling.py

Two traces: 25,000 lines of JSONL, and 1.5 million events in Parquet, which are judged in chunks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import add

RESULT = Path(__file__).parent / "results" / "compiling.json"
LINES, EVENTS = 25_000, 1_500_000
PROGRAM = """
import json, sys, time
began, clock = time.process_time(), time.perf_counter()
import thence
from numba.core import event
loops, open_ones = {}, []
class Told(event.Listener):
    def on_start(self, told): open_ones.append(time.process_time())
    def on_end(self, told):
        name, since = told.data["dispatcher"].py_func, open_ones.pop()
        if not open_ones:
            loops.setdefault(f"{name.__module__}.{name.__name__}", []).append(round(time.process_time() - since, 2))
event.register("numba:compile", Told())
with thence.audit(sys.argv[1], cores=1) as result:
    list(result.json(100))
    violations = sum(run["violations"] for run in result.runs)
taken = {"seconds": round(time.perf_counter() - clock, 2), "cpu_seconds": round(time.process_time() - began, 2)}
compiled = round(sum(map(sum, loops.values())), 2)
print(json.dumps({**taken, "violations": violations, "compiling_cpu_seconds": compiled, "loops": loops}))
"""


def measured(trace: str, name: str, cache: str) -> None:
    """Audit a trace twice, the first time with an empty cache, and keep what it took."""
    env = os.environ | {"NUMBA_CACHE_DIR": cache}
    once = [
        json.loads(subprocess.run([sys.executable, "-c", PROGRAM, trace], env=env, stdout=-1, check=True).stdout)
        for _ in range(2)
    ]
    load = os.getloadavg()[0]
    add(RESULT, name, {"first": once[0], "again": once[1], "load of the machine": round(load, 1)})
    print(name, once[0]["cpu_seconds"], once[0]["compiling_cpu_seconds"], once[1]["cpu_seconds"], f"load {load:.1f}")


def main() -> None:
    """Measure, and write the results as they come."""
    from generate import write

    from thence.cli import main as thence

    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "few", LINES, 64, files=1)
        lines = f"{folder}/few.jsonl"
        assert thence(["convert", f"{folder}/few", "--to", "jsonl", "--out", lines, "--quiet"]) == 0
        measured(lines, "25 thousand lines", f"{folder}/cache of lines")
        write(Path(folder) / "many", EVENTS, 64, files=2)
        measured(f"{folder}/many", "1.5 million events in Parquet", f"{folder}/cache of events")


if __name__ == "__main__":
    main()

"""What the first audit on a machine compiles, and how long that takes: an empty cache, violations, a hundred proofs.

    python benchmarks/audit/compiling.py

Two traces: 25,000 lines of JSONL, and 1.5 million events in Parquet, which are judged in chunks.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from measuring import add, compiled

RESULT = Path(__file__).parent / "results" / "compiling.json"
LINES, EVENTS = 25_000, 1_500_000
WORK = """
import thence
with thence.audit(sys.argv[1], cores=1) as result:
    list(result.json(100))
    found = {"violations": sum(run["violations"] for run in result.runs)}
"""


def measured(trace: str, name: str, cache: str) -> None:
    """Audit a trace twice, the first time with an empty cache, and keep what it took."""
    once = [compiled(WORK, [trace], {"NUMBA_CACHE_DIR": cache}) for _ in range(2)]
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

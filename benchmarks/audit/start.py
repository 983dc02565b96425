"""How soon an embedded Spark answers: a process that starts one and counts a row, with and without the class archive.

    python benchmarks/audit/start.py [--rounds 5]

Both ways take turns; seconds on the clock, and CPU seconds of the process and its JVM (Linux).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

RESULT = Path(__file__).parent / "results" / "start.json"
PROGRAM = """
import os
from thence.spark.session import local_session
spark = local_session(quick=True)
spark.range(1).count()
jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
fields = open(f"/proc/{jvm}/stat").read().rpartition(")")[2].split()
print(sum(os.times()[:2]) + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"))
"""


def one(use: str) -> tuple[float, float]:
    """Start once; return the seconds it took, on the clock and of CPU."""
    began = time.perf_counter()
    command, env = [sys.executable, "-c", PROGRAM], os.environ | {"THENCE_ARCHIVE": use}
    done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
    return round(time.perf_counter() - began, 2), round(float(done.stdout), 2)


def main() -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    from thence.tables.engines.spark import archive
    from thence.tables.engines.spark.java import find_java

    java = find_java()
    began = time.perf_counter()
    archive.build(java)
    made = time.perf_counter() - began
    ways: dict[str, list[tuple[float, float]]] = {"off": [], "use": []}
    for _ in range(rounds):
        for use, found in ways.items():
            found.append(one(use))
    pairs = list(zip(ways["use"], ways["off"], strict=True))
    ratio, cpu_ratio = (statistics.median(used[n] / off[n] for used, off in pairs) for n in (0, 1))
    size = archive.archive_path(java).stat().st_size
    result = {
        "java": java.version,
        "archive_bytes": size,
        "seconds_to_make": round(made, 1),
        "seconds_without": [wall for wall, _ in ways["off"]],
        "seconds_with": [wall for wall, _ in ways["use"]],
        "cpu_without": [cpu for _, cpu in ways["off"]],
        "cpu_with": [cpu for _, cpu in ways["use"]],
        "ratio": round(ratio, 2),
        "cpu_ratio": round(cpu_ratio, 2),
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

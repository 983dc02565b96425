"""How soon an embedded Spark answers: a process that starts one and counts a row, with and without the class archive.

    python benchmarks/audit/start.py [--rounds 5]

Both ways take turns; seconds on the clock.
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
PROGRAM = "from thence.spark.session import local_session as s; s(quick=True).range(1).count()"


def one(use: str) -> float:
    """Start once; return the seconds it took."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", PROGRAM], env=os.environ | {"THENCE_ARCHIVE": use}, check=True)
    return round(time.perf_counter() - began, 2)


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
    ways: dict[str, list[float]] = {"off": [], "use": []}
    for _ in range(rounds):
        for use, found in ways.items():
            found.append(one(use))
    ratio = statistics.median(u / o for u, o in zip(ways["use"], ways["off"], strict=True))
    size = archive.archive_path(java).stat().st_size
    result = {
        "java": java.version,
        "archive_bytes": size,
        "seconds_to_make": round(made, 1),
        "seconds_without": ways["off"],
        "seconds_with": ways["use"],
        "ratio": round(ratio, 2),
    }
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

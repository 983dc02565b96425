"""The audit beside what one would write instead, at three sizes; results as JSON.

    python benchmarks/audit/table.py DATA [--sizes 5k 500k 10m] [--rounds 3] [--polars PYTHON]
    python benchmarks/audit/table.py DATA --sizes 100m --rounds 1 --only "local, two cores"

DATA is a folder that is filled with traces (`generate.py`, 64 processes, two copies a message, one delivery in a
thousand late) and with a trace of long chains (`chains`), unless it holds them. Every way is a process of its own,
timed from its start, but for `Spark, warm`: the second audit in one session. `--polars` is a Python that has polars.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from generate import repeat, write
from measuring import Taken, add, run

HERE = Path(__file__).parent
RESULT = HERE / "results" / "table.json"
SIZES = {"5k": 5_000, "500k": 500_000, "10m": 10_000_000, "100m": 100_000_000}
ONCE = 10_000_000
"""events that are simulated; a larger trace repeats them"""
RELAYS = 5
LOCAL = [sys.executable, "-m", "thence.cli", "audit", "--engine", "local", "--paths", "0", "--json", "-"]
SPARK = [sys.executable, "-m", "thence.cli", "audit", "--engine", "spark", "--paths", "0", "--json", "-"]
WARM = """
import json, sys, time
from thence.spark import audit_files
from thence.spark.session import local_session
spark = local_session(cores=2)
for turn in range(2):
    began = time.perf_counter()
    with audit_files(spark, sys.argv[1]) as result:
        runs = result.runs
    seconds = time.perf_counter() - began
print(json.dumps({"seconds": seconds, "violations": sum(run["violations"] for run in runs)}))
"""


def chains(out: Path, events: int) -> None:
    """Write a trace in which every late message is overtaken over several relays, and by nothing shorter."""
    rows = []
    index: dict[str, int] = {}

    def row(process: str, kind: str, message: str, to: list[str] | None = None) -> None:
        index[process] = index.get(process, 0) + 1
        rows.append(("chains", process, index[process], kind, message, to, len(rows)))

    number = 0
    while len(rows) + 2 * RELAYS + 6 <= events:
        number += 1
        lane = number % 10
        row(f"first{lane}", "send", f"late{number}", [f"last{lane}"])
        row(f"first{lane}", "send", f"{number}.0", [f"relay{lane}.0"])
        for step in range(RELAYS):
            row(f"relay{lane}.{step}", "deliver", f"{number}.{step}")
            to = f"relay{lane}.{step + 1}" if step + 1 < RELAYS else f"last{lane}"
            row(f"relay{lane}.{step}", "send", f"{number}.{step + 1}", [to])
        row(f"last{lane}", "deliver", f"{number}.{RELAYS}")
        row(f"last{lane}", "deliver", f"late{number}")
    names = ["run", "process", "index", "kind", "message", "destinations", "order"]
    out.mkdir(parents=True)
    pq.write_table(pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))), out / "0.parquet")


def lines(file: str) -> int:
    """Return how many lines of an attempt are code."""
    text = (HERE / file).read_text().split("# begin\n")[1].split("# end\n")[0]
    return sum(bool(line.strip()) and not line.strip().startswith(('"""', "#")) for line in text.splitlines())


def violations(taken: Taken) -> int:
    """Return how many violations a way found."""
    said = json.loads(taken["said"])
    if isinstance(said, int):
        return said
    found = said["violations"]
    return len(found) if isinstance(found, list) else int(found)


def known(trace: str) -> int | None:
    """Return how many violations an audit found in a trace, in an earlier run."""
    rows = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    found: int | None = rows.get(f"{trace}: local, two cores", {}).get("violations")
    return found


def commit() -> str:
    """Return what is measured."""
    return subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()


def ways(data: Path, polars: str | None) -> dict[str, tuple[list[str], list[int] | None]]:
    """Return the commands, each with the cores it may use."""
    files = sorted(map(str, data.glob("*.parquet")))
    found: dict[str, tuple[list[str], list[int] | None]] = {
        "local, one core": ([*LOCAL, "--cores", "1", str(data)], [0]),
        "local, two cores": ([*LOCAL, "--cores", "2", str(data)], None),
        "Spark, cold": ([*SPARK, "--cores", "2", str(data)], None),
        "Spark, warm": ([sys.executable, "-c", WARM, str(data)], None),
        "a loop by hand": ([sys.executable, str(HERE / "by_hand.py"), *files], None),
    }
    if polars:
        found["Polars"] = ([polars, str(HERE / "by_polars.py"), *files], None)
    return found


def measured(data: Path, rounds: int, polars: str | None, only: list[str] | None) -> None:
    """Measure all ways on one trace, in turn."""
    taken: dict[str, list[Taken]] = {}
    exact: int | None = None
    for _ in range(rounds):
        for name, (command, cores) in ways(data, polars).items():
            if only and name not in only:
                continue
            one = run(command, cores=cores)
            count = violations(one)
            if name == "Spark, warm":
                one["seconds"] = round(json.loads(one["said"])["seconds"], 2)
            exact = count if name.startswith("local") else exact
            one["said"] = ""
            taken.setdefault(name, []).append(one)
            rows = [{k: v for k, v in each.items() if k != "said"} for each in taken[name]]
            exact = known(data.name) if exact is None else exact
            missed = None if exact is None else exact - count
            found = {"rounds": rows, "violations": count, "missed": missed, "commit": commit()}
            add(RESULT, f"{data.name}: {name}", found | {"load": round(os.getloadavg()[0], 1)})
            print(f"{data.name}: {name}: {rows[-1]}, {count} violations, load {os.getloadavg()[0]:.1f}", flush=True)


def main() -> None:
    """Measure, and write the results as they come."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data", type=Path)
    parser.add_argument("--sizes", nargs="+", default=["5k", "500k", "10m"], choices=[*SIZES, "chains"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--polars")
    parser.add_argument("--only", nargs="+")
    asked = parser.parse_args()
    os.environ["THENCE_ARCHIVE"] = "use"
    os.environ["PYTHONPYCACHEPREFIX"] = str(asked.data / "bytecode")  # cached from the second round on
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    add(RESULT, "lines of code", {"a loop by hand": lines("by_hand.py"), "Polars": lines("by_polars.py"), "thence": 1})
    for size in asked.sizes:
        folder = asked.data / size
        if not folder.exists() and size == "chains":
            chains(folder, 500_000)
        elif not folder.exists():
            write(folder, min(SIZES[size], ONCE), 64, files=8 if SIZES[size] >= ONCE else 1)
            repeat(folder, SIZES[size] // ONCE)
        measured(folder, asked.rounds, asked.polars, asked.only)


if __name__ == "__main__":
    main()

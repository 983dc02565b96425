"""A sweep of 200 scenarios with one core and with two: seconds, and how many times faster two are.

Each figure is taken in a process of its own, alternating, `--repeat` times each: local[2]; local[1] held to one core,
as in the audit's benchmark; and local[1] that may use the second core for what is not a task (the driver, the JVM's
compiler and collector). Only the sweep is timed: the session has started and has run a few scenarios before. The rows
must be the same. `loop` is the plain single-process loop over the same scenarios, without Spark. The machine's load
average stands beside each figure: where other work competes for the cores, two of ours get less than two cores, and the
ratio says less. `schedule_allows` is what the parting into tasks would give on two free cores, worked out from the
processor seconds of each scenario.

    python benchmarks/sweep/run.py [--repeat 3] [--out FILE]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "sweep.json"
WARM_UP = '[grid]\nprotocol = ["ks", "rst"]\nprocesses = [3, 4]\nmessages = 20\nseed = { from = 1, to = 4 }\n'


def digest(folder: Path) -> str:
    found = hashlib.blake2b(digest_size=8)
    for path in sorted((folder / "results").rglob("*.parquet")):
        found.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return found.hexdigest()


def swept(cores: int, *, pinned: bool) -> dict[str, object]:
    from whence.sim.grid import parse_grid, read_grid
    from whence.spark.session import local_session
    from whence.spark.sweep import sweep

    if pinned:
        os.sched_setaffinity(0, {0})
    spark = local_session(cores=cores)
    grid = read_grid(HERE / "grid.toml")
    with tempfile.TemporaryDirectory() as folder:
        sweep(spark, parse_grid(WARM_UP), f"{folder}/warm")
        start = perf_counter()
        done = sweep(spark, grid, f"{folder}/out")
        seconds = perf_counter() - start
        assert done.ran == len(grid.scenarios) == 200
        cpu = sum(row["cpu_seconds"] for row in spark.read.parquet(f"{folder}/out/timings").collect())
        rows = digest(Path(folder) / "out")
        return {"cores": cores, "pinned": pinned, "seconds": seconds, "cpu_seconds": cpu, "rows": rows}


def allowed(guessed: list[float], taken: list[float], cores: int) -> float:
    """Return how many times faster so many free cores would be, by our tasks and the seconds scenarios took."""
    from whence.spark.sweep import places

    tasks = places(guessed, cores)
    busy = [0.0] * cores
    for task in range(tasks[-1] + 1):
        busy[busy.index(min(busy))] += sum(t for t, at in zip(taken, tasks, strict=True) if at == task)
    return sum(taken) / max(busy)


def looped() -> dict[str, object]:
    from whence.sim.grid import read_grid
    from whence.spark.sweep_task import Store, run_one

    grid = read_grid(HERE / "grid.toml")
    works = []
    with tempfile.TemporaryDirectory() as folder:
        start, cpu = perf_counter(), process_time()
        for each in grid.scenarios:
            spec = json.dumps(each.scenario.row())
            how = {"traces": False, "warmup": grid.warmup, "batches": grid.batches}
            works.append(run_one(Store(folder), each.id, spec, **how)["cpu_seconds"])
        seconds = perf_counter() - start
        return {
            "cores": 0, "pinned": False, "seconds": seconds, "cpu_seconds": process_time() - cpu,
            "rows": digest(Path(folder)),
            "dearest_over_cheapest": max(works) / min(works),
            "schedule_allows": allowed([each.work for each in grid.scenarios], works, 2),
        }  # fmt: skip


def child(cores: int, *, pinned: bool = False) -> dict[str, object]:
    before = os.getloadavg()[0]
    command = [sys.executable, __file__, "--child", str(cores), *(["--pinned"] if pinned else [])]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    found = json.loads(ran.stdout.splitlines()[-1]) | {"load_before": before, "load_after": os.getloadavg()[0]}
    print(json.dumps(found), file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--child", type=int)
    parser.add_argument("--pinned", action="store_true")
    options = parser.parse_args()
    if options.child is not None:
        print(json.dumps(looped() if options.child == 0 else swept(options.child, pinned=options.pinned)))
        return
    kinds = {"loop": (0, False), "local[1]": (1, True), "local[1], not held to one core": (1, False),
             "local[2]": (2, False)}  # fmt: skip
    taken = [child(0)]
    for _ in range(options.repeat):
        taken += [child(cores, pinned=pinned) for cores, pinned in kinds.values() if cores]
    seconds = {
        name: [float(str(t["seconds"])) for t in taken if (t["cores"], t["pinned"]) == kind]
        for name, kind in kinds.items()
    }
    middle = {name: median(some) for name, some in seconds.items()}
    report = {
        "command": "python benchmarks/sweep/run.py",
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, shared",
        "scenarios": 200,
        "same_rows": len({t["rows"] for t in taken}) == 1,
        "seconds": middle,
        "speedup": middle["local[1]"] / middle["local[2]"],
        "speedup_best_of_each": min(seconds["local[1]"]) / min(seconds["local[2]"]),
        "speedup_over_one_not_held": middle["local[1], not held to one core"] / middle["local[2]"],
        "schedule_allows": taken[0]["schedule_allows"],
        "target": 1.7,
        "taken": taken,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=2) + "\n")
    shown = ("seconds", "speedup", "speedup_best_of_each", "speedup_over_one_not_held", "same_rows")
    print(json.dumps({key: report[key] for key in shown}, indent=2))


if __name__ == "__main__":
    main()

"""A sweep of 200 scenarios with one core and with two: seconds, and how many times faster two are.

Three processes sweep in turn, `--repeat` times: local[1] that may use the second core for what is not a task (the
driver, the JVM's compiler and collector); local[2]; and local[1] held to one core, as in the audit's benchmark. Their
sessions start as `thence sweep` starts one, and have swept once before. The rows must be the same. `loop` is the plain
single-process loop over the same scenarios, without Spark.

A speedup is the median of the rounds' ratios; every second round goes the other way round, since the speed of the
machine drifts. How much it drifts is seen in `cpu_seconds`, what the scenarios took of the processor: the work is the
same in all of them. `speedup_at_equal_speed` compares seconds divided by that. `schedule_allows` is what the parting
into tasks would give on two free cores, worked out from the processor seconds of each scenario.

    python benchmarks/sweep/run.py [--repeat 9] [--out FILE]
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
from typing import Any

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "sweep.json"
ONE, TWO, HELD = "local[1]", "local[2]", "local[1] held to one core"
WARM_UP = '[grid]\nprotocol = ["ks", "rst"]\nprocesses = [3, 4]\nmessages = 20\nseed = { from = 1, to = 4 }\n'


def digest(folder: Path) -> str:
    found = hashlib.blake2b(digest_size=8)
    for path in sorted((folder / "results").rglob("*.parquet")):
        found.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    return found.hexdigest()


def sweeps(cores: int, *, pinned: bool) -> None:
    """Sweep once for each line that comes in, and say what it took."""
    from thence.lab.sweep.driver import sweep
    from thence.lab.sweep.grid import parse_grid, read_grid
    from thence.spark.session import local_session

    if pinned:
        os.sched_setaffinity(0, {0})
    spark = local_session(cores=cores, quick=True)  # as `thence sweep` does
    grid = read_grid(HERE / "grid.toml")
    with tempfile.TemporaryDirectory() as folder:
        sweep(spark, parse_grid(WARM_UP), f"{folder}/warm")
    for _ in sys.stdin:
        with tempfile.TemporaryDirectory() as folder:
            start = perf_counter()
            done = sweep(spark, grid, f"{folder}/out")
            seconds = perf_counter() - start
            assert done.ran == len(grid.scenarios) == 200
            cpu = sum(row["cpu_seconds"] for row in spark.read.parquet(f"{folder}/out/timings").collect())
            rows = digest(Path(folder) / "out")
            print(json.dumps({"seconds": seconds, "cpu_seconds": cpu, "rows": rows}), flush=True)


def allowed(guessed: list[float], taken: list[float], cores: int) -> float:
    """Return how many times faster so many free cores would be, by our tasks and the seconds scenarios took."""
    from thence.lab.sweep.driver import places

    tasks = places(guessed, cores)
    busy = [0.0] * cores
    for task in range(tasks[-1] + 1):
        busy[busy.index(min(busy))] += sum(t for t, at in zip(taken, tasks, strict=True) if at == task)
    return sum(taken) / max(busy)


def looped() -> dict[str, Any]:
    from thence.lab.sweep.grid import read_grid
    from thence.lab.sweep.task import ResultStore, run_one

    grid = read_grid(HERE / "grid.toml")
    works = []
    with tempfile.TemporaryDirectory() as folder:
        start, cpu = perf_counter(), process_time()
        for each in grid.scenarios:
            spec = json.dumps(each.scenario.row())
            done = run_one(ResultStore(folder), each.id, spec, traces=False, warmup=grid.warmup, batches=grid.batches)
            works.append(done["cpu_seconds"])
        seconds = perf_counter() - start
        return {
            "seconds": seconds, "cpu_seconds": process_time() - cpu,
            "rows": digest(Path(folder)),
            "dearest_over_cheapest": max(works) / min(works),
            "schedule_allows": allowed([each.work for each in grid.scenarios], works, 2),
        }  # fmt: skip


class Child:
    """A process that sweeps when it is told to."""

    def __init__(self, cores: int, *, pinned: bool) -> None:
        """Start it."""
        command = [sys.executable, __file__, "--child", str(cores), *(["--pinned"] if pinned else [])]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def sweep(self, name: str) -> dict[str, Any]:
        """Return what one sweep took."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        found: dict[str, Any] = {"session": name} | json.loads(self.process.stdout.readline())
        print(json.dumps(found), file=sys.stderr, flush=True)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--child", type=int)
    parser.add_argument("--pinned", action="store_true")
    options = parser.parse_args()
    if options.child is not None:
        sweeps(options.child, pinned=options.pinned)
        return
    loop = looped()
    children = {ONE: Child(1, pinned=False), TWO: Child(2, pinned=False), HELD: Child(1, pinned=True)}
    for name, child in children.items():
        child.sweep(f"{name}, first")  # not counted
    taken: dict[str, list[dict[str, Any]]] = {name: [] for name in children}
    for turn in range(options.repeat):
        for name in list(children)[:: 1 if turn % 2 == 0 else -1]:
            taken[name].append(children[name].sweep(name))
    for child in children.values():
        child.process.communicate()
    seconds = {name: [each["seconds"] for each in some] for name, some in taken.items()}
    busy = {name: median(each["seconds"] / each["cpu_seconds"] for each in some) for name, some in taken.items()}
    ratios = {name: [one / two for one, two in zip(seconds[name], seconds[TWO], strict=True)] for name in (ONE, HELD)}
    report = {
        "command": "python benchmarks/sweep/run.py",
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, shared",
        "scenarios": 200,
        "same_rows": {each["rows"] for some in taken.values() for each in some} == {loop["rows"]},
        "seconds": {"loop": loop["seconds"]} | {name: median(some) for name, some in seconds.items()},
        "speedup": median(ratios[ONE]),
        "speedup_over_one_held_to_one_core": median(ratios[HELD]),
        "speedup_at_equal_speed": busy[ONE] / busy[TWO],
        "speedup_best_of_each": min(seconds[ONE]) / min(seconds[TWO]),
        "rounds": ratios,
        "schedule_allows": loop["schedule_allows"],
        "target": 1.7,
        "loop": loop,
        "taken": taken,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(report, indent=2) + "\n")
    shown = ("seconds", "speedup", "speedup_over_one_held_to_one_core", "speedup_at_equal_speed", "rounds", "same_rows")
    print(json.dumps({key: report[key] for key in shown}, indent=2))


if __name__ == "__main__":
    main()

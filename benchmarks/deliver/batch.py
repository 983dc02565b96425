"""Batch delivery beside an identity through the same partitions and sort, and beside one through `applyInArrow`.

    python benchmarks/deliver/batch.py [--rows 2000000] [--repeat 3] [--only "stamps, 64 keys"] [--also PACKAGE]

Writes results/batch.json as it goes. Ratios are within one round, in which all jobs take turns, by CPU seconds of the
JVM and its Python workers, so that they mean something on a busy machine too (Linux only). `--also` measures the
`deliver` of another release, installed under another name, in the same rounds.

Sizes: two million rows are ten CPU seconds a round. A group of `applyInArrow` costs 0.3 ms of CPU, so of more than
`MOST_GROUPS` keys it gets that many; its ratio is by CPU a row.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa

sys.path.insert(0, str(Path(__file__).parent))
import _data

HERE = Path(__file__).parent
KEY = ("run", "destination")
MOST_GROUPS = 5_000
KINDS: dict[str, tuple[int, Callable[..., Any], tuple[Any, ...]]] = {
    "explicit causes, 64 keys": (64, _data.causes, ("depends_on",)),
    "explicit causes, 5,000 keys": (5_000, partial(_data.causes, keys=5_000, hot=False), ("depends_on",)),
    "explicit causes, 500,000 keys": (500_000, partial(_data.causes, keys=500_000, hot=False), ("depends_on",)),
    "stamps, 64 keys": (64, _data.arrivals, ("stamp", list(_data.ROSTER.names))),
}
"""How many keys the rows of each kind have, how they are made, and how `deliver` is called for them"""


def identity(table: Any) -> Any:
    """The same plan, with a function that hands its batches through."""
    ordered = table.repartition(*KEY).sortWithinPartitions(*KEY, "arrival", "message")
    return ordered.mapInArrow(lambda batches: batches, table.schema)


def grouped(table: Any) -> Any:
    """An identity through Spark's own groups."""

    def same(rows: pa.Table) -> pa.Table:
        return rows

    same.__annotations__ = {"rows": pa.Table, "return": pa.Table}  # Spark reads types, not their names
    return table.groupBy(*KEY).applyInArrow(same, table.schema)


def timed(job: Callable[[], Any]) -> tuple[float, float]:
    """Return the seconds that a job takes, and its seconds of CPU time."""
    start, used = time.perf_counter(), cpu_seconds()
    job().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start, cpu_seconds() - used


def cpu_seconds() -> float:
    """Return the CPU time of all processes below this one, those that have ended included."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        pid = int(stat.parent.name)
        children.setdefault(int(fields[1]), []).append(pid)
        ticks[pid] = sum(map(int, fields[11:15]))
    below, found = [os.getpid()], 0
    while below:
        mine = children.get(below.pop(), [])
        found += sum(ticks[pid] for pid in mine)
        below += mine
    return found / os.sysconf("SC_CLK_TCK")


def delivering(table: Any, by: str, roster: list[str] | None = None, package: str = "thence") -> Any:
    return importlib.import_module(f"{package}.spark").deliver(table, by, roster=roster)


def measured(table: Any, keys: int, small: Any, call: tuple[Any, ...], repeat: int, also: str | None) -> dict[str, Any]:
    """Time the jobs of one kind in turns."""
    few = table if keys <= MOST_GROUPS else table.where(f"cast(substr(run, 4) as int) < {MOST_GROUPS}")
    jobs: dict[str, Callable[[], Any]] = {
        "identity": lambda: identity(table),
        "deliver": lambda: delivering(table, *call),
        "identity, applyInArrow": lambda: grouped(few),
    }
    packages = {"deliver": "thence"}
    if also is not None:
        packages["deliver, before"] = also
        jobs["deliver, before"] = lambda: delivering(table, *call, package=also)
    for package in packages.values():  # compile and warm up
        timed(lambda package=package: delivering(small, *call, package=package))  # type: ignore[misc]
    for job in jobs.values():  # Java compiles
        timed(job)
    times: dict[str, list[float]] = {name: [] for name in jobs}
    used: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(repeat):
        for name, job in jobs.items():
            seconds, cpu = timed(job)
            times[name].append(seconds)
            used[name].append(cpu)
            print(f"{name}: {seconds:.1f} s, CPU {cpu:.1f} s", flush=True)
    out = delivering(small, *call)
    rows = dict.fromkeys(jobs, table.count()) | {"identity, applyInArrow": few.count()}
    each = {name: [1e6 * cpu / rows[name] for cpu in cpus] for name, cpus in used.items()}
    return {
        "rows": rows["deliver"],
        "keys": keys,
        "keys of applyInArrow": min(keys, MOST_GROUPS),
        "seconds": times,
        "CPU seconds": used,
        "median ratio of deliver, by CPU a row": {
            name: median(a / b for a, b in zip(each["deliver"], others, strict=True))
            for name, others in each.items()
            if name != "deliver"
        },
        "outcomes of the small table": {
            row["outcome"]: row["count"] for row in out.groupBy("outcome").count().collect()
        },
        "share of rows held": out.where("held_for > 0").count() / small.count(),
        "load of the machine": round(os.getloadavg()[0], 1),
    }


def main(rows: int, repeat: int, only: str | None, also: str | None, folder: Path) -> None:
    from thence.spark.session import local_session

    spark = local_session(conf={"spark.driver.memory": "4g"})
    file = HERE / "results" / "batch.json"
    result = json.loads(file.read_text()) if file.exists() else {}
    for name, (keys, make, call) in KINDS.items():
        if only in (None, name):
            small = make(spark, folder, 64 * 1024)
            result[name] = measured(make(spark, folder, rows), keys, small, call, repeat, also)
            file.write_text(json.dumps(result, indent=2) + "\n")
            print(json.dumps(result[name], indent=2), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", choices=list(KINDS))
    parser.add_argument("--also", help="another release's package")
    parser.add_argument("--folder", type=Path, help="where the rows are kept, and found again")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        main(told.rows, told.repeat, told.only, told.also, told.folder or Path(temporary))

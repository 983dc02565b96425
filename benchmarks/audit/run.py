"""The audit against a yardstick, in one process, warm against warm, alternating; results as JSON.

    python benchmarks/audit/run.py files  --data DIR [--rounds 3]                 workers open the Parquet files
    python benchmarks/audit/run.py frame  --data DIR                              a DataFrame with `order`
    python benchmarks/audit/run.py frame  --data DIR --partition-bytes 128m       ... whose partitions overlap in it
    python benchmarks/audit/run.py plain  --data DIR                              no `order` column
    python benchmarks/audit/run.py growth --data DIR DIR DIR                      files of growing size in turn
    python benchmarks/audit/run.py files  --data DIR --chunk-rows 10000000 --warm 0 --no-yardstick    few large chunks

The yardstick: Spark reads the same Parquet and sorts it by run, process and index into a no-op sink. A candidate ends
when the verdicts and all rows of violations, undelivered copies, duplicates, misdeliveries and quarantine are computed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import statistics
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil

from thence.spark import audit, audit_files
from thence.spark.session import local_session

RESULTS = Path(__file__).with_name("results")
CORES = 2
WARM = 2
"""Rounds that do not count: Java still compiles what both do."""


def yardstick(spark: Any, data: str) -> None:
    spark.read.parquet(data).sort("run", "process", "index").write.format("noop").mode("overwrite").save()


def candidate(spark: Any, how: str, data: str, options: dict[str, Any]) -> dict[str, Any]:
    if how == "files":
        result = audit_files(spark, data, **options)
    else:
        result = audit(spark.read.parquet(data), **options)
    with result:
        verdict = result.runs.first().asDict()
        result.tagged.write.format("noop").mode("overwrite").save()
    return verdict


def cpu() -> float:
    """Return the CPU seconds spent so far by this process, its JVM and its workers."""
    me = psutil.Process()
    spent = 0.0
    for process in (me, *me.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):  # a worker may end while we look
            times = process.cpu_times()
            spent += times.user + times.system
    return spent


def timed(work: Any, *arguments: Any) -> tuple[float, float, Any]:
    """Return wall seconds, CPU seconds and the result."""
    before, began = cpu(), time.perf_counter()
    found = work(*arguments)
    return time.perf_counter() - began, cpu() - before, found


def peak(what: str) -> int:
    """Return the greatest resident set, in MB, of this process ("driver") or of a worker."""
    me = psutil.Process()
    family = {"driver": [me], "java": [], "worker": []}
    for child in me.children(recursive=True):
        family["java" if "java" in child.name() else "worker"].append(child)
    sizes = []
    for process in family[what]:
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                sizes.append(int(line.split()[1]) // 1024)
    return max(sizes, default=0)


def growth(spark: Any, folders: list[str], rounds: int) -> None:
    """Audit traces of growing size in turn; say what each further million of events costs."""
    taken: dict[int, list[float]] = {}
    busy: dict[int, list[float]] = {}
    for turn in range(rounds + WARM):
        for data in folders:
            wall, spent, verdict = timed(candidate, spark, "files", data, {})
            print(f"round {turn}: {verdict['events']:,} events {wall:.1f} s ({spent:.1f} s CPU)", flush=True)
            if turn >= WARM:
                taken.setdefault(verdict["events"], []).append(wall)
                busy.setdefault(verdict["events"], []).append(spent)
    result: dict[str, Any] = {"how": "growth"}
    for name, found in (("seconds", taken), ("cpu_seconds", busy)):
        middle = {events: statistics.median(some) for events, some in sorted(found.items())}
        further = {f"{a:,} to {b:,}": (middle[b] - middle[a]) / (b - a) * 1e6 for a, b in pairwise(middle)}
        result |= {name: found, f"median_{name}": middle, f"{name}_per_further_million": further}
    (RESULTS / "growth.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("how", choices=["files", "frame", "plain", "growth"])
    parser.add_argument("--data", required=True, nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=WARM, help="rounds that do not count; large data need none")
    parser.add_argument("--chunk-rows", type=int)
    parser.add_argument("--partition-bytes", help="as 128m, Spark's default: files then share partitions that overlap")
    parser.add_argument("--no-yardstick", action="store_true")
    parser.add_argument("--name")
    given = parser.parse_args()
    options = {"chunk_rows": given.chunk_rows} if given.chunk_rows else {}
    conf = {"spark.driver.memory": "4g"}
    if given.partition_bytes:
        conf["spark.sql.files.maxPartitionBytes"] = given.partition_bytes
    spark = local_session(cores=CORES, conf=conf)
    if given.how == "growth":
        growth(spark, given.data, given.rounds)
        return
    (data,) = given.data
    sticks: list[tuple[float, float]] = []
    audits: list[tuple[float, float]] = []
    loads = []
    for turn in range(given.rounds + given.warm):
        stick = (0.0, 0.0) if given.no_yardstick else timed(yardstick, spark, data)[:2]
        wall, spent, verdict = timed(candidate, spark, given.how, data, options)
        print(
            f"round {turn}{' (warming up)' * (turn < given.warm)}: yardstick {stick[0]:.1f} s ({stick[1]:.1f} s CPU), "
            f"audit {wall:.1f} s ({spent:.1f} s CPU), load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        if turn >= given.warm:
            sticks.append(stick)
            audits.append((wall, spent))
            loads.append(os.getloadavg()[0])
    pairs = list(zip(audits, sticks, strict=True))
    ratios = None if given.no_yardstick else [[a[i] / s[i] for a, s in pairs] for i in (0, 1)]
    result = {
        "how": given.how, "chunk_rows": given.chunk_rows, "partition_bytes": given.partition_bytes,
        "cores": CORES, "data": Path(data).name, "verdict": verdict,
        "yardstick_seconds": [s[0] for s in sticks], "yardstick_cpu_seconds": [s[1] for s in sticks],
        "audit_seconds": [a[0] for a in audits], "audit_cpu_seconds": [a[1] for a in audits],
        "ratio": ratios and statistics.median(ratios[0]), "cpu_ratio": ratios and statistics.median(ratios[1]),
        "events_per_second": verdict["events"] / statistics.median(a[0] for a in audits),
        "peak_rss_mb": {what: peak(what) for what in ("driver", "java", "worker")},
        "load_average": loads, "python": platform.python_version(),
    }  # fmt: skip
    name = given.name or f"{given.how}-{Path(data).name}"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()

"""`thence.deliver` of a table with explicit causes, beside Polars' sort of the same table and a loop by hand.

    python benchmarks/deliver/by_hand.py [--rows 10000000] [--rounds 1]

Writes results/by_hand.json: CPU and wall seconds, each in a process of its own, the table read before the clock starts.
Every second row names one of the eight rows before it; rows are moved by 20 places on the mean. Ids are whole numbers
or texts. The sort is by the row's own number, which a user rarely has; Polars may use every core. The loop is what a
program would do by hand: rows as dicts, a set of what was delivered, and rows that wait by the cause they wait for.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl

import thence

RESULTS = Path(__file__).parent / "results" / "by_hand.json"
SEED = 1


def made(rows: int) -> pl.DataFrame:
    """Return rows in order of arrival, with whole numbers as ids."""
    rng = np.random.default_rng(SEED)
    number = np.arange(rows)
    cause = np.maximum(0, number - rng.integers(1, 9, rows))
    frame = pl.DataFrame({"id": number, "cause": cause, "amount": rng.random(rows)})
    frame = frame.with_columns(
        pl.when((pl.col("id") % 2 == 1) & (pl.col("cause") != pl.col("id"))).then("cause").alias("cause")
    )
    return frame[np.argsort(number + rng.exponential(20, rows), kind="stable")]


def as_texts(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the same rows with texts as ids."""
    return frame.with_columns(("m" + pl.col(name).cast(pl.String)).alias(name) for name in ("id", "cause"))


def by_thence(frame: pl.DataFrame) -> int:
    return len(thence.deliver(frame, id="id", causes="cause"))


def by_sort(frame: pl.DataFrame) -> int:
    return len(frame.sort("id"))


def by_loop(frame: pl.DataFrame) -> int:
    delivered: set[Any] = set()
    waiting: dict[Any, list[dict[str, Any]]] = {}
    out: list[dict[str, Any]] = []
    for row in frame.iter_rows(named=True):
        if row["cause"] is not None and row["cause"] not in delivered:
            waiting.setdefault(row["cause"], []).append(row)
            continue
        ready = [row]
        while ready:
            here = ready.pop()
            delivered.add(here["id"])
            out.append(here)
            ready.extend(waiting.pop(here["id"], ()))
    return len(out)


WAYS: dict[str, Callable[[pl.DataFrame], int]] = {"thence": by_thence, "sort": by_sort, "loop": by_loop}


def measured(way: str, path: str) -> dict[str, float]:
    """Measure one way in this process."""
    frame = pl.read_parquet(path)
    WAYS[way](frame.head(20_000))
    wall, cpu = time.perf_counter(), time.process_time()
    count = WAYS[way](frame)
    assert count == len(frame), count
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "peak_gigabytes": peak}


def main(rows: int, rounds: int) -> None:
    """Measure in turns, and write the result."""
    result: dict[str, Any] = {"about": __doc__.splitlines()[0], "rows": rows, "rounds": rounds, "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as folder:
        numbers = made(rows)
        for ids, frame in (("whole numbers", numbers), ("texts", as_texts(numbers))):
            path = f"{folder}/rows.parquet"
            frame.write_parquet(path)
            found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
            for _ in range(rounds):
                for way, each in found.items():
                    command = [sys.executable, __file__, "--measure", way, "--table", path]
                    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                    each.append(json.loads(ran.stdout.splitlines()[-1]))
                    print(ids, way, each[-1], flush=True)
            middle = {
                way: {name: round(median(one[name] for one in each), 2) for name in each[0]}
                for way, each in found.items()
            }
            cpu = {way: each["cpu"] for way, each in middle.items()}
            ratios = {
                "cpu_to_sort": round(cpu["thence"] / cpu["sort"], 1),
                "loop_to_cpu": round(cpu["loop"] / cpu["thence"], 1),
            }
            result[f"ids are {ids}"] = middle | ratios
    result["load_average_at_end"] = os.getloadavg()[0]
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--measure", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--table", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps(measured(asked.measure, asked.table)))
    else:
        main(asked.rows, asked.rounds)

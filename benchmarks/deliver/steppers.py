"""One key's state alone, without Spark: processor time a row by both steppers, and memory over many batches.

    python benchmarks/deliver/steppers.py [--rows 200000] [--also PACKAGE ...]

Writes results/steppers.json. Processor time, so that other work on the machine counts little. `--also` measures
earlier releases, installed under other names, on the same rows and in turns with this one.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import sys
import time
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import _data
import numpy as np
import pyarrow as pa

from thence.delivery import Columns, Policy
from thence.delivery.key_state import KeyState, Setup

HERE = Path(__file__).parent
BATCH = 10_000
WAIT = Policy()
RELEASED: dict[str, Any] = {"name": "release", "after_rows": 500}


def causes(rows: int) -> pa.Table:
    """A hot key: every second row names one of the eight before it."""
    rng = Random(1)
    order = np.argsort([place + rng.expovariate(1 / 20) for place in range(rows)], kind="stable")
    named = [[f"m{max(0, place - rng.randint(1, 8))}"] if place % 2 else [] for place in range(rows)]
    table = pa.table({"message": [f"m{place}" for place in range(rows)], "depends_on": named})
    table = table.append_column("run", pa.array(["run"] * rows)).append_column("destination", pa.array(["d"] * rows))
    return table.take(pa.array(order)).combine_chunks()


def run(table: pa.Table, fast_from: int, by: Any = "stamp", policy: Policy = WAIT) -> dict[str, Any]:
    setup = Setup(by, (_data.ROSTER,) if by == "stamp" else (), Columns(by), policy, fast_from)
    return taken(KeyState(setup, ("run", _data.ROSTER.name(_data.SINK))), table)


def run_of(package: str, table: pa.Table, by: str, policy: dict[str, Any]) -> dict[str, Any]:
    """The same through any release; in early ones the state of a key was a desk."""
    delivery = importlib.import_module(f"{package}.delivery")
    roster = importlib.import_module(f"{package}.model.roster").Roster(list(_data.ROSTER.names))
    try:
        module = importlib.import_module(f"{package}.delivery.key_state")
        state = module.KeyState
    except ModuleNotFoundError:
        module = importlib.import_module(f"{package}.spark.desk")
        state = module.Desk
    rosters = (roster,) if by == "stamp" else ()
    setup = module.Setup(by, rosters, delivery.Columns(by), delivery.Policy(**policy), 1)
    return taken(state(setup, ("run", _data.ROSTER.name(_data.SINK))), table)


def in_turns(
    packages: list[str], tables: dict[str, tuple[str, pa.Table, dict[str, Any]]], rounds: int = 5
) -> dict[str, Any]:
    """Measure releases in turns; return nanoseconds a row of each round, and the ratio of medians to the last named."""
    for package in packages:  # compile
        for by, table, policy in tables.values():
            run_of(package, table.slice(0, 2 * BATCH), by, policy)
    found: dict[str, Any] = {}
    for name, (by, table, policy) in tables.items():
        times: dict[str, list[int]] = {package: [] for package in packages}
        for _ in range(rounds):
            for package in packages:
                times[package].append(run_of(package, table, by, policy)["ns a row"])
        middle = {package: median(each) for package, each in times.items()}
        found[name] = {
            "ns a row, in turns": times,
            "this release to each, medians": {each: middle["thence"] / middle[each] for each in packages},
        }
    return found


def taken(key: Any, table: pa.Table) -> dict[str, Any]:
    """Take all rows; return what it cost."""
    out = held = 0
    marks = []
    before = time.process_time()
    for batch in table.to_batches(max_chunksize=BATCH):
        out += len(key.take(batch))
        held = max(held, len(key.held))
        marks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
    seconds = time.process_time() - before
    rows = len(table)
    return {
        "rows": rows,
        "out": out,
        "most held": held,
        "ns a row": round(1e9 * seconds / rows),
        "peak MB after 10% and 100%": [marks[len(marks) // 10], marks[-1]],
    }


def main(rows: int, also: list[str]) -> None:
    base = _data.stream_of_one_sink(rows)
    rng = Random(2)
    order = np.argsort([place + rng.expovariate(1 / 20) for place in range(rows)], kind="stable")
    table = base.take(pa.array(order)).append_column("run", pa.array(["run"] * rows))
    table = table.append_column("destination", pa.array([_data.ROSTER.name(_data.SINK)] * rows)).combine_chunks()
    sizes = [len(stamp) for stamp in base["stamp"].to_pylist()[:1000]]
    run(table.slice(0, 2 * BATCH), 1)  # compile
    copied = time.process_time()
    for batch in table.to_batches(max_chunksize=BATCH):
        batch.take(pa.array(np.arange(len(batch))))
    copied = time.process_time() - copied
    result = {
        "bytes a stamp": sum(sizes) / len(sizes),
        "copying the rows alone, ns a row": round(1e9 * copied / rows),
        "by arrays": run(table, 1),
        "plain": run(table.slice(0, rows // 10), 1 << 40),
    }
    explicit = causes(rows)
    run(explicit.slice(0, 2 * BATCH), 1, "depends_on")
    lossy = explicit.filter(pa.array(np.random.default_rng(1).random(rows) > 0.001))
    run(lossy.slice(0, 2 * BATCH), 1, "depends_on", Policy(**RELEASED))
    result["explicit causes"] = {
        "by arrays": run(explicit, 1, "depends_on"),
        "by arrays, a thousandth lost, released after 500 rows": run(lossy, 1, "depends_on", Policy(**RELEASED)),
        "plain": run(explicit.slice(0, rows // 10), 1 << 40, "depends_on"),
    }
    if also:
        tables: dict[str, tuple[str, pa.Table, dict[str, Any]]] = {
            "stamps": ("stamp", table, {}),
            "explicit causes": ("depends_on", explicit, {}),
            "explicit causes, a thousandth lost, released": ("depends_on", lossy, RELEASED),
        }
        result["beside earlier releases"] = in_turns(["thence", *also], tables)
    (HERE / "results" / "steppers.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--also", nargs="*", default=[], help="packages of earlier releases")
    told = parser.parse_args()
    main(told.rows, told.also)

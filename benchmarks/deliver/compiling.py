"""What the first delivery on a machine compiles and how long that takes, and from how many rows on it is worth it.

    python benchmarks/deliver/compiling.py [--before FOLDER] [--rounds 1]

Writes results/compiling.json. First use: one key in Parquet, more rows than are stepped in plain Python, an empty cache
and then the same again; `--before` is the `src` of an earlier version, measured in turns with this one. Few rows: the
same command with a warm cache, by arrays and in plain Python, at half, all and twice `PLAIN_UP_TO`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "audit"))
import _data
import pyarrow as pa
import pyarrow.parquet as pq
import steppers
from measuring import add, compiled, middle, run

from thence.delivery.local import PLAIN_UP_TO

HERE = Path(__file__).parent
RESULT = HERE / "results" / "compiling.json"
WORK = """
from thence.cli import main
assert main(sys.argv[1:]) == 0
"""
BY_SIZE = """
import sys
from thence.delivery import local
by, rows, *asked = sys.argv[1:]
local.PLAIN_UP_TO[by] = int(rows)
from thence.cli import main
assert main(asked) == 0
"""
RELEASED = ["--policy", "release", "--after-rows", "500"]
FIRST: dict[str, tuple[str, list[str]]] = {
    "explicit causes": ("depends_on", []),
    "explicit causes, released after 500 rows": ("depends_on", RELEASED),
    "clocks": ("clock", []),
    "stamps": ("stamp", []),
}


def table_of(by: str, rows: int) -> pa.Table:
    """Return rows of one key."""
    if by == "depends_on":
        return steppers.causes(rows)
    told = {"run": pa.array(["run"] * rows), "destination": pa.array([_data.ROSTER.name(_data.SINK)] * rows)}
    if by == "stamp":
        made = _data.stream_of_one_sink(rows)
    else:
        made = pa.table({"sender": [f"s{place % 64}" for place in range(rows)], "clock": _clocks(rows)})
    for name, column in told.items():
        made = made.append_column(name, column)
    return made


def _clocks(rows: int) -> pa.MapArray:
    """Twenty components each: of the sender itself, and of those before it."""
    clocks = [
        [(f"s{(place - back) % 64}", (place - back) // 64 + 1) for back in range(20) if back <= place]
        for place in range(rows)
    ]
    return pa.array(clocks, pa.map_(pa.string(), pa.int64()))


def asked(by: str, rows: int, folder: Path, place: int) -> list[str]:
    """Return what delivers so many rows into a new folder."""
    file = folder / f"{by}-{rows}.parquet"
    if not file.exists():
        pq.write_table(table_of(by, rows), file)
    told = ["--roster", ",".join(_data.ROSTER.names)] if by == "stamp" else []
    out = folder / f"out-{by}-{rows}-{place}-{len(list(folder.iterdir()))}"
    return ["deliver", str(file), "--by", by, "--out", str(out), "--engine", "local", "--quiet", *told]


def first_use(folder: Path, before: Path | None, rounds: int) -> None:
    """Measure deliveries with an empty cache, and again."""
    versions = {"now": HERE.parents[1] / "src"} | ({"before": before} if before is not None else {})
    for name, (by, policy) in FIRST.items():
        rows, found = PLAIN_UP_TO[by] + 5_000, dict[str, Any]()  # type: ignore[index]
        for number in range(rounds):
            for version, source in versions.items():
                cache = folder / f"cache {name} {version} {number}"
                env = {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(source)}
                first, again = (compiled(WORK, asked(by, rows, folder, n) + policy, env) for n in range(2))
                found.setdefault(version, []).append({"first": first, "again": again})
                print(name, version, first["cpu_seconds"], first["compiling_cpu_seconds"], again["cpu_seconds"])
        add(RESULT, f"first use: {name}", {"rows": rows, "load of the machine": _load(), **found})


def few_rows(folder: Path, rounds: int) -> None:
    """Measure small deliveries both ways, in turns, with a warm cache."""
    env = {"NUMBA_CACHE_DIR": str(folder / "warm")}
    for by, limit in PLAIN_UP_TO.items():
        found: dict[str, dict[str, float]] = {}
        for rows in (limit // 2, limit, 2 * limit):
            ways = {"by arrays": 0, "plain": rows}
            taken: dict[str, list[Any]] = {way: [] for way in ways}
            for number in range(rounds + 1):
                for way, most in ways.items():
                    command = [sys.executable, "-c", BY_SIZE, by, str(most), *asked(by, rows, folder, number)]
                    taken[way].append(run(command, env=env))
            found[str(rows)] = {way: middle(each[1:], "cpu_seconds") for way, each in taken.items()}  # the first warms
            print(by, rows, found[str(rows)])
        add(RESULT, f"few rows: {by}", {"CPU seconds": found, "load of the machine": _load()})


def shuffled() -> None:
    """Measure explicit causes in random order, each row with two, at the limit: what the search for cycles costs."""
    from thence.delivery.local import deliver_table, setup_of, sized

    rows = PLAIN_UP_TO["depends_on"]
    order = Random(1).sample(range(rows), rows)
    causes = [[f"m{place - 1}", f"m{place - 2}"] if place > 1 else [] for place in order]
    table = pa.table({"run": ["r"] * rows, "destination": ["d"] * rows, "message": [f"m{place}" for place in order]})
    table = table.append_column("depends_on", pa.array(causes))
    setup, taken = setup_of("depends_on", None, {}, None, {}), dict[str, float]()
    deliver_table(table.slice(0, 1000), setup)  # compiles or loads
    for way, chosen in (("by arrays", setup), ("plain", sized(setup, table))):
        began = process_time()
        deliver_table(table, chosen)
        taken[way] = round(process_time() - began, 1)
    add(RESULT, "shuffled: depends_on", {"rows": rows, "CPU seconds": taken, "load of the machine": _load()})
    print("shuffled", rows, taken)


def _load() -> float:
    return round(os.getloadavg()[0], 1)


def main(before: Path | None, rounds: int) -> None:
    """Measure, and write the results as they come."""
    with tempfile.TemporaryDirectory() as folder:
        first_use(Path(folder), before, rounds)
        few_rows(Path(folder), rounds)
    shuffled()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--before", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    told = parser.parse_args()
    main(told.before, told.rounds)

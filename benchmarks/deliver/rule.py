"""The delivery rule in one process: CPU time of a row in bulk, of a batch of one row, and of `thence deliver`.

    python benchmarks/deliver/rule.py [--rows 200000] [--before FOLDER [--python PYTHON]] [--rounds 3] [--only single]

Writes results/rule.json; `--only` renews the cases of one part alone. `--before` names the `src` folder of an earlier
release, `--python` an interpreter with its dependencies: both are measured in turns, each in a process of its own that
is warmed up first. CPU time, so that other work on the machine counts little.
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
from collections.abc import Sequence
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
BYS = ("depends_on", "clock", "stamp")
KEYS = (1, 64, 10_000)
ROWS = 200_000
PARTS = ("bulk", "single", "shell")


# -- data --------------------------------------------------------------------------------------------------------------


def tables(rows: int) -> dict[str, Any]:
    """Return the first rows of the tables that `main` wrote."""
    import pyarrow.parquet as pq

    return {by: pq.read_table(Path(os.environ["RULE_TABLES"]) / f"{by}.parquet").slice(0, rows) for by in BYS}


def made(rows: int) -> dict[str, Any]:
    """Return a table of one key for each kind of causes, in order of arrival, rows moved by 20 places on the mean."""
    import _data
    import numpy as np
    import pyarrow as pa

    rng = Random(1)
    named = [[f"m{max(0, place - rng.randint(1, 8))}"] if place % 2 else [] for place in range(rows)]
    explicit = pa.table({"message": [f"m{place}" for place in range(rows)], "depends_on": named})
    clock, seen = [], [0] * 8
    for _ in range(rows):
        sender = rng.randrange(8)
        seen[sender] += 1
        clock.append((f"s{sender}", [(f"s{n}", max(0, seen[n] - (n != sender) * rng.randint(0, 3))) for n in range(8)]))
    clocks = pa.table({
        "message": [f"m{place}" for place in range(rows)],
        "sender": [sender for sender, _ in clock],
        "clock": pa.array([each for _, each in clock], pa.map_(pa.string(), pa.int64())),
    })  # fmt: skip
    whole = {"depends_on": explicit, "clock": clocks, "stamp": _data.stream_of_one_sink(rows).drop_columns(["place"])}
    order = np.argsort([place + rng.expovariate(1 / 20) for place in range(rows)], kind="stable")
    return {by: table.take(pa.array(order)).combine_chunks() for by, table in whole.items()}


def keyed(table: Any, rows: int, keys: int) -> Any:
    """Return `rows` rows of so many keys, which all have the same rows in the same order."""
    import numpy as np
    import pyarrow as pa

    each = rows // keys
    places = np.repeat(np.arange(each), keys)
    names = np.tile([f"k{key}" for key in range(keys)], each)
    found = table.slice(0, each).take(pa.array(places)).append_column("run", pa.array(names))
    return found.append_column("destination", pa.array(["p63"] * len(found))).combine_chunks()


def roster() -> list[str]:
    """Return the names of the processes that the stamps were written under; the last one is the destination."""
    found: list[str] = json.loads((Path(os.environ["RULE_TABLES"]) / "roster.json").read_text())
    return found


def released() -> Any:
    """Return the module of delivery in this process: 0.1.0 has it elsewhere."""
    try:
        from thence.tables.engines.local import deliver
    except ModuleNotFoundError:
        from thence.delivery import local as deliver  # type: ignore[import-not-found,no-redef]
    return deliver


def terms_of(by: str, policy: dict[str, Any]) -> Any:
    """Return the terms of a delivery, which 0.1.0 calls a setup."""
    module = released()
    make = getattr(module, "terms_of", None) or module.setup_of
    return make(by, roster() if by == "stamp" else None, {}, None, policy)


# -- measuring, in a process of its own --------------------------------------------------------------------------------


def bulk(rows: int) -> dict[str, float]:
    """Return microseconds a row of whole tables."""
    import pyarrow as pa

    deliver_table = released().deliver_table
    found: dict[str, float] = {}
    sink = roster()[-1]
    for by, one in tables(rows).items():
        policies: dict[str, dict[str, Any]] = {"": {}}
        if by == "depends_on":
            policies |= {
                ", released after 500 rows": {"policy": "release", "after_rows": 500},
                ", 10,000 ids remembered": {"remember": 10_000},
            }
        for keys in KEYS:
            table = keyed(one, rows, keys)
            table = table.set_column(
                table.column_names.index("destination"), "destination", pa.array([sink] * len(table))
            )
            for name, policy in policies.items() if keys == 1 else [("", {})]:
                given = table.filter(pa.array([place % 1000 != 7 for place in range(len(table))])) if name else table
                terms = terms_of(by, policy)
                deliver_table(given, terms)  # all of it: 0.1.0 compiles as it meets cases, and by the size of a key
                started = time.process_time()
                out = deliver_table(given, terms)
                assert len(out) == len(given)
                found[f"{by}, {keys} keys{name}"] = 1e6 * (time.process_time() - started) / len(given)
    return found


def taker(terms: Any, key: tuple[str, str]) -> Any:
    """Return a function that takes the next batch of a key; 0.1.0 has an object for each key."""
    try:
        from thence.tables.delivery.many_keys import ManyKeys
    except ModuleNotFoundError:
        from thence.delivery.key_state import KeyState  # type: ignore[import-not-found]

        return KeyState(terms, key).take
    import numpy as np

    keys = ManyKeys(terms)
    keys.begin(0, key)
    return lambda batch: keys.take(batch, np.zeros(1, np.int64), np.array([0, len(batch)]))


def single(rows: int) -> dict[str, float]:
    """Return microseconds a row where each comes alone: as a batch of one, as a table, and through the Orderer."""
    import pyarrow as pa

    from thence import Orderer

    found: dict[str, float] = {}
    rows = min(rows, 4000)
    sink = roster()[-1]

    def each(case: str, step: Any, given: Any) -> None:
        started = time.process_time()
        for one in given:
            step(one)
        found[case] = 1e6 * (time.process_time() - started) / len(given)

    for by, one in tables(rows).items():
        table = one.append_column("run", pa.array(["r"] * rows)).append_column("destination", pa.array([sink] * rows))
        terms = terms_of(by, {})
        sized = getattr(released(), "sized", None)  # 0.1.0 chose between two implementations by the size of a table
        terms = terms if sized is None else sized(terms, table.slice(0, 1))
        each(f"{by}, a batch of one", taker(terms, ("r", sink)), table.to_batches(max_chunksize=1))
        alone = [table.slice(place, 1) for place in range(min(rows, 1000))]
        each(f"{by}, a table of one", lambda rows, terms=terms: released().deliver_table(rows, terms), alone)
        orderer = Orderer(by, roster=roster() if by == "stamp" else None)
        each(f"{by}, Orderer", orderer.push, table.to_pylist())
    return found


def shell(rows: int) -> dict[str, float]:
    """Return CPU seconds of `thence deliver`, import and reading included."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    found: dict[str, float] = {}
    for count in (5_000, rows):
        one = tables(count)["depends_on"]
        table = one.append_column("run", pa.array(["r"] * count)).append_column("destination", pa.array(["d"] * count))
        with tempfile.TemporaryDirectory() as folder:
            pq.write_table(table, f"{folder}/in.parquet")
            asked = ["deliver", f"{folder}/in.parquet", "--by", "depends_on", "--engine", "local", "--quiet", "--out"]
            for place in range(2):  # the first time bytecode may have to be made
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                program = "import sys; from thence.cli import main; sys.exit(main(sys.argv[1:]))"
                command = [sys.executable, "-c", program, *asked, f"{folder}/out{place}"]
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found[f"thence deliver, {count} rows, seconds"] = (
                after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            )
    return found


def measured(python: str, source: str | None, what: str, rows: int) -> dict[str, float]:
    """Measure a release in a process of its own."""
    env = os.environ | ({"PYTHONPATH": source} if source else {})
    command = [python, __file__, "--measure", what, "--rows", str(rows)]
    done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(rows: int, before: str | None, python: str, rounds: int, parts: Sequence[str]) -> None:
    import _data
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        for by, table in made(rows).items():
            pq.write_table(table, f"{folder}/{by}.parquet")
        Path(folder, "roster.json").write_text(json.dumps(list(_data.ROSTER.names)))
        os.environ["RULE_TABLES"] = folder
        releases = {"now": (sys.executable, None)} | ({"before": (python, before)} if before else {})
        _measure(rows, releases, rounds, parts)


def _measure(rows: int, releases: dict[str, tuple[str, str | None]], rounds: int, parts: Sequence[str]) -> None:
    times: dict[str, dict[str, list[float]]] = {}
    for what in parts:
        for _ in range(rounds):
            for name, (python, source) in releases.items():
                for case, value in measured(python, source, what, rows).items():
                    times.setdefault(case, {}).setdefault(name, []).append(round(value, 3))
                    print(what, name, case, round(value, 3), file=sys.stderr, flush=True)
    file = HERE / "results" / "rule.json"
    result: dict[str, Any] = {"rows": rows, "microseconds of CPU a row, unless seconds are named": {}}
    if set(parts) != set(PARTS):
        result = json.loads(file.read_text())
    for case, found in times.items():
        middle = {name: median(values) for name, values in found.items()}
        ratio = {"now to before": round(middle["now"] / middle["before"], 2)} if "before" in middle else {}
        result["microseconds of CPU a row, unless seconds are named"][case] = found | ratio
    file.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--before", help="the src folder of an earlier release")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with its dependencies")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--measure", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=PARTS, help="the part that is measured anew; all of them if not given")
    asked = parser.parse_args()
    if asked.measure:
        print(json.dumps({"bulk": bulk, "single": single, "shell": shell}[asked.measure](asked.rows)))
    else:
        main(asked.rows, asked.before, asked.python, asked.rounds, [asked.only] if asked.only else PARTS)

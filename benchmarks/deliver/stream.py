"""CPU seconds of streams, JVM and Python together: `deliver` beside a buffer by hand, no rule at all, and earlier code.

    python benchmarks/deliver/stream.py [--only "64 keys" ...] [--rounds 1] [--ways deliver before] [--before SRC:MORE]

Every measurement is a process of its own: it starts Spark, runs a small stream that does not count, and then the
stream of the case over files that are made once, one for each micro-batch, into a sink that drops rows. Ways take turns
within a round, so that what else the machine does falls on all. `--before` is the PYTHONPATH of earlier code; 0.1.0
compiles when it first runs, so run its way once before the run that counts.

Writes results/stream.json as it goes, a row for each case. A way of `SLOW` reads only the first micro-batches, and is
compared with a run of `deliver` over the same ones. "Cold restart" is the last micro-batch in a new process that finds
the state of the others, beside the same micro-batch without them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
RESULT = HERE / "results" / "stream.json"
WINDOW = 20
"""Rows of a key that a row is late by, on the mean; an eighth of a short key."""


@dataclass(frozen=True)
class Case:
    """One stream: its rows, and the ways in which it is run; a way may read the first micro-batches alone."""

    keys: int = 64
    rows: int = 160_000
    batches: int = 8
    by: str = "depends_on"
    ways: tuple[str, ...] = ("deliver", "by hand")
    slow: dict[str, int] = field(default_factory=dict)
    hot: float = 0.0
    """Share of the rows that is of one key"""
    lost: float = 0.0
    cycles: float = 0.0
    twice: float = 0.0
    options: dict[str, Any] = field(default_factory=dict)


CASES = {
    "64 keys": Case(ways=("deliver", "by hand", "no rule", "before")),
    "64 keys, stamps": Case(by="stamp", ways=("deliver", "no rule")),
    "10,000 keys": Case(10_000, 100_000, 5, slow={"by hand": 2, "before": 1}, ways=("deliver", "by hand", "before")),
    "200,000 keys": Case(200_000, 400_000, 4, ways=("deliver",)),
    "a hot key": Case(hot=0.9),
    "a hot shard": Case(options={"shards": 1}, ways=("deliver",)),
    "released after 500 rows": Case(lost=0.001, options={"policy": "release", "after_rows": 500}, ways=("deliver",)),
    "1,000 ids remembered": Case(options={"remember": 1000}, ways=("deliver",)),
    "1 of 100 on a cycle": Case(cycles=0.01, ways=("deliver",)),
    "1 of 10 comes twice, with a reason": Case(twice=0.1, ways=("deliver",)),
    "cold restart": Case(ways=("deliver", "without state")),
}
SMALL = Case(keys=8, rows=4096, batches=4)


def places(case: Case) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the key and the place within it of each row."""
    hot = int(case.rows * case.hot)
    rest = np.arange(case.rows - hot)
    key = np.concatenate([np.zeros(hot, int), rest % case.keys])
    order = np.argsort(key, kind="stable")
    firsts = np.searchsorted(key[order], key[order])
    return key[order], np.arange(case.rows) - firsts


def rows_of(case: Case) -> tuple[pa.Table, np.ndarray[Any, Any]]:
    """Return rows, and for each the micro-batch in which it comes: late by some rows of its key."""
    random = np.random.default_rng(1)
    key, place = places(case)
    columns: dict[str, Any] = {}
    if case.by == "stamp":
        import _data

        base = _data.stream_of_one_sink(int(place.max()) + 1).take(pa.array(place))
        columns = {name: base.column(name) for name in ("message", "sender", "stamp")}
    else:
        cause = np.maximum(0, place - random.integers(1, 9, case.rows))
        cycle = random.random(case.rows) < case.cycles / 2
        cause = np.where(cycle, place + 1, cause)
        has = (place % 2 == 1) | cycle | np.roll(cycle, 1)
        cause = np.where(np.roll(cycle, 1) & ~cycle, np.maximum(place - 1, 0), cause)
        offsets = np.concatenate([[0], np.cumsum(has)]).astype(np.int32)
        names = pa.array([f"event-{n}" for n in range(int(place.max()) + 2)])
        columns = {
            "message": names.take(pa.array(place)),
            "sender": pa.array([f"sender-{n}" for n in range(16)]).take(pa.array(place % 16)),
            "depends_on": pa.ListArray.from_arrays(pa.array(offsets), names.take(pa.array(cause[has]))),
        }
    length = np.bincount(key, minlength=case.keys)[key]
    arrival = ((place + random.exponential(np.minimum(WINDOW, length / 8))) * 1000).astype(np.int64)
    runs = pa.array([f"run{n}" for n in range(case.keys)])
    table = pa.table(
        {
            "run": runs.take(pa.array(key)),
            "destination": pa.repeat("sink" if case.by != "stamp" else _sink(), case.rows),
            "arrival": arrival,
            **columns,
            "time": place / 10,
            "payload": place,
        }
    )
    came = np.minimum(case.batches - 1, arrival * case.batches // (1000 * length))
    kept = np.flatnonzero(random.random(case.rows) >= case.lost)
    kept = np.sort(np.concatenate([kept, kept[random.random(len(kept)) < case.twice]]))
    return table.take(pa.array(kept)), came[kept]


def _sink() -> str:
    import _data

    name: str = _data.ROSTER.name(_data.SINK)
    return name


def make(case: Case, folder: Path) -> None:
    """Write a file for each micro-batch."""
    folder.mkdir(parents=True)
    table, came = rows_of(case)
    for batch in range(case.batches):
        file = folder / f"{batch:04}.parquet"
        pq.write_table(table.take(pa.array(np.flatnonzero(came == batch))), file)
        os.utime(file, (1_700_000_000 + batch, 1_700_000_000 + batch))


# -- a process that measures -------------------------------------------------------------------------------------------


def cpu_seconds() -> float:
    """Return the CPU time of this process, its JVM and all their workers, those that have ended too."""
    found: dict[int, tuple[int, float]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found[int(stat.parent.name)] = int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    mine, total = {os.getpid()}, 0.0
    while True:
        more = {pid for pid, (parent, _) in found.items() if parent in mine} - mine
        if not more:
            break
        mine |= more
    for pid in mine & found.keys():
        total += found[pid][1]
    return total


def no_rule(table: Any) -> Any:
    """Packed by shard and through a stateful step that passes rows on: what Spark and packing cost alone."""
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    from thence.tables.engines.spark.shard_visit import PACKED, SHARD, packer, unpack_rows
    from thence.tables.engines.spark.stream import PACKED_ROWS, shard_of

    class Same(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.blob = handle.getValueState("state", "blob binary")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:
            for frame in rows:
                for blob in frame.iloc[:, -1]:
                    yield pd.DataFrame({PACKED: [blob]})
            self.blob.update((b"0" * 5000,))

        def close(self) -> None:
            pass

    shards = int(table.sparkSession.conf.get("spark.sql.shuffle.partitions"))
    sharded = table.select(shard_of(["run", "destination"], shards), *table.columns)
    stepped = sharded.mapInArrow(packer("arrival", None), PACKED_ROWS).groupBy(SHARD).transformWithStateInPandas(
        statefulProcessor=Same(), outputStructType=f"{PACKED} binary", outputMode="Append", timeMode="None"
    )  # fmt: skip
    return stepped.mapInArrow(unpack_rows, table.schema)


def ordered(way: str, case: Case, table: Any) -> Any:
    """Return the stream of a way."""
    if way == "no rule":
        return no_rule(table)
    if way == "by hand":
        from rivals import ByCause, rival

        return rival(table, ByCause())
    from thence.spark import deliver

    options = dict(case.options)
    if case.by == "stamp":
        import _data

        options["roster"] = _data.ROSTER
    return deliver(table, case.by, **options)


def stream(spark: Any, way: str, case: Case, source: Path, checkpoint: Path) -> dict[str, Any]:
    """Run a stream to the end of its files; say what it cost."""
    schema = spark.read.parquet(str(source)).schema
    before = cpu_seconds()
    table = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    writer = ordered(way, case, table).writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [each for each in query.recentProgress if each.numInputRows]
    told = [each.observedMetrics["thence"].asDict() if each.observedMetrics else {} for each in progress]
    return {
        "cpu": round(cpu_seconds() - before, 2),
        "ms of each micro-batch": [each.durationMs.get("addBatch") for each in progress],
        "state bytes written": [each.get("state_bytes") for each in told],
        "held": [each.get("held") for each in told],
    }


def measure(way: str, name: str, folder: Path, batches: int) -> None:
    """Be the process of one measurement, and print its row as the last line."""
    from thence.spark.session import local_session

    case = CASES[name]
    spark = local_session(conf={"spark.driver.memory": "3g", "spark.sql.streaming.numRecentProgressUpdates": 1000})
    with tempfile.TemporaryDirectory() as here:
        run = "deliver" if way in ("before", "without state", "all but the last") else way
        source, sort = Path(here) / "in", "small stamps" if case.by == "stamp" else "small"
        source.mkdir()
        files = sorted((folder / name).iterdir())
        chosen = {"all but the last": files[:-1], "without state": files[-1:]}.get(way, files[:batches])
        for file in chosen:
            os.link(file, source / file.name)
        stream(spark, run, case, folder / sort, Path(here) / "small")
        restart = name == "cold restart" and way != "without state"
        checkpoint = folder / "checkpoint" if restart else Path(here) / "checkpoint"
        if restart:
            source = folder / "restarted"
            source.mkdir(exist_ok=True)
            for file in chosen:
                if not (source / file.name).exists():
                    os.link(file, source / file.name)
        print(json.dumps(stream(spark, run, case, source, checkpoint)))
    spark.stop()


def worker_start(rounds: int) -> dict[str, Any]:
    """Measure what the Python beside the driver imports before it answers: Spark gives it about ten seconds."""
    spark = "import pyspark.sql.streaming.transform_with_state_driver_worker"
    ways = {"Spark's own": spark, "with ours": f"{spark}, thence.tables.engines.spark.stream_step"}
    cpu: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds + 1):  # the first one compiles
        for name, code in ways.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", code], check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu[name].append(round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 3))
    return {"CPU seconds of imports": {name: median(times[1:]) for name, times in cpu.items()}, "rounds": rounds}


# -- the run -----------------------------------------------------------------------------------------------------------


def measured(way: str, name: str, folder: Path, batches: int, before: str | None) -> dict[str, Any]:
    """Start a process that measures; Spark gives a busy machine ten seconds to start a worker, so try again."""
    path = [*([before] if way == "before" and before else []), str(HERE)]  # workers import a rival by its name
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    command = [sys.executable, __file__, "--measure", way, name, str(folder), str(batches)]
    for _ in range(3):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
            print(
                f"{name}, {way}, {batches} micro-batches: {row['cpu']} CPU s, ms {row['ms of each micro-batch']}",
                flush=True,
            )
            return row
    raise RuntimeError(done.stderr[-3000:])


def run_case(name: str, folder: Path, rounds: int, before: str | None, ways: list[str]) -> Iterator[dict[str, Any]]:
    """Run the ways of a case in turns; yield its row after each measurement, so that nothing is lost by a stop."""
    case = CASES[name]
    runs = [(way, case.slow.get(way, case.batches)) for way in case.ways if way != "before" or before]
    runs += [("deliver", few) for few in sorted({few for _, few in runs if few != case.batches})]
    runs = [(way, batches) for way, batches in runs if not ways or way in ways]
    found: dict[str, list[dict[str, Any]]] = {}
    for _ in range(rounds):
        for way, batches in runs:
            if name == "cold restart" and way == "deliver":
                shutil.rmtree(folder / "restarted", ignore_errors=True)
                shutil.rmtree(folder / "checkpoint", ignore_errors=True)
                measured("all but the last", name, folder, case.batches, None)
            found.setdefault(f"{way}, {batches}", []).append(measured(way, name, folder, batches, before))
            yield row_of(case, found)


def row_of(case: Case, found: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Return what a case has shown so far; the median of the rounds counts."""
    cpu = {title: median(each["cpu"] for each in rows) for title, rows in found.items()}
    ratios = {}
    for title in cpu:
        way, batches = title.rsplit(", ", 1)
        if way != "deliver" and f"deliver, {batches}" in cpu:
            ratios[f"deliver to {way}, {batches} micro-batches"] = round(cpu[f"deliver, {batches}"] / cpu[title], 3)
    last = found.get(f"deliver, {case.batches}", [{}])[-1]
    return {
        "rows": case.rows, "keys": case.keys, "micro-batches": case.batches, "options": case.options,
        "CPU seconds by way and micro-batches": cpu,
        "by round": {title: [row["cpu"] for row in rows] for title, rows in found.items()},
        "ratios": ratios,
        "ms of each micro-batch": {title: rows[-1]["ms of each micro-batch"] for title, rows in found.items()},
        "state bytes written by each micro-batch": last.get("state bytes written"), "held after each": last.get("held"),
        "load of the machine": round(os.getloadavg()[0], 1),
    }  # fmt: skip


def main(only: list[str], rounds: int, before: str | None, ways: list[str]) -> None:
    result = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    with tempfile.TemporaryDirectory() as here:
        folder = Path(here)
        make(SMALL, folder / "small")
        make(Case(keys=8, rows=4096, batches=4, by="stamp"), folder / "small stamps")
        result["the worker beside the driver"] = worker_start(7)
        print(result["the worker beside the driver"], flush=True)
        for name in only or CASES:
            make(CASES[name], folder / name)
            for row in run_case(name, folder, rounds, before, ways):
                result[name] = row
                RESULT.write_text(json.dumps(result, indent=1) + "\n")
            print(name, result[name]["CPU seconds by way and micro-batches"], result[name]["ratios"], flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=[])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--before")
    parser.add_argument("--ways", nargs="*", default=[])
    parser.add_argument("--measure", nargs=4)
    given = parser.parse_args()
    if given.measure:
        measure(given.measure[0], given.measure[1], Path(given.measure[2]), int(given.measure[3]))
    else:
        main(given.only, given.rounds, given.before, given.ways)

"""What people do instead, on the same stream in one run: speed, how long rows are held, how often the order is wrong.

    python benchmarks/deliver/rivals.py [--rows 160000] [--rounds 3] [--warm 1] [--only "5,000 keys"]

Rounds that do not count, then all in turn, round by round; the median counts, single rounds stand beside it.
Writes results/rivals.json, with the CPU seconds of JVM and Python, which a busy machine changes least. All
streams are packed alike, so that what differs is the stateful step:

- a watermark and a sort: rows wait until event time at their key has moved on, then leave sorted by their time;
- a buffer written by hand: rows wait until the causes they name have left. It is tuned (one blob of state, rows as
  Arrow, no look at what is not concerned), and it does no more than that: no repeats, no cycles, no lost causes, no
  reasons, and all ids are written in each micro-batch;
- a global sort of everything, once all has come.

Holding is counted in micro-batches, from the one in which a row comes to the one in which it leaves.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

sys.path.insert(0, str(Path(__file__).parent))
import _trace
from stream import cpu_seconds

HERE = Path(__file__).parent
WINDOW = 20.0
"""Rows of a key that a row is late by, on the mean; at most an eighth of a key."""
KEY = ("run", "destination")


@dataclass(frozen=True)
class Traffic:
    """A stream: its keys, its micro-batches, and those of them in which Java still compiles, which do not count."""

    keys: int = 64
    batches: int = 16
    warm: int = 2
    rows: int = 160_000
    few: bool = False
    """Whether only the rivals are run that keep the order"""


TRAFFIC = {"64 keys": Traffic(), "5,000 keys": Traffic(5_000, 4, 1, 100_000, few=True)}


class Rival(StatefulProcessor):
    """A stateful step over packed rows with one blob of state."""

    def init(self, handle: Any) -> None:
        self.blob = handle.getValueState("state", "blob binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:
        from _by_key import PACKED, sorted_rows

        from thence.tables.delivery.shard_state import ipc

        blobs = [blob for frame in rows for blob in frame.iloc[:, -1]]
        state = pickle.loads(bytes(self.blob.get()[0])) if self.blob.exists() else None
        out, state = self.step(sorted_rows(blobs), state)
        blob = pickle.dumps(state, 5)
        self.blob.update((blob,))
        yield pd.DataFrame({PACKED: [ipc(out)], "__state": [len(blob)]})

    def step(self, rows: pa.RecordBatch, state: Any) -> tuple[pa.RecordBatch, Any]:
        raise NotImplementedError

    def close(self) -> None:
        pass


class Watermark(Rival):
    """Rows leave sorted by time once event time at their key is `delay` seconds ahead of them; late ones at once."""

    def __init__(self, delay: float) -> None:
        self.delay = delay

    def step(self, rows: pa.RecordBatch, state: Any) -> tuple[pa.RecordBatch, Any]:
        held, latest = (rows.slice(0, 0), -np.inf) if state is None else state
        table = pa.concat_batches([held, rows])
        times = table.column("time").to_numpy()
        latest = max(latest, times.max())
        due = pa.array(times <= latest - self.delay)
        out = table.filter(due)
        return out.take(pc.sort_indices(out.column("time"))), (table.filter(pc.invert(due)), latest)


class ByCause(Rival):
    """Rows leave once the causes they name have left; each waits at the first one that has not."""

    def step(self, rows: pa.RecordBatch, state: Any) -> tuple[pa.RecordBatch, Any]:
        held, left = (rows.slice(0, 0), set()) if state is None else state
        table = pa.concat_batches([held, rows])
        messages, causes = table.column("message").to_pylist(), table.column("depends_on").to_pylist()
        waiting: dict[str, list[int]] = {}
        order: list[int] = []
        for place in range(len(messages)):
            ready = [place]
            while ready:
                row = ready.pop()
                lacks = next((cause for cause in causes[row] if cause not in left), None)
                if lacks is not None:
                    waiting.setdefault(lacks, []).append(row)
                    continue
                left.add(messages[row])
                order.append(row)
                ready += reversed(waiting.pop(messages[row], ()))
        kept = sorted(row for rows_ in waiting.values() for row in rows_)
        return table.take(pa.array(order, pa.int64())), (table.take(pa.array(kept, pa.int64())), left)


def rival(table: Any, processor: Rival) -> Any:
    from _by_key import PACKED, packer
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, LongType, StructField, StructType

    from thence.tables.engines.spark.shard_visit import unpack_rows

    keys = [StructField(name, table.schema[name].dataType) for name in KEY]
    packed = table.selectExpr("run as __key_0", "destination as __key_1", "*").mapInArrow(
        packer(KEY), StructType([*keys, StructField(PACKED, BinaryType())])
    )
    stepped = packed.groupBy(*KEY).transformWithStateInPandas(
        statefulProcessor=processor,
        outputStructType=StructType([StructField(PACKED, BinaryType()), StructField("__state", LongType())]),
        outputMode="Append",
        timeMode="None",
    )
    return (
        stepped.observe("thence", F.sum("__state").alias("state_bytes"))
        .select(PACKED)
        .mapInArrow(unpack_rows, table.schema)
    )


def streamed(ordered: Any, folder: Path, warm: int) -> dict[str, Any]:
    """Run a stream; each micro-batch is written as it is, with its number."""
    from pyspark.sql import functions as F

    def write(batch: Any, number: int) -> None:
        kept = batch.select("run", "message", "came", F.lit(number).alias("left"))
        kept.write.mode("append").parquet(str(folder / "out" / f"{number:04}"))

    query = ordered.writeStream.foreachBatch(write).option("checkpointLocation", str(folder / "checkpoint"))
    used = cpu_seconds()
    query = query.trigger(availableNow=True).start()
    query.awaitTermination()
    told = [p for p in query.recentProgress if p.numInputRows]
    seconds = sum(p.durationMs["addBatch"] for p in told[warm:]) / 1000
    return {
        "seconds": seconds,
        "CPU seconds of all micro-batches": round(cpu_seconds() - used, 2),
        "rows a second": sum(p.numInputRows for p in told[warm:]) / seconds,
        "state bytes written by the last micro-batch": told[-1].observedMetrics["thence"].asDict()["state_bytes"],
        "state bytes written in all": sum(p.observedMetrics["thence"].asDict()["state_bytes"] for p in told),
    }


def sorted_once(table: Any, folder: Path, batches: int) -> dict[str, Any]:
    from pyspark.sql import functions as F

    start = time.perf_counter()
    table.orderBy("time").write.format("noop").mode("overwrite").save()
    seconds = time.perf_counter() - start
    kept = table.select("run", "message", "came", F.lit(batches).alias("left"), "time").orderBy("time")
    kept.drop("time").coalesce(1).write.parquet(str(folder / "out" / "0000"))
    return {"seconds": seconds, "rows a second": table.count() / seconds}


def judged(folder: Path, traffic: Traffic) -> dict[str, Any]:
    """Audit what left, and say how long it was held."""
    from thence import audit

    parts = [pq.read_table(part) for part in sorted((folder / "out").iterdir())]
    out = pa.concat_tables(parts)
    orders: dict[str, list[str]] = {}
    for run, message in zip(out.column("run").to_pylist(), out.column("message").to_pylist(), strict=True):
        orders.setdefault(run, []).append(message)
    held = out.column("left").to_numpy() - out.column("came").to_numpy()
    found = audit(_trace.trace(orders, traffic.rows // traffic.keys))
    return {
        "out": len(out),
        "still held": traffic.rows - len(out),
        "violations": sum(run["violations"] for run in found.runs),
        "held, micro-batches": {"p50": float(np.percentile(held, 50)), "p99": float(np.percentile(held, 99))},
    }


def main(names: list[str], rows: int | None, rounds: int, warm: int) -> None:
    from thence.spark.session import local_session

    file = HERE / "results" / "rivals.json"
    result = json.loads(file.read_text()) if file.exists() else {}
    os.environ["PYTHONPATH"] = str(HERE)  # workers import the rivals by name
    spark = local_session(conf={"spark.driver.memory": "4g", "spark.sql.streaming.numRecentProgressUpdates": 1000})
    for name in names:
        traffic = TRAFFIC[name] if rows is None else replace(TRAFFIC[name], rows=rows)
        with tempfile.TemporaryDirectory() as folder:
            told = in_turns(spark, Path(folder), traffic, rounds, warm)
        result[name] = {title: middle(each) for title, each in told.items()}
        result[name]["load of the machine"] = round(os.getloadavg()[0], 1)
        file.write_text(json.dumps(result, indent=2) + "\n")


def in_turns(spark: Any, folder: Path, traffic: Traffic, rounds: int, warm: int) -> dict[str, list[dict[str, Any]]]:
    """Run all ways round by round; return the rounds that count."""
    from thence.spark import deliver

    write_files(spark, folder, traffic)
    schema = spark.read.parquet(str(folder / "in")).schema

    def read() -> Any:
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))

    def by_rule(place: Path) -> dict[str, Any]:
        return streamed(deliver(read(), "depends_on"), place, traffic.warm)

    def by_rival(place: Path, processor: Rival) -> dict[str, Any]:
        return streamed(rival(read(), processor), place, traffic.warm)

    jobs: dict[str, Callable[[Path], dict[str, Any]]] = {
        "deliver": by_rule,
        "a buffer by cause, by hand": lambda place: by_rival(place, ByCause()),
    }
    if not traffic.few:
        for delay in (2.0, 10.0):
            jobs[f"watermark of {delay:g} s and sort"] = lambda place, delay=delay: by_rival(place, Watermark(delay))
        whole = spark.read.parquet(str(folder / "in"))
        jobs["global sort by time"] = lambda place: sorted_once(whole, place, traffic.batches)
    told: dict[str, list[dict[str, Any]]] = {title: [] for title in jobs}
    for number in range(rounds + warm):
        for title, job in jobs.items():
            place = folder / f"{number} {title}"
            told[title].append({"rows": traffic.rows} | job(place) | judged(place, traffic))
            print(number, title, json.dumps(told[title][-1]), flush=True)
            shutil.rmtree(place)
    return {title: each[warm:] for title, each in told.items()}


def write_files(spark: Any, folder: Path, traffic: Traffic) -> None:
    """Write one file for each micro-batch."""
    window = min(WINDOW, traffic.rows / traffic.keys / 8)
    table = _trace.arrivals(spark, folder, traffic.rows, traffic.keys, window, traffic.batches)
    (folder / "in").mkdir()
    table.repartition(traffic.batches, "came").write.partitionBy("came").parquet(str(folder / "parts"))
    for batch in range(traffic.batches):
        (found,) = (folder / "parts" / f"came={batch}").glob("*.parquet")
        rows = pq.ParquetFile(found).read().replace_schema_metadata(None)  # Spark's own schema lacks the next column
        file = folder / "in" / f"{batch:04}.parquet"
        pq.write_table(rows.append_column("came", pa.array([batch] * len(rows), pa.int32())), file)
        os.utime(file, (1_700_000_000 + batch, 1_700_000_000 + batch))


def middle(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the round whose speed is the median, with the speeds of all."""
    speeds = [round(each["rows a second"]) for each in rounds]
    chosen = sorted(rounds, key=lambda each: each["rows a second"])[len(rounds) // 2]
    return chosen | {"rows a second": round(chosen["rows a second"]), "rows a second, by round": speeds}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", choices=list(TRAFFIC), default=list(TRAFFIC))
    parser.add_argument("--rows", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--warm", type=int, default=1)
    options = parser.parse_args()
    main(options.only, options.rows, options.rounds, options.warm)

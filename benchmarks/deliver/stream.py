"""Stream delivery against the same packed stateful pipeline that only passes rows through, over many micro-batches.

    python benchmarks/deliver/stream.py [--only "many keys"] [--scale 0.1]

Writes results/stream.json as it goes. Both pipelines read the same files, in turns of some micro-batches each, so that
what else the machine does falls on both. For each kind: milliseconds of each micro-batch of both, the ratio of their
medians, and the bytes of state that each micro-batch wrote.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import _data

HERE = Path(__file__).parent
TURNS = 2
WARM = 2
"""Micro-batches of a turn that are not counted: workers start in them."""


@dataclass(frozen=True)
class Kind:
    """One kind of stream: how its rows are made, how many, and how they are delivered."""

    make: Callable[..., Any]
    by: str
    keys: int = _data.KEYS
    rows: int = 320_000
    batches: int = 16
    lost: float = 0.0
    """Share of rows that never come"""
    state: int = 5000
    """Bytes that the yardstick keeps for each key"""
    options: dict[str, Any] = field(default_factory=dict)


def explicit(spark: Any, folder: Path, rows: int, keys: int) -> Any:
    return _data.causes(spark, folder, rows, keys=keys, hot=False)


def stamps(spark: Any, folder: Path, rows: int, keys: int) -> Any:
    return _data.arrivals(spark, folder, rows, keys=keys)


KINDS = {
    "stamps": Kind(stamps, "stamp", options={"roster": _data.ROSTER}),
    "explicit causes": Kind(explicit, "depends_on"),
    "after a forced release": Kind(
        explicit, "depends_on", lost=0.001, options={"policy": "release", "after_rows": 500}
    ),
    "many keys": Kind(explicit, "depends_on", keys=10_000, rows=100_000, batches=1, state=500),
}


def pass_through(table: Any, size: int) -> Any:
    """Packed, stateful, and nothing else: the blob is read and written back, rows are handed on."""
    import pandas as pd
    from _by_key import PACKED, packer
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql.types import BinaryType, StructField, StructType

    from thence.tables.engines.spark.shard_visit import unpack_rows

    class Same(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.blob = handle.getValueState("state", "blob binary")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:
            state = bytes(self.blob.get()[0]) if self.blob.exists() else b"0" * size
            for frame in rows:
                for blob in frame.iloc[:, -1]:
                    yield pd.DataFrame({"run": [key[0]], "destination": [key[1]], PACKED: [blob]})
            self.blob.update((state,))

        def close(self) -> None:
            pass

    keys = [StructField("run", table.schema["run"].dataType), StructField("destination", table.schema["run"].dataType)]
    schema = StructType([*keys, StructField(PACKED, BinaryType())])
    keyed = table.selectExpr("run as __key_0", "destination as __key_1", "*")
    packed = keyed.mapInArrow(packer(("run", "destination")), schema)
    stepped = packed.groupBy("run", "destination").transformWithStateInPandas(
        statefulProcessor=Same(), outputStructType=schema, outputMode="Append", timeMode="None"
    )
    return stepped.select(PACKED).mapInArrow(unpack_rows, table.schema)


def files(table: Any, kind: Kind, folder: Path, rows: int) -> list[Path]:
    """Part the arrivals into one file per micro-batch, in the order of arrival."""
    if kind.lost:
        table = table.where(f"abs(hash(run, message)) % 100000 >= {int(100000 * kind.lost)}")
    per_key = 1000 * rows // kind.keys
    part = f"least({kind.batches - 1}, arrival * {kind.batches} div {per_key}) part"
    parted = table.selectExpr("*", part).repartition(kind.batches, "part")
    parted.write.partitionBy("part").parquet(str(folder / "parts"))
    made = []
    for batch in range(kind.batches):
        (found,) = (folder / "parts" / f"part={batch}").glob("*.parquet")
        os.utime(found, (1_700_000_000 + batch, 1_700_000_000 + batch))
        made.append(found)
    return made


def run(ordered: Any, folder: Path) -> list[dict[str, Any]]:
    query = (
        ordered.writeStream.format("noop").option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    )
    query.awaitTermination()
    return [
        {"ms": p.durationMs.get("addBatch"), "told": p.observedMetrics["thence"].asDict() if p.observedMetrics else {}}
        for p in query.recentProgress
        if p.numInputRows
    ]


def measured(spark: Any, kind: Kind, folder: Path, rows: int) -> dict[str, Any]:
    from thence.spark import deliver

    table = kind.make(spark, folder, rows, kind.keys)
    waiting = files(table, kind, folder, rows)
    source = folder / "in"
    source.mkdir()

    def read() -> Any:
        return spark.readStream.schema(table.schema).option("maxFilesPerTrigger", 1).parquet(str(source))

    turns, warm = (TURNS, WARM) if kind.batches > TURNS * WARM else (1, 0)
    jobs = {
        "passing through": lambda: pass_through(read(), kind.state),
        "delivering": lambda: deliver(read(), kind.by, **kind.options),
    }
    done: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in jobs}
    for turn in range(turns):
        for batch in range(turn * len(waiting) // turns, (turn + 1) * len(waiting) // turns):
            shutil.move(waiting[batch], source / f"{batch:04}.parquet")
        for name, job in jobs.items():
            done[name].append(run(job(), folder / name))
            print(turn, name, [each["ms"] for each in done[name][-1]], flush=True)
    ms = {name: [median(each["ms"] for each in turn[warm:]) for turn in told] for name, told in done.items()}
    told = [each["told"] for turn in done["delivering"] for each in turn]
    return {
        "rows": rows,
        "keys": kind.keys,
        "micro-batches": kind.batches,
        "median ms of a micro-batch, turn by turn": ms,
        "ratio": median(a / b for a, b in zip(ms["delivering"], ms["passing through"], strict=True)),
        "ratio turn by turn": [a / b for a, b in zip(ms["delivering"], ms["passing through"], strict=True)],
        "released": sum(each.get("released", 0) for each in told),
        "state bytes written by each micro-batch": [each.get("state_bytes") for each in told],
        "held after each micro-batch": [each.get("held") for each in told],
    }


def main(only: str | None, scale: float) -> None:
    from thence.spark.session import local_session

    spark = local_session(conf={"spark.driver.memory": "4g", "spark.sql.streaming.numRecentProgressUpdates": 1000})
    file = HERE / "results" / "stream.json"
    result = json.loads(file.read_text()) if file.exists() else {}
    for name, kind in KINDS.items():
        if only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:  # compile, and start the workers
            measured(spark, replace(kind, keys=8, rows=4096, batches=4), Path(folder), 4096)
        with tempfile.TemporaryDirectory() as folder:
            result[name] = measured(spark, kind, Path(folder), int(kind.rows * scale))
        file.write_text(json.dumps(result, indent=2) + "\n")
        print(name, json.dumps(result[name]), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=list(KINDS))
    parser.add_argument("--scale", type=float, default=1.0)
    told = parser.parse_args()
    main(told.only, told.scale)

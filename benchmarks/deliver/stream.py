"""Stream delivery against the same packed stateful pipeline that only passes rows through, over many micro-batches.

    python benchmarks/deliver/stream.py [--rows 2000000] [--batches 100]

Writes results/stream.json: milliseconds of each micro-batch of both, their ratio, and the state's size over time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import _data

HERE = Path(__file__).parent


def pass_through(table: Any) -> Any:
    """Packed, stateful, and nothing else: the blob is read and written back, rows are handed on."""
    import pandas as pd
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql.types import BinaryType, StructField, StructType

    from thence.spark.streaming import BLOB, PACKED, packer, unpack

    class Same(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.blob = handle.getValueState("state", BLOB)

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:
            state = bytes(self.blob.get()[0]) if self.blob.exists() else b"0" * 5000
            for frame in rows:
                for blob in frame.iloc[:, -1]:
                    yield pd.DataFrame({"run": [key[0]], "destination": [key[1]], PACKED: [blob]})
            self.blob.update((state,))

        def close(self) -> None:
            pass

    keys = [StructField("run", table.schema["run"].dataType), StructField("destination", table.schema["run"].dataType)]
    schema = StructType([*keys, StructField(PACKED, BinaryType())])
    keyed = table.selectExpr("run as __key_0", "destination as __key_1", "*")
    packed = keyed.mapInArrow(packer(("run", "destination"), "arrival", "message"), schema)
    stepped = packed.groupBy("run", "destination").transformWithStateInPandas(
        statefulProcessor=Same(), outputStructType=schema, outputMode="Append", timeMode="None"
    )
    return stepped.select(PACKED).mapInArrow(unpack, table.schema)


def files(spark: Any, folder: Path, rows: int, batches: int) -> tuple[Path, Any]:
    """Part the arrivals into one file per micro-batch, in the order of arrival."""
    table = _data.arrivals(spark, folder, rows)
    target = folder / "in"
    target.mkdir()
    per_key = rows // _data.KEYS
    for batch in range(batches):
        low, high = batch * per_key * 1000 // batches, (batch + 1) * per_key * 1000 // batches
        high = 1 << 60 if batch == batches - 1 else high
        part = folder / f"part{batch}"
        table.where(f"arrival >= {low} and arrival < {high}").coalesce(1).write.parquet(str(part))
        (made,) = part.glob("*.parquet")
        made.rename(target / f"{batch:04}.parquet")
        os.utime(target / f"{batch:04}.parquet", (1_700_000_000 + batch, 1_700_000_000 + batch))
    return target, table.schema


def run(spark: Any, ordered: Any, folder: Path) -> list[dict[str, Any]]:
    query = (
        ordered.writeStream.format("noop").option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    )
    query.awaitTermination()
    return [
        {
            "rows": p.numInputRows,
            "ms": p.durationMs.get("addBatch"),
            "told": p.observedMetrics["thence"].asDict() if "thence" in p.observedMetrics else None,
        }
        for p in query.recentProgress
        if p.numInputRows
    ]


def main(rows: int, batches: int) -> None:
    from thence.spark import deliver
    from thence.spark.session import local_session

    conf = {"spark.driver.memory": "4g", "spark.sql.streaming.numRecentProgressUpdates": 10 * batches}
    spark = local_session(conf=conf)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, schema = files(spark, folder, rows, batches)

        def read() -> Any:
            return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))

        same = run(spark, pass_through(read()), folder / "same")
        ours = run(spark, deliver(read(), "stamp", roster=_data.ROSTER, fast_from=1), folder / "ours")
    warm = slice(3, None)
    ms_same = [each["ms"] for each in same][warm]
    ms_ours = [each["ms"] for each in ours][warm]
    third = max(1, len(ms_ours) // 3)
    result = {
        "rows": rows,
        "batches": batches,
        "keys": _data.KEYS,
        "ms of a micro-batch, passing through (median)": median(ms_same),
        "ms of a micro-batch, delivering (median)": median(ms_ours),
        "ratio of medians": median(ms_ours) / median(ms_same),
        "last third / first third": median(ms_ours[-third:]) / median(ms_ours[:third]),
        "state bytes by micro-batch": [each["told"]["state_bytes"] for each in ours if each["told"]],
        "held by micro-batch": [each["told"]["held"] for each in ours if each["told"]],
        "ms passing through": [each["ms"] for each in same],
        "ms delivering": [each["ms"] for each in ours],
    }
    (HERE / "results" / "stream.json").write_text(json.dumps(result, indent=2) + "\n")
    print({key: value for key, value in result.items() if not isinstance(value, list)})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--batches", type=int, default=100)
    told = parser.parse_args()
    main(told.rows, told.batches)

"""The causal paths that prove violations, found near them: each looks only at the rows between its two sends.

Law. `paths(frame, violations)` returns every violation it was given, once, with `path`; null where the rows do
not bear it out. With `order`, a violation's task gets only the rows of its run between the sends of `missing`
and `early`; a run without `order` goes to it whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thence.kernels.path import STEPS, shortest
from thence.spark.normal import completed

STEP = "struct<process:string,index:bigint,kind:string,message:string>"
DDL = f"run string, destination string, early string, missing string, path array<{STEP}>"
SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("destination", pa.string()),
        ("early", pa.string()),
        ("missing", pa.string()),
        ("path", STEPS),
    ]
)


def paths(frame: DataFrame, violations: DataFrame) -> DataFrame:
    """Return the violations with the path that proves each, from the normalised events."""
    asked = violations.select("run", "destination", "early", "missing")
    if "order" not in frame.columns:
        frame = frame.withColumn("order", F.lit(None).cast("bigint"))
    window = _windows(frame, asked)
    between = F.col("low").isNull() | F.col("order").isNull() | F.col("order").between(F.col("low"), F.col("high"))
    relevant = frame.where(F.col("kind") <= 1).withColumnRenamed("run", "of")
    met = relevant.join(F.broadcast(window), (F.col("of") == F.col("run")) & between, "inner")
    key = ("run", "destination", "early", "missing")
    columns = [name for name in frame.columns if name != "run"]
    proved = met.select(*key, *columns).groupBy(*key).applyInArrow(_prove, DDL)
    return asked.join(proved, list(key), "left").select(*SCHEMA.names)


def _windows(frame: DataFrame, asked: DataFrame) -> DataFrame:
    """Return each violation with the `order` of its two sends."""
    sends = frame.where(F.col("kind") == 0).select("run", "message", "order")
    ends = asked.select("run", F.explode(F.array("missing", "early")).alias("message")).distinct()
    found = sends.join(F.broadcast(ends), ["run", "message"]).groupBy("run", "message").agg(F.min("order").alias("at"))
    first = found.select("run", F.col("message").alias("missing"), F.col("at").alias("low"))
    last = found.select("run", F.col("message").alias("early"), F.col("at").alias("high"))
    return asked.join(first, ["run", "missing"], "left").join(last, ["run", "early"], "left")


def _prove(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    run, destination, early, missing = (each.as_py() for each in key)
    table = completed(pa.Table.from_batches(batches))
    path: Any = shortest(table, missing, early)
    row = {"run": run, "destination": destination, "early": early, "missing": missing, "path": path}
    yield pa.RecordBatch.from_pylist([row], schema=SCHEMA)

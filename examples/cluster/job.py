"""A job for spark-submit: deliver a table of arrivals, audit a trace, and write both answers as Parquet.

    spark-submit --master spark://HOST:7077 [--py-files ... | --archives ...] job.py ARRIVALS TRACE OUT

ARRIVALS has the columns account, id, parent and arrival, TRACE those of a trace. OUT gets the folders ordered, runs and
violations. All three are paths that every worker can open. The last line says where the driver and a worker have found
thence, and whether its modules are compiled.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from thence.spark import audit, deliver


def where_found(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Say where this Python has found thence, and the file of one of its inner loops."""
    import thence
    from thence.tables.delivery import delivery_rule_cy

    for _ in batches:
        yield pa.RecordBatch.from_pydict({"package": [thence.__file__], "rule": [delivery_rule_cy.__file__]})


def main(arrivals: str, trace: str, out: str) -> None:
    spark = SparkSession.builder.appName("thence").getOrCreate()
    ordered = deliver(spark.read.parquet(arrivals), id="id", causes="parent", key="account")
    ordered.write.mode("overwrite").parquet(f"{out}/ordered")
    with audit(spark.read.parquet(trace)) as result:
        result.runs.write.mode("overwrite").parquet(f"{out}/runs")
        result.violations.write.mode("overwrite").parquet(f"{out}/violations")
    (driver,) = where_found(iter([pa.RecordBatch.from_pydict({"n": [1]})]))
    worker = spark.range(1).mapInArrow(where_found, "package string, rule string").first()
    assert worker is not None
    print(f"driver: {driver['package'][0]} {driver['rule'][0]}; worker: {worker['package']} {worker['rule']}")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

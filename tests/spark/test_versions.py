"""What stands in for functions that an older Spark lacks gives the answers of those functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from thence.tables.engines.spark import versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_hash_is_that_of_spark(spark: SparkSession) -> None:
    numbers = [*range(300), 2**15, 2**16 + 1, 2**31 - 1]
    frame = spark.createDataFrame([(number,) for number in numbers], "number int")
    found = {row["number"]: row["hash"] for row in frame.select("number", F.hash("number").alias("hash")).collect()}
    assert found == {number: versions.spark_hash(number) for number in numbers}


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_rows_lie_in_the_partition_whose_number_they_say(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, native: bool, count: int
) -> None:
    monkeypatch.setattr(versions, "HAS_BY_ID", native and versions.HAS_BY_ID)
    for kind in ("int", "bigint"):
        frame = spark.range(3 * count, numPartitions=2).select((F.col("id") % count).cast(kind).alias("number"))
        placed = versions.repartition_by_id(frame, count, F.col("number"))
        rows = placed.select("number", F.spark_partition_id().alias("at")).collect()
        assert sorted((row["number"], row["at"]) for row in rows) == sorted(
            (n % count, n % count) for n in range(3 * count)
        )


@pytest.mark.parametrize("native", [True, False])
def test_a_group_comes_in_its_order_and_may_leave_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, native: bool
) -> None:
    monkeypatch.setattr(versions, "TAKES_BATCHES", native and versions.TAKES_BATCHES)
    rows = [(place % 5, 30_000 - place) for place in range(30_000)]
    table = pa.table(
        {"key": pa.array([k for k, _ in rows], pa.int64()), "place": pa.array([p for _, p in rows], pa.int64())}
    )
    frame = spark.createDataFrame(table).repartition(2, "key").sortWithinPartitions("key", "place")

    def in_order(key: tuple[pa.Scalar, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        places = [place for batch in batches for place in batch.column("place").to_pylist()]
        if key[0].as_py() != 3:
            out = pa.RecordBatch.from_pydict(
                {"key": [key[0].as_py()], "rows": [len(places)], "sorted": [places == sorted(places)]}
            )
            yield out
            yield out.slice(0, 0)

    found = versions.apply_to_groups(frame.groupBy("key"), in_order, "key long, rows long, sorted boolean").collect()
    assert sorted(map(tuple, found)) == [(key, 6000, True) for key in (0, 1, 2, 4)]

"""The number of shards belongs to the checkpoint: another one is refused, and the right one goes on where it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from thence.spark import deliver


def test_another_number_of_shards_is_refused_and_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    incoming, out, checkpoint = (tmp_path / name for name in ("in", "out", "checkpoint"))
    incoming.mkdir()

    def put(name: str, *rows: dict[str, object]) -> None:
        (incoming / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    def run(shards: int) -> None:
        arrivals = spark.readStream.schema("event string, parent string, account long").json(str(incoming))
        ordered = deliver(arrivals, id="event", causes="parent", key="account", shards=shards)
        query = (
            ordered.writeStream.format("parquet")
            .options(path=str(out), checkpointLocation=str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    put("1.json", {"event": "b", "parent": "a", "account": 1}, {"event": "x", "parent": None, "account": 2})
    run(shards=3)
    put("2.json", {"event": "a", "parent": None, "account": 1})
    with pytest.raises(
        StreamingQueryException, match="this checkpoint has 3 shards, and the stream was started with 5"
    ):
        run(shards=5)
    run(shards=3)
    rows = spark.read.parquet(str(out)).collect()
    assert sorted((row.event, row.outcome, row.position) for row in rows) == [
        ("a", "delivered", 1),
        ("b", "delivered", 2),
        ("x", "delivered", 1),
    ]

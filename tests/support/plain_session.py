"""What a new user does, in a session that nobody has set up: run as a program, so that nothing else has.

python plain_session.py FOLDER        prints what was found as JSON
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
ROWS = (
    "select destination, arrival, Event_ID, depends_on, to_timestamp(moment) moment, to_timestamp_ntz(local) local "
    "from values ('d', 2L, 'b', array('a'), '2024-03-31 01:30:00', '2024-03-31 02:30:00'), "
    "('d', 1L, 'a', cast(array() as array<string>), '2024-03-31 00:30:00', '2024-03-31 01:30:00'), "
    "('d', cast(null as long), 'z', array('b'), null, null), "
    "(cast(null as string), 1L, 'n', cast(array() as array<string>), null, null) "
    "as t(destination, arrival, Event_ID, depends_on, moment, local)"
)


def run(spark: Any, folder: Path, zone: str) -> dict[str, Any]:
    """Deliver the same rows as a batch and as a stream; return both, and what the moments are in seconds."""
    from pyspark.sql import functions as F

    from thence.spark import deliver, split, waiting

    spark.conf.set("spark.sql.session.timeZone", "UTC")
    table = spark.sql(ROWS).withColumn("deep", F.struct("moment", F.array("moment").alias("more")))
    source = folder / "in"
    if not source.exists():
        table.coalesce(1).write.parquet(str(source))
    spark.conf.set("spark.sql.session.timeZone", zone)
    options: dict[str, Any] = {"columns": {"message": "event_id"}, "key": ["destination"]}

    def told(ordered: Any) -> list[Any]:
        shown = ordered.selectExpr(
            "destination", "event_id", "outcome", "position", "reason", "waited_for", "unix_micros(moment) moment",
            "unix_micros(deep.more[0]) more", "cast(local as string) local",
        )  # fmt: skip
        return sorted((list(row) for row in shown.collect()), key=str)

    batch = deliver(spark.read.parquet(str(source)), "depends_on", **options)
    stream = spark.readStream.schema(table.schema).parquet(str(source))
    found: dict[str, Any] = {"batch": told(batch), "split": [each.count() for each in split(batch)]}
    found["waits"] = [row.asDict() for row in waiting(batch).collect()]
    for name, arrivals in (("stream", stream), ("no arrival", stream.drop("arrival"))):
        out = folder / f"{zone.replace('/', '-')} {name}"
        query = (
            deliver(arrivals, "depends_on", **options).writeStream.format("parquet").option("path", str(out / "out"))
            .option("checkpointLocation", str(out / "checkpoint")).trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        found[name] = told(spark.read.parquet(str(out / "out")))
    nested = stream.drop("arrival").selectExpr("struct(destination as d) as who", "*")
    out = folder / f"{zone.replace('/', '-')} nested"
    keyed = deliver(nested, "depends_on", key=["who"], columns=options["columns"])
    query = (
        keyed.writeStream.format("parquet").option("path", str(out / "out"))
        .option("checkpointLocation", str(out / "checkpoint")).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    found["struct key"] = told(spark.read.parquet(str(out / "out")))
    return found


def main(folder: Path, zones: list[str]) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", PROVIDER)
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    (folder / "found.json").write_text(json.dumps({zone: run(spark, folder, zone) for zone in zones}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

"""A delivering job in a process of its own, so that a test can kill it or run it on another kind of cluster.

python stream_job.py stream FOLDER      files in FOLDER/in, checkpoint and sink beside them
python stream_job.py batch FOLDER MASTER    one batch, its outcomes to FOLDER/batch.json; MASTER may be a Connect one
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

SCHEMA = (
    "run string, destination string, arrival long, message string, sender string, time double, "
    "payload struct<text:string,place:long>, stamp binary, clock map<string,long>, depends_on array<string>"
)


def stream(folder: Path, roster: list[str]) -> None:
    from whence.spark import deliver
    from whence.spark.session import local_session

    spark = local_session(quick=True)
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    ordered = deliver(source, "stamp", roster=roster, fast_from=1 << 30)
    query = (
        ordered.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "out"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


def session_on(master: str) -> Any:
    from pyspark.sql import SparkSession

    from whence.java import find_java

    os.environ["JAVA_HOME"] = str(find_java().home)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    if master.startswith("remote "):
        os.environ["SPARK_TESTING"] = "1"  # any free port: the default one may be taken
        return SparkSession.builder.remote(master.removeprefix("remote ")).getOrCreate()
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
    return builder.config("spark.driver.host", "127.0.0.1").config("spark.sql.shuffle.partitions", "2").getOrCreate()


def batch(folder: Path, roster: list[str], master: str) -> None:
    from whence.spark import deliver, stamp, waiting, with_rosters

    spark = session_on(master)
    table = with_rosters(spark.read.schema(SCHEMA).parquet(str(folder / "in")), roster)
    ordered = deliver(table, "stamp", fast_from=1 << 30)
    rows = [row.asDict(recursive=True) for row in ordered.drop("stamp").collect()]
    events = spark.createDataFrame(
        [("r", "a", 1, "send", "a1", ["b"]), ("r", "b", 1, "deliver", "a1", None), ("r", "b", 2, "send", "b1", ["c"])],
        "run string, process string, index long, kind string, message string, destinations array<string>",
    )
    told = {"rows": rows, "waiting": waiting(ordered).count(), "stamped": stamp(events).count()}
    (folder / "batch.json").write_text(json.dumps(told, default=str))
    spark.stop()


if __name__ == "__main__":
    here = Path(sys.argv[2])
    names = json.loads((here / "roster.json").read_text())
    if sys.argv[1] == "stream":
        stream(here, names)
    else:
        batch(here, names, sys.argv[3])

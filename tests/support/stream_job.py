"""A delivering stream in a process of its own, so that a test can kill it.

python stream_job.py FOLDER      files in FOLDER/in, checkpoint and sink beside them
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

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


if __name__ == "__main__":
    here = Path(sys.argv[1])
    stream(here, json.loads((here / "roster.json").read_text()))

"""A stream of change records into a database, in a process of its own, so that a test can kill it.

python into_database_job.py FOLDER URL PAUSE      PAUSE: seconds before each statement
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

SCHEMA = "value string, key string, topic string, partition int, offset long"


def write_parts(folder: Path, records: list[Any], parts: int, numbers: range | None = None) -> None:
    """Let parts of the records arrive, all or those of some numbers: a file each, and each a micro-batch."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (folder / "in").mkdir(exist_ok=True)
    types = {"partition": pa.int32(), "offset": pa.int64()}
    for number in range(parts) if numbers is None else numbers:
        some = records[number * len(records) // parts : (number + 1) * len(records) // parts]
        columns = {
            name: pa.array([getattr(each, name) for each in some], types.get(name, pa.string()))
            for name in ("value", "key", "topic", "partition", "offset")
        }
        pq.write_table(pa.table(columns), folder / "in" / f"{number}.parquet")


def run(spark: Any, folder: Path, url: str) -> None:
    """Write what is there."""
    from support.shop import TABLES

    from thence.spark import deliver, into_database
    from thence.tables.engines.spark.sources import from_changes

    records = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    ordered = deliver(from_changes(records), "depends_on", key=["destination"], shards=2)
    query = into_database(ordered, url, list(TABLES), checkpoint=folder / "checkpoint", trigger={"availableNow": True})
    assert query is not None
    query.awaitTermination()


def main(folder: str, url: str, pause: str) -> None:
    import sqlalchemy

    from thence.spark import local_session

    sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", lambda *_: time.sleep(float(pause)))
    spark = local_session(quick=True)
    run(spark, Path(folder), url)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

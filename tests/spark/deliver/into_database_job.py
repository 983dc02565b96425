"""A stream of change records into SQLite, in a process of its own, so that a test can kill it.

python into_database_job.py FOLDER PAUSE      PAUSE: seconds before each statement
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

SCHEMA = "value string, key string, topic string, partition int, offset long"


def run(spark: Any, folder: Path) -> None:
    """Write what is there."""
    from support.shop import TABLES

    from thence.spark import deliver, into_database
    from thence.tables.engines.spark.sources import from_changes

    records = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    ordered = deliver(from_changes(records), "depends_on", key=["destination"], shards=2)
    query = into_database(
        ordered, f"sqlite:///{folder / 'target.db'}", list(TABLES), checkpoint=folder / "checkpoint",
        trigger={"availableNow": True},
    )  # fmt: skip
    assert query is not None
    query.awaitTermination()


def main(folder: str, pause: str) -> None:
    import sqlalchemy

    from thence.spark import local_session

    sqlalchemy.event.listen(sqlalchemy.Engine, "before_cursor_execute", lambda *_: time.sleep(float(pause)))
    spark = local_session(quick=True)
    run(spark, Path(folder))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

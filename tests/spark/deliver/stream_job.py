"""Delivering streams in a process of their own, so that a test can kill them; the test's own session runs them too.

    python stream_job.py FOLDER      the streams of FOLDER/streams.json

Files, checkpoint and sink of each stream are in FOLDER/<its name>. As long as FOLDER/gate is there, every second task
stays at its end: its micro-batch can not be committed, though other tasks of it have written their state.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def run(spark: Any, folder: Path) -> None:
    """Run all streams at once, to the end of what is there."""
    streams = json.loads((folder / "streams.json").read_text())
    queries = [start(spark, folder / name, **told) for name, told in streams.items()]
    for query in queries:
        query.awaitTermination()


def start(
    spark: Any, folder: Path, by: Any, roster: list[str] | None, policy: dict[str, Any], listens: bool, shards: int
) -> Any:
    """Start a stream; its checkpoint is named by the number of shards, which this session's partitions do not say."""
    from support.deliveries import SCHEMA

    from thence.spark import deliver

    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    checkpoint = folder / f"checkpoint-{shards}"
    told = checkpoint / "give-up" if listens else None
    ordered = deliver(source, by, roster=roster, commands=told, shards=shards, **policy)
    return (
        behind_a_gate(ordered, folder.parent / "gate").writeStream.format("parquet").option("path", str(folder / "out"))
        .option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    )  # fmt: skip


def behind_a_gate(ordered: DataFrame, gate: Path) -> DataFrame:
    """Return the same rows, of which every second task does not end as long as the gate is there."""

    def wait(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        while context is not None and context.partitionId() % 2 and gate.exists():
            time.sleep(0.02)

    return ordered.mapInArrow(wait, ordered.schema)


def main(folder: Path) -> None:
    from thence.spark.session import local_session

    spark = local_session(cores=16, quick=True)  # tasks that stay must not keep others from running
    run(spark, folder)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

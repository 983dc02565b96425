"""Delivering streams in a process of their own, which a test kills while they commit micro-batch after micro-batch.

    python stream_job.py FOLDER      the streams of FOLDER/streams.json, once a line comes on standard input

Files, checkpoint and sink of each stream are in FOLDER/<its name>. A test can also run them in a session of its own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))


def run(spark: Any, folder: Path) -> None:
    """Run all streams at once, to the end of what is there; one with another number of shards gets its checkpoint."""
    from support.deliveries import run_to_the_end

    from thence.spark import reshard

    streams = json.loads((folder / "streams.json").read_text())
    for name, told in streams.items():
        before, after = (folder / name / told[which] for which in ("checkpoint before", "checkpoint"))
        if not after.exists() and before.exists():
            reshard(spark, before, after, told["shards"])
    starts = {name: partial(start, spark, folder / name, told) for name, told in streams.items()}
    run_to_the_end(starts, lambda name, query: stop_at_the_end(query, streams[name]))


def start(spark: Any, folder: Path, told: dict[str, Any]) -> Any:
    """Start a stream; the number of shards is not that of this session's partitions."""
    from thence.spark import deliver

    source = spark.readStream.schema(told["schema"]).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    known = spark.createDataFrame(told["known"], told["known schema"]) if told["known"] else None
    commands = folder / "give-up" if told["listens"] else None
    options = told["options"]
    ordered = deliver(
        source, told["by"], roster=told["roster"], known=known, commands=commands, shards=told["shards"], **options
    )
    writer = ordered.writeStream.option("checkpointLocation", str(folder / told["checkpoint"]))
    writer = writer.trigger(processingTime="1 second") if told["timed"] else writer.trigger(availableNow=True)
    if told["sink"] == "parquet":
        return writer.format("parquet").option("path", str(folder / "out")).start()
    return writer.foreachBatch(recording(folder / "out")).start()


def recording(folder: Path) -> Callable[[Any, int], None]:
    """Return a sink that keeps the rows of each micro-batch, and notes whether one that runs again gives the same."""

    def write(batch: Any, number: int) -> None:
        import pyarrow.parquet as pq

        rows = batch.toArrow()
        rows = rows.sort_by([(name, "ascending") for name in ("run", "destination", "position", "arrival")])
        folder.mkdir(exist_ok=True)
        file = folder / f"{number:05}.parquet"
        if file.exists():
            with (folder / "again").open("a") as notes:
                notes.write("same\n" if pq.read_table(file).to_pylist() == rows.to_pylist() else f"differs {number}\n")
        hidden = folder / f".{number:05}"
        pq.write_table(rows, hidden)
        hidden.rename(file)

    return write


def stop_at_the_end(query: Any, told: dict[str, Any]) -> None:
    """Stop a stream with timers, which has no end of its own, in a micro-batch after its last file is committed."""
    progress = query.lastProgress if told["timed"] else None
    if progress is not None:
        before = json.loads(progress.sources[0].startOffset or "null") or {}
        if before.get("logOffset") == told["files"] - 1:
            query.stop()


def main(folder: Path) -> None:
    from spark.elsewhere import INTERPRETED

    from thence.spark import deliver, local_session

    conf = INTERPRETED | {
        "spark.sql.adaptive.enabled": False,
        "spark.sql.shuffle.partitions": 3,
        "spark.sql.streaming.minBatchesToRetain": 100_000,  # the test reads from offsets what each micro-batch took
    }
    spark = local_session(cores=6, quick=True, conf=conf)
    assert callable(deliver)  # it is imported while nothing waits for it
    if sys.stdin.readline():
        run(spark, folder)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

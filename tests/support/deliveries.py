"""Batch, stream and plain Python on the same table of arrivals: how they are run, and compared row by row."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.arrivals import PROTOCOLS, Arrivals, Row, arrivals
from thence import Orderer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "run string, destination string, arrival long, message string, sender string, time double, "
    "payload struct<text:string,place:long>, stamp binary, clock map<string,long>, depends_on array<string>"
)
OUT = ("outcome", "position", "waited_for", "held_for", "held_seconds", "reason", "missing", "blocker")


def many(by: str, seeds: Iterable[int], messages: int = 200, lost: float = 0.03) -> list[Arrivals]:
    """Return runs of every protocol that can say its causes in this way; every second seed loses copies."""
    protocols = {"stamp": PROTOCOLS, "clock": ("rst",), "depends_on": ("ks", "history")}[by]
    return [
        arrivals(protocol, seed, messages=messages, lost=lost * (seed % 2), by=by)
        for protocol in protocols
        for seed in seeds
    ]


def rows_of(runs: Iterable[Arrivals]) -> list[Row]:
    """Return all rows, by arrival, so that any prefix holds a prefix of every destination."""
    return sorted((row for made in runs for row in made.rows), key=lambda row: row["arrival"])


def comparable(rows: Iterable[Any]) -> dict[tuple[str, str], list[tuple[Any, ...]]]:
    """Return, for each key, its rows as tuples: those with a position in that order, then the others by arrival."""
    keyed: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for row in rows:
        told = (row["arrival"], row["message"], row["payload"]["place"], *(row[name] for name in OUT))
        keyed.setdefault((row["run"], row["destination"]), []).append(told)
    for told_rows in keyed.values():
        told_rows.sort(key=lambda told: (told[4] is None, told[4] or 0, told[0]))
    return keyed


def wanted(by: str, runs: list[Arrivals], rows: list[Row], **policy: Any) -> tuple[list[Row], Orderer]:
    """Push every row through the Orderer; what it still holds is left in it."""
    orderer = Orderer(by, roster=runs[0].roster if by == "stamp" else None, **policy)  # type: ignore[arg-type]
    return [out for row in rows for out in orderer.push(row)], orderer


def write_files(spark: SparkSession, rows: list[Row], folder: Path, parts: int) -> None:
    """Write the rows as files, one for each micro-batch, in their order."""
    for part in range(parts):
        chunk = rows[part * len(rows) // parts : (part + 1) * len(rows) // parts]
        target = folder / f"part{part}"
        spark.createDataFrame(chunk, SCHEMA).coalesce(1).write.parquet(str(target))
        for file in target.glob("*.parquet"):
            moved = folder / f"{part}-{file.name}"
            file.rename(moved)
            os.utime(moved, (1_700_000_000 + part, 1_700_000_000 + part))


def run_stream(ordered: DataFrame, folder: Path, checkpoint: str = "checkpoint") -> Any:
    """Run a stream to the end of what is there."""
    query = (
        ordered.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / checkpoint))
        .option("path", str(folder / "out"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


BUSY = "Python worker failed to connect back"
"""Spark's fixed wait ran out, because the machine was busy as a stream started: it is started again."""


LATE = "a Python worker did not answer Spark in time"


def patiently(words: list[str]) -> int:
    """Run a command, again where it says that Spark's fixed wait ran out; return its exit code."""
    from thence.cli import main

    while True:
        with redirect_stderr(StringIO()) as said:
            code = main(words)
        print(said.getvalue(), file=sys.stderr)
        if code == 0 or LATE not in said.getvalue():
            return code


APART = 1.5
"""Seconds from the start of one stream to that of the next: each starts a Python of its own."""


def run_to_the_end(starts: Mapping[str, Callable[[], Any]], look: Callable[[str, Any], None] | None = None) -> None:
    """Start streams, and wait until all have ended; `look` sees each that still runs, again and again."""
    running = {}
    for name, start in starts.items():
        running[name] = start()
        time.sleep(APART)
    while running:
        for name, query in list(running.items()):
            if query.isActive:
                if look is not None:
                    look(name, query)
            elif query.exception() is None:
                del running[name]
            elif BUSY in str(query.exception()):
                running[name] = starts[name]()
            else:
                raise query.exception()
        time.sleep(0.05)


def agree(spark: SparkSession, folder: Path, by: str, runs: list[Arrivals], policy: dict[str, Any]) -> list[Row]:
    """Assert that batch, stream and Orderer give the same outcomes, and the same answer to what waits.

    The rows of the batch are returned; the stream reads three files in three micro-batches.
    """
    from thence.spark import deliver, waiting_in_stream

    rows = rows_of(runs)
    roster = runs[0].roster if by == "stamp" else None
    ours, orderer = wanted(by, runs, rows, **policy)
    held = orderer.waiting()
    blocked = orderer.finish()

    table = spark.createDataFrame(rows, SCHEMA).repartition(3)
    ordered = deliver(table, by, roster=roster, **policy)  # type: ignore[arg-type]
    batch = [row.asDict(recursive=True) for row in ordered.collect()]
    assert comparable(batch) == comparable([*ours, *blocked])
    assert {_waits(r) for r in batch} == {None, *map(_waits, blocked)}

    (folder / "in").mkdir()
    write_files(spark, rows, folder / "in", 3)
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in" / "*.parquet"))
    query = run_stream(deliver(source, by, roster=roster, **policy), folder)  # type: ignore[arg-type]
    stream = [row.asDict(recursive=True) for row in spark.read.parquet(str(folder / "out")).collect()]
    assert comparable(stream) == comparable(ours)
    assert sum(p.numInputRows for p in query.recentProgress) == len(rows) == len(stream) + len(held)

    shown = [row.asDict() for row in waiting_in_stream(spark, folder / "checkpoint").collect()]
    assert sorted(shown, key=_name) == sorted(held, key=_name)
    told = [p.observedMetrics["thence"].asDict() for p in query.recentProgress if "thence" in p.observedMetrics]
    assert sum(t["delivered"] or 0 for t in told) == sum(r["outcome"] == "delivered" for r in ours)
    assert sum((t["held"] or 0) - (t["held_before"] or 0) for t in told) == len(held)
    return batch


def _name(row: Row) -> tuple[str, str, str]:
    return row["run"], row["destination"], row["message"]


def _waits(row: Row) -> tuple[str, ...] | None:
    return (*_name(row), row["blocker"]) if row["outcome"] == "blocked" else None

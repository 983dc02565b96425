"""A batch, a stream and plain Python give the same outcomes on the same arrivals, row for row."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.arrivals import Arrivals, Row
from support.tables_of_arrivals import SCHEMA, comparable, many, rows_of

from whence import Orderer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KINDS: dict[str, dict[str, Any]] = {
    "stamp": {},
    "clock": {"policy": "release", "after_rows": 40},
    "depends_on": {"policy": "release", "after_seconds": 8.0},
}
SEEDS = {"stamp": range(1, 5), "clock": range(1, 7), "depends_on": range(1, 4)}


def wanted(by: str, runs: list[Arrivals], rows: list[Row], **policy: Any) -> tuple[list[Row], Orderer]:
    orderer = Orderer(by, roster=runs[0].roster if by == "stamp" else None, **policy)  # type: ignore[arg-type]
    return [out for row in rows for out in orderer.push(row)], orderer


def write_files(spark: SparkSession, rows: list[Row], folder: Path, parts: int) -> None:
    import os

    for part in range(parts):
        chunk = rows[part * len(rows) // parts : (part + 1) * len(rows) // parts]
        target = folder / f"part{part}"
        spark.createDataFrame(chunk, SCHEMA).coalesce(1).write.parquet(str(target))
        for file in target.glob("*.parquet"):
            moved = folder / f"{part}-{file.name}"
            file.rename(moved)
            os.utime(moved, (1_700_000_000 + part, 1_700_000_000 + part))


def run_stream(ordered: DataFrame, folder: Path) -> Any:
    query = (
        ordered.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("path", str(folder / "out"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


@pytest.mark.parametrize("by", KINDS)
@pytest.mark.timeout(400)
def test_batch_stream_and_orderer_agree(spark: SparkSession, tmp_path: Path, by: str) -> None:
    from whence.spark import deliver, waiting

    policy = KINDS[by]
    runs = many(by, SEEDS[by])
    rows = rows_of(runs)
    roster = runs[0].roster if by == "stamp" else None
    ours, orderer = wanted(by, runs, rows, **policy)
    held = orderer.waiting()
    blocked = orderer.finish()
    print(f"{len(rows)} arrivals of {len(runs)} runs: {runs[0].about} ... {runs[-1].about}")

    table = spark.createDataFrame(rows, SCHEMA).repartition(3)
    ordered = deliver(table, by, roster=roster, fast_from=1, **policy)  # type: ignore[arg-type]
    batch = [row.asDict(recursive=True) for row in ordered.collect()]
    assert comparable(batch) == comparable([*ours, *blocked])
    assert {tuple(sorted(r)) for r in map(_waits, batch) if r} == {tuple(sorted(_waits(r) or ())) for r in blocked}

    (tmp_path / "in").mkdir()
    write_files(spark, rows, tmp_path / "in", 3)
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in" / "*.parquet"))
    query = run_stream(deliver(source, by, roster=roster, fast_from=400, **policy), tmp_path)  # type: ignore[arg-type]
    stream = [row.asDict(recursive=True) for row in spark.read.parquet(str(tmp_path / "out")).collect()]
    assert comparable(stream) == comparable(ours)
    assert sum(p.numInputRows for p in query.recentProgress) == len(rows) == len(stream) + len(held)

    shown = [row.asDict() for row in waiting(spark, tmp_path / "checkpoint").collect()]
    assert sorted(shown, key=_name) == sorted(held, key=_name)
    told = [p.observedMetrics["whence"].asDict() for p in query.recentProgress if "whence" in p.observedMetrics]
    assert sum(t["delivered"] or 0 for t in told) == sum(r["outcome"] == "delivered" for r in ours)
    assert sum((t["held"] or 0) - (t["held_before"] or 0) for t in told) == len(held)

    for made in runs:
        mine = [r for r in batch if r["run"] == made.name]
        violations = made.judge(mine).violations
        gaps = {
            (r["destination"], made.cause(c, r["destination"])) for r in mine if r["position"] for c in r["missing"]
        }
        assert gaps <= {(v.destination, v.missing) for v in violations}, made.about
        if not policy:
            assert not violations, made.about


def _name(row: Row) -> tuple[str, str, str]:
    return row["run"], row["destination"], row["message"]


def _waits(row: Row) -> tuple[str, ...] | None:
    return (row["run"], row["destination"], row["message"], row["blocker"]) if row["outcome"] == "blocked" else None

"""The layout of a frame's rows, found from one count of the rows of its runs.

Invariant. Only numbers reach the driver, and only those of large runs.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from thence.tables.judge.partition_plan import Large, Plan, chunk_count, evenly

ORDER_STEPS = 1 << 16
"""Steps of `order` in which rows are counted, at most about."""
_SUMS = ("rows", "ordered")
_ENDS = {"low": "min", "high": "max"}


def look_at(events: DataFrame, chunk_rows: int) -> Plan:
    """Plan the runs of a normalised frame by their numbers of rows; only those of large runs reach the driver."""
    order = "`order`" if "order" in events.columns else "CAST(NULL AS BIGINT)"
    numbers = ("count(1) AS rows", f"count({order}) AS ordered", f"min({order}) AS low", f"max({order}) AS high")
    seen = _seen(events.groupBy("run", F.spark_partition_id()).agg(*map(F.expr, numbers)), chunk_rows)
    runs_seen = sorted(seen["large"], key=lambda row: str(row["run"]))
    shared = max(1, -(-(seen["small"] or 0) // chunk_rows), min(8, (seen["runs"] - len(seen["large"])) // 4))
    partition = shared
    large: dict[str, Large] = {}
    for run in runs_seen:
        large[run["run"]] = _chunks(events, run, partition, chunk_rows)
        partition += large[run["run"]].chunks
    rows = (seen["small"] or 0) + sum(run["rows"] for run in seen["large"])
    spread = any(3 * run["widest"] > 2 * rows for run in seen["large"])
    only = next(iter(large)) if seen["runs"] == 1 and large else None
    return Plan(large, shared, rows, spread, only)


def _seen(counted: DataFrame, chunk_rows: int) -> Row:
    """Put the numbers of runs in partitions together."""
    ends = [F.expr(f"{end}({name}) AS {name}") for name, end in _ENDS.items()]
    sums = [F.expr(f"sum({name}) AS {name}") for name in _SUMS]
    runs = counted.groupBy("run").agg(*sums, *ends, F.expr("max(rows) AS widest"))
    large = f"rows > {chunk_rows} AND run IS NOT NULL"
    one = "struct(run, rows, ordered, low, high, widest)"
    found = runs.agg(
        F.expr("count(1) AS runs"), F.expr(f"sum(CASE WHEN NOT ({large}) THEN rows END) AS small"),
        F.expr(f"collect_list(CASE WHEN {large} THEN {one} END) AS large"),
    ).first()  # fmt: skip
    assert found is not None
    return found


def _chunks(events: DataFrame, run: Row, partition: int, chunk_rows: int) -> Large:
    """Cut the range of `order` so that each chunk holds about as many rows."""
    if run["ordered"] < run["rows"]:
        return Large(partition, None)
    low, span = run["low"], run["high"] - run["low"] + 1
    if (found := evenly(partition, run["rows"], low, run["high"], chunk_rows)) is not None:
        return found
    chunks = chunk_count(run["rows"], chunk_rows)  # `order` leaves numbers out: count rows in fine steps first
    step = -(-span // (chunks * max(4, min(64, ORDER_STEPS // chunks))))
    place = _place(F.col("order"), low, step)
    counted = events.where(F.col("run") == run["run"]).groupBy(place.alias("place")).count().toLocalIterator()
    return Large(partition, _evened({r["place"]: r["count"] for r in counted}, run["rows"], chunks, low, step))


def _evened(counts: dict[int, int], rows: int, chunks: int, low: int, step: int) -> tuple[int, ...]:
    """Return the cuts between steps that divide the rows most evenly."""
    cuts: list[int] = []
    held = 0
    for place in sorted(counts):
        if held + counts[place] / 2 > rows / chunks * (len(cuts) + 1) and place > 0:
            cuts.append(low + place * step)
        held += counts[place]
    return tuple(cuts)


def _place(order: Column, low: int, step: int) -> Column:
    return F.call_function("div", order - F.lit(low), F.lit(step))

"""How the rows of a frame are laid out: found by one look at the numbers of its runs.

Law. Python (`auditing.plan.slots_of`) and the JVM (`slot_column`) agree on the slot of every row. Only numbers reach
the driver: of large runs, or of at most 10,000 stretches of any.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TypedDict

import numpy as np
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from thence.auditing.plan import Large, Plan, chunk_count, evenly

INDEX_BITS, ORDER_BITS = 28, 31
"""Widest `index` and range of `order` that fit beside the kind of a row into one long (another index goes as text)."""
STRETCHES = 10_000
"""Up to so many stretches of runs, the driver puts their numbers together itself."""
STEPS = 1 << 16
"""The JVM looks up the chunk of a step in a table of about so many."""
_STRETCH = (
    "spark_partition_id() AS partition",
    "input_file_block_start() AS start",
    "input_file_block_length() AS length",
)
_SUMS = ("rows", "ordered")
_ENDS = {"low": "min", "high": "max"}


class _Light(TypedDict):
    """Whether the numbers of a row can travel in one."""

    narrow: bool
    low: int | None


def look_at(events: DataFrame, chunk_rows: int, *, in_place: bool = True) -> Plan:
    """Look at the runs of a normalised frame and plan; only numbers of large runs, or of few stretches, reach us.

    A stretch is what a partition holds of one file (told apart by length, which costs less than by name: what looks
    like one and is not is no chunk), or all it holds if its rows are not read from files. Unless
    `in_place`, stretches that happen to be chunks are not made use of.
    """
    order = "`order`" if "order" in events.columns else "CAST(NULL AS BIGINT)"
    numbers = ("count(1) AS rows", f"count({order}) AS ordered", f"min({order}) AS low", f"max({order}) AS high")
    stretches = events.groupBy("run", *map(F.expr, _STRETCH)).agg(*map(F.expr, numbers))
    few = stretches.limit(STRETCHES + 1).collect()
    seen = _put_together(few, chunk_rows) if len(few) <= STRETCHES else _seen(stretches, chunk_rows)
    light = _light(seen)
    runs_seen = sorted(seen["large"], key=lambda row: str(row["run"]))
    if in_place and 0 < len(runs_seen) == seen["runs"] and not seen["small"] and _aligned(runs_seen, chunk_rows):
        return replace(_in_place(runs_seen), **light)
    shared = max(1, -(-(seen["small"] or 0) // chunk_rows), min(8, (seen["runs"] - len(seen["large"])) // 4))
    slot = shared
    large: dict[str, Large] = {}
    for run in runs_seen:
        large[run["run"]] = _chunks(events, run, slot, chunk_rows)
        slot += large[run["run"]].chunks
    rows = (seen["small"] or 0) + sum(run["rows"] for run in seen["large"])
    spread = any(3 * run["widest"] > 2 * rows for run in seen["large"])
    only = next(iter(large)) if seen["runs"] == 1 and large else None
    return Plan(large, shared, rows, spread, only, **light)


def _put_together(stretches: list[Row], chunk_rows: int) -> Row:
    """Put the numbers of a few stretches together: what `_seen` does with many."""
    runs: dict[str | None, list[Row]] = {}
    for stretch in stretches:
        runs.setdefault(stretch["run"], []).append(stretch)
    sums = {name: sum(stretch[name] for stretch in stretches) for name in _SUMS}
    large = [
        Row(run=run, **{name: sum(stretch[name] for stretch in own) for name in _SUMS}, **_ends(own),
            widest=max(stretch["rows"] for stretch in own),
            stretches=[Row(low=stretch["low"], high=stretch["high"], rows=stretch["rows"]) for stretch in own])
        for run, own in runs.items() if run is not None and sum(stretch["rows"] for stretch in own) > chunk_rows
    ]  # fmt: skip
    small = sums["rows"] - sum(run["rows"] for run in large)
    return Row(runs=len(runs), small=small, large=large, **sums, **_ends(stretches))


def _ends(stretches: list[Row]) -> dict[str, int | None]:
    """Return the ends of the range of `order`; None where no row has one."""
    known = {name: [stretch[name] for stretch in stretches if stretch[name] is not None] for name in _ENDS}
    return {name: (min if end == "min" else max)(known[name], default=None) for name, end in _ENDS.items()}


def _seen(stretches: DataFrame, chunk_rows: int) -> Row:
    """Put the numbers of many stretches together, as with many small runs."""
    ends = [F.expr(f"{end}({name}) AS {name}") for name, end in _ENDS.items()]
    sums = [F.expr(f"sum({name}) AS {name}") for name in _SUMS]
    runs = stretches.groupBy("run").agg(
        *sums, *ends, F.expr("max(rows) AS widest"), F.expr("collect_list(struct(low, high, rows)) AS stretches")
    )
    large = f"rows > {chunk_rows} AND run IS NOT NULL"
    one = "struct(run, rows, ordered, low, high, widest, stretches)"
    found = runs.agg(
        F.expr("count(1) AS runs"), F.expr(f"sum(CASE WHEN NOT ({large}) THEN rows END) AS small"),
        F.expr(f"collect_list(CASE WHEN {large} THEN {one} END) AS large"), *ends, *sums,
    ).first()  # fmt: skip
    assert found is not None
    return found


def _light(seen: Row) -> _Light:
    """Return whether the numbers of a row can travel in one."""
    rows, ordered = seen["rows"], seen["ordered"]
    fit = not ordered or (ordered == rows and seen["high"] - seen["low"] < 1 << ORDER_BITS)
    return {"narrow": fit, "low": seen["low"] if ordered and fit else None}


def _aligned(runs: list[Row], chunk_rows: int) -> bool:
    """Tell whether every stretch holds one range of `order`, apart from all others of its run, of a fair size."""
    for run in runs:
        if run["ordered"] != run["rows"] or 3 * run["widest"] > run["rows"] or run["widest"] > 2 * chunk_rows:
            return False
        stretches = sorted(run["stretches"])
        if 8 * run["rows"] < len(stretches) * chunk_rows or any(a["high"] >= b["low"] for a, b in pairwise(stretches)):
            return False
    return True


def _in_place(runs: list[Row]) -> Plan:
    """Return the plan in which every stretch is a chunk."""
    large: dict[str, Large] = {}
    counts: dict[int, int] = {}
    slot = 1
    for run in runs:
        stretches = sorted(run["stretches"])
        large[run["run"]] = Large(slot, tuple(stretch["low"] for stretch in stretches[1:]))
        counts.update((slot + place, stretch["rows"]) for place, stretch in enumerate(stretches))
        slot += len(stretches)
    rows = sum(run["rows"] for run in runs)
    return Plan(large, 1, rows, only=runs[0]["run"] if len(runs) == 1 else None, counts=counts)


def _chunks(events: DataFrame, run: Row, slot: int, chunk_rows: int) -> Large:
    """Cut the range of `order` so that each chunk holds about as many rows."""
    if run["ordered"] < run["rows"]:
        return Large(slot, None)
    low, span = run["low"], run["high"] - run["low"] + 1
    if (found := evenly(slot, run["rows"], low, run["high"], chunk_rows)) is not None:
        return found
    chunks = chunk_count(run["rows"], chunk_rows)  # `order` leaves numbers out: count rows in fine steps first
    step = -(-span // (chunks * max(4, min(64, STEPS // chunks))))
    place = _place(F.col("order"), low, step)
    counted = events.where(F.col("run") == run["run"]).groupBy(place.alias("place")).count().toLocalIterator()
    return Large(slot, _evened({r["place"]: r["count"] for r in counted}, run["rows"], chunks, low, step), low, step)


def _evened(counts: dict[int, int], rows: int, chunks: int, low: int, step: int) -> tuple[int, ...]:
    """Return the cuts between steps that part the rows most evenly."""
    cuts: list[int] = []
    held = 0
    for place in sorted(counts):
        if held + counts[place] / 2 > rows / chunks * (len(cuts) + 1) and place > 0:
            cuts.append(low + place * step)
        held += counts[place]
    return tuple(cuts)


def _place(order: Column, low: int, step: int) -> Column:
    return F.call_function("div", order - F.lit(low), F.lit(step))


def slot_column(plan: Plan, run: Column, order: Column) -> Column:
    """Return the slot of a row of a normalised frame, for a plan that is `direct`."""
    slot = F.crc32(F.coalesce(run, F.lit("")).cast("binary")) % F.lit(plan.shared)
    for name, large in plan.large.items():
        assert large.cuts is not None
        starts = [large.low, *large.cuts]
        steps = (starts[-1] - large.low) // large.step + 1
        chunk = F.least(_place(order, large.low, large.step), F.lit(steps - 1))
        if steps > len(starts):
            chunks = np.searchsorted(starts, large.low + large.step * np.arange(steps), side="right") - 1
            chunk = F.get(F.lit(chunks.tolist()), chunk.cast("int"))
        slot = F.when(run == name, F.lit(large.slot) + chunk).otherwise(slot)
    return slot.cast("int")

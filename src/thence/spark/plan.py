"""Which task judges which rows of a frame: found by one look at the numbers of its runs.

Law. Every row belongs to exactly one slot, by its run and `order` alone. A slot holds one chunk of a large run, or one
large run whole, or a share of the small runs; all rows of a slot are judged by one task. Python (`slots_of`) and the
JVM (`slot_column`) agree on the slot of every row.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from thence.kernels.rows import by_run

TASKS, TASK_ROWS = 8, 250_000
"""Up to so many slots each has its own task; beyond, tiny slots share one."""
INDEX_BITS, ORDER_BITS = 28, 31
"""Widest `index` and range of `order` that fit beside the kind of a row into one long (another index goes as text)."""
FEW = 32
"""Up to so many large runs, the JVM brings each row to its slot; beyond, rows are packed first."""
PARTS = 10_000
"""Up to so many stretches of runs, the driver puts their numbers together itself."""
_SUMS = ("rows", "ordered")
_ENDS = {"low": "min", "high": "max"}
STEPS = 1 << 16
"""The JVM looks up the chunk of a step in a table of about so many."""
FAR = 1 << 62
"""Differences of `order` below this can be taken in a long."""


@dataclass(frozen=True)
class Large:
    """A run too large for one task: its first slot, and the `order` at which each further chunk begins."""

    slot: int
    cuts: tuple[int, ...] | None
    """None: judged whole, for want of an order."""
    low: int = 0
    step: int = 0
    """Every cut is `low` and a multiple of `step`; 0 if they are not so regular."""

    @property
    def chunks(self) -> int:
        """Return the number of slots the run takes."""
        return 1 if self.cuts is None else len(self.cuts) + 1


@dataclass(frozen=True)
class Plan:
    """Which slot each row goes to, and what of a row has to travel."""

    large: dict[str, Large] = field(default_factory=dict)
    shared: int = 1
    """Slots for the small runs; they come first."""
    rows: int = 0
    spread: bool = False
    """One partition of the frame holds more than two thirds of the rows: they must be spread before they are packed."""
    only: str | None = None
    """The one run there is, if there is one only."""
    counts: dict[int, int] | None = None
    """Rows of each slot, if each was seen to lie in one stretch of a partition: it can be judged there."""
    narrow: bool = False
    """The numbers of a row fit into one: `kind`, `index`, and `order` counted from `low`."""
    low: int | None = None
    """The least `order` there is; None if no row has one."""

    @property
    def tasks(self) -> int:
        """Return how many tasks share the slots: one each, unless slots are many and tiny."""
        return min(self.slots, max(TASKS, self.rows // TASK_ROWS))

    @property
    def slots(self) -> int:
        """Return how many slots there are."""
        return self.shared + sum(each.chunks for each in self.large.values())

    @property
    def chunked(self) -> list[str]:
        """Return the runs that are judged in chunks."""
        return [run for run, each in self.large.items() if each.cuts is not None]

    @property
    def direct(self) -> bool:
        """Tell whether the JVM can bring every row to its slot: a few large runs, all of them in regular chunks."""
        return 0 < len(self.large) <= FEW and all(each.step for each in self.large.values())


def profile(events: DataFrame, chunk_rows: int, *, in_place: bool = True) -> Plan:
    """Look at the runs of a normalised frame and plan; only numbers of large runs, or of few stretches, reach us.

    A stretch is what a partition holds of one file (told apart by length, which costs less than by name: what looks
    like one and is not is no chunk), or all it holds if its rows are not read from files. Unless
    `in_place`, stretches that happen to be chunks are not made use of.
    """
    order = "`order`" if "order" in events.columns else "CAST(NULL AS BIGINT)"
    parts = events.groupBy("run", F.expr("spark_partition_id() AS part"), F.expr("input_file_block_start() AS start"),
                           F.expr("input_file_block_length() AS length")).agg(
        *map(F.expr, ("count(1) AS rows", f"count({order}) AS ordered", f"min({order}) AS low",
                      f"max({order}) AS high")),
    )  # fmt: skip
    few = parts.limit(PARTS + 1).collect()
    seen = _told(few, chunk_rows) if len(few) <= PARTS else _seen(parts, chunk_rows)
    light = _light(seen)
    runs_seen = sorted(seen["large"], key=lambda row: str(row["run"]))
    if in_place and 0 < len(runs_seen) == seen["runs"] and not seen["small"] and _aligned(runs_seen, chunk_rows):
        return replace(_in_place(runs_seen), **light)
    shared = max(1, -(-(seen["small"] or 0) // chunk_rows), min(8, (seen["runs"] - len(seen["large"])) // 4))
    slot = shared
    found: dict[str, Large] = {}
    for run in runs_seen:
        found[run["run"]] = _chunks(events, run, slot, chunk_rows)
        slot += found[run["run"]].chunks
    rows = (seen["small"] or 0) + sum(run["rows"] for run in seen["large"])
    spread = any(3 * run["widest"] > 2 * rows for run in seen["large"])
    only = next(iter(found)) if seen["runs"] == 1 and found else None
    return Plan(found, shared, rows, spread, only, **light)


def _told(parts: list[Row], chunk_rows: int) -> Row:
    """Put the numbers of a few stretches together: what `_seen` does with many."""
    runs: dict[str | None, list[Row]] = {}
    for part in parts:
        runs.setdefault(part["run"], []).append(part)
    sums = {name: sum(part[name] for part in parts) for name in _SUMS}
    large = [
        Row(run=run, **{name: sum(part[name] for part in own) for name in _SUMS}, **_ends(own),
            widest=max(part["rows"] for part in own),
            parts=[Row(low=part["low"], high=part["high"], rows=part["rows"]) for part in own])
        for run, own in runs.items() if run is not None and sum(part["rows"] for part in own) > chunk_rows
    ]  # fmt: skip
    small = sums["rows"] - sum(run["rows"] for run in large)
    return Row(runs=len(runs), small=small, large=large, **sums, **_ends(parts))


def _ends(parts: list[Row]) -> dict[str, int | None]:
    """Return the ends of the range of `order`; None where no row has one."""
    known = {name: [part[name] for part in parts if part[name] is not None] for name in _ENDS}
    return {name: (min if end == "min" else max)(known[name], default=None) for name, end in _ENDS.items()}


def _seen(parts: DataFrame, chunk_rows: int) -> Row:
    """Put the numbers of many stretches together, as with many small runs."""
    ends = [F.expr(f"{end}({name}) AS {name}") for name, end in _ENDS.items()]
    sums = [F.expr(f"sum({name}) AS {name}") for name in _SUMS]
    runs = parts.groupBy("run").agg(
        *sums, *ends, F.expr("max(rows) AS widest"), F.expr("collect_list(struct(low, high, rows)) AS parts")
    )
    large = f"rows > {chunk_rows} AND run IS NOT NULL"
    one = "struct(run, rows, ordered, low, high, widest, parts)"
    found = runs.agg(
        F.expr("count(1) AS runs"), F.expr(f"sum(CASE WHEN NOT ({large}) THEN rows END) AS small"),
        F.expr(f"collect_list(CASE WHEN {large} THEN {one} END) AS large"), *ends, *sums,
    ).first()  # fmt: skip
    assert found is not None
    return found


def _light(seen: Any) -> dict[str, Any]:
    """Return whether the numbers of a row can travel in one."""
    rows, ordered = seen["rows"], seen["ordered"]
    fit = not ordered or (ordered == rows and seen["high"] - seen["low"] < 1 << ORDER_BITS)
    return {"narrow": fit, "low": seen["low"] if ordered and fit else None}


def _aligned(runs: list[Any], chunk_rows: int) -> bool:
    """Tell whether every stretch holds one range of `order`, apart from all others of its run, of a fair size."""
    for run in runs:
        if run["ordered"] != run["rows"] or 3 * run["widest"] > run["rows"] or run["widest"] > 2 * chunk_rows:
            return False
        parts = sorted(run["parts"])
        if 8 * run["rows"] < len(parts) * chunk_rows or any(a["high"] >= b["low"] for a, b in pairwise(parts)):
            return False
    return True


def _in_place(runs: list[Any]) -> Plan:
    """Return the plan in which every stretch is a chunk."""
    found: dict[str, Large] = {}
    counts: dict[int, int] = {}
    slot = 1
    for run in runs:
        parts = sorted(run["parts"])
        found[run["run"]] = Large(slot, tuple(part["low"] for part in parts[1:]))
        counts.update((slot + place, part["rows"]) for place, part in enumerate(parts))
        slot += len(parts)
    rows = sum(run["rows"] for run in runs)
    return Plan(found, 1, rows, only=runs[0]["run"] if len(runs) == 1 else None, counts=counts)


def _chunks(events: DataFrame, run: Any, slot: int, chunk_rows: int) -> Large:
    """Cut the range of `order` so that each part holds about as many rows."""
    if run["ordered"] < run["rows"]:
        return Large(slot, None)
    low, span = run["low"], run["high"] - run["low"] + 1
    if (found := evenly(slot, run["rows"], low, run["high"], chunk_rows)) is not None:
        return found
    chunks = _count(run["rows"], chunk_rows)  # `order` leaves numbers out: count rows in fine steps first
    step = -(-span // (chunks * max(4, min(64, STEPS // chunks))))
    place = _place(F.col("order"), low, step)
    counted = events.where(F.col("run") == run["run"]).groupBy(place.alias("place")).count().toLocalIterator()
    return Large(slot, _evened({r["place"]: r["count"] for r in counted}, run["rows"], chunks, low, step), low, step)


def evenly(slot: int, rows: int, low: int, high: int, chunk_rows: int) -> Large | None:
    """Cut a range of `order` into equal parts; None if it leaves out so many numbers that they could be unlike."""
    span = high - low + 1
    if 2 * rows < span < FAR:
        return None
    step = -(-span // _count(rows, chunk_rows))
    return Large(slot, tuple(range(low + step, low + span, step)), low, step if span < FAR else 0)


def _count(rows: int, chunk_rows: int) -> int:
    return max(4, -(-rows // chunk_rows))


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


def slots_of(table: pa.Table, plan: Plan) -> Any:
    """Return the slot of each row of a normal table."""
    codes, names = by_run(table)
    slots = np.array([crc32((name or "").encode()) % plan.shared for name in names], np.int32)[codes]
    for place, name in enumerate(names):
        large = plan.large.get(name) if name is not None else None
        if large is None:
            continue
        mine = codes == place if len(names) > 1 else slice(None)
        if large.cuts is None:
            slots[mine] = large.slot
        else:
            order = table.column("order").to_numpy()[mine]
            slots[mine] = large.slot + np.searchsorted(np.array(large.cuts, np.int64), order, side="right")
    return slots


def owner(plan: Plan, slot: int) -> tuple[str | None, int | None]:
    """Return the large run a slot belongs to, and which chunk of it, if it is one."""
    runs = list(plan.large)
    place = bisect_right([plan.large[run].slot for run in runs], slot) - 1
    if place < 0:
        return None, None
    large = plan.large[runs[place]]
    return runs[place], None if large.cuts is None else slot - large.slot

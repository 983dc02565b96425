"""Pieces: many rows of a trace in one wide row, put where they will be judged together.

Law. Every row of the events is in exactly one piece. A piece belongs to a slot; all pieces of a slot go to one task. A
slot holds one chunk of a large run, or one large run whole, or a share of the small runs. Moving a few wide rows costs
far less than moving many narrow ones.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from whence.kernels.rows import by_run
from whence.spark.normal import completed

DDL = "slot int, run string, chunk bigint, rows bigint, payload binary"
SCHEMA = pa.schema(
    [("slot", pa.int32()), ("run", pa.string()), ("chunk", pa.int64()), ("rows", pa.int64()), ("payload", pa.binary())]
)
FLUSH_ROWS = 1_000_000
"""A packing task holds about this many rows at a time."""
TASKS, TASK_ROWS = 8, 250_000
"""Up to so many slots each has its own task; beyond, tiny slots share one."""


SELDOM = ("label", "odd")
"""Columns that most traces have no use for."""
KIND_BITS, INDEX_BITS, ORDER_BITS = 3, 28, 31
"""Of a long that holds the numbers of a row."""


@dataclass(frozen=True)
class Large:
    """A run too large for one task: its first slot, and the `order` at which each further chunk begins."""

    slot: int
    cuts: tuple[int, ...] | None
    """None: judged whole, for want of an order."""

    @property
    def chunks(self) -> int:
        """Return the number of slots the run takes."""
        return 1 if self.cuts is None else len(self.cuts) + 1


@dataclass(frozen=True)
class Plan:
    """Which slot each row goes to."""

    large: dict[str, Large] = field(default_factory=dict)
    shared: int = 1
    """Slots for the small runs; they come first."""
    rows: int = 0
    spread: bool = False
    """One partition of the frame holds more than two thirds of the rows: they must be spread first."""
    only: str | None = None
    """The one run there is, if there is one only."""
    counts: dict[int, int] | None = None
    """Rows of each slot, if each was seen to lie in one partition of the frame, alone: it can be judged there."""
    empty: tuple[str, ...] = ()
    """Columns in which no row holds anything: they need not travel."""
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


def profile(events: DataFrame, chunk_rows: int) -> Plan:
    """Look at the runs of a normalised frame and plan; only the numbers of large runs reach the driver."""
    order = F.col("order") if "order" in events.columns else F.lit(None).cast("bigint")
    seldom = [name for name in SELDOM if name in events.columns]
    parts = events.groupBy("run", F.spark_partition_id().alias("part")).agg(
        F.count(F.lit(1)).alias("rows"), F.count(order).alias("ordered"),
        F.min(order).alias("low"), F.max(order).alias("high"), F.count("index").alias("indexed"),
        F.min("index").alias("least"), F.max("index").alias("most"), *(F.count(name).alias(name) for name in seldom),
    )  # fmt: skip
    runs = parts.groupBy("run").agg(
        F.sum("rows").alias("rows"), F.sum("ordered").alias("ordered"), F.min("low").alias("low"),
        F.max("high").alias("high"), F.max("rows").alias("widest"),
        F.collect_list(F.struct("low", "high", "rows", "part")).alias("parts"),
        F.min("least").alias("least"), F.max("most").alias("most"),
        *(F.sum(name).alias(name) for name in ("indexed", *seldom)),
    )  # fmt: skip
    large = F.col("rows") > chunk_rows
    one = F.struct("run", "rows", "ordered", "low", "high", "widest", "parts")
    seen = runs.agg(
        F.count(F.lit(1)).alias("runs"),
        F.sum(F.when(~large, F.col("rows"))).alias("small"),
        F.collect_list(F.when(large & F.col("run").isNotNull(), one)).alias("large"),
        F.min("low").alias("low"), F.max("high").alias("high"), F.min("least").alias("least"),
        F.max("most").alias("most"), *(F.sum(name).alias(name) for name in ("rows", "ordered", "indexed", *seldom)),
    ).first()  # fmt: skip
    assert seen is not None
    light = _light(seen, tuple(name for name in seldom if not seen[name]), "order" in events.columns)
    shared = max(1, -(-(seen["small"] or 0) // chunk_rows), min(8, (seen["runs"] - len(seen["large"])) // 4))
    slot = shared
    found: dict[str, Large] = {}
    runs_seen = sorted(seen["large"], key=lambda row: str(row["run"]))
    if not seen["small"] and len(runs_seen) == seen["runs"] and _aligned(runs_seen, chunk_rows):
        return replace(_in_place(runs_seen), **light)
    for run in runs_seen:
        cuts = None
        if run["ordered"] == run["rows"]:
            chunks = max(4, -(-run["rows"] // chunk_rows))
            cuts = _cuts(events, run, chunks)
        found[run["run"]] = Large(slot, cuts)
        slot += found[run["run"]].chunks
    rows = (seen["small"] or 0) + sum(run["rows"] for run in seen["large"])
    spread = any(3 * run["widest"] > 2 * rows for run in seen["large"])
    only = next(iter(found)) if seen["runs"] == 1 and found else None
    return Plan(found, shared, rows, spread, only, **light)


def _light(seen: Any, empty: tuple[str, ...], has_order: bool) -> dict[str, Any]:
    """Return what need not travel, or can travel in fewer columns."""
    rows, ordered = seen["rows"], seen["ordered"]
    fit = bool(rows) and seen["indexed"] == rows and seen["least"] >= 0 and seen["most"] < 1 << INDEX_BITS
    if ordered and fit:
        fit = ordered == rows and seen["high"] - seen["low"] < 1 << ORDER_BITS
    nothing = ("order",) if has_order and not ordered else ()
    return {"empty": (*empty, *nothing), "narrow": fit, "low": seen["low"] if ordered and fit else None}


def _aligned(runs: list[Any], chunk_rows: int) -> bool:
    """Tell whether every partition holds one range of `order` of one run, apart from all others, of a fair size."""
    places = [part["part"] for run in runs for part in run["parts"]]
    if len(places) != len(set(places)):
        return False
    for run in runs:
        parts = sorted(run["parts"])
        if run["ordered"] != run["rows"] or 3 * run["widest"] > run["rows"] or run["widest"] > 2 * chunk_rows:
            return False
        if 8 * run["rows"] < len(parts) * chunk_rows or any(a["high"] >= b["low"] for a, b in pairwise(parts)):
            return False
    return True


def _in_place(runs: list[Any]) -> Plan:
    """Return the plan in which every partition is a chunk."""
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


def _cuts(events: DataFrame, run: Any, chunks: int) -> tuple[int, ...]:
    """Cut the range of `order` so that each part holds about as many rows."""
    low, span = run["low"], run["high"] - run["low"] + 1
    if span <= 2 * run["rows"]:
        return _even(low, span, chunks)
    # `order` leaves numbers out: count rows in fine steps first.
    fine = chunks * 64
    step = -(-span // fine)
    place = F.floor((F.col("order").cast("double") - F.lit(float(low))) / F.lit(float(step)))
    counts = {
        row["place"]: row["count"]
        for row in events.where(F.col("run") == run["run"]).groupBy(place.alias("place")).count().toLocalIterator()
    }
    cuts: list[int] = []
    held = 0
    for place_ in sorted(counts):
        if held + counts[place_] / 2 > run["rows"] / chunks * (len(cuts) + 1) and place_ > 0:
            cuts.append(low + place_ * step)
        held += counts[place_]
    return tuple(cuts)


def _even(low: int, span: int, chunks: int) -> tuple[int, ...]:
    return tuple(sorted({low + span * i // chunks for i in range(1, chunks)} - {low}))


def packed(table: pa.Table) -> bytes:
    """Return a table as bytes, without the columns that hold nothing."""
    table = table.select([name for name in table.column_names if table.column(name).null_count < len(table)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def load(payload: bytes, run: str | None) -> pa.Table:
    """Return the rows of a piece: those it holds, or those of the file it names; `run` if all are of one."""
    if payload[:1] == b"{":
        from whence.spark.files import read_part

        return read_part(json.loads(payload))
    return completed(pa.ipc.open_stream(payload).read_all(), run)


def pack(frame: DataFrame, plan: Plan, chunk_rows: int) -> DataFrame:
    """Return the rows of a normalised frame in pieces."""
    if plan.spread:
        keys = [F.col("run")]
        if "order" in frame.columns:  # neighbours stay together, so that pieces are few
            keys.append(F.floor(F.col("order") / F.lit(max(1.0, chunk_rows / 8))))
        frame = frame.repartition(max(4, plan.tasks), *(keys if len(keys) > 1 else ()))
    return lightened(frame, plan).mapInArrow(packer(plan), DDL)


def lightened(frame: DataFrame, plan: Plan) -> DataFrame:
    """Return a normalised frame in few columns: none that hold nothing or one and the same run, numbers in one."""
    frame = frame.drop(*plan.empty, *(["run"] if plan.only is not None else []))
    if not plan.narrow:
        return frame
    number = F.col("index") * F.lit(1 << KIND_BITS) + F.col("kind")
    if plan.low is not None:
        number += (F.col("order") - F.lit(plan.low)) * F.lit(1 << (INDEX_BITS + KIND_BITS))
    return frame.withColumn("number", number).drop("index", "kind", "order")


def restored(batches: list[pa.RecordBatch], plan: Plan) -> pa.Table:
    """Return the normal table that lightened rows stand for."""
    table = pa.Table.from_batches(batches)
    if plan.narrow:
        number = table.column("number").to_numpy()
        columns = {"kind": (number & ((1 << KIND_BITS) - 1)).astype(np.int8)}
        columns["index"] = (number >> KIND_BITS) & ((1 << INDEX_BITS) - 1)
        if plan.low is not None:
            columns["order"] = (number >> (KIND_BITS + INDEX_BITS)) + plan.low
        table = table.drop_columns(["number"])
        for name, values in columns.items():
            table = table.append_column(name, pa.array(values))
    return completed(table, plan.only)


def packer(plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that packs the rows of one partition of a normalised frame."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held: list[pa.RecordBatch] = []
        rows = 0
        for batch in batches:
            held.append(batch)
            rows += batch.num_rows
            if rows >= FLUSH_ROWS:
                yield from _pieces(restored(held, plan), plan)
                held, rows = [], 0
        if rows:
            yield from _pieces(restored(held, plan), plan)

    return pack


def _pieces(table: pa.Table, plan: Plan) -> Iterator[pa.RecordBatch]:
    for slot, part in _parted(table, slots_of(table, plan)):
        yield _piece(slot, plan, part)


def slots_of(table: pa.Table, plan: Plan) -> Any:
    """Return the slot of each row of a normal table."""
    codes, names = by_run(table)
    slots = np.array([_shared(name, plan.shared) for name in names], np.int32)[codes]
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


def _shared(run: str | None, shared: int) -> int:
    return crc32((run or "").encode()) % shared


def _parted(table: pa.Table, slots: Any) -> Iterator[tuple[int, pa.Table]]:
    """Part rows by slot; rows of one slot keep their order."""
    here = np.unique(slots)
    if len(here) == 1:
        yield int(here[0]), table
        return
    if bool(np.any(slots[1:] < slots[:-1])):
        order = np.argsort(slots, kind="stable")
        table, slots = table.take(pa.array(order)), slots[order]
    ends = np.searchsorted(slots, here, side="right")
    for slot, start, end in zip(here, [0, *ends[:-1]], ends, strict=True):
        yield int(slot), table.slice(start, end - start)


def _piece(slot: int, plan: Plan, table: pa.Table) -> pa.RecordBatch:
    run, chunk = owner(plan, slot)
    if run is not None:
        table = table.drop_columns(["run"])
    values = [[slot], [run], [chunk], [len(table)], [packed(table)]]
    return pa.RecordBatch.from_arrays([pa.array(v, f.type) for v, f in zip(values, SCHEMA, strict=True)], schema=SCHEMA)


def owner(plan: Plan, slot: int) -> tuple[str | None, int | None]:
    """Return the large run a slot belongs to, and which chunk of it, if it is one."""
    runs = list(plan.large)
    place = bisect_right([plan.large[run].slot for run in runs], slot) - 1
    if place < 0:
        return None, None
    large = plan.large[runs[place]]
    return runs[place], None if large.cuts is None else slot - large.slot


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str | None, int | None, list[dict[str, Any]]]]:
    """Yield (run, chunk, pieces) for each slot whose pieces came to this task."""
    slots: dict[int, list[dict[str, Any]]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            slots.setdefault(row["slot"], []).append(row)
    for slot in sorted(slots):
        pieces = slots.pop(slot)
        yield pieces[0]["run"], pieces[0]["chunk"], pieces


def joined(pieces: list[dict[str, Any]]) -> pa.Table:
    """Return the rows of some pieces as one table, letting go of the pieces on the way."""
    tables = [load(piece.pop("payload"), piece["run"]) for piece in pieces]
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")

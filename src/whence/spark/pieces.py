"""Pieces: many rows of a trace in one wide row, and rows made light for the way to Python.

Law. Every row of the events is in exactly one piece, and a piece belongs to one slot of the plan. Moving a few wide
rows costs far less than moving many narrow ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from whence.kernels.rows import NORMAL
from whence.spark.normal import completed
from whence.spark.plan import INDEX_BITS, SEPARATOR, Plan, owner, slot_column, slots_of

DDL = "slot int, run string, chunk bigint, rows bigint, payload binary"
SCHEMA = pa.schema(
    [("slot", pa.int32()), ("run", pa.string()), ("chunk", pa.int64()), ("rows", pa.int64()), ("payload", pa.binary())]
)
FLUSH_ROWS = 1_000_000
"""A task restores about this many rows at a time."""
KIND_BITS = 3
"""Of a long that holds the numbers of a row: kind, then index, then order."""


def packed(table: pa.Table, compression: str | None = None) -> bytes:
    """Return a table as bytes, without the columns that hold nothing."""
    table = table.select([name for name in table.column_names if table.column(name).null_count < len(table)])
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def load(payload: bytes, run: str | None) -> pa.Table:
    """Return the rows of a piece: those it holds, or those of the file it names; `run` if all are of one."""
    if payload[:1] == b"{":
        from whence.spark.files import read_part

        return read_part(json.loads(payload))
    return completed(pa.ipc.open_stream(payload).read_all(), run)


# -- rows on their way to Python ---------------------------------------------------------------------------------------


def lightened(frame: DataFrame, plan: Plan) -> DataFrame:
    """Return a normalised frame in few, plain columns.

    None that hold nothing or one and the same run; numbers in one; destinations as one text: lists take twice as long.
    """
    frame = frame.drop(*plan.empty, *(["run"] if plan.only is not None else []))
    if plan.joined:
        frame = frame.withColumn("destinations", F.array_join("destinations", SEPARATOR))
    if not plan.narrow:
        return frame
    number = F.col("index") * F.lit(1 << KIND_BITS) + F.col("kind")
    if plan.low is not None:
        number += (F.col("order") - F.lit(plan.low)) * F.lit(1 << (INDEX_BITS + KIND_BITS))
    return frame.withColumn("number", number).drop("index", "kind", "order")


def placed(frame: DataFrame, plan: Plan) -> DataFrame:
    """Return a normalised frame lightened, the rows of each slot in one partition; for a plan that is `direct`."""
    task = (slot_column(plan) % F.lit(plan.tasks)).alias("task")
    return lightened(frame.select("*", task), plan).repartitionById(plan.tasks, "task").drop("task")


def restored(batches: list[pa.RecordBatch], plan: Plan) -> pa.Table:
    """Return the normal table that lightened rows stand for."""
    table = pa.Table.from_batches(batches)
    if plan.joined:
        place = table.column_names.index("destinations")
        table = table.set_column(place, "destinations", _split(table.column(place)))
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


def tables(batches: Iterable[pa.RecordBatch], plan: Plan) -> Iterator[pa.Table]:
    """Yield lightened rows as normal tables of about `FLUSH_ROWS` rows."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= FLUSH_ROWS:
            yield restored(held, plan)
            held, rows = [], 0
    if rows:
        yield restored(held, plan)


def _split(texts: pa.ChunkedArray) -> pa.ListArray:
    """Return the lists that were joined; an empty text is an empty list, for no name is empty."""
    whole = texts.combine_chunks()
    lists = pc.split_pattern(whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole, SEPARATOR)
    nobody = pc.fill_null(pc.equal(whole, ""), False)
    if not pc.any(nobody).as_py():
        return lists
    lengths = pc.if_else(nobody, 0, pc.list_value_length(lists))
    offsets = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False), out=offsets[1:])
    values = lists.flatten()
    return pa.ListArray.from_arrays(offsets, values.filter(pc.not_equal(values, "")), mask=lists.is_null())


# -- packing -----------------------------------------------------------------------------------------------------------


def pack(frame: DataFrame, plan: Plan, chunk_rows: int) -> DataFrame:
    """Return the rows of a normalised frame in pieces."""
    if plan.spread:
        keys = [F.col("run")]
        if "order" in frame.columns:  # neighbours stay together, so that pieces are few
            keys.append(F.floor(F.col("order") / F.lit(max(1.0, chunk_rows / 8))))
        frame = frame.repartition(max(4, plan.tasks), *(keys if len(keys) > 1 else ()))
    return lightened(frame, plan).mapInArrow(packer(plan), DDL)


def packer(plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that packs the rows of one partition of a normalised frame."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in tables(batches, plan):
            yield from parts(table, plan)

    return pack


def parts(table: pa.Table, plan: Plan, compression: str | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a normal table in pieces, one for each slot."""
    for slot, part in parted(table, slots_of(table, plan)):
        yield _piece(slot, plan, part, compression)


def parted(table: pa.Table, slots: Any) -> Iterator[tuple[int, pa.Table]]:
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


def _piece(slot: int, plan: Plan, table: pa.Table, compression: str | None) -> pa.RecordBatch:
    run, chunk = owner(plan, slot)
    if run is not None:
        table = table.drop_columns(["run"])
    values = [[slot], [run], [chunk], [len(table)], [packed(table, compression)]]
    return pa.RecordBatch.from_arrays([pa.array(v, f.type) for v, f in zip(values, SCHEMA, strict=True)], schema=SCHEMA)


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
    return tables[0] if len(tables) == 1 else pa.concat_tables(_alike(tables), promote_options="permissive")


def _alike(tables: list[pa.Table]) -> list[pa.Table]:
    """Return tables of one schema: a column may be coded in some pieces and hold nothing in others."""
    for place, field in enumerate(NORMAL):
        if len({table.schema.field(field.name).type for table in tables}) > 1:
            plain = [table.column(field.name).cast(field.type) for table in tables]
            tables = [t.set_column(place, field.name, column) for t, column in zip(tables, plain, strict=True)]
    return tables

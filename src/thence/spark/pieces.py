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
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thence.kernels import texts
from thence.kernels.packing import held, packed, parted, unpacked
from thence.kernels.rows import NORMAL
from thence.spark.normal import completed, quoted
from thence.spark.plan import INDEX_BITS, Plan, owner, slot_column, slots_of

DDL = "slot int, run string, chunk bigint, rows bigint, payload binary"
SCHEMA = pa.schema(
    [("slot", pa.int32()), ("run", pa.string()), ("chunk", pa.int64()), ("rows", pa.int64()), ("payload", pa.binary())]
)
FLUSH_ROWS = 1_000_000
"""A task restores about this many rows at a time."""
KIND_BITS = 3
"""Of a long that holds the numbers of a row: kind, then index, then order."""


def load(payload: bytes, run: str | None) -> pa.Table:
    """Return the rows of a piece: those it holds, or those of the file it names; `run` if all are of one."""
    if payload[:1] == b"{":
        from thence.spark.files import read_part

        return read_part(json.loads(payload))
    return completed(unpacked(payload), run)


# -- rows on their way to Python ---------------------------------------------------------------------------------------


def lightened(frame: DataFrame, plan: Plan) -> DataFrame:
    """Return a normalised frame in few columns: all texts of a row in one, its numbers in another if they fit.

    None that hold nothing or one and the same run. Every column costs as much as the row itself.
    """
    known = [name for name in ("run", "file", "line") if name in frame.columns]
    kept = [f"`{name}`" for name in known if name != "run" or plan.only is None]
    strange = f"(`index` IS NULL OR `index` < 0 OR `index` >= {1 << INDEX_BITS})" if plan.narrow else "FALSE"
    kept.append(f"{_text(frame.columns, strange)} AS text")
    if not plan.narrow:
        numbers = ["`index`", "`kind`", *(["`order`"] if "order" in frame.columns else [])]
        return frame.selectExpr(*kept, *numbers)
    number = f"CASE WHEN {strange} THEN 0L ELSE `index` END * {1 << KIND_BITS}L + `kind`"
    if plan.low is not None:
        number += f" + (`order` - ({plan.low}L)) * {1 << (INDEX_BITS + KIND_BITS)}L"
    return frame.selectExpr(*kept, f"{number} AS number")


def _text(columns: list[str], strange: str) -> str:
    """Return the texts of a row in one, as `kernels.texts` takes them apart, and its index where that is strange.

    It is no UTF-8, but called a string: that is handed over faster than bytes are.
    """
    end, following, null, unaddressed, nobody, odd, label, index = (quoted(bytes([mark])) for mark in texts.MARKS)
    names = f"coalesce(array_join(`destinations`, {following}, {null}), {unaddressed})"
    told = f"CASE WHEN size(`destinations`) = 0 THEN {nobody} ELSE {names} END"
    parts = [f"coalesce(`process`, {null})", end, f"coalesce(`message`, {null})", end, told]
    seldom = [name for name in ("label", "odd") if name in columns]
    there = " OR ".join([*(f"`{name}` IS NOT NULL" for name in seldom), strange])
    labelled = f"coalesce({'`label`' if 'label' in seldom else 'NULL'}, {null})"
    reason = f"coalesce({'`odd`' if 'odd' in seldom else 'NULL'}, '')"
    number = f"CASE WHEN {strange} THEN concat({index}, coalesce(CAST(`index` AS STRING), {null})) ELSE '' END"
    parts.append(f"CASE WHEN {there} THEN concat({label}, {labelled}, {odd}, {reason}, {number}) ELSE '' END")
    return f"concat({', '.join(parts)})"


def placed(frame: DataFrame, plan: Plan) -> DataFrame:
    """Return a normalised frame lightened, the rows of each slot in one partition; for a plan that is `direct`."""
    run = F.col("run") if plan.only is None else F.lit(plan.only)
    order = F.col("order")
    if plan.narrow:
        order = F.shiftright("number", INDEX_BITS + KIND_BITS) + F.lit(plan.low)
    return lightened(frame, plan).repartitionById(plan.tasks, slot_column(plan, run, order) % F.lit(plan.tasks))


def restored(batches: list[pa.RecordBatch], plan: Plan) -> pa.Table:
    """Return the normal table that lightened rows stand for."""
    table = pa.Table.from_batches(batches).combine_chunks()
    pieces = table.column("text").chunks  # more than one if there are more letters than an array takes
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    parts = [
        _restored(table.slice(end - len(text), len(text)), text, plan) for text, end in zip(pieces, ends, strict=True)
    ]
    return parts[0] if len(parts) == 1 else pa.concat_tables(_alike(parts), promote_options="permissive")


def _restored(table: pa.Table, text: pa.BinaryArray, plan: Plan) -> pa.Table:
    columns: dict[str, Any] = {
        name: table.column(name) for name in table.column_names if name not in ("text", "number")
    }
    found = texts.split(text)
    columns |= {name: getattr(found, name) for name in ("process", "message", "destinations", "label", "odd")}
    if plan.narrow:
        number = table.column("number").to_numpy()
        columns["kind"] = (number & ((1 << KIND_BITS) - 1)).astype(np.int8)
        columns["index"] = _indexes((number >> KIND_BITS) & ((1 << INDEX_BITS) - 1), found.indexes)
        if plan.low is not None:
            columns["order"] = (number >> (KIND_BITS + INDEX_BITS)) + plan.low
    return completed(pa.table(columns), plan.only)


def _indexes(fitting: Any, strange: dict[int, int | None]) -> Any:
    """Return the indexes of rows, with those that came as texts."""
    if not strange:
        return fitting
    missing = np.zeros(len(fitting), np.bool_)
    for row, index in strange.items():
        fitting[row] = index or 0
        missing[row] = index is None
    return pa.array(fitting, mask=missing)


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
    for slot, part in parted(held(table), slots_of(table, plan)):
        yield _piece(slot, plan, part, compression)


def _piece(slot: int, plan: Plan, table: pa.Table, compression: str | None) -> pa.RecordBatch:
    run, chunk = owner(plan, slot)
    if run is not None and "run" in table.column_names:
        table = table.drop_columns(["run"])
    values = [[slot], [run], [chunk], [len(table)], [packed(held(table), compression)]]
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

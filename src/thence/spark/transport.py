"""Rows of a frame on their way to Python: made light, brought to their slots by the JVM, or packed into pieces.

Law. A lightened row says in Python what it said in Java. Every column costs as much as the row itself, so all texts of
a row travel in one and its numbers in another if they fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thence.auditing.plan import Plan
from thence.auditing.tables import completed, concatenated
from thence.auditing.transport import DDL, pieces_of
from thence.kernels import texts
from thence.kernels.arrays import Longs
from thence.spark.event_columns import quoted
from thence.spark.layout import INDEX_BITS

FLUSH_ROWS = 1_000_000
"""A task restores about this many rows at a time."""
KIND_BITS = 3
"""Of a long that holds the numbers of a row: kind, then index, then order."""


def lightened(frame: DataFrame, plan: Plan) -> DataFrame:
    """Return a normalised frame in few columns: all texts of a row in one, its numbers in another if they fit.

    Empty columns are dropped, and `run` where there is only one.
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
    destinations = f"CASE WHEN size(`destinations`) = 0 THEN {nobody} ELSE {names} END"
    pieces = [f"coalesce(`process`, {null})", end, f"coalesce(`message`, {null})", end, destinations]
    seldom = [name for name in ("label", "odd") if name in columns]
    there = " OR ".join([*(f"`{name}` IS NOT NULL" for name in seldom), strange])
    labelled = f"coalesce({'`label`' if 'label' in seldom else 'NULL'}, {null})"
    reason = f"coalesce({'`odd`' if 'odd' in seldom else 'NULL'}, '')"
    number = f"CASE WHEN {strange} THEN concat({index}, coalesce(CAST(`index` AS STRING), {null})) ELSE '' END"
    pieces.append(f"CASE WHEN {there} THEN concat({label}, {labelled}, {odd}, {reason}, {number}) ELSE '' END")
    return f"concat({', '.join(pieces)})"


def restored(batches: list[pa.RecordBatch], plan: Plan) -> pa.Table:
    """Return the normal table that lightened rows stand for."""
    table = pa.Table.from_batches(batches).combine_chunks()
    pieces = table.column("text").chunks  # more than one if there are more letters than an array takes
    ends = np.cumsum([len(piece) for piece in pieces]).tolist()
    return concatenated(
        [_restored(table.slice(end - len(text), len(text)), text, plan) for text, end in zip(pieces, ends, strict=True)]
    )


def _restored(table: pa.Table, text: pa.BinaryArray, plan: Plan) -> pa.Table:
    columns: dict[str, pa.Array | pa.ChunkedArray | np.ndarray] = {
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


def _indexes(fitting: Longs, strange: dict[int, int | None]) -> Longs | pa.Array:
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


def pack(frame: DataFrame, plan: Plan, chunk_rows: int) -> DataFrame:
    """Return the rows of a normalised frame in pieces."""
    if plan.spread:
        keys = [F.col("run")]
        if "order" in frame.columns:  # neighbours stay together, so that pieces are few
            keys.append(F.floor(F.col("order") / F.lit(max(1.0, chunk_rows / 8))))
        frame = frame.repartition(max(4, plan.tasks), *(keys if len(keys) > 1 else ()))
    return lightened(frame, plan).mapInArrow(_packer(plan), DDL)


def _packer(plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that packs the rows of one partition of a normalised frame."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in tables(batches, plan):
            yield from pieces_of(table, plan)

    return pack

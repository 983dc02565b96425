"""Packs rows of a frame, for Spark to move: many rows in one wide row (`tables.judge.packed_rows`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from thence.tables.judge.normal_table import completed
from thence.tables.judge.packed_rows import PACKED_DDL, packed_rows_of
from thence.tables.judge.partition_plan import Plan

FLUSH_ROWS = 1_000_000
"""A task packs about this many rows at a time."""


def tables(batches: Iterable[pa.RecordBatch], plan: Plan) -> Iterator[pa.Table]:
    """Yield rows of a normalised frame as normal tables of about `FLUSH_ROWS` rows."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= FLUSH_ROWS:
            yield completed(pa.Table.from_batches(held), plan.only)
            held, rows = [], 0
    if rows:
        yield completed(pa.Table.from_batches(held), plan.only)


def pack_frame(frame: DataFrame, plan: Plan, chunk_rows: int) -> DataFrame:
    """Return the rows of a normalised frame, packed; `run` need not travel where there is only one."""
    if plan.spread:
        keys = [F.col("run")]
        if "order" in frame.columns:  # neighbours stay together, so that wide rows are few
            keys.append(F.floor(F.col("order") / F.lit(max(1.0, chunk_rows / 8))))
        frame = frame.repartition(max(4, plan.tasks), *(keys if len(keys) > 1 else ()))
    return (frame if plan.only is None else frame.drop("run")).mapInArrow(_packer(plan), PACKED_DDL)


def _packer(plan: Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that packs the rows of one partition of a normalised frame."""

    def pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for table in tables(batches, plan):
            yield from packed_rows_of(table, plan)

    return pack

"""Packed rows: many rows of a trace in one wide row, or the names of the row groups that hold them.

*Invariant.* Every event is in exactly one of them, and each belongs to one partition of the plan. Moving a few wide
rows costs far less than moving many narrow ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TypedDict

import pyarrow as pa

from thence.tables.contract.spark_to_arrow_types import ddl_of_types, schema_of_types
from thence.tables.judge.normal_table import completed, concatenated
from thence.tables.judge.packing import held, packed, split_by_partition, unpacked
from thence.tables.judge.partition_plan import Plan, owner, partitions_of
from thence.tables.judge.row_groups import RowGroupPlace, read_groups

_COLUMNS = {"partition": "int", "run": "string", "chunk": "bigint", "rows": "bigint", "payload": "binary"}
PACKED_SCHEMA, PACKED_DDL = schema_of_types(_COLUMNS), ddl_of_types(_COLUMNS)


class PackedRows(TypedDict):
    """Rows of one partition: packed, or as a list of row groups that hold them."""

    partition: int
    run: str | None
    chunk: int | None
    payload: bytes
    want: bytes | None
    """The messages that the summary of this chunk must name, pickled; None in a first round."""


def pointer(places: Iterable[RowGroupPlace]) -> bytes:
    """Return the payload of packed rows that only says in which row groups its rows are."""
    return json.dumps([list(place) for place in places]).encode()


def load(payload: bytes, run: str | None) -> pa.Table:
    """Return packed rows as a table: those it holds, or those of the files it names; `run` if all are of one."""
    if payload[:1] == b"[":
        return read_groups([RowGroupPlace(*place) for place in json.loads(payload)])
    return completed(unpacked(payload), run)


def packed_rows_of(table: pa.Table, plan: Plan, compression: str | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a normal table packed, one for each partition."""
    for partition, rows in split_by_partition(held(table), partitions_of(table, plan)):
        run, chunk = owner(plan, partition)
        own = rows.drop_columns(["run"]) if run is not None and "run" in rows.column_names else rows
        values = [[partition], [run], [chunk], [len(own)], [packed(held(own), compression)]]
        arrays = [pa.array(value, field.type) for value, field in zip(values, PACKED_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=PACKED_SCHEMA)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[list[PackedRows]]:
    """Yield the packed rows of each partition that came to this task."""
    partitions: dict[int, list[PackedRows]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            partitions.setdefault(row["partition"], []).append(row)
    for partition in sorted(partitions):
        yield partitions.pop(partition)


def join_packed(packed_rows: list[PackedRows]) -> pa.Table:
    """Return packed rows as one table, and empty the list on the way to free memory."""
    tables = []
    while packed_rows:
        first = packed_rows.pop(0)
        tables.append(load(first["payload"], first["run"]))
    return concatenated(tables)

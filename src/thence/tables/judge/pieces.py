"""Pieces: many rows of a trace in one wide row, or the name of row groups that hold them.

Law. Every row of the events is in exactly one piece, and a piece belongs to one slot of the plan. Moving a few wide
rows costs far less than moving many narrow ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TypedDict

import pyarrow as pa

from thence.tables.judge.normal_table import completed, concatenated
from thence.tables.judge.packing import held, packed, split_by_slot, unpacked
from thence.tables.judge.partition_plan import Plan, owner, slots_of
from thence.tables.judge.row_groups import Place, read_groups

DDL = "slot int, run string, chunk bigint, rows bigint, payload binary"
SCHEMA = pa.schema(
    [("slot", pa.int32()), ("run", pa.string()), ("chunk", pa.int64()), ("rows", pa.int64()), ("payload", pa.binary())]
)


class Piece(TypedDict):
    """Rows of one slot: packed, or as a list of row groups that hold them."""

    slot: int
    run: str | None
    chunk: int | None
    payload: bytes
    want: bytes | None
    """The messages that the summary of this chunk must name, pickled; None in a first round."""


def pointer(places: Iterable[Place]) -> bytes:
    """Return the payload of a piece that only says in which row groups its rows are."""
    return json.dumps([list(place) for place in places]).encode()


def load(payload: bytes, run: str | None) -> pa.Table:
    """Return the rows of a piece: those it holds, or those of the files it names; `run` if all are of one."""
    if payload[:1] == b"[":
        return read_groups([Place(*place) for place in json.loads(payload)])
    return completed(unpacked(payload), run)


def pieces_of(table: pa.Table, plan: Plan, compression: str | None = None) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a normal table in pieces, one for each slot."""
    for slot, rows in split_by_slot(held(table), slots_of(table, plan)):
        run, chunk = owner(plan, slot)
        own = rows.drop_columns(["run"]) if run is not None and "run" in rows.column_names else rows
        values = [[slot], [run], [chunk], [len(own)], [packed(held(own), compression)]]
        arrays = [pa.array(value, field.type) for value, field in zip(values, SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[list[Piece]]:
    """Yield the pieces of each slot that came to this task."""
    slots: dict[int, list[Piece]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            slots.setdefault(row["slot"], []).append(row)
    for slot in sorted(slots):
        yield slots.pop(slot)


def joined(pieces: list[Piece]) -> pa.Table:
    """Return the rows of some pieces as one table, letting go of the pieces on the way."""
    tables = []
    while pieces:
        piece = pieces.pop(0)
        tables.append(load(piece["payload"], piece["run"]))
    return concatenated(tables)

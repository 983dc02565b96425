"""Findings of an audit as rows of one tagged table.

Invariant: every finding is one row; `tag` says which columns speak. Parts of an audit that still have to be put
together (summaries of slices of time) travel in the same table, with their arrays in `payload`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thence.tables.contract.numpy_types import Bytes, Ints, Longs
from thence.tables.contract.spark_to_arrow_types import ddl_of_types, schema_of_types
from thence.tables.judge.coded_rows import KIND_NAMES, CodedRun
from thence.tables.judge.usable_in_run import GOOD, OTHER_LABEL, reason

_COLUMNS = {
    "tag": "string", "run": "string", "chunk": "bigint", "message": "string", "destination": "string",
    "early": "string", "process": "string", "index": "bigint", "kind": "string", "label": "string", "order": "bigint",
    "file": "string", "line": "bigint", "reason": "string", "events": "bigint", "messages": "bigint", "gaps": "bigint",
    "payload": "binary",
}  # fmt: skip
SCHEMA, DDL = schema_of_types(_COLUMNS), ddl_of_types(_COLUMNS)

VIOLATION, ABSENT, POSSIBLE, UNDELIVERED, DUPLICATE, MISDELIVERED, QUARANTINE, RUN = (
    "violation", "absent", "possible", "undelivered", "duplicate", "misdelivered", "quarantine", "run",
)  # fmt: skip
"""`violation`: the missing message was delivered later. `absent`: it was never delivered, which no row of its run can
hide. `possible`: it was never delivered, but a row that is missing or was set aside may hide that.
"""
LISTED_TAGS = (RUN, VIOLATION, ABSENT, POSSIBLE, UNDELIVERED, DUPLICATE, MISDELIVERED, QUARANTINE)
"""Tags of final findings; the other tags mark parts that are still to be merged."""
SUMMARY, IDS, WANT, TROUBLE = "summary", "ids", "want", "trouble"
FindingColumn: TypeAlias = pa.ChunkedArray | pa.Array | np.ndarray | list[str] | list[bytes] | str | int | None
PAYLOAD_BYTES = 4 << 20
"""Bytes of a payload in one row: Spark keeps a row in one piece, and doubles what it lies in while it grows."""


def tagged(tag: str, run: str | None, count: int, **columns: FindingColumn) -> pa.Table:
    """Return `count` rows of one tag; columns are arrays, scalars, or left out."""
    arrays = []
    for name in SCHEMA.names:
        kind = SCHEMA.field(name).type
        value = {"tag": tag, "run": run}.get(name, columns.get(name))
        if isinstance(value, pa.ChunkedArray):
            value = value.combine_chunks()
        if isinstance(value, pa.Array | np.ndarray | list):
            arrays.append(pa.array(value, kind) if not isinstance(value, pa.Array) else value.cast(kind))
        else:
            arrays.append(pa.nulls(count, kind) if value is None else pa.repeat(pa.scalar(value, kind), count))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def payload(tag: str, run: str, chunk: int, data: bytes) -> pa.Table:
    """Return bytes, compressed, in rows of at most `PAYLOAD_BYTES`, numbered by `index`."""
    packed = len(data).to_bytes(8, "little") + pa.compress(data, codec="zstd", asbytes=True)
    parts = [packed[start : start + PAYLOAD_BYTES] for start in range(0, len(packed), PAYLOAD_BYTES)]
    return tagged(tag, run, len(parts), chunk=chunk, index=np.arange(len(parts)), payload=parts)


def whole(parts: Iterable[bytes | pa.Buffer]) -> bytes:
    """Return the bytes that `payload` split, from its rows in their order."""
    packed = memoryview(b"".join(parts))
    size = int.from_bytes(packed[:8], "little")
    return bytes(pa.decompress(packed[8:], decompressed_size=size, codec="zstd", asbytes=True))


def names(texts: pa.StringArray, codes: Ints | Longs) -> pa.StringArray:
    """Return the names of codes; -1 is null."""
    return texts.take(pa.array(codes, mask=codes < 0))


def quarantined(run: str | None, table: pa.Table, rows: CodedRun, fate: Bytes) -> pa.Table:
    """Return a row for each that was set aside, with where it stood and why."""
    gone = np.flatnonzero(fate != GOOD)
    if not len(gone):
        return tagged(QUARANTINE, run, 0)
    labels = _labels_of_sends(rows, fate) if bool(np.any(fate == OTHER_LABEL)) else {}
    reasons = [reason(rows, row, int(fate[row]), labels.get(int(rows.message[row]))) for row in gone.tolist()]
    return set_aside(run, table.take(pa.array(gone)), reasons)


def set_aside(run: str | None, table: pa.Table, reasons: list[str]) -> pa.Table:
    """Return quarantine rows for rows of a normal table."""
    kinds = pa.array([*KIND_NAMES, None], pa.string()).take(pc.fill_null(table.column("kind"), 5).combine_chunks())
    text = {name: table.column(name).cast(pa.string()) for name in ("process", "message", "label", "file")}
    numbers = {name: table.column(name) for name in ("index", "order", "line")}
    return tagged(QUARANTINE, run, len(table), kind=kinds, reason=reasons, **text, **numbers)


def _labels_of_sends(rows: CodedRun, fate: Bytes) -> dict[int, str | None]:
    sends = np.flatnonzero((rows.kind == 0) & (fate == GOOD))
    labels = names(rows.labels, rows.label[sends]).to_pylist()
    return dict(zip(rows.message[sends].tolist(), labels, strict=True))

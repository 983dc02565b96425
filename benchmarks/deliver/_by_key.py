"""Rows packed by key, as the rivals keep their state: one binary row per key and partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from thence.tables.delivery.partition_by_key import by_key, in_order
from thence.tables.delivery.shard_state import batches, ipc

PACKED = "__thence_rows"
ORDER = ["arrival", "message"]


def packer(key: tuple[str, ...]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that packs a partition; the first columns of a table are the key."""

    def pack(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = list(rows)
        if not found:
            return
        table = pa.concat_batches(found)
        columns, rest = table.columns[: len(key)], table.drop_columns(table.schema.names[: len(key)])
        parted = by_key(rest, columns, ORDER, lambda firsts: np.arange(len(firsts)))
        spans = zip(parted.starts, parted.starts[1:], strict=False)
        blobs = [ipc(parted.rows.slice(start, stop - start)) for start, stop in spans]
        firsts = pa.array(parted.starts[:-1])
        yield pa.RecordBatch.from_arrays(
            [*(parted.rows.column(name).take(firsts) for name in key), pa.array(blobs)], [*key, PACKED]
        )

    return pack


def sorted_rows(blobs: list[bytes]) -> pa.RecordBatch:
    """Return the rows of packed rows of one key, in the order of arrival."""
    table = pa.concat_batches([batch for blob in blobs for batch in batches(blob)])
    return table.take(pa.array(in_order(table, ORDER)))

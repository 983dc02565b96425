"""Stamps of a batch, read together.

*Invariant.* What is read equals what `Reading.read` says, row by row; what the column reader leaves, it reads.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thence.core.model.plain import Field
from thence.tables.delivery.packed_stamps import read_packed
from thence.tables.delivery.reading import Read, Reading


def read_stamp_column(
    reading: Reading, senders: list[Field], destinations: list[Field], column: pa.Array | None, count: int
) -> list[Read | str]:
    """Read the stamps of one key."""
    if column is None:
        return [reading.read(None, *row, None) for row in zip(senders, destinations, strict=True)]
    found: list[Read | str | None] = []
    while reading.entry is None and len(found) < count:  # the first stamp that can be read settles the protocol
        place = len(found)
        found.append(reading.read(None, senders[place], destinations[place], column[place].as_py()))
    start = len(found)
    rest = column.slice(start)
    binary = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    if binary:
        found += read_packed(reading, senders[start:], destinations[0] if count else None, lambda: _buffers(rest))
    else:
        found += [None] * len(rest)
    return [
        reading.read(None, senders[place], destinations[place], column[place].as_py()) if read is None else read
        for place, read in enumerate(found)
    ]


def _buffers(column: pa.Array) -> tuple[object, object]:
    """Return the bytes of a binary column, and the offsets in them."""
    column = column.cast(pa.large_binary())
    offsets = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]
    return column.buffers()[2] or b"", offsets

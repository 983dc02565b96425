"""Stamps of a batch, read together.

*Invariant.* What is read equals what `Reading.read` says, row by row: a row that arrays do not read is left to it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thence.delivery.reading import Read, Reading
from thence.delivery.reading_cy import stamp_rows
from thence.model.plain import Field

BY_ARRAYS = 512
"""Stamps that take longer one by one than loading the reader of arrays does."""


def read_stamps(
    reading: Reading, senders: list[Field], destinations: list[Field], column: pa.Array | None, count: int
) -> list[Read | str]:
    """Read the stamps of one key."""
    stamps: list[Field] = [None] * count if column is None else column.to_pylist()

    def read(row: int) -> Read | str:
        return reading.read(None, senders[row], destinations[row], stamps[row])

    found: list[Read | str | None] = [None] * count
    start = 0
    while reading.entry is None and start < count:  # the first stamp that can be read settles the protocol
        found[start] = read(start)
        start += 1
    if column is not None and count - start >= BY_ARRAYS and _by_arrays(reading, destinations[0]):
        found[start:] = _read(reading, senders[start:], destinations[0], column.slice(start))
    return [read(row) if each is None else each for row, each in enumerate(found)]


def _by_arrays(reading: Reading, destination: Field) -> bool:
    from thence.kernels.stamps import CODES, MOST

    if reading.entry is None or len(reading.rosters) != 1 or len(reading.rosters[0]) > MOST:
        return False
    return reading.entry.protocol.code in CODES and destination in reading.rosters[0]


def _read(reading: Reading, senders: list[Field], destination: Field, column: pa.Array) -> list[Read | None]:
    """Read stamps by arrays; None for those that are left to Python."""
    from thence.kernels.stamps import read_stamps

    assert reading.entry is not None
    roster = reading.rosters[0]
    column = column.cast(pa.large_binary())
    offsets = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]
    buffer = column.buffers()[2]
    data = np.frombuffer(buffer, np.uint8) if buffer is not None else np.zeros(0, np.uint8)
    digest = np.frombuffer(roster.hash, np.uint8)
    me = roster.position(str(destination))
    read = read_stamps(data, offsets, reading.entry.protocol.code, digest, len(roster), me)
    columns = (read.sender, read.number, read.start, read.length, read.need_source, read.need_number)
    rows = stamp_rows(*(each.tolist() for each in columns))
    names = roster.names
    for place, (good, sender) in enumerate(zip(read.good.tolist(), senders, strict=True)):
        if not good or (sender is not None and sender != names[rows[place][1]]):
            rows[place] = None
    return rows

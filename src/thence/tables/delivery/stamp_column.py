"""Stamps of a batch, read together.

*Invariant.* What is read equals what `Reading.read` says, row by row; what the column reader leaves, it reads.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thence.core.model.plain import Field
from thence.core.protocols import stamps_cy
from thence.tables.delivery.reading import Read, Reading


def read_stamps(
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
    found += _read(reading, senders[start:], destinations[0] if count else None, column.slice(start))
    return [
        reading.read(None, senders[place], destinations[place], column[place].as_py()) if read is None else read
        for place, read in enumerate(found)
    ]


def _read(reading: Reading, senders: list[Field], destination: Field, column: pa.Array) -> list[Read | str | None]:
    """Read stamps of one protocol and roster; None for those that are left to `Reading.read`."""
    if reading.entry is None or len(reading.rosters) != 1 or destination not in reading.rosters[0]:
        return [None] * len(senders)
    roster, code = reading.rosters[0], reading.entry.protocol.code
    binary = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    if code not in stamps_cy.FORMS or not binary:
        return [None] * len(senders)
    column = column.cast(pa.large_binary())
    offsets = np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1]
    data = column.buffers()[2] or b""
    names = roster.names
    rows = stamps_cy.read_stamps(data, offsets, code, roster.hash, len(roster), roster.position(str(destination)))
    return [
        None if row is None or (sender is not None and sender != names[row[0]]) else (None, *row, None)
        for row, sender in zip(rows, senders, strict=True)
    ]

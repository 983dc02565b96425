"""Stamps as arrays: of each what the delivery rule asks of it, and nothing else.

Law. For every byte string, either the answer equals `decode` of `thence.protocols.wire` followed by the protocol's
`needs` and `gives`, or the row is flagged and is for Python to judge. The bytes are read by
`thence.protocols.stamps_cy`; flagged beside what that leaves are numbers of 2**48 and more.
"""

from __future__ import annotations

import numpy as np

from thence.kernels.arrays import Letters, Longs
from thence.kernels.arrival_rows import RowsRead
from thence.protocols import stamps_cy

CODES = tuple(stamps_cy.FORMS)
"""The wire numbers of the protocols that are read here."""
MOST = 4096
"""The largest roster that is read here."""
LARGE = 1 << 48


def read_stamps(data: Letters, offsets: Longs, code: int, digest: Letters, size: int, me: int) -> RowsRead:
    """Read the stamps of one protocol at one destination.

    `data` and `offsets` are those of an Arrow binary column, `digest` is the roster's hash.
    """
    offsets = np.ascontiguousarray(offsets, np.int64)
    rows = (
        stamps_cy.read_stamps(data, offsets, code, digest.tobytes(), size, me)
        if code in CODES
        else [None] * (len(offsets) - 1)
    )
    read = [row if row is not None and max(row[1], *row[3], 0) < LARGE else None for row in rows]
    sender, number, length = (
        np.array([0 if row is None else part(row) for row in read], np.int64)
        for part in (lambda row: row[0], lambda row: row[1], lambda row: len(row[2]))
    )
    sources, counts = (np.array([n for row in read if row for n in row[place]], np.int64) for place in (2, 3))
    good = np.array([row is not None for row in read], np.bool_)
    return RowsRead(sender, number, np.cumsum(length) - length, length, good, sources, counts)

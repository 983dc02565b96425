"""What arrays read of stamps: of each row its sender, its number and a span of the needs of all."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thence.kernels.arrays import Flags, Longs, Records


class RowsRead(NamedTuple):
    """What rows say of themselves: sender and own number, a span of the needs of all, whether the row was read."""

    sender: Longs
    number: Longs
    start: Longs
    length: Longs
    good: Flags
    need_source: Longs
    need_number: Longs


def _of_longs(names: str) -> list[tuple[str, str]]:
    return [(name, "i8") for name in names.split()]


CAUSE = np.dtype(_of_longs("source number"))
"""A number of a source that a row needs."""
READ = np.dtype(_of_longs("sender number start length good"))
"""What a row says of itself, as in `RowsRead`."""


def rows_read(read: Records, need_source: Longs, need_number: Longs) -> RowsRead:
    """Return what was read, column by column."""
    sender, number, start, length, good = (read[name] for name in READ.names or ())
    return RowsRead(sender, number, start, length, good.astype(np.bool_), need_source, need_number)

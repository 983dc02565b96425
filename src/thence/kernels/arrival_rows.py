"""Arrivals as arrays: rows, what is known of their sources, what becomes of them.

Law. Nothing here decides. The rule is in `receive`: it takes `Arrived`, `Known`, `Holes` and `Limits` and gives `Left`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from thence.kernels.arrays import Bytes, Doubles, Flags, Longs, Records

NONE = -1
FOREVER = 1 << 62
"""So many rows, or seconds, do not come."""


class Status(IntEnum):
    """What became of a row."""

    HELD = 0
    DELIVERED = 1
    RELEASED = 2
    LATE = 3
    HELD_ALREADY = 4
    DELIVERED_BEFORE = 5
    QUARANTINED_BEFORE = 6
    UNUSABLE = 7
    CYCLE = 8


class Why(IntEnum):
    """Why a row was let go."""

    FREE = 0
    ROWS = 1
    SECONDS = 2
    FULL = 3


class RowsRead(NamedTuple):
    """What rows say of themselves: sender and own number, a span of the needs of all, whether the row was read."""

    sender: Longs
    number: Longs
    start: Longs
    length: Longs
    good: Flags
    need_source: Longs
    need_number: Longs


class Arrived(NamedTuple):
    """Rows of a step, the held ones of before first; the needs of all are flat, each row has a span of them."""

    source: Longs
    number: Longs
    start: Longs
    length: Longs
    need_source: Longs
    need_number: Longs
    need_waited: Flags
    """whether the row is held for this need"""
    ticket: Longs
    since: Doubles
    """event time of the key as it came"""
    unusable: Flags


class Known(NamedTuple):
    """What is known of each source; changed in place."""

    level: Longs
    seen: Longs
    quarantined: Flags
    hole: Longs
    """the first of its holes, or NONE"""


class Holes(NamedTuple):
    """Ranges of numbers that were given up and have not come; linked by source, the last one first."""

    first: Longs
    last: Longs
    following: Longs
    used: Longs
    """one number: how many there are"""


class Limits(NamedTuple):
    """What the policy says, and of what kind the arrivals are."""

    after_rows: int
    after_seconds: float
    most_held: int
    fails: bool
    """whether a row that has waited too long is an error"""
    fails_full: bool
    dense: bool
    cyclic: bool

    @property
    def any(self) -> bool:
        """Whether a row can meet one."""
        return min(self.after_rows, self.after_seconds, self.most_held) < FOREVER


class Left(NamedTuple):
    """What left, in order: the row, how, at which row, why; and flat, what each went without."""

    row: Longs
    status: Bytes
    at: Longs
    why: Bytes
    missing_end: Longs
    missing_source: Longs
    missing_number: Longs
    missing_total: Longs
    """how many are missing in truth, where more are than are listed"""
    stopped: int
    """the row at which a limit was an error, or NONE"""


# -- while the rule runs: one record for each row, need and source, in a few arrays ------------------------------------


def _of_longs(names: str) -> list[tuple[str, str]]:
    return [(name, "i8") for name in names.split()]


ROW = np.dtype(
    [
        ("since", "f8"),
        ("now", "f8"),
        *_of_longs("source number start length ticket unusable status mark"),
        *_of_longs("left at why total missing_end"),
    ]
)
"""A row. `now` is the event time of the key as it comes. `left` is the row that was the so-and-so-many-th to leave;
then of a row that has left at which row it did, why, how much it lacks in truth and where its part of the list of
missing causes ends."""
WALK = np.dtype(_of_longs("mark below other_below group"))
"""A row on a walk along causes and effects: marked by the second, and the next row on the stack of each; the group that
walks from it stay in."""
NODE = np.dtype(_of_longs("key child sibling"))
"""A place in a pairing heap. Row r is in two: 2r among those that watch a source, and then among those that are free;
2r + 1 among the held of a source, or for explicit causes among those on a cycle."""
NEED = np.dtype(_of_longs("source number waited want_next want_row"))
"""A need; for explicit causes linked with the other needs of that source, and the row that has it."""
SOURCE = np.dtype(_of_longs("level seen quarantined hole heap own want"))
"""A source: `heap` is the first of the rows that watch it, `own` the first of its held rows, `want` the first need."""
HOLE = np.dtype(_of_longs("first last following"))
CAUSE = np.dtype(_of_longs("source number"))
"""A number of a source: what a row needs, or goes without."""
LIMITS = np.dtype([("after_seconds", "f8"), *_of_longs("after_rows most_held fails fails_full dense cyclic")])
"""What `Limits` says."""
TALLY = np.dtype(_of_longs("held oldest epoch left holes ready missing stopped row walked patience seen"))
"""How many rows are held, a row before which none is, what marks rows on the present walk, how many have left, how many
holes there are, the heap of free rows, how many missing causes are listed, the row at which a limit was an error; the
row that comes next, how many steps walks have taken, after how many or at which row to stop for a look at all rows."""
READ = np.dtype(_of_longs("sender number start length good"))
"""What a row says of itself, as in `RowsRead`."""


def rows_read(read: Records, need_source: Longs, need_number: Longs) -> RowsRead:
    """Return what was read, column by column."""
    sender, number, start, length, good = (read[name] for name in READ.names or ())
    return RowsRead(sender, number, start, length, good.astype(np.bool_), need_source, need_number)

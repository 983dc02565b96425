"""The scan: vector clocks along an order in which causes come first.

Invariant: Let K[d] be what process d has learnt from the messages it delivered: K[d][s] is the index of the latest send
of s that happened before the send of some message delivered at d. A message carries K of its sender, with the sender's
own component set to the index of the send. Then the first delivery of m, sent by s at index t, is late at d exactly
when K[d][s] >= t just before it: some other message delivered there was sent after m. K[d][d] holds only what came back
to d through messages, so copies addressed to their own sender need no rule of their own.

The component s of every clock depends on no other component: a block of columns can be scanned alone.

The loops take the sends and deliveries of one run and one label, in order. A message whose send is not among
the rows (it was sent before the first of them) has `send_row` -1; it carries nothing here.

The loops themselves are in `scan_cy` and `order_cy`; here they get their arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thence.tables.contract.numpy_types import Bytes, Clocks, Flags, Ints, Longs
from thence.tables.judge import order_cy, scan_cy

FIRST, DUPLICATE, ASTRAY, IMPORTED = 1, 2, 4, 8
"""A delivery is the first of an addressed copy, a repeat, at a process not addressed, of a message sent before."""
LONG = 64
"""Segments longer than this are sorted by numpy, shorter ones by insertion: in random order insertion takes 0.1 us for
64 numbers, 1.0 us for 128 and 6 us for 256, numpy 0.2 to 0.3 us each and a call from Python.
"""


class ScanColumns(NamedTuple):
    """The sends and deliveries that a loop walks along."""

    sends: Flags
    process: Ints
    at: Longs
    """the `index` of each row"""
    message: Ints


class Marks(NamedTuple):
    """Indexes to look out for: those of process p, ascending, are at[starts[p]:starts[p + 1]]; none: not wanted.

    `contact[mark, d]` takes the row that first lets process d know p at a mark or later.
    """

    at: Clocks
    starts: Longs
    contact: Ints


def sort_segments(offsets: Longs, values: Ints) -> Longs:
    """Sort each segment of `values` in place; return the rows whose segment holds a value twice or one below 0."""
    lengths = np.diff(offsets)
    for row in np.flatnonzero(lengths > LONG).tolist():
        values[offsets[row] : offsets[row + 1]].sort()
    odd = np.zeros(len(lengths), np.uint8)
    order_cy.sort_segments(offsets, values, odd)
    return np.flatnonzero(odd)


def increasing(process: Ints, index: Longs, processes: int) -> bool:
    """Return whether the indexes of every process increase along the rows."""
    return steps_left_out(process, index, processes) >= 0


def steps_left_out(process: Ints, index: Longs, processes: int) -> int:
    """Return at how many places the indexes of a process leave something out; -1 if they do not increase."""
    return int(order_cy.left_out(process, index, np.zeros(processes, np.int64)))


def slots(sends: Flags, message: Ints, uses: Ints, keep: Flags) -> tuple[Ints, int]:
    """Give each message that is still to be delivered a place for its clock, reused after its last delivery.

    Return (place of each message or -1, places).
    """
    place = np.full(len(uses), -1, np.int32)
    free = np.empty(len(uses) + 1, np.int32)
    return place, scan_cy.slots(sends.view(np.uint8), message, uses.copy(), keep.view(np.uint8), place, free)


def scan(
    columns: ScanColumns, role: Bytes, send_row: Longs, place: Ints, known: Clocks, carried: Clocks, low: int,
    late: Flags, before: Clocks, marks: Marks,
) -> None:  # fmt: skip
    """Run the clocks over all rows for the columns from `low` on, as many as `known` has.

    `known` (process x column) and `carried` (place x column) hold the state and end as the state after the last
    row. `late[row]` is set for each late first delivery; `before` takes `known` of the process before each
    imported delivery, in row order (no rows: not wanted).
    """
    width = known.shape[1]
    total = marks.starts[low + width] - marks.starts[low] if len(marks.at) else 0
    left = np.full(known.shape[0], total, np.int64)
    never = known.dtype.type(np.iinfo(known.dtype).max)
    due = np.full((known.shape[0] if total else 0, width), never, known.dtype)
    ahead = np.zeros(due.shape, np.int32)
    if total:
        first, end = marks.starts[low : low + width], marks.starts[low + 1 : low + width + 1]
        ahead[:] = first
        some = end > first
        due[:, some] = marks.at[first[some]]
    scan_cy.scan(
        columns.sends.view(np.uint8), columns.process, columns.at, columns.message, role, send_row, place, known,
        carried, low, late.view(np.uint8), before, marks.at, marks.starts, marks.contact, left, due, ahead, never,
    )  # fmt: skip


def locate(
    columns: ScanColumns, place: Ints, known: Clocks, carried: Clocks, column_of: Ints, at_process: Ints, column: Ints,
    least: Longs, since: Longs,
) -> Longs:  # fmt: skip
    """For each question find the first delivery after which its process knows of `least` or later in `column`.

    A question stands from row `since` on. `column_of[p]` is the column of process p among those scanned, or -1. Return
    the row for each question, -1 where there is none.

    Questions of one process about one column form a queue, least first: what it knows only grows, so that a delivery
    asks the first of each queue alone.
    """
    order = np.lexsort((least, column, at_process))
    asking, queue_of, total = np.unique(at_process, return_inverse=True, return_counts=True)
    asker = np.full(known.shape[0], -1, np.int32)
    asker[asking] = np.arange(len(asking), dtype=np.int32)
    never = known.dtype.type(np.iinfo(known.dtype).max)
    ends = np.cumsum(np.bincount(queue_of * known.shape[1] + column, minlength=len(asking) * known.shape[1]))
    ends = ends.astype(np.int64).reshape(len(asking), known.shape[1])
    ahead = np.concatenate([[0], ends.ravel()[:-1]]).astype(np.int64).reshape(ends.shape)
    ordered = least[order].astype(known.dtype)
    due = np.full(ends.shape, never, known.dtype)
    due[ahead < ends] = ordered[ahead[ahead < ends]]
    found = np.full(len(least), -1, np.int64)
    scan_cy.locate(
        columns.sends.view(np.uint8), columns.process, columns.at, columns.message, place, known, carried, column_of,
        ordered, since[order], asker, total.astype(np.int64), due, ahead, ends, never, found,
    )  # fmt: skip
    answer = np.empty_like(found)
    answer[order] = found
    return answer

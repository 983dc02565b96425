"""The inner loops: vector clocks along an order in which causes come first.

Law. Let K[d] be what process d has learnt from the messages it delivered: K[d][s] is the index of the latest send of s
that happened before the send of some message delivered at d. A message carries K of its sender, with the sender's
own component set to the index of the send. Then the first delivery of m, sent by s at index t, is late at d exactly
when K[d][s] >= t just before it: some other message delivered there was sent after m. K[d][d] holds only what came
back to d through messages, so copies addressed to their own sender need no rule of their own.

The component s of every clock depends on no other component: a block of columns can be scanned alone.

The loops take the sends and deliveries of one run and one label, in order. A message whose send is not among
the rows (it was sent before the first of them) has `send_row` -1; it carries nothing here.

A loop is compiled on its first use on a machine, while somebody waits. What would make that longer stands outside: a
loop gets its room from a plain function, and neither makes lists nor fills slices of arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from thence.kernels.arrays import Bytes, Clocks, Flags, Ints, Longs, fixed

FIRST, DUPLICATE, ASTRAY, IMPORTED = 1, 2, 4, 8
"""A delivery is the first of an addressed copy, a repeat, at a process not addressed, of a message sent before."""


class Columns(NamedTuple):
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
    odd = np.zeros(len(offsets) - 1, np.bool_)
    _sort_segments(offsets, values, odd)
    return np.flatnonzero(odd)


@njit(cache=True, nogil=True)
def _sort_segments(offsets: Longs, values: Ints, odd: Flags) -> None:
    for row in range(len(offsets) - 1):
        start, end = offsets[row], offsets[row + 1]
        step = 1
        while step < (end - start) // 3:
            step = 3 * step + 1
        while step > 0:  # Shell's sort: a library's takes longer to compile than most runs to judge
            for i in range(start + step, end):
                value, at = values[i], i
                while at >= start + step and values[at - step] > value:
                    values[at] = values[at - step]
                    at -= step
                values[at] = value
            step //= 3
        bad = end > start and values[start] < 0
        for i in range(start + 1, end):
            bad = bad or values[i] == values[i - 1]
        odd[row] = bad


def increasing(process: Ints, index: Longs, processes: int) -> bool:
    """Tell whether the indexes of every process increase along the rows."""
    return steps_left_out(process, index, processes) >= 0


def steps_left_out(process: Ints, index: Longs, processes: int) -> int:
    """Return at how many places the indexes of a process leave something out; -1 if they do not increase."""
    return int(_left_out(fixed(process), fixed(index), np.zeros(processes, np.int64)))


@njit(cache=True, nogil=True)
def _left_out(process: Ints, index: Longs, last: Longs) -> int:
    found = 0
    for row in range(len(process)):
        p = process[row]
        if index[row] <= last[p]:
            return -1
        if index[row] > last[p] + 1:
            found += 1
        last[p] = index[row]
    return found


@njit(cache=True, nogil=True)
def _find(values: Ints, start: int, end: int, wanted: int) -> int:
    while start < end:
        middle = (start + end) >> 1
        if values[middle] < wanted:
            start = middle + 1
        else:
            end = middle
    return start


def match(
    sends: Flags, process: Ints, message: Ints, messages: int, offsets: Longs, destinations: Ints
) -> tuple[Longs, Longs, Bytes, Ints, bool]:
    """Meet each delivery with its send.

    Return (send_row of each message or -1, the row that first delivered each copy or -1, what each delivery is,
    deliveries of each message, whether some send comes after a delivery of its message).
    """
    send_row = np.full(messages, -1, np.int64)
    delivered = np.full(len(destinations), -1, np.int64)
    role = np.zeros(len(process), np.int8)
    uses = np.zeros(messages, np.int32)
    disorder = _match(sends, process, message, offsets, destinations, send_row, delivered, role, uses)
    return send_row, delivered, role, uses, bool(disorder)


@njit(cache=True, nogil=True)
def _match(
    sends: Flags, process: Ints, message: Ints, offsets: Longs, destinations: Ints, send_row: Longs, delivered: Longs,
    role: Bytes, uses: Ints,
) -> bool:  # fmt: skip
    disorder = False
    for row in range(len(process)):
        m = message[row]
        if sends[row]:
            disorder = disorder or uses[m] > 0
            send_row[m] = row
            continue
        uses[m] += 1
        origin = send_row[m]
        if origin < 0:
            role[row] = IMPORTED
            continue
        end = offsets[origin + 1]
        copy = _find(destinations, offsets[origin], end, process[row])
        if copy == end or destinations[copy] != process[row]:
            role[row] = ASTRAY
        elif delivered[copy] >= 0:
            role[row] = DUPLICATE
        else:
            role[row] = FIRST
            delivered[copy] = row
    return disorder


def slots(sends: Flags, message: Ints, uses: Ints, keep: Flags) -> tuple[Ints, int]:
    """Give each message that is still to be delivered a place for its clock, reused after its last delivery.

    Return (place of each message or -1, places).
    """
    place = np.full(len(uses), -1, np.int32)
    free = np.empty(len(uses) + 1, np.int32)
    return place, int(_slots(sends, message, uses.copy(), keep, place, free))


@njit(cache=True, nogil=True)
def _slots(sends: Flags, message: Ints, left: Ints, keep: Flags, place: Ints, free: Ints) -> int:
    spare = 0
    used = 0
    for row in range(len(message)):
        m = message[row]
        if sends[row]:
            if left[m] > 0 or keep[m]:
                if spare > 0:
                    spare -= 1
                    place[m] = free[spare]
                else:
                    place[m] = used
                    used += 1
        elif place[m] >= 0:
            left[m] -= 1
            if left[m] == 0 and not keep[m]:
                free[spare] = place[m]
                spare += 1
    return used


def scan(
    columns: Columns, role: Bytes, send_row: Longs, place: Ints, known: Clocks, carried: Clocks, low: int, late: Flags,
    before: Clocks, marks: Marks,
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
    ahead = np.zeros(due.shape, np.int64)
    if total:
        first, end = marks.starts[low : low + width], marks.starts[low + 1 : low + width + 1]
        ahead[:] = first
        some = end > first
        due[:, some] = marks.at[first[some]]
    _scan(columns, role, send_row, place, known, carried, low, late, before, marks, left, due, ahead, never)


@njit(cache=True, nogil=True)
def _scan(
    columns: Columns, role: Bytes, send_row: Longs, place: Ints, known: Clocks, carried: Clocks, low: int, late: Flags,
    before: Clocks, marks: Marks, left: Longs, due: Clocks, ahead: Longs, never: np.int32 | np.int64,
) -> None:  # fmt: skip
    sends, process, index, message = columns
    looked, starts, contact = marks
    width = known.shape[1]
    imports = 0
    for row in range(len(process)):
        p = process[row]
        m = message[row]
        at = place[m]
        own = known[p]
        if sends[row]:
            if at >= 0:
                clock = carried[at]
                for c in range(width):
                    clock[c] = own[c]
                if low <= p < low + width:
                    clock[p - low] = index[row]
            continue
        if role[row] == IMPORTED:
            if len(before):
                for c in range(width):
                    before[imports, c] = own[c]
            imports += 1
            if at < 0:
                continue
        elif role[row] == FIRST:
            s = process[send_row[m]]
            if low <= s < low + width and own[s - low] >= index[send_row[m]]:
                late[row] = True
        clock = carried[at]
        for c in range(width):
            if clock[c] > own[c]:
                own[c] = clock[c]
        if left[p] > 0:
            wanted = due[p]
            reached = 0
            for c in range(width):
                reached += own[c] >= wanted[c]
            if reached:
                for c in range(width):
                    while own[c] >= wanted[c]:
                        mark = ahead[p, c]
                        contact[mark, p] = row
                        left[p] -= 1
                        ahead[p, c] = mark + 1
                        wanted[c] = looked[mark + 1] if mark + 1 < starts[low + c + 1] else never


def locate(
    columns: Columns, place: Ints, known: Clocks, carried: Clocks, column_of: Ints, at_process: Ints, column: Ints,
    least: Longs, since: Longs,
) -> Longs:  # fmt: skip
    """For each question find the first delivery after which its process knows of `least` or later in `column`.

    Questions are sorted by `since`, the row from which they stand. `column_of[p]` is the column of
    process p among those scanned, or -1. Return the row for each question, -1 where there is none.
    """
    answer = np.full(len(least), -1, np.int64)
    lists = np.full(known.shape[0], -1, np.int64), np.full(len(least), -1, np.int64)
    _locate(columns, place, known, carried, column_of, at_process, column, least, since, *lists, answer)
    return answer


@njit(cache=True, nogil=True)
def _locate(
    columns: Columns, place: Ints, known: Clocks, carried: Clocks, column_of: Ints, at_process: Ints, column: Ints,
    least: Longs, since: Longs, head: Longs, after: Longs, answer: Longs,
) -> None:  # fmt: skip
    sends, process, index, message = columns
    width = known.shape[1]
    asked = 0
    for row in range(len(process)):
        while asked < len(least) and since[asked] <= row:
            after[asked] = head[at_process[asked]]
            head[at_process[asked]] = asked
            asked += 1
        p = process[row]
        at = place[message[row]]
        if at < 0:
            continue
        own = known[p]
        clock = carried[at]
        if sends[row]:
            for c in range(width):
                clock[c] = own[c]
            if column_of[p] >= 0:
                clock[column_of[p]] = index[row]
            continue
        for c in range(width):
            if clock[c] > own[c]:
                own[c] = clock[c]
        previous = -1
        question = head[p]
        while question >= 0:
            following = after[question]
            if own[column[question]] >= least[question]:
                answer[question] = row
                if previous < 0:
                    head[p] = following
                else:
                    after[previous] = following
            else:
                previous = question
            question = following

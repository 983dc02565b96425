"""Clocks and explicit causes read by arrays: of each row what the delivery rule asks of it.

Law. For every row that is marked as read the answer is that of `delivery/reading.py`; the others are for it to judge.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thence.kernels.arrays import Flags, Ints, Longs
from thence.kernels.arrival_rows import RowsRead
from thence.kernels.stamp_bytes import LARGE


@njit(cache=True)
def _into_order(source: Longs, number: Longs, start: int, end: int, rank: Longs) -> None:
    """Put a few needs into the order of their names; as a rule they are."""
    for i in range(start + 1, end):
        j = i
        while j > start and rank[source[j]] < rank[source[j - 1]]:
            source[j], source[j - 1] = source[j - 1], source[j]
            number[j], number[j - 1] = number[j - 1], number[j]
            j -= 1


@njit(cache=True)
def read_clocks(offsets: Longs, keys: Longs, values: Longs, sender: Longs, rank: Longs) -> RowsRead:
    """Read clocks whose names are coded; a name that stands twice, or a number that cannot be, is not read.

    `rank` is the place of each name in the order of names, which is the order of a row's needs.
    """
    rows = len(offsets) - 1
    own = np.zeros(rows, np.int64)
    start = np.zeros(rows, np.int64)
    length = np.zeros(rows, np.int64)
    good = np.zeros(rows, np.bool_)
    mark = np.full(len(rank), -1, np.int64)
    source = np.zeros(len(keys), np.int64)
    number = np.zeros(len(keys), np.int64)
    n = 0
    for row in range(rows):
        who = sender[row]
        start[row] = n
        after = n
        fine = who >= 0
        count = 0
        for i in range(offsets[row], offsets[row + 1]):
            key, value = keys[i], values[i]
            if key < 0 or value < 0 or value >= LARGE or mark[key] == row:
                fine = False
                break
            mark[key] = row
            if key == who:
                count = value
                value -= 1
            if value > 0:
                source[after] = key
                number[after] = value
                after += 1
        if not fine or count < 1:
            continue
        _into_order(source, number, n, after, rank)
        own[row], length[row], good[row] = count, after - n, True
        n = after
    return RowsRead(sender, own, start, length, good, source[:n], number[:n])


@njit(cache=True)
def read_causes(offsets: Ints, causes: Longs, own: Longs, valid: Flags) -> RowsRead:
    """Read explicit causes whose ids are coded; a cause that is named again is dropped, and so is a null.

    A row cannot be used without an id, without a list, or if it names itself.
    """
    rows = len(own)
    start, length = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    good = np.zeros(rows, np.bool_)
    source = np.empty(len(causes), np.int64)
    n = 0
    for row in range(rows):
        start[row] = n
        fine = own[row] >= 0 and (len(valid) == 0 or valid[row])
        after = n
        if fine:
            for i in range(offsets[row], offsets[row + 1]):
                code = causes[i]
                if code == own[row]:
                    fine = False
                    break
                place = n
                while place < after and source[place] != code:
                    place += 1
                if code >= 0 and place == after:
                    source[after] = code
                    after += 1
        good[row] = fine
        if fine:
            length[row] = after - n
            n = after
    return RowsRead(own, np.ones(rows, np.int64), start, length, good, source[:n], np.ones(n, np.int64))

"""Clocks and explicit causes read by arrays: of each row what the delivery rule asks of it.

Law. For every row that is marked as read the answer is that of `delivery/reading.py`; the others are for it to judge.
"""

from __future__ import annotations

import numpy as np

from thence.kernels.arrays import Flags, Ints, Longs, Records, fixed
from thence.kernels.arrival_rows import READ, RowsRead, rows_read
from thence.kernels.compiling import loop
from thence.kernels.stamps import LARGE


@loop
def _read_clocks(
    offsets: Longs, keys: Longs, values: Longs, sender: Longs, rank: Longs, mark: Longs, source: Longs, number: Longs,
    read: Records,
) -> int:  # fmt: skip
    n = 0
    for row in range(len(read)):
        who = sender[row]
        read[row].sender, read[row].start = who, n
        after = n
        fine = who >= 0
        count = np.int64(0)
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
        for i in range(n + 1, after):  # into the order of their names; as a rule they are
            j = i
            while j > n and rank[source[j]] < rank[source[j - 1]]:
                source[j], source[j - 1] = source[j - 1], source[j]
                number[j], number[j - 1] = number[j - 1], number[j]
                j -= 1
        read[row].number, read[row].length, read[row].good = count, after - n, 1
        n = after
    return n


def read_clocks(offsets: Longs, keys: Longs, values: Longs, sender: Longs, rank: Longs) -> RowsRead:
    """Read clocks whose names are coded; a name that stands twice, or a number that cannot be, is not read.

    `rank` is the place of each name in the order of names, which is the order of a row's needs.
    """
    read, mark = np.zeros(len(offsets) - 1, READ), np.full(len(rank), -1, np.int64)
    source, number = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    n = _read_clocks(offsets, keys, fixed(values), sender, rank, mark, source, number, read)
    return rows_read(read, source[:n], number[:n])


@loop
def _read_causes(offsets: Ints, causes: Longs, own: Longs, valid: Flags, source: Longs, read: Records) -> int:
    n = 0
    for row in range(len(own)):
        read[row].sender, read[row].number, read[row].start = own[row], 1, n
        after = n
        fine = own[row] >= 0 and (len(valid) == 0 or valid[row])
        for i in range(offsets[row], offsets[row + 1]):
            code = causes[i]
            fine = fine and code != own[row]
            place = n
            while place < after and source[place] != code:
                place += 1
            if code >= 0 and place == after:
                source[after] = code
                after += 1
        if fine:
            read[row].length, read[row].good = after - n, 1
            n = after
    return n


def read_causes(offsets: Ints, causes: Longs, own: Longs, valid: Flags) -> RowsRead:
    """Read explicit causes whose ids are coded; a cause that is named again is dropped, and so is a null.

    A row cannot be used without an id, without a list, or if it names itself.
    """
    read, source = np.zeros(len(own), READ), np.empty(len(causes), np.int64)
    n = _read_causes(fixed(offsets), causes, own, valid, source, read)
    return rows_read(read, source[:n], np.ones(n, np.int64))

"""Arrays into records and back: the rule works on one record for each row, need and source.

Law. What `written_back` returns and writes is what the rule changed, and nothing else.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thence.kernels.arrays import Bytes, Longs, Records
from thence.kernels.arrival_rows import HOLE, NEED, NODE, NONE, ROW, SOURCE, TALLY, Arrived, Holes, Known, Left
from thence.kernels.holes import Missing


@njit(cache=True)
def row_records(arrived: Arrived) -> Records:
    """Return the rows of a step."""
    made = np.zeros(len(arrived.source), ROW)
    for row in range(len(made)):
        it = made[row]
        it.source, it.number, it.ticket = arrived.source[row], arrived.number[row], arrived.ticket[row]
        it.start, it.length = arrived.start[row], arrived.length[row]
        it.since, it.unusable, it.other_mark = arrived.since[row], arrived.unusable[row], NONE
    return made


@njit(cache=True)
def need_records(arrived: Arrived) -> Records:
    """Return the needs of all rows."""
    made = np.empty(len(arrived.need_source), NEED)
    for need in range(len(made)):
        it = made[need]
        it.source, it.number = arrived.need_source[need], arrived.need_number[need]
        it.waited, it.want_next, it.want_row = arrived.need_waited[need], NONE, NONE
    return made


@njit(cache=True)
def source_records(known: Known) -> Records:
    """Return what is known of the sources, with nobody held."""
    made = np.empty(len(known.level), SOURCE)
    for source in range(len(made)):
        it = made[source]
        it.level, it.seen, it.hole = known.level[source], known.seen[source], known.hole[source]
        it.quarantined, it.heap, it.own, it.want = known.quarantined[source], NONE, NONE, NONE
    return made


@njit(cache=True)
def hole_records(given_up: Holes) -> Records:
    """Return the holes, with room for more."""
    made = np.empty(len(given_up.first), HOLE)
    for hole in range(given_up.used[0]):
        it = made[hole]
        it.first, it.last, it.following = given_up.first[hole], given_up.last[hole], given_up.following[hole]
    return made


@njit(cache=True)
def tallied(count: int, cyclic: bool, holes: int) -> tuple[Records, Longs, Records]:
    """Return places in heaps and a hash table for so many rows, and the tally of a step that begins."""
    bits = 4
    while not cyclic and (1 << bits) < 2 * count:
        bits += 1
    tally = np.zeros(1, TALLY)
    tally[0].holes = holes
    return np.empty(2 * count, NODE), np.zeros(1 << bits, np.int64), tally


@njit(cache=True)
def _left(rows: Records, left: int, missing: Missing, stopped: int) -> Left:
    """Return what left, in order."""
    n = len(missing)
    source, number = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        source[i], number[i] = missing[i]
    row, at, end, total = (np.empty(left, np.int64), np.empty(left, np.int64), np.empty(left, np.int64),
                           np.empty(left, np.int64))  # fmt: skip
    status, why = np.empty(left, np.int8), np.empty(left, np.int8)
    for i in range(left):
        it = rows[rows[i].left]
        row[i], status[i], at[i], why[i], end[i], total[i] = (
            rows[i].left,
            it.status,
            it.at,
            it.why,
            it.missing_end,
            it.total,
        )
    return Left(row, status, at, why, end, source, number, total, stopped)


@njit(cache=True)
def written_back(
    rows: Records, needs: Records, sources: Records, holes: Records, tally: Records, missing: Missing, stopped: int,
    arrived: Arrived, known: Known, given_up: Holes,
) -> tuple[Bytes, Left]:  # fmt: skip
    """Write what changed into the arrays; return the status of each row, and what left."""
    status = np.empty(len(rows), np.int8)
    for row in range(len(rows)):
        status[row], arrived.length[row] = rows[row].status, rows[row].length
    for need in range(len(needs)):
        it = needs[need]
        arrived.need_source[need], arrived.need_number[need], arrived.need_waited[need] = (
            it.source,
            it.number,
            it.waited,
        )
    for source in range(len(sources)):
        of = sources[source]
        known.level[source], known.seen[source], known.hole[source] = of.level, of.seen, of.hole
        known.quarantined[source] = of.quarantined
    given_up.used[0] = tally[0].holes
    for hole in range(tally[0].holes):
        one = holes[hole]
        given_up.first[hole], given_up.last[hole], given_up.following[hole] = one.first, one.last, one.following
    return status, _left(rows, tally[0].left, missing, stopped)

"""The shared delivery rule over arrays, with its policies: what `delivery/plain.py` does, by index.

Law. Rows are given in the order of arrival, the held ones of before first. A row is free when level >= t for each of
its needs (source, t); a delivery sets free what watched its source; of the free rows the one that arrived first goes
next. Then, as long as the row held longest has met its limit, the root of its wait is given up. Row for row the answer
is that of the plain stepper; a test holds them equal.

`records` lays out what the rule works on; the functions here hand on those few arrays.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from numba import njit

from thence.kernels.arrays import Bytes, Doubles, Longs, Number, Records
from thence.kernels.arrival_rows import NONE, Arrived, Holes, Known, Left, Limits, Status, Why
from thence.kernels.cycles import on_a_cycle
from thence.kernels.holes import Missing, fill_hole, give_up, in_hole, lacks, list_missing
from thence.kernels.records import hole_records, need_records, row_records, source_records, tallied, written_back
from thence.kernels.waiting import first_unmet, hold, is_held, lowest, wake


@njit(cache=True)
def _leave(
    row: Number, at: int, how: int, why: int, total: Number, missing: int, rows: Records, tally: Records
) -> None:
    """Note that a row leaves; what it goes without stands in the list by now."""
    rows[tally[0].left].left = row
    tally[0].left += 1
    rows[row].status, rows[row].at, rows[row].why = how, at, why
    rows[row].total, rows[row].missing_end = total, missing


@njit(cache=True)
def _place(
    row: Number, at: int, why: int, rows: Records, needs: Records, sources: Records, holes: Records, tally: Records,
    limits: Limits, missing: Missing,
) -> None:  # fmt: skip
    """Let a row go and say how it goes."""
    s, n = rows[row].source, rows[row].number
    total, late = np.int64(0), False
    if tally[0].holes:
        total = list_missing(row, rows, needs, sources, holes, limits.dense, missing)
        late = in_hole(s, n, sources, holes)
        if late:
            fill_hole(s, n, sources, holes, tally)
    how = Status.LATE if late else Status.RELEASED if total else Status.DELIVERED
    _leave(row, at, how, why, total, len(missing), rows, tally)
    if n > sources[s].level:
        sources[s].level = n
    if limits.cyclic and sources[s].own == row:
        sources[s].own = NONE


@njit(cache=True)
def _cascade(
    at: int, why: int, rows: Records, nodes: Records, needs: Records, sources: Records, holes: Records,
    tally: Records, limits: Limits, ready: list[np.int64], missing: Missing,
) -> None:  # fmt: skip
    """Let the free rows go, and those that they set free."""
    while len(ready) > 0:
        free = heappop(ready)
        if rows[free].mark == NONE:  # it was never held
            rows[free].mark = 0
        else:
            tally[0].held -= 1
        _place(free, at, why, rows, needs, sources, holes, tally, limits, missing)
        wake(rows[free].source, rows, nodes, needs, sources, ready)


@njit(cache=True)
def _root(
    row: int, rows: Records, nodes: Records, needs: Records, sources: Records, tally: Records, limits: Limits
) -> tuple[int, int]:
    """Follow what rows wait for first; return what to give up of which source."""
    tally[0].epoch += 1
    epoch = tally[0].epoch
    here = row
    while rows[here].mark != epoch:
        rows[here].mark = epoch
        need = first_unmet(here, rows, needs, sources)
        s, t = needs[need].source, needs[need].number
        other = sources[s].own if limits.cyclic else lowest(s, rows, nodes, sources)
        if other == NONE or rows[other].number > t:
            return s, t
        if limits.dense and rows[other].number > sources[s].level + 1:
            return s, rows[other].number - 1
        here = other
    need = first_unmet(row, rows, needs, sources)
    return needs[need].source, needs[need].number


@njit(cache=True)
def _arrive(
    row: int, rows: Records, sources: Records, holes: Records, table: Longs, tally: Records, cyclic: bool
) -> int:
    """Judge a new row: what it is if it leaves as it comes, or HELD."""
    s, n = rows[row].source, rows[row].number
    if rows[row].unusable:
        if cyclic and s != NONE and sources[s].level < 1 and sources[s].own == NONE:
            sources[s].quarantined = 1
        return Status.UNUSABLE
    if tally[0].held and is_held(s, n, rows, sources, table, cyclic):
        return Status.HELD_ALREADY
    if sources[s].quarantined:
        return Status.QUARANTINED_BEFORE
    if n <= sources[s].level and not in_hole(s, n, sources, holes):
        return Status.DELIVERED_BEFORE
    return Status.HELD


@njit(cache=True)
def _keep_to_come(row: int, rows: Records, needs: Records, sources: Records, holes: Records, dense: bool) -> bool:
    """Keep of a row's needs those that have not come, if one of them is unmet; tell whether one is."""
    if first_unmet(row, rows, needs, sources) == NONE:
        return False
    n = rows[row].start
    for i in range(rows[row].start, rows[row].start + rows[row].length):
        s, t = needs[i].source, needs[i].number
        unmet = sources[s].level < t
        if unmet or lacks(s, t, sources, holes, dense):
            needs[n].source, needs[n].number, needs[n].waited = s, t, unmet
            n += 1
    rows[row].length = n - rows[row].start
    return True


@njit(cache=True)
def _quarantine_cycle(
    row: int, rows: Records, needs: Records, sources: Records, tally: Records, missing: Missing
) -> None:
    """Let go of the rows on a cycle with this one, if it closes one."""
    tally[0].epoch += 1
    for member in on_a_cycle(row, rows, needs, sources, tally[0].epoch):
        s = rows[member].source
        tally[0].held -= 1
        sources[s].own = NONE
        sources[s].quarantined = 1
        _leave(member, row, Status.CYCLE, Why.FREE, 0, len(missing), rows, tally)


@njit(cache=True)
def _limit(row: int, oldest: int, now: float, rows: Records, limits: Limits, held: int) -> int:
    """Return why the row held longest must go, or FREE."""
    if rows[row].ticket - rows[oldest].ticket >= limits.after_rows:
        return Why.ROWS
    if now - rows[oldest].since >= limits.after_seconds:
        return Why.SECONDS
    return Why.FULL if held > limits.most_held else Why.FREE


@njit(cache=True)
def _enforce(
    row: int, now: float, rows: Records, nodes: Records, needs: Records, sources: Records, holes: Records,
    tally: Records, limits: Limits, ready: list[np.int64], missing: Missing,
) -> bool:  # fmt: skip
    """Give up roots as long as the row held longest has met its limit; tell whether that is an error."""
    while True:
        oldest = tally[0].oldest
        while oldest <= row and rows[oldest].status != Status.HELD:
            oldest += 1
        tally[0].oldest = oldest
        if oldest > row:
            return False
        why = _limit(row, oldest, now, rows, limits, tally[0].held)
        if why == Why.FREE:
            return False
        if limits.fails_full if why == Why.FULL else limits.fails:
            return True
        while rows[oldest].status == Status.HELD:
            s, t = _root(oldest, rows, nodes, needs, sources, tally, limits)
            give_up(s, t, sources, holes, tally)
            wake(s, rows, nodes, needs, sources, ready)
            _cascade(row, why, rows, nodes, needs, sources, holes, tally, limits, ready, missing)


@njit(cache=True)
def _is_plain(
    row: int, now: float, rows: Records, nodes: Records, needs: Records, sources: Records, table: Longs,
    tally: Records, limits: Limits,
) -> bool:  # fmt: skip
    """Tell whether a row is new, has all it needs, sets nobody free, and no limit is met as it comes."""
    s, n = rows[row].source, rows[row].number
    if rows[row].unusable or n <= sources[s].level or sources[s].quarantined or sources[s].hole != NONE:
        return False
    if sources[s].heap != NONE and nodes[sources[s].heap].key <= n:
        return False
    for i in range(rows[row].start, rows[row].start + rows[row].length):
        needed = needs[i].source
        if sources[needed].level < needs[i].number or sources[needed].hole != NONE:
            return False
    if not tally[0].held:
        return True
    while rows[tally[0].oldest].status != Status.HELD:
        tally[0].oldest += 1
    if is_held(s, n, rows, sources, table, limits.cyclic):
        return False
    return bool(_limit(row, tally[0].oldest, now, rows, limits, 0) == Why.FREE)


@njit(cache=True)
def run(held: int, arrived: Arrived, now: Doubles, known: Known, given_up: Holes, limits: Limits) -> tuple[Bytes, Left]:
    """Step through rows, of which the first `held` have arrived before and wait.

    `now` is the event time of the key as each row comes (NaN: none yet). Changed in place: `known`, `given_up`, and for
    each row that is held its needs, of which only those that have not come remain, in order. Return the status of
    each row, and what left.
    """
    count, cyclic, stopped = len(arrived.source), limits.cyclic, NONE
    rows, needs, sources, holes = (
        row_records(arrived),
        need_records(arrived),
        source_records(known),
        hole_records(given_up),
    )
    nodes, table, tally = tallied(count, cyclic, given_up.used[0])
    ready, missing = [np.int64(0)], [(np.int64(0), np.int64(0))]
    ready.pop()
    missing.pop()
    for row in range(held):
        hold(row, rows, nodes, needs, sources, table, tally, cyclic)
    for row in range(held, count):
        s = rows[row].source
        if _is_plain(row, now[row], rows, nodes, needs, sources, table, tally, limits):  # as most rows of most streams
            sources[s].seen += 1
            sources[s].level = rows[row].number
            _leave(row, row, Status.DELIVERED, Why.FREE, 0, len(missing), rows, tally)
            continue
        how = _arrive(row, rows, sources, holes, table, tally, cyclic)
        if how != Status.HELD:
            _leave(row, row, how, Why.FREE, 0, len(missing), rows, tally)
        else:
            sources[s].seen += 1
            if not _keep_to_come(row, rows, needs, sources, holes, limits.dense):
                rows[row].mark = NONE
                heappush(ready, np.int64(row))
                _cascade(row, Why.FREE, rows, nodes, needs, sources, holes, tally, limits, ready, missing)
            else:
                hold(row, rows, nodes, needs, sources, table, tally, cyclic)
                if cyclic and sources[s].want != NONE:
                    _quarantine_cycle(row, rows, needs, sources, tally, missing)
        if tally[0].held and _enforce(row, now[row], rows, nodes, needs, sources, holes, tally, limits, ready, missing):
            stopped = row
            break
    return written_back(rows, needs, sources, holes, tally, missing, stopped, arrived, known, given_up)

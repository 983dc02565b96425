"""The shared delivery rule over arrays, with its policies: what `delivery/plain.py` does, by index.

Law. Rows are given in the order of arrival, the held ones of before first. A row is free when level >= t for each of
its needs (source, t); a delivery sets free what watched its source; of the free rows the one that arrived first goes
next. Then, as long as the row held longest has met its limit, the root of its wait is given up. Row for row the answer
is that of the plain stepper; a test holds them equal.

`records` lays out what the rule works on; the functions here hand on those few arrays. An array that a step does not
need is None: to numba that is another type, and what is said of it behind `is not None` is not compiled. So whoever
waits for causes alone waits for no policy to be compiled, and stamps for no cycles.
"""

from __future__ import annotations

import numpy as np

from thence.kernels.arrays import Bytes, Doubles, Longs, Number, Records
from thence.kernels.arrival_rows import NONE, Arrived, Holes, Known, Left, Limits, Status, Why
from thence.kernels.compiling import inlined, loop, part
from thence.kernels.cycles import look_ahead, on_a_cycle, outlook_of
from thence.kernels.holes import fill_hole, give_up, in_hole, lacks, list_missing
from thence.kernels.records import Step, records_of, written_back
from thence.kernels.waiting import entered, first_unmet, hold, is_held, lowest, popped, wake


@part
def _leave(row: Number, at: int, how: int, why: int, total: Number, rows: Records, tally: Records) -> None:
    """Note that a row leaves; what it goes without stands in the list by now."""
    rows[tally[0].left].left = row
    tally[0].left += 1
    rows[row].status, rows[row].at, rows[row].why = how, at, why
    rows[row].total, rows[row].missing_end = total, tally[0].missing


@part
def _place(
    row: Number, at: int, why: int, rows: Records, needs: Records, sources: Records, holes: Records | None,
    missing: Records, tally: Records, limits: Records,
) -> None:  # fmt: skip
    """Let a row go and say how it goes."""
    s, n = rows[row].source, rows[row].number
    total: Number = np.int64(0)
    late = False
    if holes is not None and tally[0].holes:
        total = list_missing(row, rows, needs, sources, holes, limits[0].dense, missing, tally)
        late = in_hole(s, n, sources, holes)
        if late:
            fill_hole(s, n, sources, holes, tally)
    how = Status.LATE if late else Status.RELEASED if total else Status.DELIVERED
    _leave(row, at, how, why, total, rows, tally)
    if n > sources[s].level:
        sources[s].level = n
    if limits[0].cyclic and sources[s].own == row:
        sources[s].own = NONE


@part
def _cascade(
    at: int, why: int, rows: Records, nodes: Records, needs: Records, sources: Records, holes: Records | None,
    missing: Records, tally: Records, limits: Records,
) -> None:  # fmt: skip
    """Let the free rows go, and those that they set free."""
    while tally[0].ready != NONE:
        top = tally[0].ready
        tally[0].ready = popped(top, nodes)
        free = top >> 1
        if rows[free].mark == NONE:  # it was never held
            rows[free].mark = 0
        else:
            tally[0].held -= 1
        _place(free, at, why, rows, needs, sources, holes, missing, tally, limits)
        wake(rows[free].source, rows, nodes, needs, sources, tally)


@part
def _root(
    row: int, rows: Records, nodes: Records, needs: Records, sources: Records, tally: Records, limits: Records
) -> tuple[int, int]:
    """Follow what rows wait for first; return what to give up of which source."""
    tally[0].epoch += 1
    epoch = tally[0].epoch
    here = row
    while rows[here].mark != epoch:
        rows[here].mark = epoch
        need = first_unmet(here, rows, needs, sources)
        s, t = needs[need].source, needs[need].number
        other = sources[s].own if limits[0].cyclic else lowest(s, rows, nodes, sources)
        if other == NONE or rows[other].number > t:
            return s, t
        if limits[0].dense and rows[other].number > sources[s].level + 1:
            return s, rows[other].number - 1
        here = other
    need = first_unmet(row, rows, needs, sources)
    return needs[need].source, needs[need].number


@inlined
def _arrive(
    row: int, rows: Records, sources: Records, holes: Records | None, table: Longs | None, tally: Records, cyclic: int
) -> int:
    """Judge a new row: what it is if it leaves as it comes, or HELD."""
    s, n = rows[row].source, rows[row].number
    if rows[row].unusable:
        if cyclic and s != NONE and sources[s].level < 1 and sources[s].own == NONE:
            sources[s].quarantined = 1
        return Status.UNUSABLE
    if tally[0].held and is_held(s, n, rows, sources, table):
        return Status.HELD_ALREADY
    if sources[s].quarantined:
        return Status.QUARANTINED_BEFORE
    came = n <= sources[s].level
    if holes is not None:
        came = came and not in_hole(s, n, sources, holes)
    return Status.DELIVERED_BEFORE if came else Status.HELD


@inlined
def _keep_to_come(row: int, rows: Records, needs: Records, sources: Records, holes: Records | None, dense: int) -> bool:
    """Keep of a row's needs those that have not come, if one of them is unmet; tell whether one is."""
    if first_unmet(row, rows, needs, sources) == NONE:
        return False
    n = rows[row].start
    for i in range(rows[row].start, rows[row].start + rows[row].length):
        s, t = needs[i].source, needs[i].number
        unmet = sources[s].level < t
        kept = unmet
        if holes is not None:
            kept = unmet or lacks(s, t, sources, holes, dense)
        if kept:
            needs[n].source, needs[n].number, needs[n].waited = s, t, unmet
            n += 1
    rows[row].length = n - rows[row].start
    return True


@inlined
def _quarantine_cycle(
    row: int, rows: Records, walk: Records, nodes: Records, needs: Records, sources: Records, tally: Records
) -> None:
    """Let go of the rows on a cycle with this one, if it closes one."""
    found = on_a_cycle(row, rows, walk, nodes, needs, sources, tally)
    while found != NONE:
        member = found >> 1
        found = popped(found, nodes)
        s = rows[member].source
        tally[0].held -= 1
        sources[s].own = NONE
        sources[s].quarantined = 1
        _leave(member, row, Status.CYCLE, Why.FREE, np.int64(0), rows, tally)


@part
def _limit(row: int, oldest: int, held: Number, rows: Records, limits: Records) -> int:
    """Return why the row held longest must go, or FREE."""
    if rows[row].ticket - rows[oldest].ticket >= limits[0].after_rows:
        return Why.ROWS
    if rows[row].now - rows[oldest].since >= limits[0].after_seconds:
        return Why.SECONDS
    return Why.FULL if held > limits[0].most_held else Why.FREE


@inlined
def _enforce(
    row: int, rows: Records, nodes: Records, needs: Records, sources: Records, holes: Records,
    missing: Records, tally: Records, limits: Records,
) -> bool:  # fmt: skip
    """Give up roots as long as the row held longest has met its limit; tell whether that is an error."""
    while True:
        oldest = tally[0].oldest
        while oldest <= row and rows[oldest].status != Status.HELD:
            oldest += 1
        tally[0].oldest = oldest
        if oldest > row:
            return False
        why = _limit(row, oldest, tally[0].held, rows, limits)
        if why == Why.FREE:
            return False
        if limits[0].fails_full if why == Why.FULL else limits[0].fails:
            return True
        while rows[oldest].status == Status.HELD:
            s, t = _root(oldest, rows, nodes, needs, sources, tally, limits)
            give_up(s, t, sources, holes, tally)
            wake(s, rows, nodes, needs, sources, tally)
            _cascade(row, why, rows, nodes, needs, sources, holes, missing, tally, limits)


@inlined
def _is_plain(
    row: int, rows: Records, nodes: Records, needs: Records, sources: Records, table: Longs | None, tally: Records,
    limits: Records,
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
    if is_held(s, n, rows, sources, table):
        return False
    return bool(_limit(row, tally[0].oldest, np.int64(0), rows, limits) == Why.FREE)


@loop
def _run(
    held: int, rows: Records, walk: Records | None, nodes: Records, needs: Records, sources: Records,
    holes: Records | None, table: Longs | None, missing: Records, tally: Records, limits: Records,
) -> None:  # fmt: skip
    for row in range(tally[0].row, len(rows)):
        if walk is not None and (tally[0].walked > tally[0].patience or row == tally[0].seen):
            tally[0].row = row
            return
        s = rows[row].source
        if row < held:
            hold(row, rows, nodes, needs, sources, table, tally)
            continue
        if _is_plain(row, rows, nodes, needs, sources, table, tally, limits):  # as most rows of most streams
            sources[s].seen += 1
            sources[s].level = rows[row].number
            _leave(row, row, Status.DELIVERED, Why.FREE, np.int64(0), rows, tally)
            continue
        how = _arrive(row, rows, sources, holes, table, tally, limits[0].cyclic)
        if how != Status.HELD:
            _leave(row, row, how, Why.FREE, np.int64(0), rows, tally)
        else:
            sources[s].seen += 1
            if not _keep_to_come(row, rows, needs, sources, holes, limits[0].dense):
                rows[row].mark = NONE
                tally[0].ready = entered(tally[0].ready, 2 * row, row, nodes)
                _cascade(row, Why.FREE, rows, nodes, needs, sources, holes, missing, tally, limits)
            else:
                hold(row, rows, nodes, needs, sources, table, tally)
                if walk is not None and walk[row].group != NONE and sources[s].want != NONE:
                    _quarantine_cycle(row, rows, walk, nodes, needs, sources, tally)
        if (
            holes is not None
            and tally[0].held
            and _enforce(row, rows, nodes, needs, sources, holes, missing, tally, limits)
        ):
            tally[0].stopped = row
            break
    tally[0].row = len(rows)


def _run_on(held: int, step: Step) -> None:
    """Step through all rows, with looks ahead where the search for cycles wants them."""
    outlook = outlook_of(step)
    _run(held, *step)
    while step.tally[0]["row"] < len(step.rows):
        look_ahead(step, outlook)
        _run(held, *step)


def run(held: int, arrived: Arrived, now: Doubles, known: Known, given_up: Holes, limits: Limits) -> tuple[Bytes, Left]:
    """Step through rows, of which the first `held` have arrived before and wait.

    `now` is the event time of the key as each row comes (NaN: none yet). Changed in place: `known`, `given_up`, and for
    each row that is held its needs, of which only those that have not come remain, in order. Return the status of
    each row, and what left.
    """
    room = len(arrived.need_source)
    while True:
        step = records_of(arrived, now, known, given_up, limits, room)
        _run_on(held, step)
        if step.tally[0]["missing"] <= room:
            return written_back(step, arrived, known, given_up)
        room = int(step.tally[0]["missing"])  # more is missing than there was room for: again, with enough

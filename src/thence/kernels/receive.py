"""The shared delivery rule over arrays, with its policies: what `delivery/plain.py` does, by index.

Law. Rows are given in the order of arrival, the held ones of before first. A row is free when level[s] >= t for each of
its needs (s, t); a delivery sets free what watched its source; of the free rows the one that arrived first goes next.
Then, as long as the row held longest has met its limit, the root of its wait is given up. Row for row the answer is
that of the plain stepper; a test holds them equal.

A held row watches one unmet need. The watchers of a source form a pairing heap by the number they wait for, so a
delivery touches only rows that it may set free. The held rows of a source form another one by their own number. For
explicit causes (*cyclic*), where every row is a source of its own, the rows that want a source are linked as well, so
that a cycle is found from its smaller side.
"""

from __future__ import annotations

from enum import IntEnum
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NONE = -1
LISTED = 100
"""How many missing numbers of one source are listed; as in `delivery/rule.py`, whose tests hold them equal."""


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


class Rows(NamedTuple):
    """Rows of a step, the held ones of before first; the needs of all are flat, each row has a span of them."""

    source: Ints
    number: Ints
    start: Ints
    length: Ints
    need_source: Ints
    need_number: Ints
    need_waited: Bools
    """whether the row is held for this need"""
    ticket: Ints
    since: Floats
    """event time of the key as it came"""
    unusable: Bools


class Known(NamedTuple):
    """What is known of each source; changed in place."""

    level: Ints
    seen: Ints
    quarantined: Bools
    hole: Ints
    """the first of its holes, or NONE"""


class Holes(NamedTuple):
    """Ranges of numbers that were given up and have not come; linked by source, the last one first."""

    first: Ints
    last: Ints
    following: Ints
    used: Ints
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


class Left(NamedTuple):
    """What left, in order: the row, how, at which row, why; and flat, what each went without."""

    row: Ints
    status: NDArray[np.int8]
    at: Ints
    why: NDArray[np.int8]
    missing_end: Ints
    missing_source: Ints
    missing_number: Ints
    missing_total: Ints
    """how many are missing in truth, where more are than are listed"""
    stopped: int
    """the row at which a limit was an error, or NONE"""


class _Work(NamedTuple):
    """What the rule keeps beside rows and sources while it runs."""

    status: Any
    wanted: Any
    child: Any
    sibling: Any
    heap: Any
    own_key: Any
    own_child: Any
    own_sibling: Any
    own: Any
    table: Any
    want: Any
    want_next: Any
    want_row: Any
    mark: Any
    other_mark: Any
    held: Any


class _Out(NamedTuple):
    """What has left so far."""

    row: Any
    at: Any
    why: Any
    missing_end: Any
    total: Any
    count: Any


@njit(cache=True)
def _meld(one: int, two: int, wanted: Any, child: Any, sibling: Any) -> int:
    if one == NONE:
        return two
    if two == NONE:
        return one
    if wanted[two] < wanted[one]:
        one, two = two, one
    sibling[two] = child[one]
    child[one] = two
    return one


@njit(cache=True)
def _popped(root: int, wanted: Any, child: Any, sibling: Any) -> int:
    """Return the heap without its root: children paired left to right, then melded right to left."""
    node = child[root]
    child[root] = NONE
    pairs = NONE
    while node != NONE:
        other = sibling[node]
        sibling[node] = NONE
        following = NONE
        if other != NONE:
            following = sibling[other]
            sibling[other] = NONE
        pair = _meld(node, other, wanted, child, sibling)
        sibling[pair] = pairs
        pairs = pair
        node = following
    result = NONE
    while pairs != NONE:
        following = sibling[pairs]
        sibling[pairs] = NONE
        result = _meld(result, pairs, wanted, child, sibling)
        pairs = following
    return result


@njit(cache=True)
def _first_unmet(row: int, rows: Any, level: Any) -> int:
    """Return the place of the first need that is not met, or NONE."""
    for i in range(rows.start[row], rows.start[row] + rows.length[row]):
        if level[rows.need_source[i]] < rows.need_number[i]:
            return i
    return NONE


@njit(cache=True)
def _watch(row: int, rows: Any, level: Any, work: Any) -> bool:
    """Let a row watch its first unmet need; tell whether it has one."""
    need = _first_unmet(row, rows, level)
    if need == NONE:
        return False
    s = rows.need_source[need]
    work.wanted[row] = rows.need_number[need]
    work.child[row] = NONE
    work.sibling[row] = NONE
    work.heap[s] = _meld(work.heap[s], row, work.wanted, work.child, work.sibling)
    return True


@njit(cache=True)
def _slot(table: Any, source: int, number: int) -> Any:
    mixed = (np.uint64(number) * np.uint64(0x9E3779B97F4A7C15)) ^ (np.uint64(source) * np.uint64(0xC2B2AE3D27D4EB4F))
    mixed ^= mixed >> np.uint64(29)
    return np.int64(mixed & np.uint64(len(table) - 1))


@njit(cache=True)
def _hold(row: int, rows: Any, known: Any, work: Any, cyclic: bool) -> None:
    """Note a row as held; entries of the hash table stay, and are stale once the row has left."""
    _watch(row, rows, known.level, work)
    s = rows.source[row]
    work.held[0] += 1
    if cyclic:
        work.own[s] = row
        for i in range(rows.start[row], rows.start[row] + rows.length[row]):
            if rows.need_waited[i]:
                work.want_row[i] = row
                work.want_next[i] = work.want[rows.need_source[i]]
                work.want[rows.need_source[i]] = i
        return
    slot = _slot(work.table, s, rows.number[row])
    while work.table[slot] != 0:
        slot = (slot + 1) & (len(work.table) - 1)
    work.table[slot] = row + 1
    work.own[s] = _meld(work.own[s], row, rows.number, work.own_child, work.own_sibling)


@njit(cache=True)
def _is_held(row: int, rows: Any, work: Any, cyclic: bool) -> bool:
    s = rows.source[row]
    if cyclic:
        return bool(work.own[s] != NONE)
    slot = _slot(work.table, s, rows.number[row])
    while work.table[slot] != 0:
        other = work.table[slot] - 1
        same = rows.source[other] == s and rows.number[other] == rows.number[row]
        if same and work.status[other] == Status.HELD:
            return True
        slot = (slot + 1) & (len(work.table) - 1)
    return False


@njit(cache=True)
def _in_hole(s: int, number: int, known: Any, holes: Any) -> bool:
    hole = known.hole[s]
    while hole != NONE:
        if holes.first[hole] <= number <= holes.last[hole]:
            return True
        hole = holes.following[hole]
    return False


@njit(cache=True)
def _gone(s: int, number: int, known: Any, holes: Any, dense: bool) -> bool:
    """Tell whether a need lacks something that was given up."""
    if known.hole[s] == NONE:
        return False
    if not dense:
        return bool(_in_hole(s, number, known, holes))
    hole = known.hole[s]
    while hole != NONE:
        if holes.first[hole] <= number:
            return True
        hole = holes.following[hole]
    return False


@njit(cache=True)
def _fill(s: int, number: int, known: Any, holes: Any) -> None:
    """Take a number out of a hole."""
    before = NONE
    hole = known.hole[s]
    while hole != NONE and not (holes.first[hole] <= number <= holes.last[hole]):
        before = hole
        hole = holes.following[hole]
    if hole == NONE:
        return
    first, last = holes.first[hole], holes.last[hole]
    if first < number < last:
        new = holes.used[0]
        holes.used[0] += 1
        holes.first[new], holes.last[new], holes.following[new] = first, number - 1, holes.following[hole]
        holes.first[hole], holes.following[hole] = number + 1, new
    elif number == first and number < last:
        holes.first[hole] = number + 1
    elif number == last and first < number:
        holes.last[hole] = number - 1
    elif before == NONE:
        known.hole[s] = holes.following[hole]
    else:
        holes.following[before] = holes.following[hole]


@njit(cache=True)
def _missing(row: int, rows: Any, known: Any, holes: Any, dense: bool, source: Any, number: Any) -> Any:
    """List what a row goes without; return how many there are."""
    total = np.int64(0)
    for i in range(rows.start[row], rows.start[row] + rows.length[row]):
        s, t = rows.need_source[i], rows.need_number[i]
        if known.hole[s] == NONE:
            continue
        if not dense:
            if _in_hole(s, t, known, holes):
                source.append(s)
                number.append(t)
                total += 1
            continue
        spans = [(np.int64(0), np.int64(0))]
        spans.pop()
        hole = known.hole[s]
        while hole != NONE:
            if holes.first[hole] <= t:
                spans.append((holes.first[hole], min(holes.last[hole], t)))
            hole = holes.following[hole]
        listed = 0
        for place in range(len(spans) - 1, -1, -1):
            first, last = spans[place]
            total += last - first + 1
            for n in range(first, min(last, first + LISTED - listed - 1) + 1):
                source.append(s)
                number.append(n)
                listed += 1
    return total


@njit(cache=True)
def _leave(row: int, now: int, how: int, why: int, work: Any, out: Any, missing: int, total: int) -> None:
    n = out.count[0]
    out.count[0] += 1
    work.status[row] = how
    out.row[n], out.at[n], out.why[n] = row, now, why
    out.missing_end[n], out.total[n] = missing, total


@njit(cache=True)
def _place(row: int, now: int, why: int, rows: Any, known: Any, holes: Any, limits: Any, work: Any, out: Any,
           source: Any, number: Any) -> None:  # fmt: skip
    """Let a row go and say how it goes."""
    s, n = rows.source[row], rows.number[row]
    total, late = 0, False
    if holes.used[0]:
        total = _missing(row, rows, known, holes, limits.dense, source, number)
        late = _in_hole(s, n, known, holes)
        if late:
            _fill(s, n, known, holes)
    how = Status.LATE if late else Status.RELEASED if total else Status.DELIVERED
    _leave(row, now, how, why, work, out, len(source), total)
    if n > known.level[s]:
        known.level[s] = n
    if limits.cyclic and work.own[s] == row:
        work.own[s] = NONE


@njit(cache=True)
def _wake(s: int, rows: Any, level: Any, work: Any, ready: Any) -> None:
    """Set free what watched a source, or let it watch its next need."""
    while work.heap[s] != NONE and work.wanted[work.heap[s]] <= level[s]:
        top = work.heap[s]
        work.heap[s] = _popped(top, work.wanted, work.child, work.sibling)
        if work.status[top] == Status.HELD and not _watch(top, rows, level, work):
            heappush(ready, np.int64(top))


@njit(cache=True)
def _cascade(ready: Any, now: int, why: int, rows: Any, known: Any, holes: Any, limits: Any, work: Any, out: Any,
             source: Any, number: Any) -> None:  # fmt: skip
    while len(ready) > 0:
        free = heappop(ready)
        if work.mark[free] == NONE:  # it was never held
            work.mark[free] = 0
        else:
            work.held[0] -= 1
        _place(free, now, why, rows, known, holes, limits, work, out, source, number)
        _wake(rows.source[free], rows, known.level, work, ready)


@njit(cache=True)
def _lowest(s: int, rows: Any, level: Any, work: Any) -> int:
    """Return the held row of a source with the lowest number above its level, or NONE."""
    while work.own[s] != NONE:
        top = work.own[s]
        if work.status[top] == Status.HELD and rows.number[top] > level[s]:
            return int(top)
        work.own[s] = _popped(top, rows.number, work.own_child, work.own_sibling)
    return NONE


@njit(cache=True)
def _root(row: Any, epoch: int, rows: Any, level: Any, limits: Any, work: Any) -> tuple[int, int]:
    """Follow what rows wait for first; return what to give up of which source."""
    here = row
    while work.mark[here] != epoch:
        work.mark[here] = epoch
        need = _first_unmet(here, rows, level)
        s, t = rows.need_source[need], rows.need_number[need]
        other = work.own[s] if limits.cyclic else _lowest(s, rows, level, work)
        if other == NONE or rows.number[other] > t:
            return s, t
        if limits.dense and rows.number[other] > level[s] + 1:
            return s, rows.number[other] - 1
        here = other
    need = _first_unmet(row, rows, level)
    return rows.need_source[need], rows.need_number[need]


@njit(cache=True)
def _waive(s: int, number: int, known: Any, holes: Any) -> None:
    """Count the numbers of a source up to this one as delivered."""
    hole = holes.used[0]
    holes.used[0] += 1
    holes.first[hole], holes.last[hole], holes.following[hole] = known.level[s] + 1, number, known.hole[s]
    known.hole[s] = hole
    known.level[s] = number


@njit(cache=True)
def _step_causes(stack: Any, epoch: int, rows: Any, known: Any, work: Any) -> None:
    here = stack.pop()
    for i in range(rows.start[here], rows.start[here] + rows.length[here]):
        s = rows.need_source[i]
        other = work.own[s]
        if rows.need_waited[i] and other != NONE and known.level[s] < 1 and work.mark[other] != epoch:
            work.mark[other] = epoch
            stack.append(np.int64(other))


@njit(cache=True)
def _step_effects(stack: Any, epoch: int, rows: Any, known: Any, work: Any) -> None:
    here = stack.pop()
    s = rows.source[here]
    if known.level[s] >= 1:
        return
    slot = work.want[s]
    while slot != NONE:
        other = work.want_row[slot]
        if work.status[other] == Status.HELD and work.other_mark[other] != epoch:
            work.other_mark[other] = epoch
            stack.append(np.int64(other))
        slot = work.want_next[slot]


@njit(cache=True)
def _cycle(row: int, epoch: int, rows: Any, known: Any, work: Any) -> Any:
    """Return the held rows on a cycle with this one, in the order of arrival."""
    causes, effects = [np.int64(row)], [np.int64(row)]
    members = [np.int64(0)]
    members.pop()
    while len(causes) > 0 and len(effects) > 0:
        _step_causes(causes, epoch, rows, known, work)
        _step_effects(effects, epoch, rows, known, work)
    if work.mark[row] != epoch and work.other_mark[row] != epoch:
        return members
    while len(effects) > 0:
        _step_effects(effects, epoch, rows, known, work)
    while len(causes) > 0:
        _step_causes(causes, epoch, rows, known, work)
    seen = [np.int64(row)]
    work.mark[row] = epoch
    work.other_mark[row] = epoch
    at = 0
    while at < len(seen):  # what was reached from both sides, by way of causes that were
        here = seen[at]
        at += 1
        members.append(here)
        work.other_mark[here] = NONE
        for i in range(rows.start[here], rows.start[here] + rows.length[here]):
            other = work.own[rows.need_source[i]]
            if other != NONE and work.mark[other] == epoch and work.other_mark[other] == epoch:
                work.other_mark[other] = NONE
                seen.append(np.int64(other))
    members.sort()
    return members


@njit(cache=True)
def _arrive(row: int, rows: Any, known: Any, holes: Any, limits: Any, work: Any) -> int:
    """Judge a new row: what it is if it leaves as it comes, or HELD."""
    s = rows.source[row]
    if rows.unusable[row]:
        if limits.cyclic and s != NONE and known.level[s] < 1 and work.own[s] == NONE:
            known.quarantined[s] = True
        return Status.UNUSABLE
    if work.held[0] and _is_held(row, rows, work, limits.cyclic):
        return Status.HELD_ALREADY
    if known.quarantined[s]:
        return Status.QUARANTINED_BEFORE
    if rows.number[row] <= known.level[s] and not _in_hole(s, rows.number[row], known, holes):
        return Status.DELIVERED_BEFORE
    return Status.HELD


@njit(cache=True)
def _keep_to_come(row: int, rows: Any, known: Any, holes: Any, dense: bool) -> bool:
    """Keep of a row's needs those that have not come, if one of them is unmet; tell whether one is."""
    if _first_unmet(row, rows, known.level) == NONE:
        return False
    n = rows.start[row]
    for i in range(rows.start[row], rows.start[row] + rows.length[row]):
        s, t = rows.need_source[i], rows.need_number[i]
        unmet = known.level[s] < t
        if unmet or _gone(s, t, known, holes, dense):
            rows.need_source[n], rows.need_number[n], rows.need_waited[n] = s, t, unmet
            n += 1
    rows.length[row] = n - rows.start[row]
    return True


@njit(cache=True)
def _limit(row: int, oldest: int, rows: Any, now: Any, limits: Any, work: Any) -> int:
    """Return why the row held longest must go, or FREE."""
    if rows.ticket[row] - rows.ticket[oldest] >= limits.after_rows:
        return Why.ROWS
    if now[row] - rows.since[oldest] >= limits.after_seconds:
        return Why.SECONDS
    return Why.FULL if work.held[0] > limits.most_held else Why.FREE


@njit(cache=True)
def _work(count: int, needs: int, sources: int, cyclic: bool) -> Any:
    bits = 4
    while not cyclic and (1 << bits) < 2 * count:
        bits += 1
    backward = needs if cyclic else 0
    return _Work(
        np.zeros(count, np.int8), np.zeros(count, np.int64), np.full(count, NONE, np.int64),
        np.full(count, NONE, np.int64), np.full(sources, NONE, np.int64), np.zeros(0, np.int64),
        np.full(count, NONE, np.int64), np.full(count, NONE, np.int64), np.full(sources, NONE, np.int64),
        np.zeros(1 << bits, np.int64), np.full(sources if cyclic else 0, NONE, np.int64),
        np.full(backward, NONE, np.int64), np.full(backward, NONE, np.int64),
        np.zeros(count, np.int64), np.full(count, NONE, np.int64), np.zeros(1, np.int64),
    )  # fmt: skip


@njit(cache=True)
def _enforce(row: int, oldest: int, epoch: int, rows: Any, now: Any, known: Any, holes: Any, limits: Any, work: Any,
             out: Any, ready: Any, source: Any, number: Any) -> tuple[int, int, bool]:  # fmt: skip
    """Give up roots as long as the row held longest has met its limit; return it, and whether that is an error."""
    while True:
        while oldest <= row and work.status[oldest] != Status.HELD:
            oldest += 1
        if oldest > row:
            return oldest, epoch, False
        why = _limit(row, oldest, rows, now, limits, work)
        if why == Why.FREE:
            return oldest, epoch, False
        if limits.fails_full if why == Why.FULL else limits.fails:
            return oldest, epoch, True
        while work.status[oldest] == Status.HELD:
            epoch += 1
            s, t = _root(oldest, epoch, rows, known.level, limits, work)
            _waive(s, t, known, holes)
            _wake(s, rows, known.level, work, ready)
            _cascade(ready, row, why, rows, known, holes, limits, work, out, source, number)


@njit(cache=True)
def run(held: int, rows: Any, now: Any, known: Any, holes: Any, limits: Any) -> Any:
    """Step through rows, of which the first `held` have arrived before and wait.

    `now` is the event time of the key as each row comes (NaN: none yet). Changed in place: `known`, `holes`, and for
    each row that is held its needs, of which only those that have not come remain, in order. Return the status of
    each row, and what left.
    """
    count = len(rows.source)
    work = _work(count, len(rows.need_source), len(known.level), limits.cyclic)
    out = _Out(
        np.empty(count, np.int64), np.empty(count, np.int64), np.zeros(count, np.int8), np.zeros(count, np.int64),
        np.zeros(count, np.int64), np.zeros(1, np.int64),
    )  # fmt: skip
    source, number, ready = [np.int64(0)], [np.int64(0)], [np.int64(0)]
    source.pop()
    number.pop()
    ready.pop()
    for row in range(held):
        _hold(row, rows, known, work, limits.cyclic)
    oldest, epoch, stopped = 0, 0, NONE
    for row in range(held, count):
        how = _arrive(row, rows, known, holes, limits, work)
        if how != Status.HELD:
            _leave(row, row, how, Why.FREE, work, out, len(source), 0)
        else:
            known.seen[rows.source[row]] += 1
            if not _keep_to_come(row, rows, known, holes, limits.dense):
                work.mark[row] = NONE
                heappush(ready, np.int64(row))
                _cascade(ready, row, Why.FREE, rows, known, holes, limits, work, out, source, number)
            else:
                _hold(row, rows, known, work, limits.cyclic)
                if limits.cyclic and work.want[rows.source[row]] != NONE:
                    epoch += 1
                    for member in _cycle(row, epoch, rows, known, work):
                        work.held[0] -= 1
                        work.own[rows.source[member]] = NONE
                        known.quarantined[rows.source[member]] = True
                        _leave(member, row, Status.CYCLE, Why.FREE, work, out, len(source), 0)
        if work.held[0]:
            oldest, epoch, wrong = _enforce(
                row, oldest, epoch, rows, now, known, holes, limits, work, out, ready, source, number
            )
            if wrong:
                stopped = row
                break
    n = out.count[0]
    return work.status, Left(
        out.row[:n], work.status[out.row[:n]], out.at[:n], out.why[:n], out.missing_end[:n],
        np.array(source, np.int64) if len(source) else np.zeros(0, np.int64),
        np.array(number, np.int64) if len(number) else np.zeros(0, np.int64), out.total[:n], stopped,
    )  # fmt: skip


@njit(cache=True)
def event_times(times: Any, now: float, began: float, doubted: float, max_jump: float) -> Any:
    """Let event time move on row by row, as `delivery/event_time.py` does; NaN is none.

    Return the time of the key at each row, by how much each row's own is too far ahead (NaN: it is not), and the three
    numbers as they are at the end.
    """
    key, ahead = np.empty(len(times)), np.full(len(times), np.nan)
    for row in range(len(times)):
        time = times[row]
        if not np.isnan(time):
            if time - now <= max_jump or (np.isnan(now) and np.isinf(max_jump)):
                now = time if np.isnan(now) else max(now, time)
                doubted = np.nan
            elif not np.isnan(doubted):
                now = min(time, doubted)
                far = time - now
                doubted = time if far > max_jump else np.nan
                ahead[row] = far if far > max_jump else np.nan
            else:
                doubted = time
                ahead[row] = time - now
            if np.isnan(began):
                began = now
        key[row] = now
    return key, ahead, now, began, doubted


@njit(cache=True)
def read_causes(offsets: Any, causes: Any, own: Any, valid: Any) -> Any:
    """Read explicit causes whose ids are coded; a cause that is named again is dropped, and so is a null.

    Return, for each row, the start and length of its needs and whether it can be used; and the needs, flat. A row
    can not be used without an id, without a list, or if it names itself.
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
    return start, length, good, source[:n]

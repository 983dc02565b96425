"""What an event of a chunk truly knows: its in-chunk clock, and what had entered the processes that it knows.

Law. Let an event of a chunk know process p up to index i by its in-chunk clock. Then it truly knows, besides, all that
p knew on entering the chunk and all that the messages imported at p up to i carried. So the true clock is the in-chunk
clock joined with one stored vector for each process it knows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from thence.kernels.arrays import Clocks, Flags, Ints, Longs


class Stack(NamedTuple):
    """What each process knew on entering a chunk and after each import there, one row below the other."""

    rows: Clocks
    since: Longs
    """the index from which on each row holds"""
    starts: Longs
    """the first row of each process"""
    origin: Longs
    """the import behind each row, -1 for none"""


class Contacts(NamedTuple):
    """By which delivery each process of a chunk first heard of what: see `LaneSummary`."""

    here: Longs
    """each process as the chunk numbers them, or -1"""
    met: Ints
    heard: Ints
    place: Ints
    none: int


def stacked(known: Clocks, at: Ints, index: Longs, carried: Clocks) -> Stack:
    """Return for each process what it knew on entering and after each import; those of one process come in order."""
    order = np.argsort(at, kind="stable")
    counts = np.bincount(at, minlength=len(known))
    starts = np.concatenate([[0], np.cumsum(counts + 1)])
    place = np.arange(1, len(at) + 1) + at[order]  # one row for entering stands before those of each process
    rows = np.empty((starts[-1], known.shape[1]), known.dtype)
    rows[starts[:-1]], rows[place] = known, carried[order]
    since, origin = np.zeros(len(rows), np.int64), np.full(len(rows), -1, np.int64)
    since[place], origin[place] = index[order], order
    for p in np.flatnonzero(counts).tolist():
        own = rows[starts[p] : starts[p + 1]]
        np.maximum.accumulate(own, axis=0, out=own)
    return Stack(rows, since, starts, origin)


@njit(cache=True, nogil=True)
def _latest(since: Longs, start: int, end: int, index: int) -> int:
    """Return the last row of a process at or before an index."""
    while end - start > 1:
        middle = (start + end) >> 1
        if since[middle] <= index:
            start = middle
        else:
            end = middle
    return start


def lift(clocks: Clocks, who: Ints, stack: Stack) -> Clocks:
    """Join each in-chunk clock with what entered the processes it knows.

    `who` is the process of each clock; clocks of one process come in order, so each starts from the one before and
    joins only what is new.
    """
    processes = clocks.shape[1]
    lifted = clocks.copy()
    before, joined = np.full(processes, -1, np.int64), np.full((processes, processes), -1, np.int64)
    _lift(clocks, who, stack.rows, stack.since, stack.starts, lifted, before, joined)
    return lifted


@njit(cache=True, nogil=True)
def _lift(
    clocks: Clocks, who: Ints, rows: Clocks, since: Longs, starts: Longs, lifted: Clocks, before: Longs, joined: Longs
) -> None:
    for i in range(len(clocks)):
        last = before[who[i]]
        if last >= 0:
            for c in range(clocks.shape[1]):
                if lifted[last, c] > lifted[i, c]:
                    lifted[i, c] = lifted[last, c]
        before[who[i]] = i
        for p in range(clocks.shape[1]):
            if clocks[i, p] > 0:
                place = _latest(since, starts[p], starts[p + 1], clocks[i, p])
                if place != joined[who[i], p]:
                    joined[who[i], p] = place
                    for c in range(clocks.shape[1]):
                        if rows[place, c] > lifted[i, c]:
                            lifted[i, c] = rows[place, c]


def knew(before: Clocks, at: Ints, index: Longs, source: Longs, least: Longs, stack: Stack) -> Flags:
    """Tell for each delivery whether its process knew `least` or later of `source` just before it."""
    found = np.zeros(len(at), np.bool_)
    source, least = np.ascontiguousarray(source), np.ascontiguousarray(least)
    _knew(before, at, index, source, least, stack.rows, stack.since, stack.starts, found)
    return found


@njit(cache=True, nogil=True)
def _knew(
    before: Clocks, at: Ints, index: Longs, source: Longs, least: Longs, rows: Clocks, since: Longs, starts: Longs,
    knew: Flags,
) -> None:  # fmt: skip
    for i in range(len(at)):
        s, d = source[i], at[i]
        found = before[i, s] > 0 or (rows[_latest(since, starts[d], starts[d + 1], index[i] - 1), s] >= least[i])
        for p in range(before.shape[1]):
            if found:
                break
            if before[i, p] > 0:
                found = rows[_latest(since, starts[p], starts[p + 1], before[i, p]), s] >= least[i]
        knew[i] = found


def earliest(to: Longs, source: Longs, least: Longs, stack: Stack, contacts: Contacts) -> Longs:
    """For each question, the first delivery after which `to` knows of `least` or later of `source`; -1: in no good run.

    The missing messages were sent before the chunk.
    """
    to, source, least = (np.ascontiguousarray(each) for each in (to, source, least))
    answer = np.full(len(to), contacts.none, np.int64)
    here, met, heard, place, _ = contacts
    _earliest(to, source, least, stack.rows, stack.starts, stack.origin, here, met, heard, place, answer)
    answer[answer == contacts.none] = -1
    return answer


@njit(cache=True, nogil=True)
def _earliest(
    to: Longs, source: Longs, least: Longs, rows: Clocks, starts: Longs, origin: Longs, here: Longs, met: Ints,
    heard: Ints, place: Ints, answer: Longs,
) -> None:  # fmt: skip
    for q in range(len(to)):
        d, s = here[to[q]], source[q]
        for p in range(len(here)):
            if here[p] < 0:
                continue
            if p == s:  # any send of it here comes after the missing one
                answer[q] = min(answer[q], np.int64(met[here[p], d]))
            low, high = starts[p], starts[p + 1]
            while low < high:
                middle = (low + high) >> 1
                if rows[middle, s] >= least[q]:
                    high = middle
                else:
                    low = middle + 1
            if low == starts[p + 1]:
                continue
            if low == starts[p]:
                answer[q] = min(answer[q], np.int64(met[here[p], d]))
            else:
                answer[q] = min(answer[q], np.int64(heard[origin[low], d]))
                if p == to[q]:
                    answer[q] = min(answer[q], np.int64(place[origin[low]]))

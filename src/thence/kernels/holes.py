"""Numbers that were given up: holes below a source's level, and what a row that goes on lacks because of them.

Law. A source's level is the number up to which it counts as delivered; its holes are the numbers below that did not
come. Who comes late fills its place in a hole, and a row lacks whatever of its needs lies in one.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thence.kernels.arrays import Number, Records
from thence.kernels.arrival_rows import NONE

LISTED = 100
"""How many missing numbers of one source are listed; as in `delivery/rule.py`, whose tests hold them equal."""
Missing = list[tuple[np.int64, np.int64]]
"""Sources and numbers."""


@njit(cache=True)
def in_hole(s: int, number: int, sources: Records, holes: Records) -> bool:
    """Tell whether a number was given up and has not come."""
    hole = sources[s].hole
    while hole != NONE:
        if holes[hole].first <= number <= holes[hole].last:
            return True
        hole = holes[hole].following
    return False


@njit(cache=True)
def lacks(s: int, number: int, sources: Records, holes: Records, dense: bool) -> bool:
    """Tell whether a need lacks something that was given up."""
    if not dense:
        return bool(in_hole(s, number, sources, holes))
    hole = sources[s].hole
    while hole != NONE:
        if holes[hole].first <= number:
            return True
        hole = holes[hole].following
    return False


@njit(cache=True)
def fill_hole(s: int, number: int, sources: Records, holes: Records, tally: Records) -> None:
    """Take a number out of a hole."""
    before = NONE
    hole = sources[s].hole
    while hole != NONE and not (holes[hole].first <= number <= holes[hole].last):
        before = hole
        hole = holes[hole].following
    if hole == NONE:
        return
    first, last, following = holes[hole].first, holes[hole].last, holes[hole].following
    if first < number < last:
        new = tally[0].holes
        tally[0].holes += 1
        holes[new].first, holes[new].last, holes[new].following = first, number - 1, following
        holes[hole].first, holes[hole].following = number + 1, new
    elif number == first and number < last:
        holes[hole].first = number + 1
    elif number == last and first < number:
        holes[hole].last = number - 1
    elif before == NONE:
        sources[s].hole = following
    else:
        holes[before].following = following


@njit(cache=True)
def give_up(s: int, number: int, sources: Records, holes: Records, tally: Records) -> None:
    """Count the numbers of a source up to this one as delivered."""
    hole = tally[0].holes
    tally[0].holes += 1
    holes[hole].first, holes[hole].last, holes[hole].following = sources[s].level + 1, number, sources[s].hole
    sources[s].hole = hole
    sources[s].level = number


@njit(cache=True)
def list_missing(
    row: Number, rows: Records, needs: Records, sources: Records, holes: Records, dense: bool, missing: Missing
) -> np.int64:
    """List what a row goes without; return how many there are."""
    total = np.int64(0)
    for i in range(rows[row].start, rows[row].start + rows[row].length):
        s, t = needs[i].source, needs[i].number
        if sources[s].hole == NONE:
            continue
        if not dense:
            if in_hole(s, t, sources, holes):
                missing.append((np.int64(s), np.int64(t)))
                total += 1
            continue
        spans = [(np.int64(0), np.int64(0))]
        spans.pop()
        hole = sources[s].hole
        while hole != NONE:
            if holes[hole].first <= t:
                spans.append((holes[hole].first, min(holes[hole].last, t)))
            hole = holes[hole].following
        listed = 0
        for place in range(len(spans) - 1, -1, -1):
            first, last = spans[place]
            total += last - first + 1
            for n in range(first, min(last, first + LISTED - listed - 1) + 1):
                missing.append((np.int64(s), np.int64(n)))
                listed += 1
    return total

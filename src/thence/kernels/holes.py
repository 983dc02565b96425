"""Numbers that were given up: holes below a source's level, and what a row that goes on lacks because of them.

Law. A source's level is the number up to which it counts as delivered; its holes are the numbers below that did not
come. Who comes late fills its place in a hole, and a row lacks whatever of its needs lies in one.
"""

from __future__ import annotations

import numpy as np

from thence.kernels.arrays import Number, Records
from thence.kernels.arrival_rows import NONE
from thence.kernels.compiling import part

LISTED = 100
"""How many missing numbers of one source are listed; as in `delivery/rule.py`, whose tests hold them equal."""


@part
def in_hole(s: int, number: int, sources: Records, holes: Records) -> bool:
    """Tell whether a number was given up and has not come."""
    hole = sources[s].hole
    while hole != NONE:
        if holes[hole].first <= number <= holes[hole].last:
            return True
        hole = holes[hole].following
    return False


@part
def lacks(s: int, number: int, sources: Records, holes: Records, dense: int) -> bool:
    """Tell whether a need lacks something that was given up."""
    if not dense:
        return bool(in_hole(s, number, sources, holes))
    hole = sources[s].hole
    while hole != NONE:
        if holes[hole].first <= number:
            return True
        hole = holes[hole].following
    return False


@part
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


@part
def give_up(s: int, number: int, sources: Records, holes: Records, tally: Records) -> None:
    """Count the numbers of a source up to this one as delivered."""
    hole = tally[0].holes
    tally[0].holes += 1
    holes[hole].first, holes[hole].last, holes[hole].following = sources[s].level + 1, number, sources[s].hole
    sources[s].hole = hole
    sources[s].level = number


@part
def _list(s: int, number: int, place: int, missing: Records) -> None:
    """Put a number of a source into the list, if there is room."""
    if place < len(missing):
        missing[place].source, missing[place].number = s, number


@part
def _list_dense(s: int, t: int, sources: Records, holes: Records, missing: Records, tally: Records) -> Number:
    """List the numbers up to this one that were given up, the lowest first; return how many there are."""
    total = np.int64(0)
    hole = sources[s].hole
    while hole != NONE:
        total += max(min(holes[hole].last, t) - holes[hole].first + 1, 0)
        hole = holes[hole].following
    start, below = tally[0].missing, total
    tally[0].missing += min(total, LISTED)
    hole = sources[s].hole
    while hole != NONE:  # the last one first: `below` is how many numbers stand before those of a hole
        first = holes[hole].first
        size = max(min(holes[hole].last, t) - first + 1, 0)
        below -= size
        for n in range(min(size, LISTED - below)):
            _list(s, first + n, start + below + n, missing)
        hole = holes[hole].following
    return total


@part
def list_missing(
    row: Number, rows: Records, needs: Records, sources: Records, holes: Records, dense: int, missing: Records,
    tally: Records,
) -> Number:  # fmt: skip
    """List what a row goes without; return how many there are."""
    total = np.int64(0)
    for i in range(rows[row].start, rows[row].start + rows[row].length):
        s, t = needs[i].source, needs[i].number
        if dense:
            total += _list_dense(s, t, sources, holes, missing, tally)
        elif in_hole(s, t, sources, holes):
            _list(s, t, tally[0].missing, missing)
            tally[0].missing += 1
            total += 1
    return total

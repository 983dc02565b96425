"""Cycles of explicit causes: rows that wait for each other and would wait for ever.

Law. The rows on a cycle with a new row are those that it waits for and that wait for it, by way of held rows. Both
sides are walked in turn, so that a new row on no cycle costs no more than its smaller side.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from thence.kernels.arrays import Records
from thence.kernels.arrival_rows import NONE, Status


@njit(cache=True)
def _step_causes(stack: list[np.int64], epoch: int, rows: Records, needs: Records, sources: Records) -> None:
    here = stack.pop()
    for i in range(rows[here].start, rows[here].start + rows[here].length):
        s = needs[i].source
        other = sources[s].own
        if needs[i].waited and other != NONE and sources[s].level < 1 and rows[other].mark != epoch:
            rows[other].mark = epoch
            stack.append(np.int64(other))


@njit(cache=True)
def _step_effects(stack: list[np.int64], epoch: int, rows: Records, needs: Records, sources: Records) -> None:
    here = stack.pop()
    s = rows[here].source
    if sources[s].level >= 1:
        return
    need = sources[s].want
    while need != NONE:
        other = needs[need].want_row
        if rows[other].status == Status.HELD and rows[other].other_mark != epoch:
            rows[other].other_mark = epoch
            stack.append(np.int64(other))
        need = needs[need].want_next


@njit(cache=True)
def on_a_cycle(row: int, rows: Records, needs: Records, sources: Records, epoch: int) -> list[np.int64]:
    """Return the held rows on a cycle with this one, in the order of arrival; `epoch` marks this walk alone."""
    causes, effects = [np.int64(row)], [np.int64(row)]
    members = [np.int64(0)]
    members.pop()
    while len(causes) > 0 and len(effects) > 0:
        _step_causes(causes, epoch, rows, needs, sources)
        _step_effects(effects, epoch, rows, needs, sources)
    if rows[row].mark != epoch and rows[row].other_mark != epoch:
        return members
    while len(effects) > 0:
        _step_effects(effects, epoch, rows, needs, sources)
    while len(causes) > 0:
        _step_causes(causes, epoch, rows, needs, sources)
    seen = [np.int64(row)]
    rows[row].mark = epoch
    rows[row].other_mark = epoch
    at = 0
    while at < len(seen):  # what was reached from both sides, by way of causes that were
        here = seen[at]
        at += 1
        members.append(here)
        rows[here].other_mark = NONE
        for i in range(rows[here].start, rows[here].start + rows[here].length):
            other = sources[needs[i].source].own
            if other != NONE and rows[other].mark == epoch and rows[other].other_mark == epoch:
                rows[other].other_mark = NONE
                seen.append(np.int64(other))
    members.sort()
    return members

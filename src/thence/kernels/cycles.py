"""Cycles of explicit causes: rows that wait for each other and would wait for ever.

Law. The rows on a cycle with a new row are those that it waits for and that wait for it, by way of held rows. Both
sides are walked in turn, so that a new row on no cycle costs no more than its smaller side.
"""

from __future__ import annotations

import numpy as np

from thence.kernels.arrays import Number, Records
from thence.kernels.arrival_rows import NONE, Status
from thence.kernels.compiling import part
from thence.kernels.waiting import entered


@part
def _step_causes(here: Number, epoch: int, rows: Records, walk: Records, needs: Records, sources: Records) -> Number:
    """Put the causes of the row on top of a stack into its place; return which is on top then."""
    top: Number = walk[here].below
    for i in range(rows[here].start, rows[here].start + rows[here].length):
        s = needs[i].source
        other = sources[s].own
        if needs[i].waited and other != NONE and sources[s].level < 1 and rows[other].mark != epoch:
            rows[other].mark, walk[other].below = epoch, top
            top = other
    return top


@part
def _step_effects(here: Number, epoch: int, rows: Records, walk: Records, needs: Records, sources: Records) -> Number:
    """Put those that wait for the row on top of the other stack into its place; return which is on top then."""
    top: Number = walk[here].other_below
    s = rows[here].source
    need = sources[s].want if sources[s].level < 1 else np.int64(NONE)
    while need != NONE:
        other = needs[need].want_row
        if rows[other].status == Status.HELD and walk[other].mark != epoch:
            walk[other].mark, walk[other].other_below = epoch, top
            top = other
        need = needs[need].want_next
    return top


@part
def on_a_cycle(
    row: int, epoch: int, rows: Records, walk: Records, nodes: Records, needs: Records, sources: Records
) -> Number:
    """Return the held rows on a cycle with this one, as a heap by arrival; `epoch` marks this walk alone."""
    walk[row].below = walk[row].other_below = NONE
    causes: Number = np.int64(row)
    effects = causes
    while causes != NONE and effects != NONE:
        causes = _step_causes(causes, epoch, rows, walk, needs, sources)
        effects = _step_effects(effects, epoch, rows, walk, needs, sources)
    found: Number = np.int64(NONE)
    if rows[row].mark != epoch and walk[row].mark != epoch:
        return found
    while effects != NONE:
        effects = _step_effects(effects, epoch, rows, walk, needs, sources)
    while causes != NONE:
        causes = _step_causes(causes, epoch, rows, walk, needs, sources)
    seen: Number = np.int64(row)
    rows[row].mark, walk[row].below = epoch, NONE
    while seen != NONE:  # what was reached from both sides, by way of causes that were
        here = seen
        seen = walk[here].below
        found = entered(found, 2 * here + 1, here, nodes)
        walk[here].mark = NONE
        for i in range(rows[here].start, rows[here].start + rows[here].length):
            other = sources[needs[i].source].own
            if other != NONE and rows[other].mark == epoch and walk[other].mark == epoch:
                walk[other].mark, walk[other].below = NONE, seen
                seen = other
    return found

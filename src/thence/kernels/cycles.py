"""Cycles of explicit causes: rows that wait for each other and would wait for ever.

Law. The rows on a cycle with a new row are those that it waits for and that wait for it, by way of held rows. Both
sides are walked in turn, so that a new row on no cycle costs no more than its smaller side. Where walks take long, a
look at all rows of the step says which of them can be on a cycle at all (`outlook`): walks stay within their groups.
"""

from __future__ import annotations

import numpy as np

from thence.kernels.arrays import Number, Records, places_in
from thence.kernels.arrival_rows import NONE, Status
from thence.kernels.compiling import loop, part
from thence.kernels.outlook import ALONE, Outlook, components
from thence.kernels.records import Step
from thence.kernels.waiting import entered

_components = loop(components)


@part
def _step_causes(here: Number, epoch: int, rows: Records, walk: Records, needs: Records, sources: Records) -> Number:
    """Put the causes of the row on top of a stack into its place; return which is on top then."""
    top: Number = walk[here].below
    for i in range(rows[here].start, rows[here].start + rows[here].length):
        s = needs[i].source
        other = sources[s].own
        if not needs[i].waited or other == NONE or sources[s].level >= 1:
            continue
        if rows[other].mark != epoch and walk[other].group == walk[here].group:
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
        if rows[other].status != Status.HELD:
            pass
        elif walk[other].mark != epoch and walk[other].group == walk[here].group:
            walk[other].mark, walk[other].other_below = epoch, top
            top = other
        need = needs[need].want_next
    return top


@part
def on_a_cycle(
    row: int, rows: Records, walk: Records, nodes: Records, needs: Records, sources: Records, tally: Records
) -> Number:
    """Return the held rows on a cycle with this one, as a heap by arrival."""
    tally[0].epoch += 1
    epoch = tally[0].epoch
    walk[row].below = walk[row].other_below = NONE
    causes: Number = np.int64(row)
    effects = causes
    while causes != NONE and effects != NONE:
        tally[0].walked += 1
        causes = _step_causes(causes, epoch, rows, walk, needs, sources)
        effects = _step_effects(effects, epoch, rows, walk, needs, sources)
    found: Number = np.int64(NONE)
    if rows[row].mark != epoch and walk[row].mark != epoch:
        return found
    while effects != NONE:
        tally[0].walked += 1
        effects = _step_effects(effects, epoch, rows, walk, needs, sources)
    while causes != NONE:
        tally[0].walked += 1
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


def outlook_of(step: Step) -> Outlook:
    """Begin to reckon when a look at all rows of a step is due."""
    outlook = Outlook(len(step.rows), len(step.rows))
    _reckon(step, outlook)
    return outlook


def look_ahead(step: Step, outlook: Outlook) -> None:
    """Let a step that has stopped go on: with rows in groups, or where the last look ends, all in one again."""
    assert step.walk is not None
    row = int(step.tally[0]["row"])
    if row == outlook.seen:
        outlook.seen = NONE
        step.walk["group"] = 0
    else:
        end = outlook.reach(row)
        outlook.looked(end, _grouped(step, row, end))
    _reckon(step, outlook)


def _reckon(step: Step, outlook: Outlook) -> None:
    tally = step.tally
    tally["walked"], tally["patience"], tally["seen"] = 0, outlook.patience, outlook.seen


def _grouped(step: Step, row: int, end: int) -> bool:
    """Group the rows that are held before one, and those from it on up to another; tell whether there is a cycle."""
    rows, needs, sources = step.rows, step.needs, step.sources
    assert step.walk is not None
    held, new = rows["status"][:row] == Status.HELD, rows["unusable"][row:end] == 0
    here = np.flatnonzero(np.concatenate([held, new]))
    named, first = np.unique(rows["source"][here], return_index=True)
    place = np.full(len(sources), NONE, np.int64)
    place[named] = np.where(sources["level"][named] < 1, first, NONE)
    length = rows["length"][here]
    causes = place[needs["source"][places_in(rows["start"][here], length)]]
    ends = np.concatenate([[0], np.cumsum(causes != NONE)])
    start = ends[np.concatenate([[0], np.cumsum(length)])]
    number, low, under = np.zeros((3, len(here)), np.int64)
    groups = np.full(len(here), ALONE, np.int64)
    found = _components(start, causes[causes != NONE], start.copy(), number, low, under, groups)
    step.walk["group"] = ALONE
    step.walk["group"][here] = groups
    return found

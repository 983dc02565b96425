"""Arrays into records and back: the rule works on one record for each row, need and source.

Law. What `written_back` returns and writes is what the rule changed, and nothing else. Whatever the rule needs is
allocated here: its loops make no arrays and no lists, each kind of which would take its time to compile.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from thence.kernels.arrays import Bytes, Doubles, Longs, Records
from thence.kernels.arrival_rows import (
    CAUSE,
    HOLE,
    LIMITS,
    NEED,
    NODE,
    NONE,
    ROW,
    SOURCE,
    TALLY,
    WALK,
    Arrived,
    Holes,
    Known,
    Left,
    Limits,
)


class Step(NamedTuple):
    """What the rule works on."""

    rows: Records
    walk: Records | None
    """for explicit causes, which may form cycles"""
    nodes: Records
    needs: Records
    sources: Records
    holes: Records | None
    """None where nothing was given up, and nothing will be"""
    table: Longs | None
    """finds held rows by source and number; None for explicit causes, whose rows are sources of their own"""
    missing: Records
    """what rows went without; what does not fit is counted, and not listed"""
    tally: Records
    limits: Records


def records_of(arrived: Arrived, now: Doubles, known: Known, given_up: Holes, limits: Limits, room: int) -> Step:
    """Lay out a step that begins, with room for so many missing causes."""
    count, holes = len(arrived.source), int(given_up.used[0])
    rows = _filled(count, ROW, arrived, "source number ticket start length since unusable")
    rows["now"] = now
    needs = np.empty(len(arrived.need_source), NEED)
    needs["source"], needs["number"], needs["waited"] = arrived.need_source, arrived.need_number, arrived.need_waited
    needs["want_next"] = needs["want_row"] = NONE
    sources = _filled(len(known.level), SOURCE, known, "level seen quarantined hole", heap=NONE, own=NONE, want=NONE)
    tally = np.zeros(1, TALLY)
    tally["holes"], tally["ready"], tally["stopped"] = holes, NONE, NONE
    limit_records = _filled(1, LIMITS, limits, " ".join(LIMITS.names or ()))
    given = _filled(len(given_up.first), HOLE, given_up, "first last following") if holes or limits.any else None
    table = None if limits.cyclic else np.zeros(1 << max(4, (2 * count - 1).bit_length()), np.int64)
    walk = _filled(count, WALK, arrived, "", mark=NONE) if limits.cyclic else None
    nodes, missing = np.empty(2 * count, NODE), np.empty(room, CAUSE)
    return Step(rows, walk, nodes, needs, sources, given, table, missing, tally, limit_records)


def _filled(count: int, kind: np.dtype[np.void], values: NamedTuple, names: str, **others: int) -> Records:
    """Return records with fields from arrays of the same names, and others that are all alike; the rest is 0."""
    made = np.zeros(count, kind)
    for name in names.split():
        made[name] = getattr(values, name)
    for name, value in others.items():
        made[name] = value
    return made


def written_back(step: Step, arrived: Arrived, known: Known, given_up: Holes) -> tuple[Bytes, Left]:
    """Write what changed into the arrays; return the status of each row, and what left, in order."""
    rows, needs, tally = step.rows, step.needs, step.tally[0]
    arrived.length[:] = rows["length"]
    arrived.need_source[:], arrived.need_number[:] = needs["source"], needs["number"]
    arrived.need_waited[:] = needs["waited"]
    for name in ("level", "seen", "quarantined", "hole"):
        getattr(known, name)[:] = step.sources[name]
    if step.holes is not None:
        given_up.used[0] = tally["holes"]
        for name in ("first", "last", "following"):
            getattr(given_up, name)[:] = step.holes[name]
    status, why = rows["status"].astype(np.int8), rows["why"].astype(np.int8)
    row, missing = rows["left"][: tally["left"]].copy(), step.missing[: tally["missing"]]
    at, ends, total = (rows[name][row] for name in ("at", "missing_end", "total"))
    left = Left(
        row, status[row], at, why[row], ends, missing["source"], missing["number"], total, int(tally["stopped"])
    )
    return status, left

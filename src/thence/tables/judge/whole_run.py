"""All that is known of one run from all its rows: what `core.model.order.judge` defines.

Invariant. `judge(table)` finds what `core.model.order.judge` finds in the same rows, taken in their `order` where every
row has one. That order is used only if causes come first in it; else one is derived, and deliveries on cycles are set
aside.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thence.tables.contract.numpy_types import Ints, Longs
from thence.tables.judge.coded_rows import Rows, as_they_come, code
from thence.tables.judge.derived_order import on_cycles, order_of
from thence.tables.judge.findings import (
    ABSENT,
    DUPLICATE,
    MISDELIVERED,
    POSSIBLE,
    RUN,
    UNDELIVERED,
    VIOLATION,
    names,
    quarantined,
    tagged,
)
from thence.tables.judge.label_scan import (
    Lane,
    Matched,
    first_early,
    lanes,
    meet,
    open_copies,
    questions_of,
    reordered,
    run_clocks,
)
from thence.tables.judge.scan import ASTRAY, increasing
from thence.tables.judge.scan import DUPLICATE as REPEATED
from thence.tables.judge.usable_in_run import CYCLE, GOOD, doubts, fates, gaps


def judge(run: str | None, table: pa.Table, *, block: int | None = None) -> pa.Table:
    """Judge all rows of one run, a normal table, and return the findings with one `run` row of counts."""
    table = as_they_come(table)
    rows = code(table)
    fate = fates(rows)
    ordered = [in_order(lane) for lane in lanes(rows, fate == GOOD)]
    for _, cyclic in ordered:
        fate[cyclic] = CYCLE
    left_out = gaps(rows)
    doubtful, anywhere = doubts(rows, fate, left_out)
    if anywhere:
        doubtful[:] = 0
    parts = [part for lane, _ in ordered for part in judge_lane(run, rows, lane, doubtful, block=block)]
    messages = sum(int(np.count_nonzero(lane.sends)) for lane, _ in ordered)
    counts = tagged(RUN, run, 1, events=len(rows), messages=messages, gaps=left_out)
    return pa.concat_tables([counts, quarantined(run, table, rows, fate), *parts])


def in_order(lane: Lane) -> tuple[Lane, Longs]:
    """Return the lane in an order in which causes come first, and the rows that lie on cycles, left out."""
    nobody = np.zeros(0, np.int64)
    arrays = (lane.sends, lane.process, lane.index, lane.message, lane.width, len(lane.messages))
    if increasing(lane.process, lane.index, lane.width) and not _deliveries_first(lane):
        return lane, nobody
    order = order_of(*arrays)
    if len(order) == len(lane.row):
        return reordered(lane, order), nobody
    cyclic = on_cycles(*arrays)
    rest, _ = in_order(reordered(lane, np.flatnonzero(~cyclic)))
    return rest, lane.row[cyclic]


def _deliveries_first(lane: Lane) -> bool:
    """Tell whether some delivery comes before its send; in a whole run every delivery has one."""
    first = np.full(len(lane.messages), len(lane.row), np.int64)
    sends = np.flatnonzero(lane.sends)
    first[lane.message[sends]] = sends
    return bool(np.any(first[lane.message] > np.arange(len(lane.row))))


def judge_lane(run: str | None, rows: Rows, lane: Lane, doubtful: Longs, *, block: int | None = None) -> list[pa.Table]:
    """Return the findings in one lane whose rows are good and in order; `doubtful` is what `usable.doubts` says."""
    matched = meet(lane)
    opened = open_copies(lane, matched)
    scanned = run_clocks(lane, matched, opened, block=block)
    asked, missing = questions_of(lane, matched, scanned, opened)
    early = first_early(lane, scanned, asked, block=block)
    never = np.arange(len(early)) >= len(scanned.late)
    hidden = never & (doubtful[lane.processes[asked.destination]] <= lane.index[early])
    return [
        *(
            violations(run, rows, lane, asked.destination[which], missing[which], early[which], tag)
            for tag, which in ((VIOLATION, ~never), (ABSENT, never & ~hidden), (POSSIBLE, hidden))
            if bool(np.any(which))
        ),
        tagged(
            UNDELIVERED, run, len(opened.message),
            message=names(rows.messages, lane.messages[opened.message]),
            destination=names(rows.processes, lane.processes[opened.destination]),
        ),
        copies(DUPLICATE, run, rows, lane, repeats(lane, matched)),
        copies(MISDELIVERED, run, rows, lane, np.flatnonzero(matched.role == ASTRAY)),
    ]  # fmt: skip


def violations(
    run: str | None, rows: Rows, lane: Lane, destination: Ints, missing: Ints, early: Longs, tag: str
) -> pa.Table:
    """Return a row for each violation: the missing message, its destination, and the row that delivers `early`."""
    return tagged(
        tag, run, len(missing),
        message=names(rows.messages, lane.messages[missing]),
        destination=names(rows.processes, lane.processes[destination]),
        early=names(rows.messages, lane.messages[lane.message[early]]),
    )  # fmt: skip


def repeats(lane: Lane, matched: Matched) -> Longs:
    """Return the deliveries after the first of one message at one process."""
    astray = np.flatnonzero(matched.role == ASTRAY)
    keys = lane.message[astray].astype(np.int64) * max(1, lane.width) + lane.process[astray]
    _, first = np.unique(keys, return_index=True)
    again = np.delete(astray, first)
    return np.sort(np.concatenate([np.flatnonzero(matched.role == REPEATED), again]))


def copies(tag: str, run: str | None, rows: Rows, lane: Lane, which: Longs) -> pa.Table:
    """Return a row for each of some deliveries."""
    return tagged(
        tag, run, len(which),
        message=names(rows.messages, lane.messages[lane.message[which]]),
        destination=names(rows.processes, lane.processes[lane.process[which]]),
    )  # fmt: skip

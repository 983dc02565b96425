"""Verdict and findings of one run from all its rows, as `core.model.order.judge` defines them.

Invariant. `judge_run(table)` finds what `core.model.order.judge` finds in the same rows, taken in their `order` where
every row has one. That order is used only if causes come first in it; else one is derived, and deliveries on cycles are
set aside.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from thence.tables.contract.numpy_types import Ints, Longs
from thence.tables.judge.coded_rows import CodedRun, as_they_come, code
from thence.tables.judge.derived_order import derived_order, on_cycles
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
    ROWS_TOGETHER,
    LabelRows,
    Matched,
    first_early,
    meet,
    open_copies,
    questions_of,
    reordered,
    rows_by_label,
    run_clocks,
)
from thence.tables.judge.scan import ASTRAY, increasing
from thence.tables.judge.scan import DUPLICATE as REPEATED
from thence.tables.judge.usable_in_run import CYCLE, GOOD, count_gaps, doubts, fates


def judge_run(run: str | None, table: pa.Table, *, block: int | None = None) -> pa.Table:
    """Judge all rows of one run, a normal table, and return the findings with one `run` row of counts."""
    table = as_they_come(table)
    rows = code(table)
    fate = fates(rows)
    ordered = [in_order(own) for own in rows_by_label(rows, fate == GOOD, together=ROWS_TOGETHER)]
    for _, cyclic in ordered:
        fate[cyclic] = CYCLE
    left_out = count_gaps(rows)
    doubtful, anywhere = doubts(rows, fate, left_out)
    if anywhere:
        doubtful[:] = 0
    parts = [part for own, _ in ordered for part in judge_label(run, rows, own, doubtful, block=block)]
    messages = sum(int(np.count_nonzero(own.sends)) for own, _ in ordered)
    counts = tagged(RUN, run, 1, events=len(rows), messages=messages, gaps=left_out)
    return pa.concat_tables([counts, quarantined(run, table, rows, fate), *parts])


def in_order(own: LabelRows) -> tuple[LabelRows, Longs]:
    """Return the label in an order in which causes come first, and the rows that lie on cycles, left out."""
    none_of_them = np.zeros(0, np.int64)
    arrays = (
        own.sends,
        own.process,
        own.index,
        own.message,
        own.width,
        len(own.messages),
    )
    if increasing(own.process, own.index, own.width) and not _deliveries_first(own):
        return own, none_of_them
    order = derived_order(*arrays)
    if len(order) == len(own.row):
        return reordered(own, order), none_of_them
    cyclic = on_cycles(*arrays)
    rest, _ = in_order(reordered(own, np.flatnonzero(~cyclic)))
    return rest, own.row[cyclic]


def _deliveries_first(own: LabelRows) -> bool:
    """Return whether some delivery comes before its send; in a whole run every delivery has one."""
    first = np.full(len(own.messages), len(own.row), np.int64)
    sends = np.flatnonzero(own.sends)
    first[own.message[sends]] = sends
    return bool(np.any(first[own.message] > np.arange(len(own.row))))


def judge_label(
    run: str | None, rows: CodedRun, own: LabelRows, doubtful: Longs, *, block: int | None = None
) -> list[pa.Table]:
    """Return the findings in one label whose rows are good and in order; `doubtful` is what `usable.doubts` says."""
    matched = meet(own)
    opened = open_copies(own, matched)
    scanned = run_clocks(own, matched, opened, block=block)
    asked, missing = questions_of(own, matched, scanned, opened)
    early = first_early(own, scanned, asked, block=block)
    never = np.arange(len(early)) >= len(scanned.late)
    hidden = never & (doubtful[own.processes[asked.destination]] <= own.index[early])
    return [
        *(
            violations(run, rows, own, asked.destination[which], missing[which], early[which], tag)
            for tag, which in ((VIOLATION, ~never), (ABSENT, never & ~hidden), (POSSIBLE, hidden))
            if bool(np.any(which))
        ),
        tagged(
            UNDELIVERED, run, len(opened.message),
            message=names(rows.messages, own.messages[opened.message]),
            destination=names(rows.processes, own.processes[opened.destination]),
        ),
        copies(DUPLICATE, run, rows, own, repeats(own, matched)),
        copies(MISDELIVERED, run, rows, own, np.flatnonzero(matched.role == ASTRAY)),
    ]  # fmt: skip


def violations(
    run: str | None, rows: CodedRun, own: LabelRows, destination: Ints, missing: Ints, early: Longs, tag: str
) -> pa.Table:
    """Return a row for each violation: the missing message, its destination, and the row that delivers `early`."""
    return tagged(
        tag, run, len(missing),
        message=names(rows.messages, own.messages[missing]),
        destination=names(rows.processes, own.processes[destination]),
        early=names(rows.messages, own.messages[own.message[early]]),
    )  # fmt: skip


def repeats(own: LabelRows, matched: Matched) -> Longs:
    """Return the deliveries after the first of one message at one process."""
    astray = np.flatnonzero(matched.role == ASTRAY)
    keys = own.message[astray].astype(np.int64) * max(1, own.width) + own.process[astray]
    _, first = np.unique(keys, return_index=True)
    again = np.delete(astray, first)
    return np.sort(np.concatenate([np.flatnonzero(matched.role == REPEATED), again]))


def copies(tag: str, run: str | None, rows: CodedRun, own: LabelRows, which: Longs) -> pa.Table:
    """Return a row for each of some deliveries."""
    return tagged(
        tag, run, len(which),
        message=names(rows.messages, own.messages[own.message[which]]),
        destination=names(rows.processes, own.processes[own.process[which]]),
    )  # fmt: skip

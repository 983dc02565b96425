"""The rows of a run that the definition covers: the rules of `core.model.order.usable`, over arrays.

Invariant: rows come in the order in which they count as recorded. Set aside, in this order: a row unusable by itself;
a second row with the same process and index; a row without its message or destinations; a second send of one
message; a delivery or receipt of a message never sent, or under another label than its send. Cycles are for
`derive`.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from thence.tables.contract.numpy_types import Bytes, Ints, Longs
from thence.tables.judge import order_cy
from thence.tables.judge.coded_rows import CRASH, DELIVER, INTERNAL, KIND_NAMES, RECEIVE, SEND, CodedRun
from thence.tables.judge.derived_order import by_process
from thence.tables.judge.scan import increasing, steps_left_out

GOOD, ODD, TWICE, NO_MESSAGE, NO_DESTINATIONS, SENT_TWICE, NEVER_SENT, OTHER_LABEL, CYCLE = range(9)
NOWHERE = np.iinfo(np.int64).max
"""No index: a process whose rows are all there and usable."""


def fates(rows: CodedRun) -> Bytes:
    """Return for each row of a whole run GOOD or why it is set aside."""
    fate = seats(rows)
    empty = _empty_message(rows)
    order_cy.needs(rows.kind, rows.message, rows.addressed.view(np.uint8), empty, fate)
    order_cy.senders(rows.kind, rows.message, rows.label, np.full(len(rows.messages), -1, np.int64), fate)
    return fate


def seats(rows: CodedRun) -> Bytes:
    """Set aside odd rows and rows whose place (process, index) is taken."""
    fate = np.zeros(len(rows), np.int8)
    if rows.odd:
        fate[list(rows.odd)] = ODD
        good = np.flatnonzero(fate == GOOD)
        process, index = rows.process[good], rows.index[good]
    else:
        good, process, index = None, rows.process, rows.index
    if not increasing(process, index, len(rows.processes)):
        taken = _taken(process, index, len(rows.processes))
        fate[taken if good is None else good[taken]] = TWICE
    return fate


def _taken(process: Ints, index: Longs, processes: int) -> Longs:
    """Return the rows whose process has an earlier row with the same index."""
    rows, same = by_process(process, index, processes)
    found: Longs = rows[1:][same & (index[rows[1:]] == index[rows[:-1]])]
    return found


def _empty_message(rows: CodedRun) -> int:
    names = rows.messages
    if not len(names):
        return -2
    place = pc.index(names, "").as_py()
    return place if place >= 0 else -2


def reason(rows: CodedRun, row: int, fate: int, sent_label: str | None = None) -> str:
    """Explain why a row is set aside, in the words of `core.model.order`."""
    message = rows.messages[int(rows.message[row])].as_py() if rows.message[row] >= 0 else None
    process = rows.processes[int(rows.process[row])].as_py() if rows.process[row] >= 0 else None
    if fate == ODD:
        return rows.odd[row]
    if fate == TWICE:
        return f"index {rows.index[row]} of process {process} stands twice"
    if fate == NO_MESSAGE:
        return f"a {KIND_NAMES[rows.kind[row]]} row needs a message"
    if fate == NO_DESTINATIONS:
        return "a send row needs destinations"
    if fate == SENT_TWICE:
        return f"message {message} is sent twice"
    if fate == NEVER_SENT:
        return f"message {message} was never sent"
    if fate == OTHER_LABEL:
        label = rows.labels[int(rows.label[row])].as_py() if rows.label[row] >= 0 else None
        return f"message {message} was sent under label {sent_label}, not {label}"
    assert fate == CYCLE
    return "it happened before its own cause (cycle)"


def count_gaps(rows: CodedRun) -> int:
    """Count the places at which the indexes of a process leave something out; odd rows have no place."""
    usable = np.ones(len(rows), np.bool_)
    if rows.odd:
        usable[list(rows.odd)] = False
    process, index = rows.process[usable], rows.index[usable]
    found = steps_left_out(process, index, len(rows.processes))
    return found if found >= 0 else len(_left_out(process, index, len(rows.processes), start=0)[0])


def _left_out(process: Ints, index: Longs, processes: int, start: int | None) -> tuple[Ints, Longs]:
    """Return process and first index of each gap; indexes count from `start` + 1, if given."""
    order, same = by_process(process, index, processes)
    process, index = process[order], index[order]
    before = np.where(np.append(False, same), np.roll(index, 1), index - 1 if start is None else start)
    found = index > before + 1
    return process[found], before[found] + 1


def doubts(rows: CodedRun, fate: Bytes, gaps: int, *, start: int | None = 0) -> tuple[Longs, bool]:
    """Return, for each process, the first index where it may have a row that is not usable (`core.model.order`).

    A process that has none gets `NOWHERE`. The flag says that some row may lie anywhere, in any process. `start` is
    the index before the first of every process, None if it is not known; `gaps` is how many gaps there are.
    """
    first = np.full(len(rows.processes), NOWHERE, np.int64)
    if gaps:
        seated = fate != ODD
        np.minimum.at(first, *_left_out(rows.process[seated], rows.index[seated], len(first), start))
    gone = np.flatnonzero(fate != GOOD)
    process, index = rows.process[gone], rows.index[gone]
    known = process >= 0
    if len(rows.processes) and (empty := pc.index(rows.processes, "").as_py()) >= 0:
        known &= process != empty
    np.minimum.at(first, process[known], np.maximum(index[known], 0))
    return first, not bool(np.all(known))


assert (SEND, DELIVER, RECEIVE, INTERNAL, CRASH) == (0, 1, 2, 3, 4)

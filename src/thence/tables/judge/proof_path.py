"""The causal chains that prove violations: each the shortest in messages from one send to another.

Invariant: a path is a chain of rows from the send of `missing` to the send of `early`: from one row to the next, either
both are of one process and `index` grows, or the second delivers the message that the first sends. No chain has fewer
messages. Only rows where the chain turns are named. The rows are those that the audit itself uses, in the order that it
uses, so a row that was set aside proves nothing and a wrong `order` hides nothing.

One pass answers all questions: each takes a column from the send of its `missing` to that of its `early`, in which
stands for every process, and every message in flight, by how few messages it was reached. Reaching a process by fewer
messages, later or sooner, is all that can matter to what follows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thence.core.model.events import Event
from thence.core.model.order import Violation
from thence.tables.contract.numpy_types import Flags, Ints, Longs
from thence.tables.contract.spark_to_arrow_types import arrow_type
from thence.tables.explain.sentence import PathStep
from thence.tables.judge.coded_rows import CodedRun, as_they_come, code
from thence.tables.judge.label_scan import CLOCK_BYTES, ROWS_TOGETHER, LabelRows, meet, rows_by_label
from thence.tables.judge.normal_table import of_events
from thence.tables.judge.proof_path_cy import nearer as walk_on
from thence.tables.judge.scan import ScanColumns, slots
from thence.tables.judge.usable_in_run import GOOD, fates
from thence.tables.judge.whole_run import in_order

PATH = "array<struct<process:string,index:bigint,kind:string,message:string>>"
PATH_TYPE = arrow_type(PATH)
FAR = np.int32(2**31 - 1)
"""Not reached by any number of messages."""
BUFFER = 1 << 16
"""Numbers that a walk writes at a time."""


ViolationPair = tuple[str, str]
"""The messages `missing` and `early` of a violation."""


class PathQuestions(NamedTuple):
    """From which row to which; sorted by the first."""

    start: Longs
    goal: Longs
    by_goal: Longs
    """the questions sorted by `goal`"""


def _walk(
    columns: ScanColumns, send_row: Longs, place: Ints, asked: PathQuestions, processes: int, places: int, width: int
) -> tuple[Longs, Flags, Longs]:
    """Return the last delivery before each goal, whether the goal was reached, and all deliveries that came nearer.

    Each that came nearer is three numbers: question, process and row, in the order of rows.
    """
    count = len(asked.start)
    last, reached = np.full(count, -1, np.int64), np.zeros(count, np.bool_)
    hops, carried = (np.full((n, width), FAR, np.int32) for n in (processes, places))
    via = np.full((processes, width), -1, np.int64)
    column, owner, free = np.full(count, -1, np.int64), np.full(width, -1, np.int64), np.arange(width)
    state = np.array([asked.start[0], 0, 0, width])
    buffer = np.empty(max(3 * width, BUFFER), np.int64)
    found: list[Longs] = []
    while state[0] < len(columns.process) and state[2] < count:
        written = walk_on(
            columns.sends.view(np.uint8), columns.process, columns.message, send_row, place, asked.start, asked.goal,
            asked.by_goal, hops, via, carried, column, owner, free, last, reached.view(np.uint8), state, buffer,
        )  # fmt: skip
        found.append(buffer[:written].copy())
    return last, reached, np.concatenate([np.zeros(0, np.int64), *found])


def shortest_paths(table: pa.Table, asked: Sequence[ViolationPair]) -> list[list[PathStep] | None]:
    """Return the path of each pair of messages of one run, from a normal table that holds all rows between them."""
    table = as_they_come(table)
    rows = code(table)
    found: list[list[PathStep] | None] = [None] * len(asked)
    ends = pc.index_in(pa.array([name for pair in asked for name in pair], pa.string()), rows.messages)
    codes = pc.fill_null(ends, -1).to_numpy().reshape(-1, 2)
    for own in rows_by_label(rows, fates(rows) == GOOD, together=ROWS_TOGETHER):
        ordered, _ = in_order(own)
        for place, path in _in_label(rows, ordered, codes):
            found[place] = path
    return found


def path(events: Sequence[Event], violation: Violation) -> list[PathStep] | None:
    """Return the path that proves a violation, from the rows of its run, if there is one."""
    return shortest_paths(of_events(events), [(violation.missing, violation.early)])[0]


def _in_label(rows: CodedRun, own: LabelRows, codes: Longs) -> list[tuple[int, list[PathStep]]]:
    """Return the paths that one label holds, each with the place of its question."""
    matched = meet(own)
    known = np.full(len(rows.messages) + 1, -1, np.int64)
    known[own.messages] = matched.send_row
    start, goal = known[codes[:, 0]], known[codes[:, 1]]
    which = np.flatnonzero((start >= 0) & (goal > start))
    which = which[np.argsort(start[which], kind="stable")]
    place, places = slots(own.sends, own.message, matched.uses, np.zeros(len(own.messages), np.bool_))
    found: list[tuple[int, list[PathStep]]] = []
    for some in _rounds(which, start, goal, max(1, CLOCK_BYTES // (4 * (places + 3 * own.width + 1)))):
        asked = _questions(start[some], goal[some])
        width = _overlap(asked)
        last, reached, nearer = _walk(own.columns, matched.send_row, place, asked, own.width, places, width)
        steps = _Nearer(own, matched.send_row, nearer)
        for q in np.flatnonzero(reached).tolist():
            places_of = steps.back(q, int(asked.start[q]), int(asked.goal[q]), int(last[q]))
            found.append((int(some[q]), [_step(rows, own, row) for row in places_of]))
    return found


def _rounds(which: Longs, start: Longs, goal: Longs, widest: int) -> list[Longs]:
    """Divide questions, sorted by their start, so that no group needs more columns than `widest`."""
    if not len(which):
        return []
    if _overlap(_questions(start[which], goal[which])) <= widest:
        return [which]
    return [part for half in np.array_split(which, 2) for part in _rounds(half, start, goal, widest)]


def _questions(start: Longs, goal: Longs) -> PathQuestions:
    return PathQuestions(start, goal, np.argsort(goal, kind="stable"))


def _overlap(asked: PathQuestions) -> int:
    """Return how many questions are open at once at most."""
    goals = asked.goal[asked.by_goal]
    closed = np.searchsorted(goals, asked.start, side="left")
    return int(np.max(np.arange(1, len(goals) + 1) - closed, initial=1))


class _Nearer:
    """The deliveries that came nearer, to be walked back from the end."""

    def __init__(self, own: LabelRows, send_row: Longs, nearer: Longs) -> None:
        self.own, self.send_row = own, send_row
        self.rows: dict[tuple[int, int], list[int]] = defaultdict(list)
        for question, process, row in nearer.reshape(-1, 3).tolist():
            self.rows[question, process].append(row)

    def back(self, question: int, start: int, goal: int, at: int) -> list[int]:
        """Return the rows where a path turns, from its first to its last."""
        steps = [goal]
        while at >= 0:
            sent = int(self.send_row[self.own.message[at]])
            steps += [at, sent]
            here = self.rows[question, int(self.own.process[sent])]
            place = bisect_left(here, sent)
            at = here[place - 1] if place else -1
        if steps[-1] != start:
            steps.append(start)
        return steps[::-1]


def _step(rows: CodedRun, own: LabelRows, row: int) -> PathStep:
    return PathStep(
        rows.processes[int(own.processes[own.process[row]])].as_py(),
        int(own.index[row]),
        "send" if own.sends[row] else "deliver",
        rows.messages[int(own.messages[own.message[row]])].as_py(),
    )

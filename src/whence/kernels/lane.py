"""One lane: the sends and deliveries of one run under one label, and the scan over them in blocks of columns.

Law. Lanes do not touch each other: happened-before within a label uses that label's rows only. A lane has its own small
codes for processes and messages, so that the width of its clocks is the number of processes that take part in it. Any
block width gives the same answer; a narrow one only bounds the memory that clocks in flight take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from whence.kernels.rows import DELIVER, SEND, Bytes, Flags, Ints, Longs, Rows
from whence.kernels.scan import locate, match, scan, slots

CLOCK_BYTES = 256 << 20
"""Clocks of messages in flight may take about this much at a time."""

Clocks = NDArray[Any]


@dataclass(slots=True)
class Lane:
    """Rows of one label; `row`, `processes`, `messages` lead back to the rows and codes of the run."""

    label: int
    row: Longs
    sends: Flags
    process: Ints
    index: Longs
    message: Ints
    offsets: Longs
    destinations: Ints
    processes: Ints
    messages: Ints

    @property
    def width(self) -> int:
        """Return the number of processes."""
        return len(self.processes)


@dataclass(slots=True)
class Matched:
    """Deliveries met with their sends; see `scan.match`."""

    send_row: Longs
    delivered: Longs
    role: Bytes
    uses: Ints
    disorder: bool


@dataclass(slots=True)
class Copies:
    """Copies not delivered among the rows: message, destination, sender, index of the send, row of the send."""

    message: Ints
    destination: Ints
    sender: Ints
    index: Longs
    send: Longs


def lanes(rows: Rows, good: Flags) -> Iterator[Lane]:
    """Part the good sends and deliveries by label; there are none without rows."""
    used = np.flatnonzero(good & (rows.kind <= DELIVER))
    labels = rows.label[used]
    kinds = np.unique(labels)
    for label in kinds.tolist():
        mine = used if len(kinds) == 1 else used[labels == label]
        yield lane_of(rows, label, mine, compact=len(kinds) > 1)


def lane_of(rows: Rows, label: int, mine: Longs, *, compact: bool) -> Lane:
    """Return some rows as a lane, with small codes of its own or with those of the run."""
    offsets, destinations = _gather(rows.offsets, rows.destinations, mine, rows.kind)
    process, message = rows.process[mine], rows.message[mine]
    if compact:
        processes, codes = np.unique(np.concatenate([process, destinations]), return_inverse=True)
        process, destinations = codes[: len(process)].astype(np.int32), codes[len(process) :].astype(np.int32)
        messages, numbers = np.unique(message, return_inverse=True)
        message = numbers.astype(np.int32)
    else:
        processes = np.arange(len(rows.processes), dtype=np.int32)
        messages = np.arange(len(rows.messages), dtype=np.int32)
    return Lane(
        label, mine, rows.kind[mine] == SEND, process, rows.index[mine], message, offsets, destinations,
        processes.astype(np.int32), messages.astype(np.int32),
    )  # fmt: skip


@njit(cache=True)
def _gather(offsets: Any, values: Any, rows: Any, kind: Any) -> Any:
    starts = np.zeros(len(rows) + 1, np.int64)
    for i in range(len(rows)):
        length = offsets[rows[i] + 1] - offsets[rows[i]] if kind[rows[i]] == SEND else 0
        starts[i + 1] = starts[i] + length
    taken = np.empty(starts[-1], np.int32)
    for i in range(len(rows)):
        for j in range(starts[i + 1] - starts[i]):
            taken[starts[i] + j] = values[offsets[rows[i]] + j]
    return starts, taken


def reordered(lane: Lane, order: Longs) -> Lane:
    """Return the lane with its rows in another order, or without some of them."""
    kind = np.where(lane.sends, SEND, DELIVER).astype(np.int8)
    offsets, destinations = _gather(lane.offsets, lane.destinations, order, kind)
    return Lane(
        lane.label, lane.row[order], lane.sends[order], lane.process[order], lane.index[order],
        lane.message[order], offsets, destinations, lane.processes, lane.messages,
    )  # fmt: skip


def meet(lane: Lane) -> Matched:
    """Meet each delivery of the lane with its send."""
    found = match(lane.sends, lane.process, lane.message, len(lane.messages), lane.offsets, lane.destinations)
    return Matched(*found)


def open_copies(lane: Lane, matched: Matched) -> Copies:
    """Return the copies that no row of the lane delivers."""
    gone = np.flatnonzero(matched.delivered < 0)
    send = np.searchsorted(lane.offsets, gone, side="right") - 1
    return Copies(
        lane.message[send], lane.destinations[gone], lane.process[send], lane.index[send], send.astype(np.int64)
    )


def clock_type(lane: Lane) -> Any:
    """Return the narrowest integer type that holds every index of the lane."""
    return np.int32 if not len(lane.index) or int(lane.index.max()) < 2**31 - 1 else np.int64


def block_width(lane: Lane, places: int, asked: int | None) -> int:
    """Return how many columns to scan at a time."""
    if asked is not None:
        return max(1, min(asked, lane.width or 1))
    each = max(1, (places + lane.width) * np.dtype(clock_type(lane)).itemsize)
    return int(max(1, min(lane.width or 1, CLOCK_BYTES // each)))


@dataclass(slots=True)
class Scanned:
    """What a scan found: late deliveries (rows), open copies already overtaken, clocks where they were asked for."""

    late: Longs
    overtaken: Flags
    known: Clocks
    before: Clocks
    carried: Clocks


def run_clocks(
    lane: Lane,
    matched: Matched,
    opened: Copies,
    *,
    kept: Ints | None = None,
    imports: int = 0,
    block: int | None = None,
) -> Scanned:
    """Scan the lane from an empty state, block after block of columns.

    `kept` are messages whose clocks are wanted at the end, `imports` the number of imported deliveries; without
    them the clocks are not kept at all.
    """
    keep = np.zeros(len(lane.messages), np.bool_)
    wanted = kept is not None
    chosen: Ints = kept if kept is not None else np.zeros(0, np.int32)
    keep[chosen] = True
    place, places = slots(lane.sends, lane.message, matched.uses, keep, 0)
    width, kind = lane.width, clock_type(lane)
    step = block_width(lane, places, block)
    late = np.zeros(len(lane.row), np.bool_)
    overtaken = np.zeros(len(opened.message), np.bool_)
    whole = (width, imports, len(chosen)) if wanted else (0, 0, 0)
    known_all, before_all, carried_all = (np.zeros((n, width if wanted else 0), kind) for n in whole)
    for low in range(0, width, step):
        high = min(width, low + step)
        known = np.zeros((width, high - low), kind)
        carried = np.zeros((places, high - low), kind)
        before = np.zeros((imports if wanted else 0, high - low), kind)
        scan(
            lane.sends, lane.process, lane.index, lane.message, matched.role, matched.send_row, place,
            known, carried, low, late, before,
        )  # fmt: skip
        mine = np.flatnonzero((opened.sender >= low) & (opened.sender < high))
        overtaken[mine] = known[opened.destination[mine], opened.sender[mine] - low] >= opened.index[mine]
        if wanted:
            known_all[:, low:high] = known
            before_all[:, low:high] = before
            carried_all[:, low:high] = carried[place[chosen]]
    return Scanned(np.flatnonzero(late), overtaken, known_all, before_all, carried_all)


@dataclass(slots=True)
class Questions:
    """Where did `destination` first learn of a send of `source` at `index` or later? From row `since` on."""

    destination: Ints
    source: Ints
    index: Longs
    since: Longs


def questions_of(lane: Lane, matched: Matched, scanned: Scanned, opened: Copies) -> tuple[Questions, Ints]:
    """Return the question each violation poses, and the message that was missing in each."""
    sent = matched.send_row[lane.message[scanned.late]]
    over = scanned.overtaken
    missing = np.concatenate([lane.message[scanned.late], opened.message[over]])
    asked = Questions(
        np.concatenate([lane.process[scanned.late], opened.destination[over]]),
        np.concatenate([lane.process[sent], opened.sender[over]]),
        np.concatenate([lane.index[sent], opened.index[over]]),
        np.concatenate([sent, opened.send[over]]),
    )
    return asked, missing


@dataclass(slots=True)
class State:
    """What was known before the first row, in some columns: of each process, and carried by each imported message."""

    columns: Ints
    known: Clocks
    imported: Ints
    carried: Clocks


def first_early(
    lane: Lane,
    matched: Matched,
    asked: Questions,
    *,
    state: State | None = None,
    block: int | None = None,
) -> Longs:
    """Return for each question the row that delivers the first message sent after the missing one, or -1."""
    answer = np.full(len(asked.index), -1, np.int64)
    if not len(answer):
        return answer
    brought: Ints = np.zeros(0, np.int32) if state is None else state.imported
    keep = np.zeros(len(lane.messages), np.bool_)
    place, places = slots(lane.sends, lane.message, matched.uses, keep, len(brought))
    place[brought] = np.arange(len(brought), dtype=np.int32)
    sources = np.unique(asked.source) if state is None else state.columns
    step = block_width(lane, places, block)
    for low in range(0, len(sources), step):
        columns = sources[low : low + step]
        column_of = np.full(lane.width, -1, np.int32)
        column_of[columns] = np.arange(len(columns), dtype=np.int32)
        kind = clock_type(lane) if state is None else np.int64
        known = np.zeros((lane.width, len(columns)), kind)
        clocks = np.zeros((places, len(columns)), kind)
        if state is not None:
            known[:] = state.known[:, low : low + step]
            clocks[: len(brought)] = state.carried[:, low : low + step]
        mine = np.flatnonzero(column_of[asked.source] >= 0)
        mine = mine[np.argsort(asked.since[mine], kind="stable")]
        answer[mine] = locate(
            lane.sends, lane.process, lane.index, lane.message, place, known, clocks, column_of,
            asked.destination[mine], column_of[asked.source[mine]], asked.index[mine], asked.since[mine],
        )  # fmt: skip
    return answer

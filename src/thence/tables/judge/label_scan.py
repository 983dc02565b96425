"""One label: the sends and deliveries of one run under one label, and the scan over them in blocks of columns.

Invariant. Labels are independent: happened-before within a label uses that label's rows only. A label has its own
small codes for processes and messages, those of senders first, so that clocks have a column for each sender and none
for a process that only delivers. Small labels are scanned together: a process has a code for each of them, so that
nothing passes from one to another. Any block width gives the same answer; a narrow one only bounds the memory that
clocks in flight take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from thence.tables.contract.numpy_types import Bytes, Clocks, Flags, Ints, Longs
from thence.tables.judge import order_cy, scan_cy
from thence.tables.judge.coded_rows import DELIVER, SEND, CodedRun
from thence.tables.judge.scan import Marks, ScanColumns, locate, scan, slots, sort_segments

ClockType = type[np.int32] | type[np.int64]
CLOCK_BYTES = 256 << 20
"""Clocks of messages in flight may take about this much at a time."""
QUEUE_CLOCKS = 5
"""What the queues of a process take in `locate`, in its clocks of 4 bytes: a value, and two places of 8 bytes."""
ROWS_TOGETHER = 1024
"""Labels with fewer rows are scanned together, up to about this many rows: a scan takes at least 1 ms."""


@dataclass(slots=True)
class LabelRows:
    """Rows of one label, or of several small ones; `row`, `processes`, `messages` lead back to the run's."""

    label: int
    """Of several labels the first"""
    row: Longs
    sends: Flags
    process: Ints
    index: Longs
    message: Ints
    offsets: Longs
    destinations: Ints
    processes: Ints
    messages: Ints
    senders: int
    """Processes below this code send; the others only deliver or are addressed."""

    @property
    def width(self) -> int:
        """Return the number of processes."""
        return len(self.processes)

    @property
    def columns(self) -> ScanColumns:
        """Return what the loops walk along."""
        return ScanColumns(self.sends, self.process, self.index, self.message)


@dataclass(slots=True)
class Matched:
    """Deliveries met with their sends."""

    send_row: Longs
    """of each message, or -1"""
    delivered: Longs
    """the row that first delivered each copy, or -1"""
    role: Bytes
    """what each delivery is: see `scan.FIRST`"""
    uses: Ints
    """deliveries of each message"""
    disorder: bool
    """whether some send comes after a delivery of its message"""


@dataclass(slots=True)
class Copies:
    """Copies not delivered among the rows: message, destination, sender, index of the send, row of the send."""

    message: Ints
    destination: Ints
    sender: Ints
    index: Longs
    send: Longs


def rows_by_label(rows: CodedRun, good: Flags, *, together: int = 1) -> Iterator[LabelRows]:
    """Group the usable sends and deliveries by label; every label has rows.

    `together`: labels with fewer rows are grouped with others like them, until they have about as many.
    """
    used = np.flatnonzero(good & (rows.kind <= DELIVER))
    labels = rows.label[used]
    if len(labels) and bool(np.all(labels == labels[0])):
        yield label_rows(rows, used, compact=False)
    elif len(labels):
        order = np.argsort(labels, kind="stable")
        for group in np.split(order, _groups(labels[order], together)):
            yield label_rows(rows, used[group], compact=True)


def _groups(labels: Ints, together: int) -> Longs:
    """Return where groups of labels begin, given the ascending labels of rows; that the first begins is not said."""
    starts = np.flatnonzero(np.concatenate([[True], labels[1:] != labels[:-1]]))
    counts = np.diff(starts, append=len(labels))
    large = counts >= together
    group = (np.cumsum(counts) - counts) // together
    # a label begins a group if it or the one before it is large, or if the rows before it fill one more group
    begins = large[1:] | large[:-1] | (group[1:] != group[:-1])
    found: Longs = starts[1:][begins]
    return found


def label_rows(rows: CodedRun, chosen: Longs, *, compact: bool) -> LabelRows:
    """Return rows of one label or several, with small codes of their own or, of one label, with those of the run."""
    offsets, destinations = _gathered(rows.offsets, rows.destinations, chosen, rows.kind)
    process, message = rows.process[chosen], rows.message[chosen]
    if compact:
        label = rows.label[chosen].astype(np.int64) + 1
        each = np.concatenate([label, np.repeat(label, np.diff(offsets))])
        processes, codes = _paired(each, np.concatenate([process, destinations]), len(rows.processes))
        process, destinations = codes[: len(process)], codes[len(process) :]
        messages, message = _paired(label, message, len(rows.messages))
    else:
        processes = np.arange(len(rows.processes), dtype=np.int32)
        messages = np.arange(len(rows.messages), dtype=np.int32)
    sends = rows.kind[chosen] == SEND
    sending = np.zeros(len(processes), np.bool_)
    sending[process[sends]] = True
    senders = int(np.count_nonzero(sending))
    if not bool(np.all(sending[:senders])):
        order = np.argsort(~sending, kind="stable")
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        processes, process, destinations = processes[order], rank[process], rank[destinations]
        sort_segments(offsets, destinations)
    return LabelRows(
        int(rows.label[chosen[0]]), chosen, sends, process, rows.index[chosen], message, offsets, destinations,
        processes, messages, senders,
    )  # fmt: skip


def _paired(label: Longs, codes: Ints, count: int) -> tuple[Ints, Ints]:
    """Number pairs of a label and a code below a count; return the code of each number, and the number of each pair."""
    pairs, numbers = np.unique(label * count + codes, return_inverse=True)
    return (pairs % max(1, count)).astype(np.int32), numbers.astype(np.int32)


def _gathered(offsets: Longs, values: Ints, rows: Longs, kind: Bytes) -> tuple[Longs, Ints]:
    """Return where the destinations of each of some rows begin, and the destinations; only sends have any."""
    starts = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(np.where(kind[rows] == SEND, offsets[rows + 1] - offsets[rows], 0), out=starts[1:])
    taken = np.empty(starts[-1], np.int32)
    order_cy.gather(offsets, values, rows, starts, taken)
    return starts, taken


def reordered(own: LabelRows, order: Longs) -> LabelRows:
    """Return the label with its rows in another order, or without some of them."""
    kind = np.where(own.sends, SEND, DELIVER).astype(np.int8)
    offsets, destinations = _gathered(own.offsets, own.destinations, order, kind)
    return LabelRows(
        own.label, own.row[order], own.sends[order], own.process[order], own.index[order],
        own.message[order], offsets, destinations, own.processes, own.messages, own.senders,
    )  # fmt: skip


def meet(own: LabelRows) -> Matched:
    """Meet each delivery of the label with its send."""
    send_row, delivered = (np.full(len(each), -1, np.int64) for each in (own.messages, own.destinations))
    role, uses = np.zeros(len(own.process), np.int8), np.zeros(len(own.messages), np.int32)
    marks = own.sends.view(np.uint8)
    disorder = scan_cy.match(
        marks, own.process, own.message, own.offsets, own.destinations, send_row, delivered, role, uses
    )
    return Matched(send_row, delivered, role, uses, disorder)


def open_copies(own: LabelRows, matched: Matched) -> Copies:
    """Return the copies that no row of the label delivers."""
    gone = np.flatnonzero(matched.delivered < 0)
    send = np.searchsorted(own.offsets, gone, side="right") - 1
    return Copies(
        own.message[send],
        own.destinations[gone],
        own.process[send],
        own.index[send],
        send.astype(np.int64),
    )


def clock_type(own: LabelRows) -> ClockType:
    """Return the narrowest integer type that holds every index of the label."""
    return np.int32 if not len(own.index) or int(own.index.max()) < 2**31 - 1 else np.int64


def block_width(own: LabelRows, places: int, asked: int | None) -> int:
    """Return how many columns to scan at a time."""
    if asked is not None:
        return max(1, min(asked, own.senders or 1))
    each = max(1, (places + own.width) * np.dtype(clock_type(own)).itemsize)
    return int(max(1, min(own.senders or 1, CLOCK_BYTES // each)))


@dataclass(slots=True)
class Scanned:
    """The result of a scan: late deliveries (rows), open copies already overtaken, clocks on request."""

    late: Longs
    overtaken: Flags
    known: Clocks
    before: Clocks
    carried: Clocks
    met: Ints
    """met[s, d]: the row after which d first knows of a send of s"""
    heard: Ints
    """heard[i, d]: the row after which d first knows of a send that came after import i at its process"""
    place: Ints
    places: int
    """Where the clock of each message was kept, and how many such places there were."""


def run_clocks(
    own: LabelRows,
    matched: Matched,
    opened: Copies,
    *,
    kept: Ints | None = None,
    imports: Longs | None = None,
    block: int | None = None,
) -> Scanned:
    """Scan the label from an empty state, block after block of columns.

    `kept` are messages whose clocks are wanted at the end, `imports` the rows of imported deliveries; without
    them the clocks are not kept at all, nor who met whom when.
    """
    keep = np.zeros(len(own.messages), np.bool_)
    wanted = kept is not None
    chosen: Ints = kept if kept is not None else np.zeros(0, np.int32)
    keep[chosen] = True
    brought: Longs = imports if imports is not None else np.zeros(0, np.int64)
    place, places = slots(own.sends, own.message, matched.uses, keep)
    width, kind = own.senders, clock_type(own)
    step = block_width(own, places, block)
    late = np.zeros(len(own.row), np.bool_)
    overtaken = np.zeros(len(opened.message), np.bool_)
    whole = (own.width, len(brought), len(chosen)) if wanted else (0, 0, 0)
    marks, order = _marks(own, brought, kind, wanted=wanted)
    known_all, before_all, carried_all = (np.zeros((n, width if wanted else 0), kind) for n in whole)
    for low in range(0, width, step):
        high = min(width, low + step)
        known = np.zeros((own.width, high - low), kind)
        carried = np.zeros((places, high - low), kind)
        before = np.zeros((whole[1], high - low), kind)
        scan(own.columns, matched.role, matched.send_row, place, known, carried, low, late, before, marks)
        inside = np.flatnonzero((opened.sender >= low) & (opened.sender < high))
        overtaken[inside] = known[opened.destination[inside], opened.sender[inside] - low] >= opened.index[inside]
        if wanted:
            known_all[:, low:high] = known
            before_all[:, low:high] = before
            carried_all[:, low:high] = carried[place[chosen]]
    met, heard = marks.contact[marks.starts[:-1]], marks.contact[order]
    return Scanned(np.flatnonzero(late), overtaken, known_all, before_all, carried_all, met, heard, place, places)


def _marks(own: LabelRows, imports: Longs, kind: ClockType, *, wanted: bool) -> tuple[Marks, Longs]:
    """Return the marks of each sender, and the mark of each import, the last for one that no sender made.

    A sender is marked at its start (1: knowing any send of it) and at every import. Marks have a last row that is never
    met.
    """
    if not wanted:
        nothing = np.zeros((0, own.width), np.int32)
        return Marks(np.zeros(0, kind), np.zeros(1, np.int64), nothing), np.zeros(0, np.int64)
    heard = np.flatnonzero(own.process[imports] < own.senders)
    at = own.process[imports[heard]]
    counts = np.bincount(at, minlength=own.senders) + 1
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    marks = np.ones(starts[-1], kind)
    order = np.argsort(at, kind="stable")
    places = np.full(len(imports), starts[-1], np.int64)
    # each sender before takes one mark more than it has imports
    places[heard[order]] = np.arange(len(heard)) + at[order] + 1
    marks[places[heard]] = own.index[imports[heard]]
    return Marks(marks, starts, np.full((len(marks) + 1, own.width), -1, np.int32)), places


@dataclass(slots=True)
class FirstKnown:
    """Where did `destination` first learn of a send of `source` at `index` or later? From row `since` on."""

    destination: Ints
    source: Ints
    index: Longs
    since: Longs


def questions_of(own: LabelRows, matched: Matched, scanned: Scanned, opened: Copies) -> tuple[FirstKnown, Ints]:
    """Return the question each violation poses, and the message that was missing in each."""
    sent = matched.send_row[own.message[scanned.late]]
    over = scanned.overtaken
    missing = np.concatenate([own.message[scanned.late], opened.message[over]])
    asked = FirstKnown(
        np.concatenate([own.process[scanned.late], opened.destination[over]]),
        np.concatenate([own.process[sent], opened.sender[over]]),
        np.concatenate([own.index[sent], opened.index[over]]),
        np.concatenate([sent, opened.send[over]]),
    )
    return asked, missing


def first_early(own: LabelRows, scanned: Scanned, asked: FirstKnown, *, block: int | None = None) -> Longs:
    """Return for each question the row that delivers the first message sent after the missing one, or -1."""
    answer = np.full(len(asked.index), -1, np.int64)
    if not len(answer):
        return answer
    place, places = scanned.place, scanned.places
    sources = np.unique(asked.source)
    queues = len(np.unique(asked.destination))
    step = block_width(own, places + QUEUE_CLOCKS * queues, block)
    kind = clock_type(own)
    for low in range(0, len(sources), step):
        columns = sources[low : low + step]
        column_of = np.full(own.width, -1, np.int32)
        column_of[columns] = np.arange(len(columns), dtype=np.int32)
        chosen = np.flatnonzero(column_of[asked.source] >= 0)
        answer[chosen] = locate(
            own.columns, place,
            np.zeros((own.width, len(columns)), kind), np.zeros((places, len(columns)), kind), column_of,
            asked.destination[chosen], column_of[asked.source[chosen]], asked.index[chosen], asked.since[chosen],
        )  # fmt: skip
    return answer

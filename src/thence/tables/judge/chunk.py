"""One chunk of one run, judged alone: its findings, and its open questions for `merge_chunks`.

Invariant. A chunk holds the rows of a run whose `order` lies in one range. Starting from an empty state it decides
exactly every copy of a message sent inside it that is delivered, or overtaken, inside it: such a message can only be
overtaken through knowledge created later in the same chunk. A delivery of a message sent earlier (an *import*) waits
for `compose`, with what its process had learnt inside the chunk before it. A message with copies still open (an
*export*) leaves with what it carries of the chunk. In-chunk clocks say by themselves which of the clocks and messages
that entered have reached them: one that knows process p at index i knows what entered p and was delivered there up to
i.

A chunk that is not in order (an index that does not increase, a send twice or after its delivery) is *trouble*: its run
has to be judged whole.

Summaries travel as pickles inside one job; they are never read from outside.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from thence.tables.contract.numpy_types import Bytes, Clocks, Flags, Ints, Longs
from thence.tables.judge import findings, ids
from thence.tables.judge.coded_rows import DELIVER, RECEIVE, SEND, CodedRun, as_they_come, code
from thence.tables.judge.findings import quarantined, tagged
from thence.tables.judge.label_scan import (
    Copies,
    LabelRows,
    Matched,
    Scanned,
    first_early,
    meet,
    open_copies,
    questions_of,
    rows_by_label,
    run_clocks,
)
from thence.tables.judge.packing import packed
from thence.tables.judge.scan import ASTRAY, IMPORTED, increasing, steps_left_out
from thence.tables.judge.usable_in_run import GOOD, NEVER_SENT, NOWHERE, ODD, SENT_TWICE, doubts, fates
from thence.tables.judge.whole_run import copies, repeats, violations

OPEN, SETTLED, DONE = range(3)
"""A copy on leaving its chunk: still to be tested, known to be overtaken, delivered."""

STATE_CELLS = 24_000_000
"""Numbers that clocks, and who heard of whom when, may take in a chunk or between chunks; beyond, the run is judged
whole, in blocks of columns. Joining takes up to 40 bytes for each.
"""

CARRIED_COLUMNS = ("process", "index", "kind", "message", "label", "order", "file", "line")


@dataclass(slots=True)
class LabelSummary:
    """The summary of one label of a chunk, for merging; processes are places in `processes`."""

    label: str | None
    processes: list[str]
    senders: int
    """How many of the processes send; they come first, and clocks have a column for each."""
    known: Clocks
    exports: list[str]
    sender: Ints
    index: Longs
    carried: Clocks
    copy_of: Ints
    copy_to: Ints
    copy_state: Bytes
    settled_early: list[str]
    settled_at: Longs
    """What was delivered instead of each copy that is SETTLED, and the index of that delivery."""
    astray_of: Ints
    astray_at: Ints
    imports: list[str]
    at: Ints
    at_index: Longs
    before: Clocks
    rows: Ints
    """For each import, its place in the chunk's `strangers`."""
    met: Ints
    heard: Ints
    place: Ints
    """Deliveries, numbered as they came: see `Scanned`, and that of each import; `len(texts)` stands for none."""
    texts: pa.StringArray
    """What was delivered at each of them."""
    text_at: Longs
    """The index of each of them."""


@dataclass(slots=True)
class Summary:
    """The summary of one chunk: the last index of each process, its labels, and the rows of messages sent elsewhere."""

    chunk: int
    processes: list[str]
    first: Longs
    last: Longs
    doubts: dict[str, int] = field(default_factory=dict)
    anywhere: bool = False
    """Where rows may be hidden inside the chunk: see `usable.doubts`."""
    labels: list[LabelSummary] = field(default_factory=list)
    strangers: bytes = b""
    receipts: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    """Places in `strangers` of receipts, which only need their message to have been sent."""
    wanted: frozenset[str] = frozenset()
    """Messages that leave though all their copies are delivered, because a later row names them."""


def summarise(
    run: str,
    chunk: int,
    table: pa.Table,
    *,
    want: Collection[str] = (),
    block: int | None = None,
    buckets: int = 1,
) -> pa.Table:
    """Return what a chunk finds by itself, the rows of its summary, and the hashes of its ids; or one of trouble."""
    table = as_they_come(table)
    rows = code(table)
    fate = fates(rows)
    fate[fate == NEVER_SENT] = GOOD
    if reason := _trouble(rows, fate):
        return tagged(findings.TROUBLE, run, 1, chunk=chunk, reason=reason)
    summary, gaps = _stand(chunk, rows, fate)
    strangers = _strangers(rows, fate)
    place = np.full(len(rows), -1, np.int32)
    place[strangers] = np.arange(len(strangers), dtype=np.int32)
    parts = [quarantined(run, table, rows, fate)]
    messages = 0
    for own in rows_by_label(rows, fate == GOOD):
        matched = meet(own)
        if reason := _label_trouble(own, matched):
            return tagged(findings.TROUBLE, run, 1, chunk=chunk, reason=reason)
        messages += int(np.count_nonzero(own.sends))
        more, left = _summarise_label(run, rows, own, matched, place, want, block)
        parts += more
        summary.labels.append(left)
        summary.wanted |= frozenset(want).intersection(left.exports)
    summary.strangers = packed(_plain(table.select(CARRIED_COLUMNS).take(pa.array(strangers))))
    summary.receipts = np.flatnonzero(rows.kind[strangers] == RECEIVE).astype(np.int32)
    parts.append(tagged(findings.RUN, run, 1, chunk=chunk, events=len(rows), messages=messages, gaps=gaps))
    parts.append(findings.payload(findings.SUMMARY, run, chunk, pickle.dumps(summary, 5)))
    sent = rows.message[(fate == GOOD) & (rows.kind == SEND)]
    hashes = ids.buckets(ids.hashes_of(rows.messages.take(pa.array(sent))), buckets)
    parts.append(tagged(findings.IDS, run, buckets, chunk=np.arange(buckets), payload=hashes))
    return pa.concat_tables(parts)


def summary_of(payloads: Iterable[bytes | pa.Buffer]) -> Summary:
    """Return the summary that stands in the payloads of its rows."""
    summary: Summary = pickle.loads(findings.whole(payloads))
    return summary


def _trouble(rows: CodedRun, fate: Bytes) -> str | None:
    order = rows.order
    if order is None or bool(np.any(order[1:] == order[:-1])):
        return "order is missing or stands twice"
    seated = fate != ODD
    if not increasing(rows.process[seated], rows.index[seated], len(rows.processes)):
        return "an index does not increase along the order"
    if bool(np.any(fate == SENT_TWICE)):
        return "a message is sent twice"
    return None


def _label_trouble(own: LabelRows, matched: Matched) -> str | None:
    if matched.disorder:
        return "a delivery comes before its send"
    reported = int(np.count_nonzero((matched.role == IMPORTED) & (own.process < own.senders)))
    if own.width * (3 * own.senders + reported) > STATE_CELLS:
        return f"{own.width} processes are too many for chunks"
    return None


def _stand(chunk: int, rows: CodedRun, fate: Bytes) -> tuple[Summary, int]:
    """Return the first and last index of each process that has rows, and the gaps between them."""
    seated = np.flatnonzero(fate != ODD)
    process, index = rows.process[seated], rows.index[seated]
    first, last = (np.zeros(len(rows.processes), np.int64) for _ in range(2))
    first[process[::-1]] = index[::-1]  # of rows of one process, the one written last stays
    last[process] = index
    here = np.flatnonzero(last > 0)
    gaps = steps_left_out(process, index, len(first)) - int(np.count_nonzero(first > 1))
    names = rows.processes.take(pa.array(here)).to_pylist()
    doubtful, anywhere = doubts(rows, fate, gaps, start=None)
    where = np.flatnonzero(doubtful < NOWHERE)
    hidden = dict(zip(rows.processes.take(pa.array(where)).to_pylist(), doubtful[where].tolist(), strict=True))
    return Summary(chunk, names, first[here], last[here], hidden, anywhere), gaps


def _strangers(rows: CodedRun, fate: Bytes) -> Longs:
    """Return the good deliveries and receipts whose message is not sent in the chunk."""
    sent = np.zeros(len(rows.messages) + 1, np.bool_)
    sent[rows.message[(fate == GOOD) & (rows.kind == SEND)]] = True
    taken = (fate == GOOD) & ((rows.kind == DELIVER) | (rows.kind == RECEIVE))
    return np.flatnonzero(taken & ~sent[rows.message])


def _summarise_label(
    run: str, rows: CodedRun, own: LabelRows, matched: Matched, place: Ints, want: Collection[str], block: int | None
) -> tuple[list[pa.Table], LabelSummary]:
    opened = open_copies(own, matched)
    exports = _exports(rows, own, matched, opened, want)
    imports = np.flatnonzero(matched.role == IMPORTED)
    scanned = run_clocks(own, matched, opened, kept=exports, imports=imports, block=block)
    asked, missing = questions_of(own, matched, scanned, opened)
    early = first_early(own, scanned, asked, block=block)
    late, settled = slice(len(scanned.late)), early[len(scanned.late) :]

    def texts(codes: Ints) -> pa.StringArray:
        return findings.names(rows.messages, own.messages[codes])

    names = findings.names(rows.processes, own.processes)
    astray = np.flatnonzero(matched.role == ASTRAY)
    parts = [
        violations(run, rows, own, asked.destination[late], missing[late], early[late], findings.VIOLATION),
        copies(findings.DUPLICATE, run, rows, own, repeats(own, matched)),
        copies(findings.MISDELIVERED, run, rows, own, astray),
    ]
    number = np.full(len(own.messages) + 1, -1, np.int32)
    number[exports] = np.arange(len(exports), dtype=np.int32)
    copy_of, copy_to, copy_state = _copies(own, matched, opened, scanned.overtaken, number)
    kept = astray[number[own.message[astray]] >= 0]
    sends = matched.send_row[exports]
    met, heard, places, deliveries = _numbered(own, scanned, imports)
    label = rows.labels[own.label].as_py() if own.label >= 0 else None
    return parts, LabelSummary(
        label=label, processes=names.to_pylist(), senders=own.senders, known=_narrow(scanned.known),
        exports=texts(exports).to_pylist(), sender=own.process[sends], index=own.index[sends],
        carried=_narrow(scanned.carried), copy_of=copy_of, copy_to=copy_to, copy_state=copy_state,
        settled_early=texts(own.message[settled]).to_pylist(), settled_at=own.index[settled],
        astray_of=number[own.message[kept]], astray_at=own.process[kept],
        imports=texts(own.message[imports]).to_pylist(), at=own.process[imports],
        at_index=own.index[imports], before=_narrow(scanned.before), rows=place[own.row[imports]],
        met=met, heard=heard, place=places, texts=texts(own.message[deliveries]),
        text_at=own.index[deliveries],
    )  # fmt: skip


def _numbered(own: LabelRows, scanned: Scanned, imports: Longs) -> tuple[Ints, Ints, Ints, Longs]:
    """Number the deliveries at which something was learnt; return `met`, `heard`, the imports, and the rows of all."""
    named = np.zeros(len(own.row) + 1, np.bool_)
    for rows in (scanned.met, scanned.heard, imports):
        named[rows] = True
    named[-1] = False  # -1: never
    number = np.cumsum(named, dtype=np.int32) - 1
    number[-1] += 1
    number = _narrow(number)
    return number[scanned.met], number[scanned.heard], number[imports], np.flatnonzero(named)


def _narrow(clocks: Clocks) -> Clocks:
    """Return clocks in the narrowest integer type that holds them."""
    return clocks.astype(np.uint16) if clocks.size and int(clocks.max()) < 1 << 16 else clocks


def _exports(rows: CodedRun, own: LabelRows, matched: Matched, opened: Copies, want: Collection[str]) -> Ints:
    """Return the messages sent here that have open copies, or that other chunks ask for, as they were sent."""
    chosen = np.zeros(len(own.messages), np.bool_)
    chosen[opened.message] = True
    if want:
        texts = findings.names(rows.messages, own.messages)
        asked = pc.is_in(texts, pa.array(sorted(want), pa.string())).to_numpy(zero_copy_only=False)
        chosen |= asked & (matched.send_row >= 0)
    exports = np.flatnonzero(chosen)
    return exports[np.argsort(matched.send_row[exports])].astype(np.int32)  # codes may come from rows in disorder


def _copies(
    own: LabelRows, matched: Matched, opened: Copies, overtaken: Flags, number: Ints
) -> tuple[Ints, Ints, Bytes]:
    """Return all copies of the exported messages: which export, to whom, and how they leave."""
    state = np.full(len(own.destinations), DONE, np.int8)
    state[matched.delivered < 0] = np.where(overtaken, SETTLED, OPEN)
    lengths = np.diff(own.offsets)
    owner = np.repeat(np.where(own.sends, number[own.message], -1), lengths)
    kept = owner >= 0
    return owner[kept].astype(np.int32), own.destinations[kept], state[kept]


def _plain(table: pa.Table) -> pa.Table:
    """Return a table without the dictionary of all the messages there are."""
    place = table.column_names.index("message")
    return table.set_column(place, "message", table.column("message").cast(pa.string()))

"""The part of a trace around one message: enough to see what happened to it, small enough to look at.

Invariant: the slice holds the send of the message, everything that arrived or was delivered of it, and the row
before and after each of these at its process. For every message that overtook it, or that it overtook, it
holds the causal path and the deliveries that show it. Where it holds a delivery it holds the send of that
message. Rows are unchanged and keep their order; what happened before what among them is as in the whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from thence.core.model.events import Event
from thence.core.model.order import by_label, by_run, usable
from thence.errors import MisuseError
from thence.tables.explain.scene import shown_by, violated
from thence.tables.judge.arrow_findings import ArrowFindings
from thence.tables.judge.normal_table import of_events
from thence.tables.judge.result import key_of, violation_of
from thence.tables.judge.stored_rows import JudgedEvents, TableRows
from thence.tables.judge.whole_run import judge_run


def around(events: Iterable[Event], message: str) -> list[Event]:
    """Return the rows around a message, from every run that sends it."""
    found: list[Event] = []
    for run, rows in by_run(events).items():
        if any(event.kind == "send" and event.message == message for event in rows):
            found += _around(run, rows, message)
    if not found:
        raise MisuseError(f"no run of the trace sends a message {message!r}")
    return found


def _around(run: str, rows: list[Event], message: str) -> list[Event]:
    parts = by_label(usable(rows)[0]).values()
    part = next((own for own in parts if any(e.kind == "send" and e.message == message for e in own)), [])
    shown = [
        *(e for e in part if e.message == message),
        *_neighbours(part, message),
        *_overtaken(run, rows, part, message),
    ]
    kept = {(event.process, event.index) for event in shown}
    sends = {event.message: (event.process, event.index) for event in part if event.kind == "send"}
    kept |= {sends[e.message] for e in part if e.kind in ("deliver", "receive") and (e.process, e.index) in kept}
    return [event for event in part if (event.process, event.index) in kept]


def _neighbours(part: Iterable[Event], message: str) -> Iterator[Event]:
    """Yield the rows before and after each send and delivery of the message, at its process."""
    processes: dict[str, list[Event]] = defaultdict(list)
    for event in part:
        if event.kind != "receive":
            processes[event.process].append(event)
    for own in processes.values():
        own.sort(key=lambda event: event.index)
        for place, event in enumerate(own):
            if event.kind in ("send", "deliver") and event.message == message:
                yield from own[max(place - 1, 0) : place + 2]


def _overtaken(run: str, rows: list[Event], part: list[Event], message: str) -> Iterator[Event]:
    """Yield the rows that show each violation in which the message was overtaken, or overtook another."""
    table = of_events(rows)
    judged = ArrowFindings(judge_run(run, table), JudgedEvents([TableRows(run, table)]))
    found = [*judged.rows("violations"), *judged.rows("possible")]
    asked = [row for row in found if message in (row["early"], row["missing"])]
    paths = judged.paths(asked)
    for row in asked:
        yield from shown_by(part, violated(violation_of(row), paths.get(key_of(row))))

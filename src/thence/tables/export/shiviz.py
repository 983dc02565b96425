"""A trace as a log that ShiViz opens: host and vector clock on one line, the event's text on the next.

Invariant: Clocks count every row of a process, and one clock is below another exactly where the one row happened
before the other. The viewer wants each host to count 1, 2, 3, ...; a slice is therefore renumbered, each
component saying how many rows *of the slice* are known, which keeps that relation.

The first line is the regular expression, the second the delimiter: where the viewer looks for them. Each run,
and each label within it, is an execution of its own.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from typing import IO

from thence.core.model.events import Event
from thence.core.model.order import RejectedRow, by_label, by_run, usable
from thence.tables.explain.causality import causal_order, vector_clocks
from thence.tables.explain.clock_findings import executions
from thence.tables.export.around import around as slice_around
from thence.tables.files.patterns import DELIMITER, EVENT
from thence.tables.files.shiviz import ClockEvent
from thence.tables.files.source import open_to_write

ShivizLine = tuple[str, dict[str, int], str]
"""Host, clock and text of one event."""


def write_shiviz(
    events: Iterable[Event],
    target: Path | str | IO[bytes],
    *,
    around: str | None = None,
    rejected: list[RejectedRow] | None = None,
) -> int:
    """Write a trace, or the part around one message; return how many events were written.

    Rows that the definition cannot use (see `thence.core.model.order.usable`) are left out and put into
    `rejected`.
    """
    runs = by_run(events)
    found: list[tuple[str, list[ShivizLine]]] = []
    kept = None
    if around is not None:
        rows = [event for own in runs.values() for event in own]
        kept = {(e.run, e.process, e.index) for e in slice_around(rows, around)}
    for run, own in runs.items():
        good, bad = usable(own)
        if rejected is not None:
            rejected += bad
        for label, part in by_label(good).items():
            lines = list(clocked(part, kept))
            if lines:
                found.append((run if label is None else f"{run}/{label}", lines))
    return _write(found, target)


def write_clock_events(events: Iterable[ClockEvent], target: Path | str | IO[bytes]) -> int:
    """Write events that a log held in any layout, in the viewer's default layout."""
    found = []
    for number, members in enumerate(executions(events), 1):
        lines = [(event.host, event.clock, event.text) for event in members]
        found.append((members[0].run or f"execution {number}", lines))
    return _write(found, target)


def clocked(events: Iterable[Event], kept: Container[tuple[str, str, int]] | None = None) -> Iterator[ShivizLine]:
    """Yield the lines of usable rows of one run and one label, or of those kept, causes first."""
    rows = causal_order(list(events))
    if kept is None:
        for event, clock in zip(rows, vector_clocks(rows), strict=True):
            yield event.process, clock, text_of(event)
        return
    some = [
        (event, clock)
        for event, clock in zip(rows, vector_clocks(rows), strict=True)
        if (event.run, event.process, event.index) in kept
    ]
    counts: dict[str, list[int]] = defaultdict(list)
    for event, clock in some:
        counts[event.process].append(clock[event.process])
    for event, clock in some:
        known = {process: bisect_right(counts.get(process, []), count) for process, count in clock.items()}
        yield event.process, {process: count for process, count in known.items() if count}, text_of(event)


def text_of(event: Event) -> str:
    """Return what a log says of an event."""
    words: list[str] = [event.kind]
    if event.message is not None:
        words.append(event.message)
    if event.kind == "send":
        words.append(f"to {', '.join(event.destinations or ()) or 'no process'}")
    return " ".join(words)


def _write(found: list[tuple[str, list[ShivizLine]]], target: Path | str | IO[bytes]) -> int:
    if isinstance(target, Path | str):
        with open_to_write(Path(target)) as stream:
            return _write(found, stream)
    several = len(found) > 1
    target.write(f"{EVENT}\n{DELIMITER if several else ''}\n".encode())
    count = 0
    for name, lines in found:
        if several:
            target.write(f"=== {_one_line(name)} ===\n".encode())
        for host, clock, text in lines:
            named = {_host(process): clock[process] for process in sorted(clock)}
            shown = json.dumps(named, ensure_ascii=False, separators=(", ", ":"))
            target.write(f"{_host(host)} {shown}\n{_one_line(text)}\n".encode())
            count += 1
    return count


def _host(name: str) -> str:
    """Return a name without white space, which ends a host for the viewer; no two names become one."""
    return "".join(f"%{ord(c):02X}" if c.isspace() or c == "%" else c for c in name)


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())

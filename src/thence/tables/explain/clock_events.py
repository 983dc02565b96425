"""Events to draw from a log that has vector clocks and no messages.

*Invariant.* An arrow leads from the log's event k of host x to the first event of another host whose clock says so and
cannot have learned it by way of a third event. Such an event is drawn as a send, what it leads to as a delivery; the
message bears the text of the log. The rest are internal events. Nothing is drawn of a cause that the log does not hold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from thence.core.model.events import Event
from thence.tables.explain.clock_findings import audit_clocks, executions
from thence.tables.explain.scene import Finding, Origin, RowId
from thence.tables.files.shiviz import ClockEvent

Count = tuple[str, int]
"""An event of a log: its host, and the host's own component."""


@dataclass(slots=True)
class DrawnLog:
    """Events of a log as a page draws them, with what the audit of its clocks found."""

    events: list[Event] = field(default_factory=list)
    findings: list[tuple[str, Finding]] = field(default_factory=list)
    """Each with its run."""
    verdicts: dict[str, str] = field(default_factory=dict)
    origins: dict[str, dict[RowId, Origin]] = field(default_factory=dict)


def drawn_log(log: Iterable[ClockEvent]) -> DrawnLog:
    """Return what a page draws of a log, each execution as a run."""
    made = DrawnLog()
    for members in executions(log):
        name = members[0].run or members[0].file
        run = name if name not in made.verdicts else f"{members[0].file}: {name}"
        found = audit_clocks(members)
        made.verdicts[run] = found.verdict
        origins: dict[RowId, Origin] = {}
        made.events += _rows(run, members, origins)
        made.origins[run] = origins
        at = {origin: row for row, origin in origins.items()}
        for each in found.findings:
            row = at.get((each.file, each.line))
            made.findings.append((run, Finding("failure", str(each), rows=() if row is None else (row,))))
    return made


def _rows(run: str, members: Sequence[ClockEvent], origins: dict[RowId, Origin]) -> list[Event]:
    """Return the rows of one execution, and note where each was read."""
    hosts: dict[str, list[ClockEvent]] = defaultdict(list)
    for event in members:
        hosts[event.host].append(event)
    for own in hosts.values():
        own.sort(key=lambda event: event.own)
    at: dict[Count, ClockEvent] = {(event.host, event.own): event for own in hosts.values() for event in own}
    causes = {id(event): found for own in hosts.values() for event, found in _causes(own, at)}
    effects: dict[Count, list[str]] = defaultdict(list)
    for event in members:
        for cause in causes[id(event)]:
            effects[cause].append(event.host)
    made: list[Event] = []
    for host, own in hosts.items():
        index = 0
        for event in own:
            first = index + 1
            for cause in causes[id(event)]:
                index += 1
                made.append(Event(run, host, index, "deliver", _message(at[cause])))
            if to := effects.get((host, event.own)):
                index += 1
                made.append(Event(run, host, index, "send", _message(event), tuple(dict.fromkeys(to))))
            elif index < first:
                index += 1
                made.append(Event(run, host, index, "internal", _message(event)))
            origins.update({(host, number): (event.file, event.line) for number in range(first, index + 1)})
    return made


def _causes(own: Sequence[ClockEvent], at: dict[Count, ClockEvent]) -> Iterable[tuple[ClockEvent, list[Count]]]:
    """Yield each event of a host with the events of others that it directly learned of, sorted."""
    known: dict[str, int] = {}
    for event in own:
        new = [
            (host, count) for host, count in event.clock.items() if host != event.host and count > known.get(host, 0)
        ]
        there = [cause for cause in new if cause in at]
        direct = [
            (host, count)
            for host, count in there
            if not any(at[other].clock.get(host, 0) >= count for other in there if other[0] != host)
        ]
        yield event, sorted(direct)
        known = event.clock


def _message(event: ClockEvent) -> str:
    return f"{event.text or 'event'} ({event.host}:{event.own})"

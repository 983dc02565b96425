"""A list of arrivals as a trace, to audit, show or assert that no effect was logged before its cause."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from thence.core.model.events import Event, EventKind
from thence.tables.delivery import Orderer
from thence.tables.sources.arrival import Arrival

OBSERVER = "log"


def observed(arrivals: Iterable[Arrival], *, observer: str = OBSERVER) -> list[Event]:
    """Return the trace of a log that got these arrivals in the order of the list.

    Each sender gets the causes that a message of it names, then sends the message to the log. The log delivers the
    messages as they are listed. So the trace is violated exactly where the list has an effect before its cause, and
    `thence.audit`, `thence.show` and `thence.testing.assert_causal` say which. Arrivals without an id are left out. A
    cause that is not in the list is ignored.

    Args:
        arrivals: rows of an adapter of `thence.sources`, in the order in which the log got them.
        observer: the name of the log in the trace.
    """
    rows = [row for row in arrivals if row["message"] is not None]
    there = {(row["destination"], row["message"]) for row in rows}
    wanted: dict[tuple[str | None, str | None], dict[str, None]] = {}
    for row in rows:
        for cause in row["depends_on"]:
            wanted.setdefault((row["destination"], cause), {})[_sender(row)] = None
    trace = _Trace()
    known = [
        {**row, "depends_on": [cause for cause in row["depends_on"] if (row["destination"], cause) in there]}
        for row in rows
    ]
    for found in Orderer("depends_on", key=["destination"]).deliver(known):
        if found["outcome"] == "delivered":
            run, message, sender = str(found["destination"]), str(found["message"]), _sender(found)
            for cause in found["depends_on"]:
                trace.deliver(run, sender, cause)
            others = [each for each in wanted.get((run, message), {}) if each != sender]
            trace.add(run, sender, "send", message, (observer, *others))
            trace.seen.add((run, sender, message))
    for row in rows:
        trace.add(str(row["destination"]), observer, "deliver", str(row["message"]))
    return trace.events


def _sender(row: Mapping[str, Any]) -> str:
    return str(row["sender"] or row["message"])


class _Trace:
    """Events with their places."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.seen: set[tuple[str, str, str]] = set()
        self._indexes: dict[tuple[str, str], int] = {}

    def deliver(self, run: str, process: str, message: str) -> None:
        """Record that a process gets a message, once."""
        if (run, process, message) not in self.seen:
            self.seen.add((run, process, message))
            self.add(run, process, "deliver", message)

    def add(
        self, run: str, process: str, kind: EventKind, message: str, destinations: tuple[str, ...] | None = None
    ) -> None:
        index = self._indexes[run, process] = self._indexes.get((run, process), 0) + 1
        order = len(self.events) + 1
        self.events.append(Event(run, process, index, kind, message, destinations, order=order))

"""Executions of `ks` in the terms of KSTrace.tla, and the verdict of TLC in words.

*Invariant.* Nothing is taken from names: the count of a message is its place among the sends of its process under its
label, and rows are put in an order in which causes come first by `index` and by sends before arrivals. The recorded
`order` only chooses among such orders. Where a delivery has no row of its arrival, one is put before it: `receive` rows
are optional.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from thence.core.model.events import Event
from thence.core.model.plain import Row
from thence.errors import TraceError
from thence.lab.formal.tlc import Model
from thence.lab.formal.values import TlaValue, Written, value_text

MessageNumber = tuple[int, int]
"""sender (from 1) and count"""


@dataclass(frozen=True)
class Conformance:
    """The verdict on one run under one label."""

    run: str
    label: str | None
    rows: int
    messages: int
    event: Event | None
    """the first event that cannot happen; None if all can"""
    sentence: str

    @property
    def conforms(self) -> bool:
        """Whether every row is a step of the specification."""
        return self.event is None

    def row(self) -> Row:
        """Return it as plain data."""
        event = self.event
        at = event and {"process": event.process, "index": event.index, "kind": event.kind, "message": event.message}
        return {
            "run": self.run, "label": self.label, "rows": self.rows, "messages": self.messages,
            "conforms": self.conforms, "event": at, "sentence": self.sentence,
        }  # fmt: skip


def model_of(traces: Sequence[Translation]) -> Model:
    """Return the model that TLC runs."""
    rows = ",\n".join(trace.text() for trace in traces)
    constants = {
        "Proc": value_text(frozenset(range(1, max(len(trace.names) for trace in traces) + 1))),
        "Fanout": value_text("unicast"),  # of no use here; all subsets of many processes would be too many
        "ToSelf": "TRUE",
        "MaxMessages": "0",
    }
    return Model("KSTrace", constants, "TSpec", view="TView", definitions={"Traces": f"<<\n{rows}\n>>"})


class Translation:
    """One run under one label, in the terms of KSTrace.tla."""

    specification = "KS"

    def __init__(self, events: Sequence[Event], run: str, label: str | None, more: Iterable[str] = ()) -> None:
        """Take usable rows, and the names of further processes."""
        self.events, self.run, self.label = events, run, label
        named = {event.process for event in events} | {d for event in events for d in event.destinations or ()}
        named |= set(more)
        self.names = sorted(named)
        self.places = {name: place for place, name in enumerate(self.names, 1)}
        self.ordered = causes_first(events)
        self.counts: dict[str, MessageNumber] = {}
        self.to: dict[str, tuple[str, ...]] = {}
        sends: dict[str, int] = {}
        for event in self.ordered:
            if event.kind == "send":
                sends[event.process] = sends.get(event.process, 0) + 1
                self.counts[event.message or ""] = (self.places[event.process], sends[event.process])
                self.to[event.message or ""] = event.destinations or ()
        self.called = {message: name for name, message in self.counts.items()}
        self.rows = list(_with_arrivals(self.ordered))

    @property
    def stamped(self) -> bool:
        """Whether the trace records stamps, where it has deliveries."""
        arrived = [event for event in self.events if event.kind in ("receive", "deliver")]
        return not arrived or any(e.dependencies is not None or _sized(e) for e in arrived)

    def text(self) -> str:
        """Return the rows as a tuple of TLA+."""
        return "<<\n" + ",\n".join(value_text(self._row(event)) for event in _without_repeats(self.rows)) + "\n>>"

    def verdict(self, answer: TlaValue) -> Conformance:
        """Return what the specification says of this trace."""
        rows, messages = len(self.events), len(self.counts)
        if answer[0] == "conforms":
            return Conformance(
                self.run, self.label, rows, messages, None, f"{rows} rows are a behaviour of {self.specification}"
            )
        event = self.rows[answer[2] - 1]
        return Conformance(self.run, self.label, rows, messages, event, self.sentence(event, answer[3]))

    def _row(self, event: Event) -> dict[str, TlaValue]:
        sender, count = self.counts.get(event.message or "", (1, 0))
        stamp: tuple[TlaValue, ...] = ()
        if event.dependencies is not None:
            stamp = (self._stamp(event.dependencies),)
        return {
            "kind": event.kind,
            "p": self.places[event.process],
            "s": sender,
            "t": count,
            "Dests": self._set(self.to.get(event.message or "", ())),
            "stamp": stamp,
            "size": (event.entries, event.facts) if _sized(event) else (),
        }

    def _set(self, names: Iterable[str]) -> frozenset[int]:
        return frozenset(self.places.get(name, 0) for name in names)

    def _stamp(self, dependencies: Iterable[tuple[str, tuple[str, ...]]]) -> TlaValue:
        entries = []
        for name, destinations in dependencies:
            sender, count = self.counts.get(name, (0, 0))
            entries.append(value_text({"s": sender, "t": count, "Dests": self._set(destinations)}))
        return Written("{" + ", ".join(entries) + "}")

    # -- the verdict in words ----------------------------------------------------------------------------------------

    def sentence(self, event: Event, why: TlaValue) -> str:
        """Explain why a row is not a step of KS."""
        at, message = where(event), event.message or ""
        reason = why[0]
        if reason == "due":
            due = self._named(why[1])
            return f"{at} cannot happen: {event.process} first delivers {due}, whose causes are all there"
        if reason == "again":
            return f"{at} cannot happen: {event.process} has delivered it, or a later one of its sender, before"
        if reason == "nowhere":
            known = ", ".join(self.to.get(message, ())) or "no process"
            return f"{at} cannot happen: no copy of it is on its way there; {message} was sent to {known}"
        if reason == "early":
            return f"{at} cannot happen yet: it must wait for {self._named(why[1])}"
        if reason == "size":
            entries, facts = why[1]
            return (
                f"{at} cannot happen: its stamp has {event.entries} entries and {event.facts} facts; "
                f"by the specification it has {entries} and {facts}"
            )
        return f"{at} cannot happen: its stamp {self._difference(event, why[1])}"

    def _named(self, messages: Iterable[MessageNumber]) -> str:
        return ", ".join(self.called[message] for message in sorted(messages))

    def _difference(self, event: Event, expected: Iterable[Mapping[str, TlaValue]]) -> str:
        """Describe how the recorded stamp differs from that of the specification."""
        recorded = {name: frozenset(to) for name, to in event.dependencies or ()}
        right = {
            self.called[entry["s"], entry["t"]]: frozenset(self.names[d - 1] for d in entry["Dests"])
            for entry in expected
        }
        for name in sorted(right.keys() | recorded.keys()):
            if right.get(name) != recorded.get(name):
                return f"{_entry(name, recorded.get(name))}; by the specification it {_entry(name, right.get(name))}"
        return "names an entry twice"


def _sized(event: Event) -> bool:
    return event.entries is not None and event.facts is not None


def _entry(name: str, destinations: frozenset[str] | None) -> str:
    if destinations is None:
        return f"has no entry for {name}"
    return f"says that {name} may be on its way to {', '.join(sorted(destinations)) or 'no process'}"


def where(event: Event) -> str:
    """Return which row an event is, in words."""
    verb = {"send": "sends", "receive": "receives", "deliver": "delivers"}.get(event.kind, "records")
    return f"row {event.index} of {event.process} ({event.process} {verb} {event.message or event.kind})"


def causes_first(events: Sequence[Event]) -> list[Event]:
    """Return the rows with causes first and each arrival after its send; the recorded order breaks ties."""
    send = {event.message: place for place, event in enumerate(events) if event.kind == "send"}
    rank = [event.order if event.order is not None else place for place, event in enumerate(events)]
    effects: list[list[int]] = [[] for _ in events]
    missing = [0] * len(events)
    last: dict[str, int] = {}
    for place in sorted(range(len(events)), key=lambda place: events[place].index):
        event = events[place]
        causes = [last[event.process]] if event.process in last else []
        if event.kind in ("receive", "deliver"):
            causes.append(send[event.message])
        for cause in causes:
            effects[cause].append(place)
        missing[place] = len(causes)
        last[event.process] = place
    ready = [(rank[place], place) for place, count in enumerate(missing) if count == 0]
    heapify(ready)
    ordered = []
    while ready:
        _, place = heappop(ready)
        ordered.append(events[place])
        for effect in effects[place]:
            missing[effect] -= 1
            if missing[effect] == 0:
                heappush(ready, (rank[effect], effect))
    if len(ordered) < len(events):
        raise TraceError("a message arrives before it is sent: no order of the rows has causes first")
    return ordered


def _without_repeats(events: Iterable[Event]) -> Iterator[Event]:
    """Yield the rows; a delivery whose stamp was compared when it arrived does not repeat it."""
    arrived: dict[tuple[str, str | None], Event] = {}
    for event in events:
        if event.kind == "receive":
            arrived.setdefault((event.process, event.message), event)
        elif event.kind == "deliver" and (before := arrived.get((event.process, event.message))) is not None:
            compared = ("dependencies", "entries", "facts")
            if all(getattr(event, name) == getattr(before, name) for name in compared):
                yield replace(event, dependencies=None, entries=None, facts=None)
                continue
        yield event


def _with_arrivals(events: Iterable[Event]) -> Iterable[Event]:
    arrived: set[tuple[str, str | None]] = set()
    for event in events:
        key = (event.process, event.message)
        if event.kind == "deliver" and key not in arrived:
            yield replace(event, kind="receive")
        if event.kind in ("receive", "deliver"):
            arrived.add(key)
        yield event

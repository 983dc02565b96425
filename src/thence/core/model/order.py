"""Happened-before and causal order by definition: slow, obvious, the reference for all other code.

Invariant (Lamport; KS98 definitions 1 and 2). Within one run and one label:

1. rows of one process happened in order of `index`; the send of a message happened before each of its deliveries; and
   the relation is transitive. `receive` rows carry no causality.
2. if d is a destination of m and of m', and the send of m happened before the send of m', then d delivers m before m'.
3. a violation is provable. That d never delivered m is not proved where d may have a row, at or before the delivery of
   m', that is not among the usable ones: its `index` leaves something out, or a row of it was set aside. A row that was
   set aside and has no readable index may lie anywhere in its process, without a readable process anywhere in the run.
   What is not proved is *possible*.

Every result here is computed from those sentences with sets of events, without clocks. Rows that cannot be used are
set aside with a reason, never dropped silently.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from thence.core.model.events import Event
from thence.core.model.verdict import Verdict, verdict_of

Guarantee = Literal["causal", "two-hop", "fifo", "none"]


@dataclass(frozen=True, slots=True)
class Violation:
    """At `destination`, `early` was delivered before (or without) `missing`, which was sent causally before it."""

    run: str
    destination: str
    early: str
    missing: str


@dataclass(frozen=True, slots=True)
class Copied:
    """A message and one process: a delivery that is missing, doubled or misplaced."""

    run: str
    message: str
    destination: str


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """A row that cannot be used, and why."""

    event: Event
    reason: str


@dataclass(slots=True)
class Judgement:
    """The verdict and findings of one run, by definition."""

    run: str
    events: int = 0
    messages: int = 0
    gaps: list[tuple[str, int]] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    possible: list[Violation] = field(default_factory=list)
    """Violations unless the missing message was delivered by a row that is missing or was set aside."""
    undelivered: list[Copied] = field(default_factory=list)
    duplicates: list[Copied] = field(default_factory=list)
    misdelivered: list[Copied] = field(default_factory=list)
    quarantine: list[RejectedRow] = field(default_factory=list)
    refused: int = 0
    """Rows that are not events."""

    @property
    def verdict(self) -> Verdict:
        """Violated if anything came too early; unknown if a row set aside or a gap could hide that; else causal."""
        return verdict_of(len(self.violations), len(self.possible), len(self.quarantine) + self.refused, len(self.gaps))


def direct_causes(events: Sequence[Event]) -> list[list[int]]:
    """Return for each row the places of those that precede it by one step: the edges of happened-before.

    They are the previous row of its process and, if it is a delivery, the send of its message. No row is a receipt.
    """
    send = {event.message: place for place, event in enumerate(events) if event.kind == "send"}
    rows: dict[str, list[int]] = defaultdict(list)
    for place, event in enumerate(events):
        rows[event.process].append(place)
    causes: list[list[int]] = [[] for _ in events]
    for places in rows.values():
        places.sort(key=lambda place: events[place].index)
        for earlier, later in pairwise(places):
            causes[later].append(earlier)
    for place, event in enumerate(events):
        if event.kind == "deliver":
            causes[place].append(send[event.message])
    return causes


def causes_first(causes: Sequence[Sequence[int]]) -> list[int]:
    """Return the rows in an order in which causes come first; those on a cycle, or after one, are left out."""
    effects: list[list[int]] = [[] for _ in causes]
    for place, before in enumerate(causes):
        for cause in before:
            effects[cause].append(place)
    missing = [len(before) for before in causes]
    order = [place for place, count in enumerate(missing) if count == 0]
    for place in order:
        for effect in effects[place]:
            missing[effect] -= 1
            if missing[effect] == 0:
                order.append(effect)
    return order


class Execution:
    """One run under one label: its usable rows, and happened-before as a set of earlier rows for each."""

    def __init__(self, events: Sequence[Event]) -> None:
        """Take rows of one run and one label whose every delivery has its send; see `usable`."""
        self.events = [event for event in events if event.kind != "receive"]
        self.rows: dict[str, list[int]] = defaultdict(list)
        self.send: dict[str, int] = {}
        self.deliveries: dict[str, list[int]] = defaultdict(list)
        for place, event in enumerate(self.events):
            self.rows[event.process].append(place)
            if event.kind == "send" and event.message is not None:
                self.send[event.message] = place
        for places in self.rows.values():
            places.sort(key=lambda place: self.events[place].index)
        for process, places in self.rows.items():
            self.deliveries[process] = [place for place in places if self.events[place].kind == "deliver"]
        self.causes = direct_causes(self.events)
        self.past = self._closure()
        self._delivered = {
            process: list(dict.fromkeys(self.events[place].message or "" for place in places))
            for process, places in self.deliveries.items()
        }

    def _closure(self) -> list[int]:
        past = [0] * len(self.events)
        for place in causes_first(self.causes):
            past[place] = 1 << place
            for cause in self.causes[place]:
                past[place] |= past[cause]
        return past

    def before(self, first: int, second: int) -> bool:
        """Return whether row `first` happened before row `second`."""
        return first != second and bool(self.past[second] >> first & 1)

    def precedes(self, first: str, second: str) -> bool:
        """Return whether message `first` was sent causally before message `second`."""
        return self.before(self.send[first], self.send[second])

    def precedes_fifo(self, first: str, second: str) -> bool:
        """Return whether both come from one process, `first` sent earlier."""
        return self._sender(first) == self._sender(second) and self.precedes(first, second)

    def precedes_two_hop(self, first: str, second: str) -> bool:
        """Return whether a chain of at most two messages leads from `first` to `second` (KS98 section 7.1).

        Either one process sent both, or the sender of `second` had delivered `first` itself, or a later message of the
        sender of `first`, before it sent `second`.
        """
        if self.precedes_fifo(first, second):
            return True
        here = self.send[second]
        origin = self._sender(first)
        for place in self.deliveries[self.events[here].process]:
            if not self.before(place, here):
                continue
            through = self.events[place].message
            assert through is not None
            if self._sender(through) == origin and (through == first or self.precedes(first, through)):
                return True
        return False

    def _sender(self, message: str) -> str:
        return self.events[self.send[message]].process

    def relation(self, guarantee: Guarantee) -> Callable[[str, str], bool]:
        """Return the order among messages that a guarantee promises to keep."""
        table: dict[str, Callable[[str, str], bool]] = {
            "causal": self.precedes,
            "fifo": self.precedes_fifo,
            "two-hop": self.precedes_two_hop,
            "none": lambda first, second: False,
        }
        return table[guarantee]

    def delivered(self, process: str) -> list[str]:
        """Return the messages delivered at a process in order, repeats left out."""
        return self._delivered.get(process, [])

    def proved(self, violation: Violation, doubts: Mapping[str, int]) -> bool:
        """Return whether a violation rests on usable rows alone; `doubts` are those of the run."""
        here = violation.destination
        if violation.missing in self.delivered(here):
            return True
        rows = (self.events[place] for place in self.deliveries[here])
        early = next(row.index for row in rows if row.message == violation.early)
        return doubts.get(here, early + 1) > early

    def violations(self, guarantee: Guarantee = "causal") -> list[Violation]:
        """Return one violation for each (destination, missing message): the first delivered successor of it."""
        precedes = self.relation(guarantee)
        found = []
        for missing, place in self.send.items():
            for destination in self.events[place].destinations or ():
                for early in self.delivered(destination):
                    if early == missing:
                        break
                    if precedes(missing, early):
                        found.append(Violation(self.events[place].run, destination, early, missing))
                        break
        return found

    def undelivered(self) -> list[Copied]:
        """Return each destination that never delivered a message addressed to it."""
        return [
            Copied(event.run, message, destination)
            for message, event in ((m, self.events[place]) for m, place in self.send.items())
            for destination in event.destinations or ()
            if message not in self.delivered(destination)
        ]

    def duplicates(self) -> list[Copied]:
        """Return each delivery after the first of one message at one process."""
        found = []
        for process, places in self.deliveries.items():
            seen: set[str] = set()
            for event in (self.events[place] for place in places):
                assert event.message is not None
                if event.message in seen:
                    found.append(Copied(event.run, event.message, process))
                seen.add(event.message)
        return found

    def misdelivered(self) -> list[Copied]:
        """Return each delivery of a message at a process it was not addressed to."""
        return [
            Copied(event.run, event.message or "", process)
            for process, places in self.deliveries.items()
            for event in (self.events[place] for place in places)
            if process not in (self.events[self.send[event.message or ""]].destinations or ())
        ]


def usable(events: Iterable[Event]) -> tuple[list[Event], list[RejectedRow]]:
    """Separate the rows of one run that the definition covers from those that it does not.

    Set aside, in this order: a second row with the same process and index; a row without its message or destinations; a
    second send of one message; a delivery or receipt of a message never sent, or under another label than its send; and
    deliveries on a cycle, which no execution has.
    """
    kept: list[Event] = []
    rejected: list[RejectedRow] = []
    places: set[tuple[str, int]] = set()
    sends: dict[str | None, Event] = {}
    for event in events:
        reason = _fault(event, places, sends)
        places.add((event.process, event.index))
        if reason is not None:
            rejected.append(RejectedRow(event, reason))
            continue
        kept.append(event)
        if event.kind == "send":
            sends[event.message] = event
    good: list[Event] = []
    for event in kept:
        reason = _without_send(event, sends) if event.kind in ("deliver", "receive") else None
        if reason is not None:
            rejected.append(RejectedRow(event, reason))
        else:
            good.append(event)
    for label, rows in by_label(good).items():
        looping = _on_cycles(rows)
        rejected.extend(RejectedRow(event, "it happened before its own cause (cycle)") for event in looping)
        gone = set(map(id, looping))
        good = [event for event in good if event.label != label or id(event) not in gone]
    return good, rejected


def _fault(event: Event, places: set[tuple[str, int]], sends: Mapping[str | None, Event]) -> str | None:
    """Describe the error in a row, given the places and the sends of the rows before it."""
    if (event.process, event.index) in places:
        return f"index {event.index} of process {event.process} stands twice"
    if event.kind in ("send", "deliver", "receive") and not event.message:
        return f"a {event.kind} row needs a message"
    if event.kind == "send" and event.destinations is None:
        return "a send row needs destinations"
    if event.kind == "send" and event.message in sends:
        return f"message {event.message} is sent twice"
    return None


def _without_send(event: Event, sends: Mapping[str | None, Event]) -> str | None:
    """Describe the error in a delivery or receipt, given all sends."""
    sent = sends.get(event.message)
    if sent is None:
        return f"message {event.message} was never sent"
    if sent.label != event.label:
        return f"message {event.message} was sent under label {sent.label}, not {event.label}"
    return None


def by_run(events: Iterable[Event]) -> dict[str, list[Event]]:
    """Group rows by run, in the order in which the runs appear."""
    runs: dict[str, list[Event]] = {}
    for event in events:
        runs.setdefault(event.run, []).append(event)
    return runs


def by_label(events: Iterable[Event]) -> dict[str | None, list[Event]]:
    """Group rows by label; a crash belongs to every label there is."""
    events = list(events)
    labels: dict[str | None, list[Event]] = {event.label: [] for event in events if event.kind != "crash"}
    if not labels:
        labels = {None: []}
    for event in events:
        for label in labels if event.kind == "crash" else (event.label,):
            labels[label].append(event)
    return labels


def _on_cycles(events: list[Event]) -> list[Event]:
    """Return the deliveries that happened before their own send, those of one message together."""
    rows = [event for event in events if event.kind != "receive"]
    causes = direct_causes(rows)
    if len(causes_first(causes)) == len(rows):
        return []
    deliveries: dict[str | None, list[int]] = defaultdict(list)
    for place, event in enumerate(rows):
        if event.kind == "deliver":
            deliveries[event.message].append(place)
    found: list[Event] = []
    for places in deliveries.values():
        past = _past_of(causes[places[0]][-1], causes)
        found += [rows[place] for place in places if place in past]
    return found


def _past_of(place: int, causes: Sequence[Sequence[int]]) -> set[int]:
    """Return all rows from which one can be reached, and itself."""
    past, stack = {place}, [place]
    while stack:
        new = [cause for cause in causes[stack.pop()] if cause not in past]
        past.update(new)
        stack += new
    return past


def gaps(events: Iterable[Event]) -> list[tuple[str, int]]:
    """Return each (process, index) after a gap in the indexes of a process, which count from 1."""
    indexes: dict[str, set[int]] = defaultdict(set)
    for event in events:
        indexes[event.process].add(event.index)
    found: list[tuple[str, int]] = []
    for process, seen in sorted(indexes.items()):
        found.extend((process, index) for index in sorted(seen) if index > 1 and index - 1 not in seen)
    return found


def doubts(
    events: Iterable[Event], rejected: Iterable[RejectedRow], refused: Iterable[RowPlace] = ()
) -> dict[str, int]:
    """Return for each process the first index at which it may have a row that is not among the usable ones."""
    events = list(events)
    places: list[RowPlace] = [(process, index - 1) for process, index in gaps(events)]
    places += [(each.event.process, each.event.index) for each in rejected]
    places += refused
    first: dict[str, int] = {}
    for process, index in places:
        anywhere = not process
        for each in {event.process for event in events} if anywhere else {str(process)}:
            at = 0 if anywhere or index is None or index < 1 else index
            first[each] = min(at, first.get(each, at))
    return first


RowPlace = tuple[str | None, int | None]
"""Process and index of a row, as far as they can be read."""


def judge(events: Iterable[Event], guarantee: Guarantee = "causal", refused: Iterable[RowPlace] = ()) -> Judgement:
    """Judge the rows of one run, all labels, against a guarantee; `refused`: places of rows that are not events."""
    rows, refused = list(events), list(refused)
    good, rejected = usable(rows)
    run = rows[0].run if rows else "run"
    result = Judgement(run, events=len(rows), gaps=gaps(rows), quarantine=rejected, refused=len(refused))
    doubtful = doubts(rows, rejected, refused)
    for part in by_label(good).values():
        execution = Execution(part)
        result.messages += len(execution.send)
        for violation in execution.violations(guarantee):
            (result.violations if execution.proved(violation, doubtful) else result.possible).append(violation)
        result.undelivered += execution.undelivered()
        result.duplicates += execution.duplicates()
        result.misdelivered += execution.misdelivered()
    return result

"""Replay a recorded run through the members of a protocol, and count what its stamps, logs and waiting would cost.

Invariant: rows of one run and one label come in an order in which causes come first. A `send` row is a send of the
member at that process. A copy arrives at its `receive` row if every delivery of the run has one (the basis is
*arrivals*), else at its `deliver` row (the basis is *deliveries*); what a member sends by itself (requests, relays,
acknowledgements) arrives at once. On a causal run with the basis deliveries, a protocol that waits for causes only
never holds a copy.

- A copy is *held* if it is not delivered at its arrival: for want of other messages, or because the protocol let it
  leave its sender only later. How long: in rows of its destination, and in seconds where every row has a time.
- A message is *deferred* if no copy of it leaves at its `send` row; counted in rows of its sender, and in seconds.
- What is still held or deferred at the end is *stuck*: forever if the run was over, for a while if it was cut
  there. What the trace never received is not.
- The first half of a run is warm-up, in which stamps fill. A run with fewer than `ENOUGH` messages or deliveries is
  *short*: stamps start empty in each, and it is over before they are warm.

Departures from what would really happen: processes send when they did, whatever the protocol holds back there, and
a copy that leaves late still arrives when it did, if it has left by then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Literal

from thence.core.model.events import Event
from thence.core.model.message import MESSAGE, Copy, Stamp
from thence.core.model.plain import Fields, Row
from thence.core.model.roster import Roster
from thence.core.protocols.effects import Deliver, Effect, Hold, Sent, Transmit
from thence.core.protocols.registry import create, lookup
from thence.errors import MisuseError, PeerError
from thence.tables.costing.separators import separators_option, traffic_graph

LOOK = 16
ENOUGH = 100
"""messages, and deliveries, of a run and label below which it is short"""
THIRD, LAST = 2, 3
CopyKey = tuple[str, int]
"""a message and the position of one destination"""
RowsSoFar = tuple[int, float | None]
"""rows of a process so far, and the time"""


@dataclass(slots=True)
class Cost:
    """Totals of one replay; means are quotients of totals, so runs can be added up."""

    protocol: str
    status: Literal["measured", "refused", "failed"] = "measured"
    reason: str | None = None
    """why it was refused or failed, or the first thing that is stuck"""
    runs: int = 0
    """runs and labels; stamps start empty in each"""
    messages: int = 0
    short_messages: int = 0
    """those of runs and labels that are short"""
    copies: int = 0
    entries: int = 0
    facts: int | None = 0
    """None where stamps have none"""
    bytes: int = 0
    paper_bytes: int = 0
    bytes_max: int = 0
    hops: int = 0
    """protocol messages and relays"""
    hop_bytes: int = 0
    log: int = 0
    """size of the dependency log of the sender, summed over messages"""
    log_max: int = 0
    """the largest log of any process: after each send, at every `LOOK`-th delivery, and at the end"""
    warm_messages: int = 0
    """messages of the second half of the run"""
    third_copies: int = 0
    """copies of the third quarter"""
    third_bytes: int = 0
    """of their stamps and of the protocol messages that they caused"""
    third_entries: int = 0
    last_copies: int = 0
    last_bytes: int = 0
    last_entries: int = 0
    deliveries: int = 0
    held: int = 0
    held_rows: int = 0
    held_seconds: float | None = 0.0
    deferred: int = 0
    deferred_rows: int = 0
    deferred_seconds: float | None = 0.0
    stuck: int = 0

    @classmethod
    def none(cls, protocol: str, status: Literal["refused", "failed"], reason: str) -> Cost:
        """Return the row of a protocol that could not be measured."""
        return cls(protocol, status, reason, facts=None, held_seconds=None, deferred_seconds=None)

    def row(self) -> Row:
        """Return it as plain data."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def replay_run(rows: Sequence[Event], protocol: str, roster: Roster, *, options: Fields | None = None) -> Cost:
    """Replay usable rows of one run and one label, causes first; a protocol that refuses them says why.

    A protocol that needs a topology and gets no separators is given those of the traffic itself.
    """
    options = dict(options or {})
    if "topology" in lookup(protocol).needs and "separators" in lookup(protocol).protocol.options:
        options.setdefault("separators", separators_option(traffic_graph(rows, roster)))
    label = next((event.label for event in rows if event.kind != "crash"), None)
    try:
        run = _Replay(protocol, roster, label, has_arrivals(rows), options)
        run.asked = sum(event.kind == "send" and bool(event.destinations) for event in rows)
        for event in rows:
            run.step(event)
    except (MisuseError, PeerError) as error:
        return Cost.none(protocol, "refused", str(error))
    return run.finish()


def has_arrivals(rows: Iterable[Event]) -> bool:
    """Return whether there are deliveries, and each has a `receive` row of its copy before it."""
    received: set[tuple[str | None, str]] = set()
    any_delivery = False
    for event in rows:
        if event.kind == "receive":
            received.add((event.message, event.process))
        elif event.kind == "deliver":
            any_delivery = True
            if (event.message, event.process) not in received:
                return False
    return any_delivery


def prefix(rows: Sequence[Event], deliveries: int) -> tuple[list[Event], bool]:
    """Return the rows up to the last allowed delivery, and whether any were left out.

    Rows in an order in which causes come first have only causally closed prefixes.
    """
    seen = 0
    for place, event in enumerate(rows):
        if event.kind == "deliver":
            seen += 1
            if seen > deliveries:
                return list(rows[:place]), True
    return list(rows), False


class _Replay:
    def __init__(self, protocol: str, roster: Roster, label: str | None, arrivals: bool, options: Row) -> None:
        entry = lookup(protocol)
        self.roster, self.label = roster, label
        self.members = [create(protocol, roster, place, label=label, **options) for place in range(len(roster))]
        self.cost = Cost(protocol, runs=1)
        self.arrival = "receive" if arrivals else "deliver"
        self.serialized = "serialized sends" in entry.needs
        self.token: object = None
        self.rows, self.time, self.timed = [0] * len(roster), 0.0, True
        self.names: dict[tuple[int, int], str] = {}
        self.addressed: dict[str, int] = {}
        self.asked = 0
        """messages of the whole run"""
        self.quarter: dict[str, int] = {}
        """of the run, from 0, in which a message was sent"""
        self.tickets: dict[tuple[int, int], str] = {}
        self.leaving: dict[str, tuple[int, RowsSoFar]] = {}
        """messages of which no copy has left, with their senders"""
        self.under_way: dict[CopyKey, list[Copy]] = {}
        self.arrived: dict[CopyKey, RowsSoFar] = {}
        """not delivered yet"""
        self.known: set[CopyKey] = set()
        """a copy of it has left; more of them are relays"""
        self.held: set[CopyKey] = set()
        self.done: set[CopyKey] = set()
        self.now: deque[Copy] = deque()
        """copies that arrive now"""
        self._sized: tuple[Stamp, int, int, int | None, int] | None = None
        if "failure detector" in entry.needs:
            for place, member in enumerate(self.members):
                self._apply(place, member.trusted(roster.names))

    def step(self, event: Event) -> None:
        here = self.roster.position(event.process)
        self.rows[here] += 1
        if event.time is None:
            self.timed = False
        else:
            self.time = event.time
        assert event.message is not None or event.kind in ("internal", "crash")
        if event.kind == "send" and event.destinations:
            self._send(here, event.message or "", self.roster.mask(event.destinations))
        elif event.kind == self.arrival:
            self._arrive(event.message or "", here)
        while self.now:
            copy = self.now.popleft()
            self._apply(copy.destination, self.members[copy.destination].receive(copy))

    def _mark(self, place: int) -> RowsSoFar:
        return self.rows[place], self.time

    def _send(self, here: int, message: str, destinations: int) -> None:
        extra = {"token": self.token} if self.serialized else {}
        self.quarter[message] = 4 * len(self.addressed) // max(1, self.asked)
        self.addressed[message] = destinations
        self.leaving[message] = (here, self._mark(here))
        done = self.members[here].send(destinations, label=self.label, **extra)
        if isinstance(done, Sent):
            self._sent(here, message, done)
        else:
            self.tickets[here, done.ticket] = message
        if message in self.leaving:
            self.cost.deferred += 1

    def _sent(self, here: int, message: str, sent: Sent) -> None:
        cost = self.cost
        cost.messages += 1
        log = self.members[here].log_size()
        cost.log += log
        cost.log_max = max(cost.log_max, log)
        cost.warm_messages += self.quarter[message] >= THIRD
        self.token = sent.token
        self.names[sent.message.sender, sent.message.count] = message
        self._out(sent.copies)

    def _out(self, copies: Iterable[Copy]) -> None:
        for copy in copies:
            message = self.names[copy.sender, copy.count]
            if (waited := self.leaving.pop(message, None)) is not None:
                rows, seconds = self._since(*waited)
                self.cost.deferred_rows += rows
                self.cost.deferred_seconds = (self.cost.deferred_seconds or 0.0) + seconds
            key = (message, copy.destination)
            final = copy.kind == MESSAGE and bool(copy.destinations >> copy.destination & 1)
            if final and key not in self.known:
                self.known.add(key)
                size, entries = self._measure(copy)
                self._late(self.quarter[message], size, entries, copies=1)
            else:
                size = len(self.members[copy.source].encode(copy))
                self.cost.hops += 1
                self.cost.hop_bytes += size
                self._late(self.quarter[message], size)
            if not final or key in self.arrived or key in self.done:
                self.now.append(copy)
            else:
                self.under_way.setdefault(key, []).append(copy)

    def _late(self, quarter: int, size: int, entries: int = 0, copies: int = 0) -> None:
        """Count the second half of the run by quarters: there one sees whether stamps still grow."""
        if quarter == THIRD:
            self.cost.third_copies += copies
            self.cost.third_bytes += size
            self.cost.third_entries += entries
        elif quarter == LAST:
            self.cost.last_copies += copies
            self.cost.last_bytes += size
            self.cost.last_entries += entries

    def _measure(self, copy: Copy) -> tuple[int, int]:
        """Count the stamp, return its bytes and entries; copies of one message that share a stamp share its size."""
        if self._sized is None or self._sized[0] is not copy.stamp or not copy.stamp:
            member = self.members[copy.source]
            size = len(member.encode(copy))
            self._sized = (copy.stamp, size, member.entries(copy), member.facts(copy), member.paper_bytes(copy))
        _, size, entries, facts, paper = self._sized
        cost = self.cost
        cost.copies += 1
        cost.bytes += size
        cost.bytes_max = max(cost.bytes_max, size)
        cost.entries += entries
        cost.paper_bytes += paper
        cost.facts = None if facts is None or cost.facts is None else cost.facts + facts
        return size, entries

    def _arrive(self, message: str, here: int) -> None:
        key = (message, here)
        if not self.addressed.get(message, 0) >> here & 1 or key in self.arrived or key in self.done:
            return  # misdelivered or repeated: no protocol delivers it
        self.arrived[key] = self._mark(here)
        copies = self.under_way.pop(key, None)
        if copies is None:
            self.held.add(key)
        else:
            self.now += copies

    def _apply(self, here: int, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Deliver):
                self._delivered((self.names[effect.copy.sender, effect.copy.count], here))
            elif isinstance(effect, Hold):
                self.held.add((self.names[effect.copy.sender, effect.copy.count], here))
            elif isinstance(effect, Transmit):
                self._out(effect.copies)
            elif isinstance(effect, Sent):
                assert effect.ticket is not None
                self._sent(here, self.tickets.pop((here, effect.ticket)), effect)

    def _delivered(self, key: CopyKey) -> None:
        cost, mark = self.cost, self.arrived.pop(key, None)
        self.done.add(key)
        cost.deliveries += 1
        if cost.deliveries % LOOK == 0:
            cost.log_max = max(cost.log_max, self.members[key[1]].log_size())
        if mark is not None and key in self.held:
            rows, seconds = self._since(key[1], mark)
            cost.held += 1
            cost.held_rows += rows
            cost.held_seconds = (cost.held_seconds or 0.0) + seconds

    def _since(self, place: int, mark: RowsSoFar) -> tuple[int, float]:
        return self.rows[place] - mark[0], max(0.0, self.time - (mark[1] or 0.0))

    def finish(self) -> Cost:
        cost = self.cost
        cost.log_max = max(cost.log_max, *(member.log_size() for member in self.members))
        cost.stuck = len(self.arrived) + len(self.leaving)
        if cost.stuck:
            cost.reason = self._stuck()
        if not self.timed:
            cost.held_seconds = cost.deferred_seconds = None
        if min(cost.messages, cost.deliveries) < ENOUGH:
            cost.short_messages = cost.messages
        return cost

    def _stuck(self) -> str:
        """Describe the first copy that still waits, in its member's words."""
        for place, member in enumerate(self.members):
            for pending in member.pending():
                what = "a send" if pending.message is None or pending.what == "send" else f"message {pending.message}"
                awaited = ", ".join([*map(str, pending.waits_for), *pending.processes]) or "something"
                reason = f" ({pending.reason})" if pending.reason else ""
                return f"{self.roster.name(place)} still holds {what}, which waits for {awaited}{reason}"
        return f"{self.cost.stuck} copies have not left"

"""Arrivals for tests: what a run of a protocol brings to sinks, reordered, doubled and lost.

Some processes send and deliver (their members make the causality and the stamps), others only receive: the sinks, whose
copies are collected and come in an order drawn at random. Everything is a function of the arguments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from thence.core.model.events import Event, EventKind
from thence.core.model.message import Cause, Copy
from thence.core.model.order import Execution, Judgement, by_label, judge, usable
from thence.core.model.roster import Roster
from thence.core.protocols.wire import encode
from thence.protocols import Deliver, Sent, create, lookup

PROTOCOLS = ("ks", "ks-hardware", "ci-dc", "rst", "bss", "history")
Row = dict[str, Any]


@dataclass
class Run:
    """A run among senders: its events and the copies for the sinks, in the order they were sent."""

    protocol: str
    roster: Roster
    senders: int
    events: list[Event] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    index: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    pairs: dict[tuple[int, int], list[str]] = field(default_factory=lambda: defaultdict(list))
    """messages from a sender to a sink, in order"""

    def row(self, process: int, kind: EventKind, copy: Copy, destinations: int | None = None) -> None:
        name = self.roster.name(process)
        self.index[name] += 1
        told = None if destinations is None else self.roster.members(destinations)
        self.events.append(Event("run", name, self.index[name], kind, self.name(copy.sender, copy.count), told))

    def name(self, sender: int, count: int) -> str:
        return f"{self.roster.name(sender)}{count}"


def play(protocol: str, seed: int, *, senders: int, sinks: int, messages: int) -> Run:
    """Let senders send to senders and sinks at random, and deliver in between."""
    rng = Random(f"{protocol} {seed}")
    run = Run(protocol, Roster.of(senders + sinks), senders)
    members = [create(protocol, run.roster, place) for place in range(senders)]
    broadcast = "broadcast only" in lookup(protocol).needs
    flying: list[Copy] = []
    left = messages
    while left or flying:
        if left and (not flying or rng.random() < 0.4):
            left -= 1
            who = rng.randrange(senders)
            others = [place for place in range(senders + sinks) if place != who]
            chosen = others if broadcast else rng.sample(others, rng.randint(1, max(1, len(others) // 2)))
            sent = members[who].send(sum(1 << place for place in chosen))
            assert isinstance(sent, Sent)
            run.row(who, "send", sent.copies[0], sent.destinations)
            for copy in sent.copies:
                if copy.destination < senders:
                    flying.append(copy)
                else:
                    run.copies.append(copy)
                    run.pairs[copy.sender, copy.destination].append(run.name(copy.sender, copy.count))
        else:
            copy = flying.pop(rng.randrange(len(flying)))
            for effect in members[copy.destination].receive(copy):
                if isinstance(effect, Deliver):
                    run.row(copy.destination, "deliver", effect.copy)
    return run


@dataclass
class Arrivals:
    """Rows of one run in the order of arrival, and the run they come from."""

    run: Run
    name: str
    rows: list[Row]
    about: str

    @property
    def roster(self) -> Roster:
        return self.run.roster

    def with_deliveries(self, delivered: Iterable[Row]) -> list[Event]:
        """Return the run's events with what sinks delivered."""
        events = list(self.run.events)
        index: dict[str, int] = defaultdict(int)
        for row in sorted((r for r in delivered if r["position"]), key=lambda r: r["position"]):
            index[row["destination"]] += 1
            events.append(Event("run", row["destination"], index[row["destination"]], "deliver", row["message"]))
        return events

    def judge(self, delivered: Iterable[Row]) -> Judgement:
        """Judge what was delivered at the sinks by definition."""
        return judge(self.with_deliveries(delivered))

    def cause(self, name: str, here: str) -> str:
        """Return the message that the name of a cause means at a destination: a7 is itself, a#7 the 7th to here."""
        sender, sign, number = name.partition("#")
        if not sign:
            return name
        pair = self.run.roster.position(sender), self.run.roster.position(here)
        return self.run.pairs[pair][int(number) - 1]

    def execution(self) -> Execution:
        """Return happened-before among the senders."""
        good, _ = usable(self.run.events)
        return Execution(by_label(good)[None])


def arrivals(
    protocol: str,
    seed: int,
    *,
    senders: int = 4,
    sinks: int = 2,
    messages: int = 60,
    window: float = 12.0,
    lost: float = 0.0,
    doubled: float = 0.1,
    by: str = "stamp",
    name: str | None = None,
) -> Arrivals:
    """Return the arrivals of a seed; `window` is how far rows stray from the order they were sent in."""
    run = play(protocol, seed, senders=senders, sinks=sinks, messages=messages)
    rng = Random(f"arrivals {protocol} {seed}")
    name = name or f"{protocol}-{by}-{seed}"
    about = f"arrivals({protocol!r}, {seed}, senders={senders}, sinks={sinks}, messages={messages}, window={window}, "
    about += f"lost={lost}, doubled={doubled}, by={by!r})"
    flying: list[tuple[float, Row]] = []
    for place, copy in enumerate(run.copies):
        row: Row = {
            "run": name,
            "destination": run.roster.name(copy.destination),
            "message": run.name(copy.sender, copy.count),
            "sender": run.roster.name(copy.sender),
            "time": float(place) / 10,
            "payload": {"text": f"{copy.sender}/{copy.count}", "place": place},
            "stamp": None,
            "clock": None,
            "depends_on": None,
        }
        row[by] = _cause(by, run, copy)
        for _ in range((rng.random() >= lost) + (rng.random() < doubled)):
            flying.append((place + rng.expovariate(1 / window), row))
    flying.sort(key=lambda pair: pair[0])
    count: dict[str, int] = defaultdict(int)
    rows = []
    for _, row in flying:
        count[row["destination"]] += 1
        rows.append({**row, "arrival": count[row["destination"]]})
    return Arrivals(run, name, rows, about)


def _cause(by: str, run: Run, copy: Copy) -> Any:
    entry: Any = lookup(run.protocol).protocol
    if by == "stamp":
        return encode(entry, copy, run.roster)
    here = copy.destination
    needs = [Cause(run.roster.name(s), t, entry.pairwise) for s, t in entry.needs(copy, here)]
    if by == "clock":
        assert entry.pairwise
        clock = {cause.sender: cause.count for cause in needs}
        return clock | {run.roster.name(copy.sender): entry.gives(copy, here)}
    assert not entry.pairwise
    return [str(cause) for cause in needs]

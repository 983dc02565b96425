"""A small driver for tests: random walks and scripted plays of any protocol, recorded as events.

`walk` lets processes send at random and copies arrive in an order chosen against the protocol, then drains
the network. `play` follows a script in the notation of `core/model/events.py` (`a!1>bc` send, `c<a1` arrival;
deliveries are the outcome). Both meet whatever the contract lets a member do: deferred sends, protocol
messages, relays, tokens, duplicates. A walk is a function of its arguments alone; `str(walk)` repeats them,
so that a failing test prints what to run again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from thence.core.model.events import Event, EventKind, parse, render
from thence.core.model.message import MESSAGE, Cause, Copy, MessageId
from thence.core.model.message_names import name_of
from thence.core.model.order import Execution, Guarantee, Judgement, by_label, judge
from thence.core.model.roster import Roster
from thence.lab.papers.variants import bounded
from thence.protocols import (
    REGISTRY,
    Deferred,
    Deliver,
    Duplicate,
    Effect,
    Hold,
    Member,
    Pending,
    ProtocolEntry,
    Sent,
    Transmit,
)

Facts = set[tuple[str, str]]
"""pairs (message, destination), named"""
NETWORKS = ("random", "newest", "starve")


def entry_of(protocol: str | type[Member]) -> ProtocolEntry:
    """Return the registry's entry of a name or class; a printed variant has that of its parent."""
    if isinstance(protocol, str):
        return REGISTRY[protocol]
    by_class = {entry.protocol: entry for entry in REGISTRY.values()}
    by_class |= {variant.protocol: variant.entry for variant in bounded.VARIANTS}
    return next(by_class[base] for base in protocol.__mro__ if base in by_class)


class Network:
    """Copies under way; `take` picks the one that arrives next, and each policy is unkind in its own way.

    random: any. newest: mostly the last one sent, so that old ones grow older. starve: some channels (or,
    without FIFO, some copies) are hardly served while anything else is left.
    """

    def __init__(self, rng: Random, policy: str, *, fifo: bool) -> None:
        self.rng, self.policy, self.fifo = rng, policy, fifo
        self.lanes: dict[object, deque[Copy]] = {}
        self.quick: list[object] = []
        self.slow: list[object] = []
        self.lazy: dict[object, bool] = {}
        self.number = 0

    def __bool__(self) -> bool:
        return bool(self.lanes)

    def put(self, copy: Copy) -> None:
        self.number += 1
        key: object = (copy.source, copy.destination) if self.fifo else self.number
        lane = self.lanes.get(key)
        if lane is not None:
            lane.append(copy)
            return
        self.lanes[key] = deque([copy])
        if self.policy != "starve":
            lazy = False
        elif not self.fifo:
            lazy = self.rng.random() < 0.2
        else:
            lazy = self.lazy.setdefault(key, self.rng.random() < 0.3)
        (self.slow if lazy else self.quick).append(key)

    def take(self) -> Copy:
        keys = self.slow if self.slow and (not self.quick or self.rng.random() < 0.03) else self.quick
        if self.policy == "newest" and self.rng.random() < 0.7:
            place = len(keys) - 1
        else:
            place = self.rng.randrange(len(keys))
        key = keys[place]
        lane = self.lanes[key]
        copy = lane.popleft()
        if not lane:
            del self.lanes[key]
            keys[place] = keys[-1]
            keys.pop()
        return copy

    def find(self, name: Callable[[Copy], str], message: str, destination: int) -> Copy:
        """Take out the oldest copy of a message to a process; under FIFO only the first of its channel."""
        found = [
            (key, copy)
            for key, lane in self.lanes.items()
            for copy in ([lane[0]] if self.fifo else lane)
            if copy.destination == destination and name(copy) == message
        ]
        assert found, f"no copy of {message} can arrive at position {destination} now"
        key, copy = min(found, key=lambda item: item[1].kind != MESSAGE)
        self.lanes[key].remove(copy)
        self._tidy(key)
        return copy

    def oldest(self) -> Copy:
        """Take out the first copy of the channel that has waited longest."""
        key = next(iter(self.lanes))
        copy = self.lanes[key].popleft()
        self._tidy(key)
        return copy

    def _tidy(self, key: object) -> None:
        if not self.lanes[key]:
            del self.lanes[key]
            for keys in (self.quick, self.slow):
                if key in keys:
                    keys.remove(key)


@dataclass
class Walk:
    """A run: its members, its rows, and what was left when nothing could move any more."""

    entry: ProtocolEntry
    roster: Roster
    members: list[Member]
    about: str
    network: Network
    wire: bool = False
    events: list[Event] = field(default_factory=list)
    copies: list[Copy] = field(default_factory=list)
    """every copy of kind message handed to the network, in order"""
    others: list[Copy] = field(default_factory=list)
    """every copy of another kind"""
    logs: dict[tuple[str, int], Facts] = field(default_factory=dict)
    """facts in a log right after that row of a process, where the protocol tells and no row came with it"""
    numbers: dict[tuple[str | None, int, int], int] = field(default_factory=dict)
    """process-wide number of each message, by label, sender and count"""
    waiting: dict[tuple[int, str | None, int], Deferred] = field(default_factory=dict)
    """deferred sends not yet answered, by position, label and ticket"""
    deferred: int = 0
    duplicates: int = 0
    holds: list[Hold] = field(default_factory=list)
    tokens: dict[str | None, Any] = field(default_factory=dict)
    """what the next serialized sender of each label is handed"""
    stuck: list[tuple[str, Pending]] = field(default_factory=list)
    """what each process still held when the network was empty"""

    def __str__(self) -> str:
        return f"{self.about}\n{render(self.events)}"

    @property
    def deadlocked(self) -> bool:
        """Return whether sends were still held back when the network was empty."""
        return any(pending.what == "send" for _, pending in self.stuck)

    @property
    def delivered(self) -> list[tuple[str, str]]:
        """The deliveries as (process, message), in the order of the run."""
        return [(e.process, e.message or "") for e in self.events if e.kind == "deliver"]

    def judge(self, guarantee: Guarantee | None = None) -> Judgement:
        """Judge the run by what its protocol promises, or by another guarantee."""
        return judge(self.events, guarantee or self.entry.guarantee)

    def check(self, *, deadlock: bool = False) -> Judgement:
        """Assert that the run keeps the promise; `deadlock` admits sends that could never leave."""
        result = self.judge()
        assert not result.violations, f"{result.violations[0]} in {self}"
        wrong = [*result.duplicates, *result.misdelivered, *result.quarantine, *result.gaps]
        assert not wrong, f"{wrong[0]} in {self}"
        if not (deadlock and self.deadlocked):
            assert not result.undelivered, f"{result.undelivered[0]} in {self}"
            assert not self.stuck, f"{self.stuck[0]} in {self}"
            assert not self.waiting, f"{self.waiting} in {self}"
        return result

    # -- steps -----------------------------------------------------------------------------------------------

    def send(self, process: int, destinations: int, *, label: str | None = None) -> Sent | Deferred:
        """Let a process send and hand the copies to the network."""
        serialized = "serialized sends" in self.entry.needs
        extra = {"token": self.tokens.get(label)} if serialized else {}
        result = self.members[process].send(destinations, label=label, **extra)
        if isinstance(result, Deferred):
            self.deferred += 1
            self.waiting[process, result.label, result.ticket] = result
        else:
            if serialized:
                self.tokens[label] = result.token
            self._effects(process, [result])
        return result

    def arrive(self, copy: Copy) -> list[Effect]:
        """Let a copy arrive where it goes."""
        here = copy.destination
        member = self.members[here]
        row = len(self.events)
        if copy.kind == MESSAGE:
            self._row(here, "receive", copy)
        effects = member.receive(copy)
        if effects and type(effects[0]) is Duplicate:
            del self.events[row:]
        self._effects(here, effects)
        return effects

    def name(self, copy: Copy) -> str:
        """Return the name of the message of a copy: a7 is the 7th message of a over all labels."""
        return self._named(copy.label, copy.sender, copy.count)

    def name_of_id(self, message: MessageId) -> str:
        """Return the name of a message of the order without a label."""
        return self._named(None, message.sender, message.count)

    def cause_name(self, cause: Cause, here: str) -> str:
        """Return the message a held copy at `here` waits for: by its count, or as the n-th from that sender to here."""
        if not cause.pairwise:
            return self._named(None, self.roster.position(cause.sender), cause.count)
        to_here = [
            e.message or ""
            for e in self.events
            if e.kind == "send" and e.process == cause.sender and here in (e.destinations or ())
        ]
        return to_here[cause.count - 1]

    def _named(self, label: str | None, sender: int, count: int) -> str:
        return name_of(self.roster.name(sender), self.numbers.get((label, sender, count), count))

    def _effects(self, process: int, effects: Sequence[Effect]) -> None:
        before = len(self.events)
        for effect in effects:
            match effect:
                case Deliver(copy):
                    self._row(process, "deliver", copy)
                case Sent():
                    if effect.ticket is not None:
                        due = self.waiting.pop((process, effect.label, effect.ticket))
                        assert due.destinations == effect.destinations, f"{effect} left for {due} in {self}"
                    self._sent(process, effect)
                    self._put(effect.copies)
                case Transmit(copies):
                    self._put(copies)
                case Hold():
                    self.holds.append(effect)
                case Duplicate():
                    self.duplicates += 1
        facts = self.members[process].log_facts()
        if facts is not None and len(self.events) == before + 1:
            name = self.roster.name
            named = {(name_of(name(m.sender), m.count), name(d)) for m, d in facts}
            self.logs[name(process), self.events[-1].index] = named

    def _put(self, copies: Iterable[Copy]) -> None:
        for copy in copies:
            if self.wire:
                data = self.members[copy.source].encode(copy)
                again = self.members[copy.destination].decode(data, source=copy.source)
                assert again == copy, f"{copy} arrived as {again} in {self}"
                copy = again
            (self.copies if copy.kind == MESSAGE else self.others).append(copy)
            self.network.put(copy)

    def _index(self, process: str) -> int:
        return next((e.index for e in reversed(self.events) if e.process == process), 0) + 1

    def _row(self, process: int, kind: EventKind, copy: Copy) -> None:
        name = self.roster.name(process)
        protocol, order = type(self.members[process]), len(self.events)
        self.events.append(
            Event(
                "run",
                name,
                self._index(name),
                kind,
                self.name(copy),
                label=copy.label,
                order=order,
                entries=protocol.entries(copy),
                facts=protocol.facts(copy),
                bytes=len(self.members[process].encode(copy)) if self.wire else None,
            )
        )

    def _sent(self, process: int, sent: Sent) -> None:
        name = self.roster.name(process)
        sender = sent.message.sender
        number = 1 + sum(1 for key in self.numbers if key[1] == sender)
        self.numbers[sent.label, sender, sent.message.count] = number
        message = self._named(sent.label, sender, sent.message.count)
        destinations = self.roster.members(sent.destinations)
        index, order = self._index(name), len(self.events)
        self.events.append(Event("run", name, index, "send", message, destinations, label=sent.label, order=order))

    def finish(self) -> None:
        """Note what is left now that nothing is under way."""
        assert not self.network
        self.stuck = [
            (self.roster.name(place), pending)
            for place, member in enumerate(self.members)
            for pending in member.pending()
        ]


def start(
    protocol: str | type[Member],
    processes: int | Iterable[str],
    rng: Random,
    *,
    policy: str = "random",
    fifo: bool = False,
    options: Mapping[str, Any] | None = None,
    wire: bool = False,
    about: str = "",
) -> Walk:
    """Make the members of a run."""
    entry = entry_of(protocol)
    roster = Roster.of(processes) if isinstance(processes, int) else Roster(processes)
    made = entry.protocol if isinstance(protocol, str) else protocol
    members = [made(roster, place, **(options or {})) for place in range(len(roster))]
    return Walk(entry, roster, members, about, Network(rng, policy, fifo=fifo), wire)


def destinations_for(rng: Random, fanout: str | int, size: int, me: int, *, self_addressed: bool) -> int:
    """Draw a set of destinations: unicast, broadcast (all others), uniform (any number), or that many."""
    others = [place for place in range(size) if self_addressed or place != me]
    if fanout == "broadcast":
        return sum(1 << place for place in range(size) if place != me)
    count = 1 if fanout == "unicast" else fanout if isinstance(fanout, int) else rng.randint(1, len(others))
    return sum(1 << place for place in rng.sample(others, min(count, len(others))))


def walk(
    protocol: str | type[Member],
    processes: int | Iterable[str],
    messages: int,
    seed: int,
    *,
    fanout: str | int | None = None,
    fifo: bool | None = None,
    self_addressed: bool = False,
    duplicates: bool = False,
    options: Mapping[str, Any] | None = None,
    network: str | None = None,
    labels: Sequence[str | None] = (None,),
    twins: float = 0.0,
    wire: bool = False,
) -> Walk:
    """Run that many sends at random, then drain.

    `fanout` and `fifo` default to what the protocol needs (uniform and not FIFO if it needs nothing);
    `network` defaults to one of NETWORKS by seed. With `twins`, a member is replaced that often, before it
    acts, by its fork or by what its snapshot restores. With `wire`, every copy travels as bytes.
    """
    rng = Random(f"{seed}")
    entry = entry_of(protocol)
    if fanout is None:
        only = {"broadcast only": "broadcast", "unicast only": "unicast"}
        fanout = next((only[need] for need in entry.needs if need in only), "uniform")
    fifo = "fifo" in entry.needs if fifo is None else fifo
    policy = network or rng.choice(NETWORKS)
    eager = rng.choice((0.15, 0.4, 0.7))
    name = protocol if isinstance(protocol, str) else protocol.__name__
    about = (
        f"walk({name!r}, {processes}, {messages}, seed={seed}, fanout={fanout!r}, fifo={fifo}, "
        f"self_addressed={self_addressed}, duplicates={duplicates}, options={options}, network={network!r}, "
        f"labels={labels}, twins={twins}, wire={wire})"
    )
    run = start(protocol, processes, rng, policy=policy, fifo=fifo, options=options, wire=wire, about=about)
    size = len(run.roster)
    left = messages
    while left or run.network:
        if left and (not run.network or rng.random() < eager):
            left -= 1
            process = rng.randrange(size)
            mask = destinations_for(rng, fanout, size, process, self_addressed=self_addressed)
            if not mask:
                continue
            _twin(run, process, rng, twins)
            run.send(process, mask, label=rng.choice(labels))
        else:
            copy = run.network.take()
            if duplicates and rng.random() < 0.2:
                run.network.put(copy)
            _twin(run, copy.destination, rng, twins)
            run.arrive(copy)
    run.finish()
    return run


def _twin(run: Walk, process: int, rng: Random, chance: float) -> None:
    """Put a twin in the place of a member; whoever held on to the old one must not notice."""
    if not chance or rng.random() >= chance:
        return
    member = run.members[process]
    forked = rng.random() < 0.5
    twin = member.fork() if forked else type(member).restore(member.snapshot())
    assert twin.state() == member.state(), f"a {'fork' if forked else 'snapshot'} differs in {run}"
    assert twin.snapshot() == member.snapshot(), f"a twin's snapshot differs in {run}"
    assert _explained(twin) == _explained(member), f"a twin waits for something else in {run}"
    assert twin.state(range(len(run.roster))) == member.state(), f"renaming nobody changes the state in {run}"
    run.members[process] = twin


def _explained(member: Member) -> list[Pending]:
    return [replace(p, waits_for=tuple(sorted(p.waits_for))) for p in member.pending()]


def assert_in_order(run: Walk, process: str, delivered: Sequence[str], guarantee: Guarantee = "causal") -> None:
    """Assert that a process that delivered these messages of a run, in this order, broke no promise."""
    (rows,) = by_label(run.events).values()
    precedes = Execution(rows).relation(guarantee)
    for place, early in enumerate(delivered):
        for late in delivered[place + 1 :]:
            assert not precedes(late, early), f"{process} delivers {early} before {late} in {run}"


def play(
    protocol: str | type[Member],
    processes: int | Iterable[str],
    script: str,
    *,
    fifo: bool = False,
    options: Mapping[str, Any] | None = None,
    drain: bool = False,
    wire: bool = True,
) -> Walk:
    """Follow a script of sends and arrivals; with `drain`, the rest arrives at the end, oldest first."""
    about = f"play({protocol!r}, {script!r})"
    run = start(protocol, processes, Random(0), fifo=fifo, options=options, wire=wire, about=about)
    for step in parse(script):
        here = run.roster.position(step.process)
        if step.kind == "send":
            sent = run.send(here, run.roster.mask(step.destinations or ()), label=step.label)
            if isinstance(sent, Sent):
                name = name_of(run.roster.name(sent.message.sender), sent.message.count)
                assert name == step.message, f"{name} was sent, the script says {step.message}"
        elif step.kind == "receive":
            run.arrive(run.network.find(run.name, step.message or "", here))
        else:
            raise AssertionError(f"a script holds sends and arrivals, not {step.kind}")
    while drain and run.network:
        run.arrive(run.network.oldest())
    if not run.network:
        run.finish()
    return run

"""Random executions with crashes, judged by definition, for systems too large for an exhaustive search.

Invariant: an execution is a function of the setting and the seed. Who is faulty is drawn first; crashes happen at
drawn steps and lose a drawn subset of copies (`core/model/faults.py`); each process's failure detector speaks at
drawn steps, as adversarially as it legally may. In the end every faulty process has crashed, every living one
trusts exactly the living, and nothing is in flight. The judgement reads the recorded events and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random

from thence.core.model.events import Event, EventKind, render
from thence.core.model.faults import legal, legalise, may_be_lost, nobody_receives
from thence.core.model.message import MESSAGE, Copy
from thence.core.model.message_names import name_of
from thence.core.model.order import judge
from thence.core.model.roster import positions
from thence.core.protocols.ack_member import AckMember
from thence.core.protocols.base import Member
from thence.core.protocols.effects import Answer, Deliver, Sent, Transmit
from thence.lab.explorer.setting import Setting

SIZED = 100


@dataclass
class RandomWalk:
    """One execution: its events, the faulty processes, and its cost."""

    setting: Setting
    seed: int
    faulty: int = 0
    events: list[Event] = field(default_factory=list)
    copies: dict[str, int] = field(default_factory=dict)
    """copies handed to the network on behalf of each message"""
    degree: dict[tuple[str, str], int] = field(default_factory=dict)
    """(message, process): longest chain of communication steps up to its delivery there"""
    outsiders: list[str] = field(default_factory=list)
    """who took part in a message without being its sender or addressed"""
    kept: list[int] = field(default_factory=list)
    """records of messages that the living members keep, sends held back included, after each step"""
    sizes: list[int] = field(default_factory=list)
    """bytes of the living members' snapshots, after every `SIZED` steps"""
    stuck: list[str] = field(default_factory=list)
    """correct processes that never got to send what they were asked to"""
    members: list[Member] = field(default_factory=list)
    """the members at the end"""
    stamps: list[Copy] = field(default_factory=list)
    """the first copy of each message"""

    def problems(self) -> list[str]:
        """Judge by definition; empty if everything holds."""
        roster, faulty = self.setting.roster(), set(self.setting.roster().members(self.faulty))
        verdict = judge(self.events, self.setting.entry.guarantee)
        found = [f"{v.destination} delivered {v.early} without {v.missing}" for v in verdict.violations]
        found += [f"integrity: {c.message} at {c.destination}" for c in verdict.duplicates + verdict.misdelivered]
        found += [f"quarantined: {rejected.reason}" for rejected in verdict.quarantine]
        sender = {e.message: e.process for e in self.events if e.kind == "send"}
        anywhere = {e.message for e in self.events if e.kind == "deliver"}
        for copied in verdict.undelivered:
            if copied.destination in faulty:
                continue
            if sender[copied.message] not in faulty:
                found.append(f"validity: {copied.destination} never delivers {copied.message}")
            elif copied.message in anywhere:
                found.append(f"agreement: {copied.destination} never delivers {copied.message}")
        found += [f"genuine: {name} took part" for name in self.outsiders]
        found += [f"validity: {name} never gets to send" for name in self.stuck]
        assert all(e.process in roster for e in self.events)
        return found

    def __str__(self) -> str:
        """Return the arguments that reproduce it."""
        return f"walk({self.setting}, seed={self.seed}): {render(self.events)}"


class _Run:
    """The driver of one execution."""

    def __init__(self, setting: Setting, seed: int, patience: float, calm: bool, spread: bool) -> None:
        self.setting, self.rng, self.patience, self.calm = setting, Random(seed), patience, calm
        self.spread, self.left = spread, setting.messages
        self.n = setting.processes
        self.roster, self.groups = setting.roster(), setting.group_masks()
        self.members = [setting.member(p) for p in range(self.n)]
        self.flight: list[tuple[Copy, int]] = []
        self.depth: dict[tuple[str, int], int] = {}
        self.slow: dict[tuple[int, int], bool] = {}
        self.indexes: dict[str, int] = {}
        self.crashed = 0
        self.result = RandomWalk(setting, seed, members=self.members)
        crashes = self.rng.randint(1, setting.crashes) if setting.crashes and self.rng.random() < 0.9 else 0
        self.result.faulty = sum(1 << p for p in self.rng.sample(range(self.n), crashes))

    def go(self) -> RandomWalk:
        while self.left or self.flight:
            alive = [p for p in range(self.n) if not self.crashed >> p & 1]
            roll = self.rng.random()
            quick = any(not self._slow(copy) for copy, _ in self.flight)
            if alive and self.left and roll < 0.88 and (roll < self.patience or not quick):
                self._send(self.rng.choice(alive))
                self.left -= 1
            elif not alive and self.left:
                self.left = 0
            elif self.flight and roll < 0.88:
                self._arrive(self._pick())
            elif roll < 0.93 and alive:
                self._detect(self.rng.choice(alive))
            elif self._crash_is_due():
                self._crash()
            self._note()
        self._finish()
        return self.result

    def _send(self, p: int) -> None:
        targets = self.setting.addressable(p)
        few = targets[: len(self.groups)] if self.rng.random() < 0.5 else targets
        self._effects(p, [self.members[p].send(self.rng.choice(few))], 0)

    def _arrive(self, place: int) -> None:
        copy, depth = self.flight.pop(place)
        name = self._name(copy)
        here = copy.destination
        self.depth[name, here] = max(self.depth.get((name, here), 0), depth)
        if copy.kind == MESSAGE and copy.source == copy.sender:
            self._event(here, "receive", name)
        self._effects(here, self.members[here].receive(copy), depth)

    def _pick(self) -> int:
        """Return the place of the copy that arrives next: those of slow messages wait as long as there are others."""
        quick = [place for place, (copy, _) in enumerate(self.flight) if not self._slow(copy)]
        return self.rng.choice(quick) if quick else self.rng.randrange(len(self.flight))

    def _slow(self, copy: Copy) -> bool:
        drawn = self.slow.setdefault((copy.sender, copy.count), not self.calm and self.rng.random() < 0.4)
        return drawn and copy.kind == MESSAGE

    def _detect(self, p: int) -> None:
        wish = ~self.crashed & ((1 << self.n) - 1) if self.calm else self.rng.getrandbits(self.n)
        if self.setting.per_group:
            trusted = legalise(wish, self.groups, self.result.faulty)
        else:
            trusted = legalise(wish, [sum(self.groups)], self.result.faulty)
        assert legal(trusted, self.groups, self.result.faulty, per_group=self.setting.per_group)
        self._effects(p, self.members[p].trusted(self.roster.members(trusted)), 0)

    def _crash_is_due(self) -> bool:
        """Return whether a crash may happen now: if they are spread, the k-th after k parts of the messages."""
        parts = self.result.faulty.bit_count() + 1
        sent = self.setting.messages - self.left
        return not self.spread or sent * parts >= (self.crashed.bit_count() + 1) * self.setting.messages

    def _crash(self) -> None:
        due = list(positions(self.result.faulty & ~self.crashed))
        if not due:
            return
        p = self.rng.choice(due)
        self.crashed |= 1 << p
        self._event(p, "crash")
        share = self.rng.choice((0.0, 0.5, 1.0))
        whole = self.rng.random() < 0.5  # lose the slow messages and keep the others, or draw copy by copy
        kept = []
        for copy, depth in self.flight:
            drawn = self._slow(copy) if whole else self.rng.random() < share
            if not nobody_receives(copy, 1 << p) and not (may_be_lost(copy, 1 << p) and drawn):
                kept.append((copy, depth))
        self.flight = kept

    def _finish(self) -> None:
        """Crash the rest of the faulty, let the detectors become complete, and drain."""
        while self.result.faulty & ~self.crashed:
            self._crash()
        alive = [p for p in range(self.n) if not self.crashed >> p & 1]
        self.rng.shuffle(alive)
        for p in alive:
            self._effects(p, self.members[p].trusted(self.roster.name(q) for q in alive), 0)
        while self.flight:
            self._arrive(self.rng.randrange(len(self.flight)))
        waiting = [p for p in alive if any(pending.what == "send" for pending in self.members[p].pending())]
        self.result.stuck = [self.roster.name(p) for p in waiting]

    def _effects(self, p: int, effects: Iterable[Answer], depth: int) -> None:
        for effect in effects:
            if isinstance(effect, Sent):
                sender = name_of(self.roster.name(effect.message.sender), effect.message.count)
                self._event(p, "send", sender, self.roster.members(effect.destinations))
                self._launch(effect.copies, 1)
                self.result.stamps += effect.copies[:1]
            elif isinstance(effect, Transmit):
                self._launch(effect.copies, None)
            elif isinstance(effect, Deliver):
                name = self._name(effect.copy)
                self._event(p, "deliver", name)
                self.result.degree[name, self.roster.name(p)] = self.depth.get((name, p), 0)

    def _launch(self, copies: tuple[Copy, ...], depth: int | None) -> None:
        for copy in copies:
            name = self._name(copy)
            steps = 1 + self.depth.get((name, copy.source), 0) if depth is None else depth
            party = copy.destinations | 1 << copy.sender
            self.result.outsiders += [
                self.roster.name(p) for p in (copy.source, copy.destination) if not party >> p & 1
            ]
            self.result.copies[name] = self.result.copies.get(name, 0) + 1
            if not self.crashed >> copy.destination & 1:
                self.flight.append((copy, steps))

    def _note(self) -> None:
        living = [member for p, member in enumerate(self.members) if not self.crashed >> p & 1]
        self.result.kept.append(sum(map(_kept, living)))
        if len(self.result.kept) % SIZED == 0:
            self.result.sizes.append(sum(len(member.snapshot()) for member in living))

    def _name(self, copy: Copy) -> str:
        return name_of(self.roster.name(copy.sender), copy.count)

    def _event(self, p: int, kind: EventKind, message: str | None = None, to: tuple[str, ...] | None = None) -> None:
        name, events = self.roster.name(p), self.result.events
        self.indexes[name] = index = self.indexes.get(name, 0) + 1
        events.append(Event("run", name, index, kind, message, to, order=len(events)))


def _kept(member: Member) -> int:
    if not isinstance(member, AckMember):
        return 0
    waiting = getattr(member.receiver, "waiting", ())
    tables = (*member.receiver.mails, *member.receiver.kept, member.own, member.queue, waiting)
    return sum(map(len, tables))


def walk(
    setting: Setting, seed: int, *, patience: float = 0.15, calm: bool = False, spread: bool = False
) -> RandomWalk:
    """Run one random execution; `patience` is the chance that the next step is a send.

    A calm one has no slow messages, and detectors that tell the truth when they speak. Crashes that are spread
    divide the run into equal numbers of messages; others come at any time, which in a long run is early.
    """
    return _Run(setting, seed, patience, calm, spread).go()

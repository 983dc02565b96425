"""KS98, theorems 1 and 2: the propagation constraints and the delivery condition are enough, and none can be left out.

Theorem 1 with no protocol in sight: copies carry what the definition says, and wait for what they carry. Theorem 2 with
`ks`: take one fact off one copy, and let what the fact is about be late; order breaks at the destination, or at that of
the next message. Theorems 3, 6 and 7 are the equality of what `ks` carries with the definition (conformance suite and
`thence reproduce ks98`); 4 and 5, safety and liveness, are the conformance suite's first test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from thence.core.model.events import Event, EventKind
from thence.core.model.message import Copy, MessageId
from thence.core.model.message_names import name_of
from thence.core.model.minimum import Fact, Minimum
from thence.core.model.order import Judgement, judge
from thence.core.model.roster import Roster, positions
from thence.core.protocols.dependency import facts_of
from thence.core.protocols.effects import Deliver, Sent
from thence.core.protocols.ks import KS
from thence.core.protocols.receiver import Needs
from thence.core.wire.dependency_log_cy import Log

NAMES = "abcd"
SEEDS = range(8)


@dataclass
class Oracle:
    """Processes that carry on each copy the facts of the definition, and deliver by the delivery condition alone."""

    events: list[Event] = field(default_factory=list)
    flight: list[tuple[str, str, set[Fact]]] = field(default_factory=list)
    held: list[tuple[str, str, set[Fact]]] = field(default_factory=list)
    delivered: set[Fact] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))

    def note(self, process: str, kind: EventKind, message: str, to: tuple[str, ...] | None = None) -> None:
        index = 1 + sum(event.process == process for event in self.events)
        self.events.append(Event("run", process, index, kind, message, to, order=len(self.events)))

    def send(self, process: str, to: tuple[str, ...], carried: Callable[[set[Fact]], set[Fact]]) -> None:
        self.counts[process] += 1
        message = f"{process}{self.counts[process]}"
        self.note(process, "send", message, to)
        minimum = Minimum(self.events)
        self.flight += [(message, d, carried(minimum.on_copy(message, d))) for d in to]

    def arrive(self, copy: tuple[str, str, set[Fact]], *, waits: bool = True) -> None:
        self.flight.remove(copy)
        self.held.append(copy)
        while ready := [c for c in self.held if not waits or all(f in self.delivered for f in c[2] if f[1] == c[1])]:
            self.held.remove(ready[0])
            self.note(ready[0][1], "deliver", ready[0][0])
            self.delivered.add(ready[0][:2])


def oracle(
    seed: int, carried: Callable[[set[Fact]], set[Fact]] = lambda facts: facts, *, waits: bool = True
) -> Judgement:
    rng, world = Random(seed), Oracle()
    left = 14
    while left or world.flight:
        if left and (not world.flight or rng.random() < 0.4):
            left -= 1
            here = rng.choice(NAMES)
            others = [name for name in NAMES if name != here]
            world.send(here, tuple(sorted(rng.sample(others, rng.randint(1, 3)))), carried)
        else:
            world.arrive(rng.choice(world.flight), waits=waits)
    return judge(world.events)


@pytest.mark.parametrize("seed", SEEDS)
def test_theorem_1_constraints_and_condition_ensure_order(seed: int) -> None:
    verdict = oracle(seed)
    assert not verdict.violations
    assert not verdict.undelivered


def test_theorem_2_without_the_delivery_condition_order_breaks() -> None:
    assert any(oracle(seed, waits=False).violations for seed in SEEDS)


@dataclass
class World:
    """Members of `ks` and the copies between them; a fork of it goes its own way."""

    members: list[KS]
    flight: list[Copy]

    def fork(self) -> World:
        return World([member.fork() for member in self.members], list(self.flight))

    def bring(self, copy: Copy, late: tuple[int, int]) -> bool:
        """Let a copy arrive, and all that it waits for, except the late message; return whether it is delivered."""
        here = self.members[copy.destination]
        here.receive(copy)
        while (held := {c.id: causes for c, causes in here.receiver.pending()}) and copy.id in held:
            wanted, asked = set[tuple[int, int]](), [*held[copy.id]]
            while asked:
                cause = asked.pop()
                if cause not in wanted:
                    wanted.add(cause)
                    asked += held.get(MessageId(*cause), ())
            ready = [c for c in self.flight if c.destination == here.me and (c.sender, c.count) in wanted - {late}]
            if not ready:
                return False
            self.flight.remove(ready[0])
            here.receive(ready[0])
        return True


def overtakes(world: World, copy: Copy, fact: tuple[int, int], to: int) -> bool:
    """Let a copy be delivered, its destination speak to `to`, and that arrive before the message of the fact does."""
    world = world.fork()
    if copy.destination != to:
        if not world.bring(copy, (-1, -1)):
            return False
        sent = world.members[copy.destination].send(1 << to)
        assert isinstance(sent, Sent)
        copy = sent.copies[0]
    return world.bring(copy, fact)


def without_fact(copy: Copy, message: tuple[int, int], to: int) -> Copy:
    """Return a copy that does not say that `to` is a destination of a message."""
    sender, count = message
    group = tuple((c, mask & ~(1 << to) if c == count else mask) for c, mask in copy.stamp[sender])
    newest = group[-1][0]
    kept = tuple((c, mask) for c, mask in group if mask or c == newest)
    return replace(copy, stamp=Log({**copy.stamp, sender: kept}))


@pytest.mark.parametrize("seed", SEEDS)
def test_theorem_2_without_any_one_fact_order_breaks(seed: int) -> None:
    """Whatever the fact: with it the later message waits, without it that one is delivered first."""
    rng, tried = Random(seed), 0
    world = World([KS(Roster.of(4), place) for place in range(4)], [])
    for _ in range(60):
        if not world.flight or rng.random() < 0.5:
            here = rng.randrange(4)
            sent = world.members[here].send(rng.randrange(1, 16) & ~(1 << here) or 1 << (here + 1) % 4)
            assert isinstance(sent, Sent)
            for copy in sent.copies:
                for message, to in sorted(facts_of(copy.stamp)):
                    late = (message.sender, message.count)
                    on_its_way = any((c.sender, c.count, c.destination) == (*late, to) for c in world.flight)
                    after = World(world.members, [c for c in sent.copies if c is not copy] + world.flight)
                    if on_its_way and needed_there(after, copy, late, to):
                        tried += 1
                        assert not overtakes(after, copy, late, to)
                        assert overtakes(after, without_fact(copy, late, to), late, to), name_of(
                            NAMES[late[0]], late[1]
                        )
            world.flight += sent.copies
        else:
            copy = world.flight.pop(rng.randrange(len(world.flight)))
            world.members[copy.destination].receive(copy)
    assert tried >= 15


def needed_there(world: World, copy: Copy, late: tuple[int, int], to: int) -> bool:
    """Return whether the fact is not yet known to be over where the copy goes: its next message must then carry it."""
    if copy.destination == to:
        return True
    world = world.fork()
    there = world.members[copy.destination]
    return world.bring(copy, (-1, -1)) and bool(dict(there.log.get(late[0], ())).get(late[1], 0) >> to & 1)


class Deaf(KS):
    """`ks` without the delivery condition."""

    @staticmethod
    def needs(copy: Copy, me: int) -> Needs:
        return ()


def test_theorem_2_and_so_it_does_where_ks_does_not_wait() -> None:
    a, b, c = (Deaf(Roster("abc"), name) for name in "abc")
    late, told = a.send(["c"]), a.send(["b"])
    assert isinstance(late, Sent)
    assert isinstance(told, Sent)
    b.receive(told.copies[0])
    answer = b.send(["c"])
    assert isinstance(answer, Sent)
    assert list(positions(answer.copies[0].stamp[0][0][1])) == [2], "it says that a1 goes to c"
    assert [type(effect) for effect in c.receive(answer.copies[0])] == [Deliver], "and c does not listen"

"""Forks share nothing, restored members go on alike, renamed schedules lead to renamed states: for every protocol."""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import Any

import pytest
from support.some import some

from thence.core.model.message import Copy
from thence.core.model.roster import Roster
from thence.core.wire.sets import rename_mask
from thence.errors import MisuseError, PeerError
from thence.protocols import REGISTRY, Effect, Member, Sent, create, lookup

NAMES = ("node1", "Zoë", "x-y", "n#2", "ab")
LABELS = (None, "red")
OPTIONS: dict[str, dict[str, Any]] = {
    "bounded": {"bound": 2},
    "central": {"coordinator": "Zoë"},
    "hierarchy": {"zones": "Zoë,node1|x-y,n#2,ab"},
    "pc-broadcast": {"overlay": "Zoë:node1,x-y;n#2:x-y;ab:node1,n#2"},
}
OPEN = [name for name, entry in REGISTRY.items() if entry.grows]


class System:
    """Members and what is under way; each step is an input of one member, so that others can be given it too."""

    def __init__(self, name: str, rng: Random, options: dict[str, Any]) -> None:
        self.needs, self.rng, self.size = lookup(name).needs, rng, len(NAMES)
        self.members = [create(name, Roster(NAMES), p, **options) for p in range(self.size)]
        self.net: list[Copy] = []
        self.tokens: dict[str | None, object] = {}

    def chosen(self) -> tuple[int, Copy | tuple[int, str | None]]:
        """Choose who acts, and on what: a copy, or destinations and a label."""
        if self.net and self.rng.random() < 0.55:
            copy = self.net[self.rng.randrange(len(self.net))]
            if "fifo" in self.needs:
                link = (copy.source, copy.destination)
                copy = next(first for first in self.net if (first.source, first.destination) == link)
            self.net.remove(copy)
            return copy.destination, copy
        p, label = self.rng.randrange(self.size), self.rng.choice(LABELS)
        if "broadcast only" in self.needs:
            return p, ((1 << self.size) - 1 & ~(1 << p), label)
        mask = 1 << self.rng.randrange(self.size)
        return p, (mask if "unicast only" in self.needs else mask | self.rng.randrange(1 << self.size), label)

    def act(self, member: Member, given: Copy | tuple[int, str | None]) -> list[Any]:
        """Give a member its input, which it reads from bytes as what it is; return what it does."""
        if isinstance(given, Copy):
            assert member.decode(member.encode(given), source=NAMES[given.source]) == given
            return list(member.receive(given))
        mask, label = given
        token = self.tokens.get(label) if "serialized sends" in self.needs else None
        return [member.send(mask, label=label, token=token)]

    def note(self, effects: list[Any]) -> None:
        """Let copies go under way."""
        for effect in effects:
            self.net += getattr(effect, "copies", ())
            if isinstance(effect, Sent):
                self.tokens[effect.label] = effect.token

    def step(self) -> None:
        p, given = self.chosen()
        self.note(self.act(self.members[p], given))


def whole(member: Member) -> tuple[object, ...]:
    return member.state(), member.snapshot(), member.pending()


@pytest.mark.parametrize("name", REGISTRY)
def test_a_fork_shares_nothing(name: str) -> None:
    for seed in range(6):
        system = System(name, Random(f"{name} fork {seed}"), OPTIONS.get(name, {}))
        for _ in range(25 + seed):
            system.step()
        twins = [member.fork() for member in system.members]
        before, under_way = [whole(member) for member in twins], system.net[:]
        restored = [type(member).restore(member.snapshot()) for member in twins]
        if seed % 2:
            system.members, twins = twins, system.members
        for _ in range(50):
            system.step()
        assert [whole(member) for member in twins] == before, f"seed {seed}"
        for copy in under_way:  # what is worked out from the state is nobody else's either
            one, other = (members[copy.destination].receive(copy) for members in (twins, restored))
            assert list(map(map_of, one)) == list(map(map_of, other)), f"seed {seed}"


@pytest.mark.parametrize("name", REGISTRY)
def test_a_twin_goes_on_alike(name: str) -> None:
    """Forked, or restored from its snapshot: the same effects, the same bytes, the same state after every input."""
    for seed in range(4):
        rng = Random(f"{name} twins {seed}")
        system = System(name, rng, OPTIONS.get(name, {}))
        twins: dict[int, Member] = {}
        for _ in range(90):
            p, given = system.chosen()
            member = system.members[p]
            if p not in twins or rng.random() < 0.15:
                twins[p] = member.fork() if rng.random() < 0.5 else type(member).restore(member.snapshot())
            one, other = system.act(member, given), system.act(twins[p], given)
            assert [map_of(e) for e in one] == [map_of(e) for e in other], f"seed {seed}"
            for each, its in zip(one, other, strict=True):
                pairs = zip(getattr(each, "copies", ()), getattr(its, "copies", ()), strict=True)
                assert all(member.encode(a) == twins[p].encode(b) for a, b in pairs), f"seed {seed}"
            assert member.state() == twins[p].state(), f"seed {seed}"
            system.note(one)


def map_of(effect: Effect) -> tuple[object, ...]:
    """Return an effect; the order in which causes are named is that of the log in memory, and does not count."""
    causes = Counter(getattr(effect, "waits_for", ()))
    return type(effect).__name__, getattr(effect, "copy", getattr(effect, "copies", None)), frozenset(causes.items())


@pytest.mark.parametrize("name", [name for name in REGISTRY if name != "ech-r9" and not REGISTRY[name].protocol.tokens])
def test_a_renamed_schedule_leads_to_the_renamed_state(name: str) -> None:
    for seed in range(6):
        rng = Random(f"{name} names {seed}")
        rename = rng.sample(range(len(NAMES)), len(NAMES))
        options = OPTIONS.get(name, {})
        moved = {key: renamed(value, rename) for key, value in options.items()}
        system, other = System(name, rng, options), System(name, rng, moved)
        for _ in range(60):
            p, given = system.chosen()
            if isinstance(given, Copy):
                key = place(given, rename)
                there: Any = next(copy for copy in other.net if place(copy) == key)
                other.net.remove(there)
            else:
                there = (rename_mask(given[0], rename), given[1])
            system.note(system.act(system.members[p], given))
            other.note(other.act(other.members[rename[p]], there))
            for q, member in some(enumerate(system.members)):
                assert member.state(rename) == other.members[rename[q]].state(), f"seed {seed}"


def renamed(value: object, rename: list[int]) -> object:
    if not isinstance(value, str):
        return value
    words = re.split("([|,:;])", value)
    return "".join(NAMES[rename[NAMES.index(word)]] if word in NAMES else word for word in words)


def place(copy: Copy, rename: list[int] | None = None) -> tuple[object, ...]:
    ends = (copy.sender, copy.source, copy.destination)
    return copy.count, copy.kind, copy.label, *(ends if rename is None else [rename[end] for end in ends])


@pytest.mark.parametrize("name", OPEN)
def test_a_label_that_comes_later_knows_who_is_there(name: str) -> None:
    """Who joined, left or was abandoned holds for orders that were there, and for those that begin afterwards."""
    a, b = create(name, "abc", "a"), create(name, "abc", "b")
    a.send(["b"], label="red")
    for member in (a, b):
        member.join("d")
        member.leave("c")
    for label in ("red", "new"):
        with pytest.raises(MisuseError, match="c left"):
            a.send(["c"], label=label)
        sent = a.send(["b", "d"], label=label)
        assert isinstance(sent, Sent)
        assert {order.roster.names for order in a.orders()} == {("a", "b", "c", "d")}
        assert {order.gone for order in a.orders()} == {0b100}
    if not type(a).cannot_abandon:
        copy = next(copy for copy in sent.copies if copy.destination == 1)
        b.abandon("a")
        with pytest.raises(PeerError, match="came after its sender was abandoned"):
            b.receive(copy)

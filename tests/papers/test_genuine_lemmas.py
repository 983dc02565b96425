"""Schiper and Pedone 2009, appendix A: lemmas A.1 to A.6 under random crashes, and figures 1 and 2.

The propositions A.1 to A.8 are what tests/papers/test_genuine_multicast.py judges by definition. In lemma A.3 "m is the
k-th message to g" is said of messages that are addressed to g; of others nbCast[g] is the number of those before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import pytest

from thence.core.model.message import Copy
from thence.core.model.order import Execution
from thence.core.protocols.a_causal import ACausal, CausalOkays, matrix
from thence.core.protocols.a_fifo import AFifo
from thence.core.protocols.ack_receiver import OK, leader
from thence.core.protocols.effects import Deliver, Effect, Sent, Transmit
from thence.core.protocols.registry import create
from thence.lab.explorer.random_walk import RandomWalk, walk
from thence.lab.explorer.setting import Setting, Variant

Key = tuple[int, int]
"""sender and count of a message"""
LAYOUTS = [(4, ""), (5, "ab|cd|e"), (4, "a|bc|d")]
SEEDS = range(25)


class WatchedFifo(AFifo):
    """A_fifo that notes what arrives in any form, what it delivers, and what it had delivered at each OK."""

    name = "watched-fifo"
    code = 196

    def begin(self) -> None:
        super().begin()
        self.arrived: set[Key] = set()
        self.delivered: list[Key] = []
        self.okayed: list[tuple[Key, frozenset[Key]]] = []

    def receive(self, copy: Copy) -> list[Effect]:
        self.arrived.add((copy.sender, copy.count))
        return self._noted(super().receive(copy))

    def trusted(self, processes: Iterable[str]) -> list[Effect]:
        return self._noted(super().trusted(processes))

    def _noted(self, effects: list[Effect]) -> list[Effect]:
        for effect in effects:
            if isinstance(effect, Deliver):
                self.delivered.append((effect.copy.sender, effect.copy.count))
            elif isinstance(effect, Transmit) and effect.copies[0].kind == OK:
                copy = effect.copies[0]
                self.okayed.append(((copy.sender, copy.count), frozenset(self.delivered)))
        return effects


class WatchedOkays(CausalOkays):
    """Notes what is F-delivered, and after each C-delivery how far nbDel has come."""

    def f_delivered(self, copy: Copy) -> list[Effect]:
        self.f_taken = [*getattr(self, "f_taken", []), (copy.sender, copy.count)]
        return super().f_delivered(copy)


class WatchedCausal(ACausal):
    """A_causal that notes nbDel and its C-deliveries after each step."""

    name = "watched-causal"
    code = 197
    receives = WatchedOkays

    def begin(self) -> None:
        super().begin()
        self.delivered: list[Key] = []
        self.seen: list[tuple[tuple[int, ...], tuple[Key, ...]]] = []

    def receive(self, copy: Copy) -> list[Effect]:
        return self._noted(super().receive(copy))

    def trusted(self, processes: Iterable[str]) -> list[Effect]:
        return self._noted(super().trusted(processes))

    def _noted(self, effects: list[Effect]) -> list[Effect]:
        self.delivered += [(e.copy.sender, e.copy.count) for e in effects if isinstance(e, Deliver)]
        self.seen.append((tuple(self.receiver.delivered), tuple(self.delivered)))  # type: ignore[attr-defined]
        return effects


class Ran:
    """One execution with what is asked about it, by definition."""

    def __init__(self, kind: type[AFifo] | type[ACausal], of: str, processes: int, groups: str, seed: int) -> None:
        variant = Variant(kind, of, 0, "unsafe", "", "")
        size = (kind.name, processes, 10, "any")
        setting = Setting(*size, groups=groups, crashes=processes - 1, variant=variant)
        self.run: RandomWalk = walk(setting, seed, patience=(0.1, 0.4, 0.7)[seed % 3])
        self.correct = [p for p in range(processes) if not self.run.faulty >> p & 1]
        self.members = self.run.members
        self.groups = setting.group_masks()
        self.stamps: dict[Key, Copy] = {(copy.sender, copy.count): copy for copy in self.run.stamps}
        self.to: dict[Key, int] = {key: copy.destinations for key, copy in self.stamps.items()}

    @cached_property
    def execution(self) -> Execution:
        return Execution([event for event in self.run.events if event.kind in ("send", "deliver")])

    def before(self, one: Key, other: Key) -> bool:
        """C-MCast(one) -> C-MCast(other)."""
        names = [self.run.setting.roster().name(sender) + str(count) for sender, count in (one, other)]
        return self.execution.precedes(*names)

    def pred(self, message: Key, *, causal: bool) -> set[Key]:
        """G_pred(m): definition A.1, or A.2 if `causal`."""
        everyone = sum(1 << p for p in self.correct)
        found = {message}
        grown = True
        while grown:
            grown = False
            for one in set(self.to) - found:
                for other in list(found):
                    common = self.to[one] & self.to[other]
                    earlier = self.before(one, other) if causal else one[0] == other[0] and one[1] < other[1]
                    if earlier and (common if causal else common & everyone):
                        found.add(one)
                        grown = True
                        break
        return found

    def correct_of(self, message: Key) -> list[int]:
        return [p for p in self.correct if self.to[message] >> p & 1]


def runs(kind: type[AFifo] | type[ACausal], of: str) -> Iterator[Ran]:
    for processes, groups in LAYOUTS:
        for seed in SEEDS:
            yield Ran(kind, of, processes, groups, seed)


def test_lemma_a1_what_all_received_with_all_before_it_is_delivered() -> None:
    met = missed = 0
    for ran in runs(WatchedFifo, "a-fifo"):
        for message in ran.to:
            arrived = all(
                m in ran.members[p].arrived for m in ran.pred(message, causal=False) for p in ran.correct_of(m)
            )
            delivered = all(message in ran.members[p].delivered for p in ran.correct_of(message))
            assert delivered or not arrived, f"{message} in {ran.run}"
            met, missed = met + arrived, missed + (not arrived)
    assert met > 100
    assert missed > 20, "nothing was ever lost: the lemma was not tried"


def test_lemma_a2_an_ok_says_that_all_before_was_delivered() -> None:
    said = behind = 0
    for ran in runs(WatchedFifo, "a-fifo"):
        for place, member in enumerate(ran.members):
            for (sender, count), delivered in member.okayed:
                owed = {m for m, to in ran.to.items() if m[0] == sender and m[1] < count and to >> place & 1}
                assert owed <= delivered, f"{place} OKs {sender, count} in {ran.run}"
                said, behind = said + 1, behind + bool(owed)
    assert behind > 100, f"{said} OKs, hardly any behind another message"


def test_lemmas_a3_and_a4_what_nbcast_counts() -> None:
    ordered = 0
    for ran in runs(WatchedCausal, "a-causal"):
        counts: dict[tuple[int, int], int] = {}
        for message in sorted(ran.stamps):
            copy, rows = ran.stamps[message], matrix(ran.stamps[message].stamp)
            for group in ran.groups:
                key = (message[0], group)
                counts[key] = counts.get(key, 0) + bool(group & copy.destinations)
                assert rows[leader(group)][message[0]] == counts[key]  # lemma A.3
        for one in ran.stamps:
            for other in ran.stamps:
                if one != other and ran.before(one, other):
                    ordered += 1
                    mine, theirs = matrix(ran.stamps[one].stamp), matrix(ran.stamps[other].stamp)
                    assert all(a <= b for g in mine for a, b in zip(mine[g], theirs[g], strict=True))  # lemma A.4
    assert ordered > 500


def test_lemma_a5_nbdel_counts_the_first_messages_to_the_group() -> None:
    looked = 0
    for ran in runs(WatchedCausal, "a-causal"):
        for place, member in enumerate(ran.members):
            mine = next(group for group in ran.groups if group >> place & 1)
            for counts, delivered in member.seen:
                for sender, count in enumerate(counts):
                    to_us = sorted(m for m, to in ran.to.items() if m[0] == sender and to & mine)
                    looked += bool(count)
                    assert [m for m in delivered if m[0] == sender] == to_us[:count], (
                        f"{place} of {sender} in {ran.run}"
                    )
    assert looked > 500


def test_lemma_a6_what_all_f_delivered_with_all_before_it_is_delivered() -> None:
    met = missed = 0
    for ran in runs(WatchedCausal, "a-causal"):
        taken = [getattr(member.receiver, "f_taken", []) for member in ran.members]
        for message in ran.to:
            given = all(m in taken[p] for m in ran.pred(message, causal=True) for p in ran.correct_of(m))
            delivered = all(message in ran.members[p].delivered for p in ran.correct_of(message))
            assert delivered or not given, f"{message} in {ran.run}"
            met, missed = met + given, missed + (not given)
    assert met > 100
    assert missed > 20, "nothing was ever lost: the lemma was not tried"


# -- figures -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["a-fifo", "a-causal", "ks-ft"])
def test_figure_1_what_is_lost_is_overtaken_by_nothing(protocol: str) -> None:
    """p: m1 to g2; m2 to g1 and g2; p crashes, and all that it sent to g2 is lost. Nobody delivers m2, then or ever."""
    p, one, two = (create(protocol, "pxy", name, groups="p|x|y") for name in "pxy")
    first, second = p.send(["y"]), p.send(["x", "y"])
    assert isinstance(first, Sent)
    assert isinstance(second, Sent)
    effects = one.receive(next(copy for copy in second.copies if copy.destination == 1))
    for member in (one, two):
        effects += member.trusted(["x", "y"])
    while hops := [copy for effect in effects if isinstance(effect, Transmit) for copy in effect.copies]:
        assert not any(isinstance(effect, Deliver) for effect in effects)
        effects = [
            e for copy in hops if copy.destination in (1, 2) for e in (one, two)[copy.destination - 1].receive(copy)
        ]
    assert not any(isinstance(effect, Deliver) for effect in effects)


def copies_to(effects: Iterable[Effect], place: int) -> list[Copy]:
    return [c for e in effects if isinstance(e, Transmit) for c in e.copies if c.destination == place]


def test_figure_2_a_relation_that_is_blind_for_g() -> None:
    """m of p to g; x of p to r; m' of r to g: nothing delivered on the way was addressed to g, and m' waits for m.

    The group is {g, h}; m is slow on its way to g, and p, which trusts h there, knows that h has it.
    """
    p, r, g, h = (create("a-causal", "prgh", name, groups="p|r|gh") for name in "prgh")
    p.trusted("prh")
    blind = p.send(["g", "h"])
    assert isinstance(blind, Sent)
    late, quick = blind.copies
    for copy in copies_to(h.receive(quick), 0):
        p.receive(copy)
    known = p.send(["r"])
    assert isinstance(known, Sent)
    assert [type(e) for e in r.receive(known.copies[0]) if isinstance(e, Deliver)] == [Deliver]
    answer = r.send(["g", "h"])
    assert isinstance(answer, Sent)
    to_g, to_h = answer.copies
    effects = g.receive(to_g)
    for copy in copies_to(h.receive(to_h), 2):
        effects += g.receive(copy)
    assert not any(isinstance(e, Deliver) for e in effects)
    assert [str(cause) for pending in g.pending() for cause in pending.waits_for] == ["p#1"]
    g.trusted("prg")
    after = [e.copy.sender for e in g.receive(late) if isinstance(e, Deliver)]
    assert after == [0, 1]

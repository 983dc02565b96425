"""KS98: lemmas 1 to 7, figure 2 and the processing bounds of section 6.2, as properties of what `ks` keeps and sends.

Every event of random executions is looked at: the log before and after it, and what travels on each copy.
"""

from __future__ import annotations

from functools import reduce
from operator import or_
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from support.some import some
from support.walk import play

from thence.core.model.events import parse
from thence.core.model.fixed_points import FixedPoints
from thence.core.model.message import Copy
from thence.core.model.roster import Roster, positions
from thence.core.protocols.effects import Effect, Sent
from thence.core.protocols.ks import KS

Log = dict[int, tuple[tuple[int, int], ...]]
"""{sender: ((count, destinations), ...)}"""
SEEDS = range(12)


class Happened(NamedTuple):
    """One event of an execution: the log of its process before and after, and the copies that left or the one taken."""

    process: int
    before: Log
    after: Log
    sent: tuple[Copy, ...] = ()
    taken: Copy | None = None


class Noting(KS):
    """`ks` that notes every delivery by itself, those that another sets free too."""

    happened: list[Happened]

    def _delivered(self, copy: Copy) -> list[Effect]:
        before = dict(self.log)
        effects = super()._delivered(copy)
        self.happened.append(Happened(self.me, before, dict(self.log), (), copy))
        return effects


def execution(seed: int, processes: int = 4, messages: int = 30) -> list[Happened]:
    """Let members of `ks` talk at random over channels that keep no order."""
    rng, happened = Random(seed), list[Happened]()
    members = [Noting(Roster.of(processes), place) for place in range(processes)]
    for member in members:
        member.happened = happened
    flight: list[Copy] = []
    left = messages
    while left or flight:
        if left and (not flight or rng.random() < 0.35):
            here = rng.randrange(processes)
            to = rng.randrange(1, 1 << processes) & ~(1 << here) or 1 << (here + 1) % processes
            before = dict(members[here].log)
            sent = members[here].send(to)
            assert isinstance(sent, Sent)
            happened.append(Happened(here, before, dict(members[here].log), sent.copies))
            flight += sent.copies
            left -= 1
        else:
            copy = flight.pop(rng.randrange(len(flight)))
            members[copy.destination].receive(copy)
    assert not any(member.pending() for member in members)
    return happened


def latest(log: Log, sender: int) -> int:
    """TS of definition 6; 0 where the paper has its initial entry."""
    return max((count for count, _ in log.get(sender, ())), default=0)


def destinations(log: Log) -> dict[tuple[int, int], int]:
    return {(sender, count): mask for sender, group in log.items() for count, mask in group}


@pytest.mark.parametrize("seed", SEEDS)
def test_lemma_1_a_destination_stands_in_one_entry_of_each_sender(seed: int) -> None:
    logs = [log for e in execution(seed) for log in (e.before, e.after, *(copy.stamp for copy in e.sent))]
    for group in some(group for log in logs for group in log.values()):
        together = reduce(or_, (mask for _, mask in group), 0)
        assert together.bit_count() == sum(mask.bit_count() for _, mask in group)


@pytest.mark.parametrize("seed", SEEDS)
def test_lemmas_2_and_3_what_is_known_of_a_sender_never_goes_back(seed: int) -> None:
    for event in some(execution(seed)):
        for sender in range(4):
            assert latest(event.before, sender) <= latest(event.after, sender)  # lemma 2, at one process
            for copy in event.sent:  # lemma 3, onto a message ...
                assert latest(event.before, sender) <= latest(copy.stamp, sender)
            if event.taken is not None:  # ... and from it
                assert latest(event.taken.stamp, sender) <= latest(event.after, sender)


@pytest.mark.parametrize("seed", SEEDS)
def test_lemma_4_destinations_of_an_entry_of_a_log_only_go(seed: int) -> None:
    """An entry that is gone has none, and does not come back."""
    known: dict[tuple[int, tuple[int, int]], int] = {}
    for event in execution(seed):
        after = destinations(event.after)
        for message in {message for process, message in known if process == event.process} | after.keys():
            place, mask = (event.process, message), after.get(message, 0)
            assert not mask & ~known.get(place, mask)
            known[place] = mask
    assert known


@pytest.mark.parametrize("seed", SEEDS)
def test_lemma_5_destinations_of_an_entry_only_go_along_every_path(seed: int) -> None:
    events = execution(seed)
    before = pasts(events)
    sends = {(copy.sender, copy.count): place for place, event in enumerate(events) for copy in event.sent}
    assert any(destinations(copy.stamp) for event in events for copy in event.sent)
    assert any(event.taken is not None for event in events)
    for event in events:
        logged = destinations(event.before)
        for copy in event.sent:  # from a log onto a message ...
            for message, mask in destinations(copy.stamp).items():
                assert not mask & ~logged[message]
        if event.taken is not None:  # ... and into a log; what the message could know of and does not say is gone
            own = (event.taken.sender, event.taken.count)
            carried = destinations(event.taken.stamp) | {own: event.taken.destinations}
            for message, mask in destinations(event.after).items():
                if message == own or sends[message] in before[sends[own]]:
                    assert not mask & ~carried.get(message, 0)


def pasts(events: list[Happened]) -> list[set[int]]:
    """Return for each event the places of those that happened before it."""
    last: dict[int, int] = {}
    sends: dict[tuple[int, int], int] = {}
    found: list[set[int]] = []
    for place, event in enumerate(events):
        before = [last[event.process]] if event.process in last else []
        if event.taken is not None:
            before.append(sends[event.taken.sender, event.taken.count])
        found.append({*before, *(earlier for cause in before for earlier in found[cause])})
        last[event.process] = place
        sends |= {(copy.sender, copy.count): place for copy in event.sent}
    return found


def propagates(event: Happened, message: tuple[int, int], bit: int) -> bool:
    """Return whether a fact leaves an event on all outgoing edges: its log, and every copy that it sends."""
    logs = [event.after, *(copy.stamp for copy in event.sent)]
    return all(destinations(log).get(message, 0) & bit for log in logs)


@pytest.mark.parametrize("seed", SEEDS)
def test_lemma_6_who_first_lets_a_fact_go_had_it_just_before(seed: int) -> None:
    """Any event after m, other than its delivery at d, that is the first on its paths to keep the fact from an edge."""
    events = execution(seed)
    before = pasts(events)
    first = 0
    for place, event in enumerate(events):
        for copy in event.sent:
            message, bit = (copy.sender, copy.count), 1 << copy.destination
            after = [later for later in range(len(events)) if place in before[later]]
            lets_go = [later for later in after if not propagates(events[later], message, bit)]
            for later in lets_go:
                taken, here = events[later].taken, events[later].process
                delivery = taken is not None and (taken.sender, taken.count) == message and here == copy.destination
                if not delivery and not before[later] & set(lets_go):
                    first += 1
                    assert destinations(events[later].before).get(message, 0) & bit
    assert first


@pytest.mark.parametrize("seed", SEEDS)
def test_lemma_7_an_empty_entry_is_the_latest_of_its_sender(seed: int) -> None:
    empty = 0
    for event in execution(seed):
        for log in (event.after, *(copy.stamp for copy in event.sent)):
            for sender, group in log.items():
                for count, mask in group:
                    if not mask:
                        empty += 1
                        assert count == latest(log, sender)
    assert empty


@pytest.mark.parametrize("processes", [3, 5, 8])
def test_section_62_rcv_touches_n_squared_entries_and_snd_n_cubed(processes: int) -> None:
    """By lemmas 1 and 7 a log has at most n + 1 entries of each sender: n (n + 1) in all, and so has each stamp."""
    most = processes * (processes + 1)
    for event in some(execution(1, processes, 60)):
        entries = sum(map(len, event.before.values()))
        assert entries <= most
        if event.taken is not None:
            assert entries + sum(map(len, event.taken.stamp.values())) <= 2 * most  # RCV: both are merged once
        written = sum(sum(map(len, copy.stamp.values())) for copy in event.sent)
        assert written <= processes * most  # SND(2): a stamp for each destination


def by_complement(stamp: Log, processes: int) -> dict[int, list[int]]:
    """For each sender, how many processes each of its entries names if PROC - Dests stands where it is smaller."""
    return {
        sender: [min(mask.bit_count(), processes - mask.bit_count()) for _, mask in group]
        for sender, group in stamp.items()
    }


@pytest.mark.parametrize("processes", [5, 8, 20])
def test_erratum_35_complements_do_not_halve_what_is_carried_of_a_sender(processes: int) -> None:
    """nd_i is of all entries of a sender: of unicasts to all the others, n - 2 are on the last copy, none smaller."""
    member = KS(Roster.of(processes), 0)
    for place in range(1, processes):
        sent = member.send(1 << place)
        assert isinstance(sent, Sent)
    named = by_complement(sent.copies[0].stamp, processes)
    assert sum(named[0]) == processes - 2 > processes / 2
    page = (Path(__file__).parents[2] / "docs" / "explanation/errata/ks98.md").read_text(encoding="utf-8")
    assert "a!1>b a!2>c a!3>d a!4>e" in page


def test_section_62_complements_halve_each_entry() -> None:
    copies = [copy for seed in SEEDS for event in execution(seed) for copy in event.sent]
    assert all(max(entries) <= 2 for copy in copies for entries in by_complement(copy.stamp, 4).values())
    assert any(mask.bit_count() > 2 for copy in copies for mask in destinations(copy.stamp).values())


FIGURE_2 = (
    "i!1>d i!2>j i!3>l j?i2 j!1>k k?j1 k!1>d k!2>j l?i3 l!1>d l!2>j d?i1 d!1>j j?k2 j!2>k j?l2 j!3>d j?d1 j!4>d "
    "k?j2 k!3>d d?k1 d?l1 d?j3 d?j4 d?k3"
)
"""The rectangle is d's delivery of i1, the unshaded circles are the sends of k1 and l1, which are concurrent."""


def test_figure_2_how_far_a_fact_goes() -> None:
    """i1 to d is needed up to its delivery (PC1) and up to the first sends to d on each path (PC2), and not after."""
    asked = FixedPoints(parse(FIGURE_2))
    assert [(point.kind, point.event.message) for point in asked.fixed_points("i1", "d")] == [
        ("FP2", "k1"),
        ("FP2", "l1"),
        ("FP1", "i1"),
    ]
    needed = {copy for copy in asked.facts() if asked.why(("i1", "d"), copy).needed}
    assert needed == {("i2", "j"), ("i3", "l"), ("j1", "k"), ("k1", "d"), ("l1", "d")}


def test_figure_2_is_what_ks_carries() -> None:
    run = play("ks", "dijkl", FIGURE_2.replace("?", "<"))
    assert [f"{process}?{message}" for process, message in run.delivered] == [
        step for step in FIGURE_2.split() if "?" in step
    ]
    carried = {
        (run.name(copy), run.roster.name(copy.destination))
        for copy in run.copies
        for message, mask in KS.dependencies(copy)
        if run.name_of_id(message) == "i1" and mask & run.roster.mask("d")
    }
    assert carried == {("i2", "j"), ("i3", "l"), ("j1", "k"), ("k1", "d"), ("l1", "d")}


def test_positions_are_small() -> None:
    """The driver above addresses every subset: masks of one to three destinations all occur."""
    sizes = {len(list(positions(copy.destinations))) for event in execution(0) for copy in event.sent}
    assert sizes == {1, 2, 3}

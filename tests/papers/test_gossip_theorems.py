"""Krishnamurthy and Mukund: theorems 2.1, 3.1, 3.2, 3.6, proposition 2.2, lemmas 3.3 to 3.5, 3.7, 4.1, by definition.

After every event of random executions the arrays are compared with what happened-before says of the events.
"""

from __future__ import annotations

from random import Random

import pytest
from papers.naive_gossip import Gossiped, NaiveGossip
from support.walk import start

from thence.core.model.message import Copy
from thence.core.model.roster import Roster
from thence.core.protocols.bounded import Bounded
from thence.core.protocols.effects import Deferred, Deliver, Sent
from thence.core.protocols.epochs import Epochs
from thence.core.protocols.gossip import Gossip

Past = frozenset[tuple[int, int]]
"""events (process, number) that happened before, or are, the one asked about"""
SEEDS = range(8)


class History:
    """Events and their pasts, by definition."""

    def __init__(self, processes: int) -> None:
        self.n = processes
        self.now: list[Past] = [frozenset() for _ in range(processes)]
        self.past: dict[tuple[int, int], Past] = {}
        self.sends: dict[tuple[int, int], int] = {}
        """how many messages a process had sent, after each of its events"""

    def happens(self, process: int, cause: Past = frozenset(), *, send: bool) -> Past:
        number = 1 + max((k for p, k in self.now[process] if p == process), default=0)
        before = self.sends.get((process, number - 1), 0)
        self.now[process] = self.now[process] | cause | {(process, number)}
        self.past[process, number] = self.now[process]
        self.sends[process, number] = before + send
        return self.now[process]

    def latest(self, process: int, past: Past) -> tuple[int, int] | None:
        numbers = [k for p, k in past if p == process]
        return (process, max(numbers)) if numbers else None

    def time(self, r: int, past: Past, *, every: bool = False) -> int:
        """T_r of the latest event of r in a past: its sends so far, or all its events."""
        event = self.latest(r, past)
        return 0 if event is None else event[1] if every else self.sends[event]

    def secondary(self, p: int, q: int, r: int, *, every: bool = False) -> int:
        event = self.latest(q, self.now[p])
        return 0 if event is None else self.time(r, self.past[event], every=every)


def protocol_1(seed: int, *, every: bool) -> list[tuple[int, int, int]]:
    """Run Protocol 1 over channels without order; return where GOSSIP is not what theorem 2.1 says."""
    rng, n = Random(seed), 4
    members = [NaiveGossip(n, place, every_event=every) for place in range(n)]
    history, flight, wrong = History(n), list[tuple[int, Gossiped, Past]](), set[tuple[int, int, int]]()
    for _ in range(80):
        if not flight or rng.random() < 0.5:
            p, to = rng.sample(range(n), 2)
            flight.append((to, members[p].send(), history.happens(p, send=True)))
        else:
            p, message, cause = flight.pop(rng.randrange(len(flight)))
            members[p].deliver(message)
            history.happens(p, cause, send=False)
        wrong |= {
            (p, q, r)
            for q in range(n) for r in range(n)
            if members[p].gossip[q][r] != history.secondary(p, q, r, every=every)
        }  # fmt: skip
        _proposition_22(members, history)
    return sorted(wrong)


def _proposition_22(members: list[NaiveGossip], history: History) -> None:
    """Who has later gossip of r has the larger entry."""
    for r in range(history.n):
        known = [(history.time(r, history.now[p]), members[p].gossip[p][r]) for p in range(history.n) if p != r]
        for one, entry in known:
            assert all(entry >= other for time, other in known if one >= time)


@pytest.mark.parametrize("seed", SEEDS)
def test_theorem_21_and_proposition_22(seed: int) -> None:
    assert protocol_1(seed, every=False) == []


def test_erratum_31_with_a_clock_of_all_events_a_delivery_is_missing() -> None:
    """Wrong are entries [p][p] alone, at p itself: what others are told comes from sends."""
    wrong = {place for seed in SEEDS for place in protocol_1(seed, every=True)}
    assert wrong
    assert all(p == q == r for p, q, r in wrong)


def edges(n: int, kind: str) -> list[tuple[int, int]]:
    if kind == "ring":
        return [(p, (p + 1) % n) for p in range(n)]
    return [(p, q) for p in range(n) for q in range(n) if p != q]


def protocol_2(seed: int, kind: str = "complete") -> None:
    """Run Protocol 2, unicasts; hold every array against the definition after every event."""
    rng, n = Random(seed), 4
    members = [Gossip(Roster.of(n), place) for place in range(n)]
    history, flight, sent = History(n), list[tuple[Copy, Past]](), dict[tuple[int, int], Past]()
    last: dict[tuple[int, int], list[tuple[int, Past]]] = {}
    for _ in range(100):
        if not flight or rng.random() < 0.4:
            p, to = rng.choice(edges(n, kind))
            done = members[p].send(1 << to)
            assert isinstance(done, Sent)
            past = history.happens(p, send=True)
            flight.append((done.copies[0], past))
            sent[p, done.message.count] = past
            last.setdefault((p, to), []).append((done.message.count, past))
        else:
            copy, _ = flight.pop(rng.randrange(len(flight)))
            p = copy.destination
            for effect in members[p].receive(copy):
                if isinstance(effect, Deliver):
                    history.happens(p, sent[effect.copy.sender, effect.copy.count], send=False)
        _arrays(members[p], history, last)


def _arrays(member: Gossip, history: History, last: dict[tuple[int, int], list[tuple[int, Past]]]) -> None:
    p = member.me
    for q in range(history.n):
        for r in range(history.n):
            assert member.gossip[q][r] == history.secondary(p, q, r)  # theorem 3.1
            known = [count for count, past in last.get((q, r), ()) if past <= history.now[p]]
            assert member.sent[q][r] == max(known, default=0)  # theorem 3.2
        if q != p:
            assert member.receiver.deliv[q] <= member.gossip[p][q]  # lemma 3.4


@pytest.mark.parametrize("kind", ["complete", "ring"])
@pytest.mark.parametrize("seed", SEEDS)
def test_theorems_31_and_32_and_lemma_34(seed: int, kind: str) -> None:
    protocol_2(seed, kind)


class Message:
    """A message of Protocol 2: its ends, the event of its send with its past, and the event of its delivery."""

    def __init__(self, copy: Copy, sent: Past) -> None:
        self.copy, self.sent = copy, sent
        self.p, self.q, self.time = copy.sender, copy.destination, copy.count
        self.delivered: tuple[int, int] | None = None

    def before(self, other: Message) -> bool:
        """M1 -> M2."""
        return self is not other and self.sent < other.sent


def run_of_protocol_2(seed: int, kind: str) -> list[Message]:
    """Run Protocol 2, unicasts, over channels without order; hold lemmas 3.5, 3.7 and theorem 3.6 after every event."""
    rng, n = Random(seed), 4
    members = [Gossip(Roster.of(n), place) for place in range(n)]
    history, flight, messages = History(n), list[Copy](), dict[tuple[int, int], Message]()
    for _ in range(60):
        if not flight or rng.random() < 0.4:
            p, to = rng.choice(edges(n, kind))
            done = members[p].send(1 << to)
            assert isinstance(done, Sent)
            messages[p, done.message.count] = Message(done.copies[0], history.happens(p, send=True))
            flight += done.copies
        else:
            copy = flight.pop(rng.randrange(len(flight)))
            p = copy.destination
            for effect in members[p].receive(copy):
                if isinstance(effect, Deliver):
                    message = messages[effect.copy.sender, effect.copy.count]
                    message.delivered = history.latest(p, history.happens(p, message.sent, send=False))
        _after_an_event(members[p], history.now[p], list(messages.values()))
    return list(messages.values())


def _after_an_event(member: Gossip, now: Past, messages: list[Message]) -> None:
    p = member.me
    known = [message for message in messages if message.delivered in now]
    here = [message for message in known if message.q == p]
    for message in known:
        assert message.q == p or any(message.before(other) for other in here)  # lemma 3.5
    for message in messages:
        if message.q == p and member.receiver.deliv[message.p] < message.time:
            assert message.delivered not in now  # lemma 3.7
        if message.q == p and message.delivered not in now:
            assert not any(message.before(other) for other in known)  # theorem 3.6


@pytest.mark.parametrize("kind", ["complete", "ring"])
@pytest.mark.parametrize("seed", SEEDS)
def test_lemmas_33_35_and_37_and_theorem_36(seed: int, kind: str) -> None:
    messages = run_of_protocol_2(seed, kind)
    ordered = [(one, other) for one in messages for other in messages if one.before(other)]
    assert ordered
    for one, other in ordered:
        gossip, sent = other.copy.stamp
        assert sent[one.p][one.q] >= one.time  # lemma 3.3, 1
        assert gossip[other.p][one.p] >= one.time  # lemma 3.3, 2


class Counted(Epochs):
    """Epochs as they would be without a modulus, beside the three values."""

    turned = 0

    def _delivered(self, copy: Copy):  # type: ignore[no-untyped-def]
        before = self.epoch
        effects = super()._delivered(copy)
        self.turned += self.epoch != before
        return effects


@pytest.mark.parametrize("kind", ["complete", "ring"])
@pytest.mark.parametrize("seed", SEEDS)
def test_lemma_41_messages_of_an_epoch_are_delivered_before_the_next_but_one(seed: int, kind: str) -> None:
    rng, n = Random(seed), 3
    members = [Counted(Roster.of(n), place) for place in range(n)]
    flight, epoch = list[Copy](), dict[tuple[int, int], int]()
    for _ in range(240):
        if not flight or rng.random() < 0.4:
            p, to = rng.choice(edges(n, kind))
            done = members[p].send(1 << to)
            assert isinstance(done, Sent)
            epoch[p, done.message.count] = members[p].turned
            flight += done.copies
        else:
            copy = flight.pop(rng.randrange(len(flight)))
            for effect in members[copy.destination].receive(copy):
                if isinstance(effect, Deliver):
                    sender = effect.copy.sender
                    assert members[sender].turned < epoch[sender, effect.copy.count] + 2
    assert max(member.turned for member in members) >= 2


@pytest.mark.parametrize("bound", [2, 5])
def test_a_strongly_connected_topology_is_enough(bound: int) -> None:
    """On a ring nobody hears from all others directly; epochs turn all the same, and no stamp exceeds the bound."""
    n = 4
    members = [Bounded(Roster.of(n), place, bound=bound) for place in range(n)]
    turns, delivered = 0, 0
    for step in range(40 * n):
        p = step % n
        done = members[p].send(1 << (p + 1) % n)
        assert isinstance(done, Sent), "a message round the ring reaches everybody before the bound is used up"
        for row in (*done.copies[0].stamp[0], *done.copies[0].stamp[1]):
            assert max(row) <= 3 * bound
        before = members[(p + 1) % n].epoch
        delivered += sum(isinstance(e, Deliver) for e in members[(p + 1) % n].receive(done.copies[0]))
        turns += members[(p + 1) % n].epoch != before
    assert delivered == 40 * n
    assert turns > 10


def reaches_all(n: int, graph: list[tuple[int, int]]) -> bool:
    """Return whether messages along the channels get from everybody to everybody."""
    known = {p: {p} for p in range(n)}
    for _ in range(n):
        for p, q in graph:
            known[q] |= known[p]
    return all(len(each) == n for each in known.values())


def strongly_connected(rng: Random, n: int) -> list[tuple[int, int]]:
    """Draw channels, not all, by which everybody reaches everybody."""
    while True:
        graph = [pair for pair in edges(n, "complete") if rng.random() < 0.4]
        if reaches_all(n, graph) and len(graph) < n * (n - 1):
            return graph


@pytest.mark.parametrize("n", [3, 4, 5])
def test_any_strongly_connected_topology_is_enough(n: int) -> None:
    """Messages in any order along random channels: safe, nothing held forever, stamps within 3B, epochs turn."""
    turns = 0
    for seed in range(12):
        rng, bound = Random(f"{n} {seed}"), 12
        graph = strongly_connected(rng, n)
        run = start("bounded", n, rng, options={"bound": bound}, wire=True, about=f"seed {seed}, channels {graph}")
        for _ in range(300):
            if run.network and rng.random() < 0.6:
                before = [member.epoch for member in run.members]  # type: ignore[attr-defined]
                run.arrive(run.network.take())
                turns += before != [member.epoch for member in run.members]  # type: ignore[attr-defined]
            else:
                p, q = rng.choice(graph)
                run.send(p, 1 << q)
        while run.network:
            run.arrive(run.network.take())
        run.finish()
        run.check(deadlock=True)
        assert all(max(row) <= 3 * bound for copy in run.copies for part in copy.stamp[:2] for row in part)
    assert turns > 100


def test_where_nobody_answers_the_bound_is_used_up() -> None:
    """What strong connection is for: a writes to b, b never writes, and a's epoch does not end."""
    a, b = (Bounded(Roster.of(2), place, bound=3) for place in (0, 1))
    for _ in range(3):
        sent = a.send(["b"])
        assert isinstance(sent, Sent)
        b.receive(sent.copies[0])
    assert isinstance(a.send(["b"]), Deferred)
    assert [pending.processes for pending in a.pending()] == [("b",)]
